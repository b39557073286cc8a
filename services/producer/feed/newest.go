package feed

import (
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// newestMax is how many reports are kept for streams: some 65 MB once they were read, at 2,000/s the last minute. A
	// stream that is further behind reads the topic itself.
	newestMax = 1 << 17
	// newestAtStart is how many of them are read again when the process starts. Else each stream that comes back to
	// it would read them for itself.
	newestAtStart = newestMax / 4
)

// newest keeps the newest reports, once for all streams. A stream that comes back, or that was slow for a while, goes
// on from here and costs Kafka nothing.
type newest struct {
	mu   sync.Mutex
	from position // everything from here on is kept; nil until the broker has told where the topic ends
	ring []*entry
	next uint64        // the number of the next report, counted since the start of this process
	came chan struct{} // closed when reports come; nil if nobody waits

	measured time.Time // when next was
	was      uint64    // next then
	rate     float64   // reports a second before
}

// entry is a record of pix.settlements. It is read when somebody wants it, once.
type entry struct {
	partition int32
	offset    int64
	value     []byte // nil once it was read, or if there is none to read
	unixMs    int64
	once      sync.Once
	report    *report
}

func entryOf(record *kgo.Record) *entry {
	e := &entry{partition: record.Partition, offset: record.Offset, unixMs: record.Timestamp.UnixMilli()}
	if !record.Attrs.IsControl() {
		e.value = record.Value
	}

	return e
}

// read returns the report, or nil if the record holds none.
func (e *entry) read() *report {
	e.once.Do(func() {
		if e.value != nil {
			e.report = reportOf(e.value, time.UnixMilli(e.unixMs).UTC())
		}
		e.value = nil
	})

	return e.report
}

// begin says from where on reports will come.
func (n *newest) begin(at position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.from, n.ring = slices.Clone(at), make([]*entry, newestMax)
}

// grow returns how many partitions there were. Those that are added come from their beginning on.
func (n *newest) grow(partitions int) (were int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	were = len(n.from)
	n.from = n.from.withPartitions(partitions)

	return were
}

// keep takes what came, and lets go of the oldest.
func (n *newest) keep(entries []*entry) {
	n.mu.Lock()
	defer n.mu.Unlock()

	for _, e := range entries {
		place := &n.ring[n.next%newestMax]
		if old := *place; old != nil {
			n.from[old.partition] = old.offset + 1
		}
		*place = e
		n.next++
	}

	if n.came != nil {
		close(n.came)
		n.came = nil
	}
}

// perSecond is how many reports a second came since it was measured before, a second ago or more.
func (n *newest) perSecond(now time.Time) float64 {
	n.mu.Lock()
	defer n.mu.Unlock()

	if since := now.Sub(n.measured); since >= time.Second {
		n.rate = float64(n.next-n.was) / since.Seconds()
		n.measured, n.was = now, n.next
	}

	return n.rate
}

// oldest returns the number of the oldest report that is kept, and the position from which on all are. The position is
// nil until the broker has said where the topic ends.
func (n *newest) oldest() (number uint64, from position) {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.next - min(n.next, newestMax), slices.Clone(n.from)
}

// after returns the reports from a number on, as many as page has room for. If there are none, came closes when there
// are. It is false if some of them are no longer kept.
func (n *newest) after(number uint64, page []*entry) (entries []*entry, came <-chan struct{}, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()

	if number+newestMax < n.next {
		return nil, nil, false
	}

	if number == n.next {
		if n.came == nil {
			n.came = make(chan struct{})
		}

		return nil, n.came, true
	}

	for ; number < n.next && len(page) < cap(page); number++ {
		page = append(page, n.ring[number%newestMax])
	}

	return page, nil, true
}
