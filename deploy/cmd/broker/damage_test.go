package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/settings"
)

// marks waits until the broker has written down where the partitions of its topic end.
func (b *broker) marks(ends ...int64) {
	b.t.Helper()
	kit.Await(b.t, "the mark", func() (bool, string) {
		text, err := os.ReadFile(filepath.Join(b.dir, marksFile))
		return strings.Contains(string(text), strings.ReplaceAll(fmt.Sprintf(`"End":%v`, ends), " ", ",")),
			fmt.Sprint(string(text), err)
	})
}

// Nothing that was acknowledged is missing without a word: the broker does not start, names topic, offset and
// what to do, and starts without it only if it is told so.
func TestDamagedLog(t *testing.T) {
	const records = 20 // one a batch
	b := newBroker(t)
	b.start()
	b.createTopic("payments", 2, "retention.ms", "-1")

	producer := b.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range records {
		kit.Must(t, producer.ProduceSync(t.Context(),
			&kgo.Record{Topic: "payments", Partition: 1, Value: fmt.Appendf(nil, "%02d", i)}).FirstErr())
	}
	b.marks(0, records)
	b.End(syscall.SIGTERM) // leaves snapshots
	whole := os.DirFS(b.dir)
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(b.dir, name))
		kit.Must(t, err)
		return info.Size()
	}
	const log = "partitions/payments-1/"
	batch := size(log+"0.dat") / records
	edit := func(name string, change func([]byte) []byte) func(string) {
		return func(dir string) {
			path := filepath.Join(dir, name)

			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(text), 0o600)
			}
			kit.Must(t, err)
		}
	}
	flip := func(at int64) func([]byte) []byte {
		return func(text []byte) []byte { text[at] ^= 1; return text }
	}
	cut := func(bytes int64) func([]byte) []byte {
		return func(text []byte) []byte { return text[:int64(len(text))-bytes] }
	}
	replace := func(from, to string) func([]byte) []byte {
		return func(text []byte) []byte { return bytes.Replace(text, []byte(from), []byte(to), 1) }
	}

	remove := func(name string) func(string) {
		return func(dir string) {
			kit.Must(t, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	for name, at := range map[string]struct {
		damage   []func(dir string)
		refusal  string // empty: nothing is lost
		accepted string // BROKER_LOSS_ACCEPTED that starts it
	}{
		"whole": {},
		"an unfinished write": {damage: []func(string){edit(log+"0.dat", func(text []byte) []byte {
			return append(text, text[:batch/2]...)
		})}},
		"a batch without its entry": {damage: []func(string){edit(log+"0.idx", cut(indexEntrySize+3))}},
		"a snapshot that hides": {
			damage: []func(string){edit(log+"snapshot.json", replace(`"high_watermark":20`, `"high_watermark":10`))}},
		"a byte of the first batch": {[]func(string){edit(log+"0.dat", flip(batch-1))},
			"is damaged: the batch at offset 0", "payments/1@0"},
		"a length": {[]func(string){edit(log+"0.dat", flip(9))}, "is damaged: the batch at offset 0",
			"payments/1@0"},
		"a byte of the last batch": {[]func(string){edit(log+"0.dat", flip(size(log+"0.dat")-1))},
			"is damaged: the batch at offset 19", "payments/1@19"},
		"the tail": {[]func(string){edit(log+"0.dat", cut(3))}, "is damaged: the batch at offset 19",
			"payments/1@19"},
		"the tail, at a batch": {[]func(string){edit(log+"0.dat", cut(2*batch))},
			"ends at offset 18, and its index has 2 acknowledged batches more", "payments/1@18"},
		"the tail of log and index": {
			[]func(string){edit(log+"0.dat", cut(batch+1)), edit(log+"0.idx", cut(10*indexEntrySize))},
			"ends at offset 18, and what was acknowledged up to offset 19 is lost", "payments/1@18"},
		"all files": {[]func(string){remove(log)},
			"ends at offset 0, and what was acknowledged up to offset 19 is lost", "payments/1@0"},
		"partitions": {[]func(string){edit("topics.json", replace(`"partitions":2`, `"partitions":1`))},
			"no partition for the log in", ""},
		"the mark": {[]func(string){edit(marksFile, replace(`0,20`, `0,10`))},
			"its checksum is wrong", ""},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := newBroker(t)
			kit.Must(t, os.CopyFS(damaged.dir, whole))

			for _, damage := range at.damage {
				damage(damaged.dir)
			}
			count := int64(records)

			if at.refusal != "" {
				kit.Run(t, damaged.settings()).Is(t, settings.ExitFailure, at.refusal, at.accepted)

				if at.accepted == "" {
					return
				}
				damaged.env = []string{"BROKER_LOSS_ACCEPTED=" + at.accepted}
				_, _ = fmt.Sscanf(at.accepted, "payments/1@%d", &count)
			}

			for range 2 { // the second time with the marks of the first
				damaged.start()

				ends, err := kadm.NewClient(damaged.client()).ListEndOffsets(t.Context(), "payments")
				if end, _ := ends.Lookup("payments", 1); err != nil || end.Offset != count {
					t.Errorf("the log ends at %d, %v; want %d", end.Offset, err, count)
				}
				damaged.marks(0, count)
				damaged.End(syscall.SIGKILL)
				damaged.env = nil
			}
		})
	}
}
