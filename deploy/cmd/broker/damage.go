package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/liquida/liquida/platform/host"
)

// kfake cuts a log where it cannot read it, and goes on: everything behind a flipped byte would be gone, and
// nobody would know. Two marks say how far a log was acknowledged. Before each acknowledgement kfake adds an
// entry to the index beside the segment. That misses what loses both files, so every marksInterval the ends of
// all partitions are written to marksFile, and synced.
const (
	marksFile     = "acknowledged.json"
	marksInterval = time.Second

	// With kfake's default of an hour, a load test fills the authorization topics far beyond their retention.
	retentionInterval = time.Minute

	batchHeader    = 61
	indexEntrySize = 15 // version, checksum of the rest, then what says nothing here
)

// mark is how a topic was when it was last looked at. Start and End have an offset for each partition.
type mark struct {
	ID         []byte
	Start, End []int64
}

// marks are those of all topics by name, with the CRC32-C of their JSON.
type marks struct {
	CRC    uint32
	Topics json.RawMessage
}

// topic is one of kfake's topics.json.
type topic struct {
	Name       string
	ID         []byte
	Partitions int
	Configs    map[string]string
}

// keepForever reports whether nothing of the topic expires.
func (t topic) keepForever() bool { return t.Configs["retention.ms"] == "-1" }

func (t topic) folder(data string, partition int) string {
	return filepath.Join(data, "partitions", url.PathEscape(t.Name)+"-"+strconv.Itoa(partition))
}

// readJSON reads a file into what it holds, unless there is none.
func readJSON(into any, path ...string) error {
	text, err := os.ReadFile(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err == nil {
		err = json.Unmarshal(text, into)
	}

	return err
}

func readTopics(folder string) ([]topic, error) {
	var file struct{ Topics []topic }
	err := readJSON(&file, folder, "topics.json")
	return file.Topics, err
}

func readMarks(folder string) (map[string]mark, error) {
	file := marks{Topics: json.RawMessage("{}")}
	file.CRC = crc32.Checksum(file.Topics, castagnoli)

	err := readJSON(&file, folder, marksFile)
	if err == nil && crc32.Checksum(file.Topics, castagnoli) != file.CRC {
		err = errors.New("its checksum is wrong")
	}

	topics := map[string]mark{}
	if err == nil {
		err = json.Unmarshal(file.Topics, &topics)
	}

	if err != nil {
		return nil, fmt.Errorf("%s is damaged (%w), so nobody knows how far the logs were acknowledged: "+
			"put it back as it was, or remove it if you know that the logs are whole",
			filepath.Join(folder, marksFile), err)
	}

	return topics, nil
}

// keepLogs writes the marks, and drops what has expired, until stop is closed. Without marks the next start could not
// tell what is missing, so an error ends the process, as loudDisk does.
func keepLogs(cluster *kfake.Cluster, folder string, stop <-chan struct{}) {
	var written []byte

	for expired := time.Now(); ; {
		topics, err := readTopics(folder)
		now := map[string]mark{}

		for _, t := range topics {
			m := mark{ID: t.ID}
			for _, p := range cluster.PartitionInfos(t.Name) {
				m.Start, m.End = append(m.Start, p.LogStartOffset), append(m.End, p.HighWatermark)
			}
			now[t.Name] = m
		}

		text, _ := json.Marshal(now) // nothing in it can fail
		if err == nil && string(text) != string(written) {
			err, written = writeMarks(folder, text), text
		}

		if err != nil {
			loudDisk{folder: folder}.stop(err)
		}

		if time.Since(expired) >= retentionInterval {
			cluster.ApplyRetention()
			expired = time.Now()
		}

		select {
		case <-stop:
			return
		case <-time.After(host.Next(marksInterval)):
		}
	}
}

func writeMarks(folder string, topics []byte) error {
	text, _ := json.Marshal(marks{crc32.Checksum(topics, castagnoli), topics})
	path := filepath.Join(folder, marksFile)

	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}

	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}

	return os.Rename(path+".new", path)
}

// checkLogs returns an error that names each log from which something acknowledged is missing, unless its loss
// is accepted: as topic/partition@offset, the first one that is lost.
func checkLogs(folder string, accepted []string) error {
	topics, err := readTopics(folder)
	if err != nil {
		return fmt.Errorf("%s is damaged: %w: put it back as it was", filepath.Join(folder, "topics.json"), err)
	}

	marks, err := readMarks(folder)
	if err != nil {
		return err
	}
	var all []error
	known := map[string]bool{}

	for _, t := range topics {
		m := marks[t.Name]
		if string(m.ID) != string(t.ID) { // made anew since
			m = mark{}
		}

		for partition := range t.Partitions {
			log := partitionLog{folder: t.folder(folder, partition),
				gaps: strings.Contains(t.Configs["cleanup.policy"], "compact")}

			known[log.folder] = true
			if err := log.read(); err != nil {
				return err
			}

			if partition < len(m.End) && log.wrong == "" {
				log.compare(m.Start[partition], m.End[partition], t.keepForever())
			}

			id := fmt.Sprintf("%s/%d@%d", t.Name, partition, log.end)
			switch {
			case log.wrong == "":
			case slices.Contains(accepted, id):
				fmt.Fprintf(os.Stderr, "broker: going on without what is lost: partition %d of %s %s\n", partition,
					t.Name, log.wrong)
			default:
				all = append(all, fmt.Errorf(
					"partition %d of %s %s. Nothing is served. Put the files of %s back as they were. "+
						"If they are lost for good, BROKER_LOSS_ACCEPTED=%s starts without it: see DamagedLog in deploy/runbook.md for what that costs",
					partition, t.Name, log.wrong, log.folder, id))
			}
		}
	}

	logs, err := filepath.Glob(filepath.Join(folder, "partitions", "*"))
	for _, log := range logs {
		if !known[log] {
			all = append(all, fmt.Errorf(
				"%s has no partition for the log in %s: put topics.json back as it was, or move the log away if its topic was deleted",
				filepath.Join(folder, "topics.json"), log))
		}
	}

	return errors.Join(append(all, err)...)
}

// partitionLog is what the files of a partition hold.
type partitionLog struct {
	folder     string
	gaps       bool // offsets may be missing: earlier versions compacted
	segments   int
	start, end int64  // the first offset, and the one after the last that is whole
	wrong      string // what is lost
}

// read reads the segments until something is lost. It removes kfake's snapshot, which may hide records: kfake reads the
// segments instead.
func (l *partitionLog) read() error {
	if err := os.Remove(filepath.Join(l.folder, "snapshot.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	files, err := filepath.Glob(filepath.Join(l.folder, "*.dat"))
	if err != nil {
		return err
	}
	var bases []int64

	for _, file := range files {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".dat"), 10, 64)
		if err != nil {
			return fmt.Errorf("%s is no segment: move it away", file)
		}
		bases = append(bases, base)
	}
	slices.Sort(bases)

	l.segments = len(bases)
	for i, base := range bases {
		if i == 0 {
			l.start, l.end = base, base
		}

		if base < l.end || base > l.end && !l.gaps {
			l.wrong = fmt.Sprintf("lacks what was acknowledged from offset %d to %d", l.end, base-1)
			return nil
		}

		l.end = base
		if err := l.segment(base, i == len(bases)-1); err != nil || l.wrong != "" {
			return err
		}
	}

	return nil
}

// segment reads one. The end of the last one may be an unfinished write, which nobody has acknowledged: then
// the index has no entry for it.
func (l *partitionLog) segment(base int64, last bool) error {
	path := filepath.Join(l.folder, strconv.FormatInt(base, 10))

	text, err := os.ReadFile(path + ".dat") // at most 100 MiB
	if err != nil {
		return err
	}

	indexed := int64(0)
	if info, err := os.Stat(path + ".idx"); err == nil {
		indexed = info.Size() / indexEntrySize
	}

	batches, position := int64(0), 0
	for size := l.batch(text); size > 0; size = l.batch(text[position:]) {
		batches++
		position += size
	}

	switch {
	case position < len(text) && (!last || batches < indexed):
		l.wrong = fmt.Sprintf("is damaged: the batch at offset %d, at byte %d of %s.dat, is not as it was written, "+
			"and what was acknowledged from there on would be lost", l.end, position, path)
	case batches < indexed:
		l.wrong = fmt.Sprintf("ends at offset %d, and its index has %d acknowledged batches more", l.end,
			indexed-batches)
	case batches > indexed: // killed between batch and entry: the next entries would be one behind
		return padIndex(path+".idx", indexed, batches)
	}

	return nil
}

// batch moves the end behind the first batch of a text, and returns its size. 0: there is no whole one.
func (l *partitionLog) batch(text []byte) (size int) {
	if len(text) < batchHeader {
		return 0
	}

	first, size := int64(binary.BigEndian.Uint64(text)), 12+int(int32(binary.BigEndian.Uint32(text[8:]))) //nolint:gosec // compared below
	if size < batchHeader || size > len(text) || first < l.end || first > l.end && !l.gaps {
		return 0
	}
	// The checksum is of what is behind it. The epoch is that of the only broker, 0.
	if binary.BigEndian.Uint32(text[12:]) != 0 || text[16] != 2 ||
		crc32.Checksum(text[21:size], castagnoli) != binary.BigEndian.Uint32(text[17:]) {
		return 0
	}
	l.end = first + int64(binary.BigEndian.Uint32(text[23:])) + 1

	return size
}

// padIndex gives an index the entries that it lacks, with what kfake assumes of a batch without one.
func padIndex(path string, from, to int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	entry := make([]byte, indexEntrySize)
	entry[0], entry[1] = 1, byte(crc32.Checksum(entry[2:], castagnoli))

	err = file.Truncate(from * indexEntrySize)
	for ; err == nil && from < to; from++ {
		_, err = file.WriteAt(entry, from*indexEntrySize)
	}

	return errors.Join(err, file.Close())
}

// compare compares the log with its mark. Of a topic that forgets, all segments may have expired.
func (l *partitionLog) compare(markedStart, markedEnd int64, keepForever bool) {
	switch {
	case l.end < markedEnd && (keepForever || l.segments > 0):
		l.wrong = fmt.Sprintf("ends at offset %d, and what was acknowledged up to offset %d is lost", l.end,
			markedEnd-1)
	case l.start > markedStart && keepForever && !l.gaps:
		l.wrong = fmt.Sprintf("begins at offset %d, and what was acknowledged from offset %d on is lost", l.start,
			markedStart)
	}
}
