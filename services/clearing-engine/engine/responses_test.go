package engine

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// notes is a log that a test reads.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(line)
}

// lines returns how many lines hold a text.
func (n *notes) lines(text string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()

	for line := range strings.Lines(n.text.String()) {
		if strings.Contains(line, text) {
			count++
		}
	}

	return count
}

// respond writes a rejection by a bank to partition 0, with the bank's seal if there are seals.
func (w *world) respond(id pix.EndToEndID, bank, code string, seals ...keys.Seals) {
	w.t.Helper()

	value, err := (&pixv1.AuthorizationResponse{EndToEndId: id.String(), Ispb: bank,
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT, ReasonCode: code}).MarshalVT()
	if err != nil {
		w.t.Fatal(err)
	}

	record := &kgo.Record{Topic: stream.AuthorizationResponses, Value: value}
	for _, s := range seals {
		record.Headers = append(record.Headers,
			kgo.RecordHeader{Key: keys.SealHeader, Value: s.Seal(pix.ISPB(bank), value)})
	}

	if err := w.client.ProduceSync(w.t.Context(), record).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// A bank that was not asked floods the engine with responses: the log tells of it once a
// second. A bank that rejects with a code of the ledger blames itself.
func TestABankNeitherFloodsTheLogNorBlamesAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		log := &notes{}
		w.log = log
		e := w.start()
		defer func() {
			if _, err := e.end(); err != nil {
				t.Error(err)
			}
		}()
		var ids []pix.EndToEndID
		codes := map[string]string{"LQ01": "LQ03", "AM04": "LQ03", "AB03": "LQ03", "LQ99": "LQ03", "FF01": "LQ03",
			"??": "LQ03", "AC06": "AC06", "BE17": "BE17", "LQ03": "LQ03"}
		asked := map[string]string{} // the code that a payment ends with

		for code, want := range codes {
			id := w.pay()
			asked[id.String()] = want
			w.await("the bank to be asked", func() bool {
				return len(w.records(stream.AuthorizationRequests)) == len(asked)
			})

			if len(ids) == 0 {
				before := time.Now()

				for range 3000 {
					w.respond(id, "10000003", "AC06")
				}
				w.respond(id, "10000003 and as many bytes as it likes", "AC06")
				seconds := int(time.Since(before)/time.Second) + 2
				w.await("the flood to be read", func() bool { return log.lines("were not asked") > 0 })

				if n := log.lines("were not asked"); n > seconds {
					t.Errorf("%d lines of the log in %d s", n, seconds)
				}
			}
			ids = append(ids, id)
			w.respond(id, "10000002", code)
		}
		w.await("all reports", func() bool { return len(w.reports()) == len(codes) })

		for id, reports := range w.reports() {
			if len(reports) != 1 || reports[0].ReasonCode != asked[id] {
				t.Errorf("%v: want %s", reports, asked[id])
			}
		}

		if n := log.lines("reason codes of the ledger or the engine"); n == 0 || n > 5 {
			t.Errorf("%d lines of the log about codes that are not a bank's", n)
		}
	})
}

// A response in the bank's name decides nothing without the bank's seal. It becomes a dead letter.
func TestAResponseNeedsTheSealOfItsBank(t *testing.T) {
	inWorld(t, func(w *world) {
		file := filepath.Join(t.TempDir(), "seals")
		if err := keys.MakeSeals(file, []pix.ISPB{"10000002"}); err != nil {
			t.Fatal(err)
		}

		seals, err := keys.ReadSeals(file)
		if err != nil {
			t.Fatal(err)
		}
		e := w.start(func(c *Config) { c.AnswerKeysFile = file })
		defer func() {
			if _, err := e.end(); err != nil {
				t.Error(err)
			}
		}()
		id := w.pay()
		w.await("the bank to be asked", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })
		w.respond(id, "10000002", "AC06")
		w.await("the forged response to be kept", func() bool { return len(w.records(stream.DeadLetters)) == 1 })
		w.respond(id, "10000002", "AC07", seals)
		w.await("the report", func() bool { return len(w.reports()) == 1 })

		if reports := w.reports()[id.String()]; len(reports) != 1 || reports[0].ReasonCode != "AC07" {
			t.Errorf("%v: it must be what the bank has sealed", reports)
		}
	})
}

// A bank's secret is replaced while an engine works: the new one counts once it is in the file, the old
// one until it is revoked in the register.
func TestASecretIsReplacedWhileTheEngineWorks(t *testing.T) {
	inWorld(t, func(w *world) {
		file := filepath.Join(t.TempDir(), "seals")
		if err := keys.MakeSeals(file, []pix.ISPB{"10000002"}); err != nil {
			t.Fatal(err)
		}
		read := func() keys.Seals {
			t.Helper()

			seals, err := keys.ReadSeals(file)
			if err != nil {
				t.Fatal(err)
			}

			return seals
		}
		e := w.start(func(c *Config) { c.AnswerKeysFile = file })
		defer func() {
			if _, err := e.end(); err != nil {
				t.Error(err)
			}
		}()
		old := read()

		if err := errors.Join(keys.AddSeal(file, "10000002"), keys.PreferNewSeal(file, "10000002")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * keys.WatchInterval)
		reports := 0
		settles := func(seals keys.Seals) {
			t.Helper()
			id := w.pay()
			w.await("the bank to be asked", func() bool {
				return len(w.records(stream.AuthorizationRequests)) == reports+1
			})
			w.respond(id, "10000002", "AC07", seals)
			reports++
			w.await("the report", func() bool { return len(w.reports()) == reports })
		}
		settles(old)
		settles(read())
		w.ledger.record(ledger.Act{Kind: ledger.SealRevoked, Bank: "10000002",
			Digest: ledger.ActDigest(old.Fingerprints("10000002")[0])})
		time.Sleep(3 * time.Second)
		id := w.pay()
		w.await("the bank to be asked", func() bool {
			return len(w.records(stream.AuthorizationRequests)) == reports+1
		})
		w.respond(id, "10000002", "AC06", old)
		w.await("the forged response to be kept", func() bool { return len(w.records(stream.DeadLetters)) == 1 })
		w.respond(id, "10000002", "AC07", read())
		w.await("the report", func() bool { return len(w.reports()) == reports+1 })

		if reports := w.reports()[id.String()]; len(reports) != 1 || reports[0].ReasonCode != "AC07" {
			t.Errorf("%v: it must be what the bank has sealed with the new secret", reports)
		}
	})
}

func TestComplaintsAreCountedByBank(t *testing.T) {
	inWorld(t, func(*world) {
		c := &complaints{}
		if counts := c.add("10000001"); counts["10000001"] != 1 {
			t.Errorf("the first: %v", counts)
		}

		for range 5 {
			if counts := c.add("10000001"); counts != nil {
				t.Errorf("at once again: %v", counts)
			}
		}

		for i := range 100 {
			c.add(pix.ISPB(rune('A' + i)))
		}
		time.Sleep(time.Second)

		if counts := c.add("10000002"); counts["10000001"] != 5 || counts["others"] != 82 ||
			len(counts) > complaintsBanksMax+1 {
			t.Errorf("after a second: %v", counts)
		}
	})
}
