package submission

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// writer writes the orders of one log, and ends with it. A client must not go on with another log
// under the topic's name: it would keep the id of the old topic. Purging the topic is no way out,
// because the client then begins again with sequence 0 and keeps its producer id: a broker that
// remembers these sequences acknowledges the orders as copies, and stores nothing. A new client has a
// new producer id.
type writer struct {
	client *kgo.Client
	// its number in the ledger; 0: WatchLog has not seen it yet. Only WatchLog uses it
	log  uint32
	ends atomic.Pointer[map[int32]int64] // of the partitions, when WatchLog last saw that the log is the ledger's

	mu    sync.Mutex
	acked map[int32]int64 // the offset after the last acknowledged one

	once sync.Once
}

// close ends the writer: what it has not sent is never sent.
func (w *writer) close() { w.once.Do(w.client.Close) }

// renew closes the writer, if any, and makes another one.
func (p *Publisher) renew() error {
	if w := p.writer.Load(); w != nil {
		w.close()
	}

	client, err := p.connect()
	if err != nil {
		return err
	}
	w := &writer{client: client, acked: map[int32]int64{}}
	w.ends.Store(&map[int32]int64{})
	p.writer.Store(w)

	return nil
}

// stored returns nil if an acknowledgement proves that an order is in the log of its writer. before
// are the ends of the log when it was sent. A log never shrinks, so an offset below them is another
// log's or a copy's. If in doubt, the front door closes and WatchLog looks.
func (p *Publisher) stored(w *writer, before *map[int32]int64, record *kgo.Record, err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicID):
		return p.doubt(origin.Mismatched(0,
			"the broker does not know the id that %s had when this producer first wrote to it", stream.Payments))
	case err != nil:
		return err
	}
	w.mu.Lock()
	least := max((*before)[record.Partition], w.acked[record.Partition])
	w.acked[record.Partition] = max(least, record.Offset+1)
	w.mu.Unlock()

	if record.Offset < least {
		return p.doubt(origin.Mismatched(0,
			"partition %d of %s acknowledged offset %d, and its log had reached %d before", record.Partition,
			stream.Payments, record.Offset, least))
	}

	if wrong := p.wrongLog.Load(); wrong != nil {
		return wrong
	}

	if p.writer.Load() != w {
		return kgo.ErrClientClosed // it took its time, and its log is over
	}

	return nil
}

// doubt closes the front door until WatchLog has looked.
func (p *Publisher) doubt(why *origin.Mismatch) error {
	p.wrongLog.CompareAndSwap(nil, why)

	select {
	case p.doubted <- struct{}{}:
	default:
	}

	return why
}

// reached returns how far the partitions have grown, as far as the writer has seen.
func (w *writer) reached() map[int32]int64 {
	reached := map[int32]int64{}
	for partition, end := range *w.ends.Load() {
		reached[partition] = end
	}
	w.mu.Lock()
	defer w.mu.Unlock()

	for partition, end := range w.acked {
		reached[partition] = max(reached[partition], end)
	}

	return reached
}

// shrunk returns a Mismatch if the log of this writer now ends before what it had reached. What
// nobody has named is nobody's log yet: then the ledger cannot miss anything of it.
func (w *writer) shrunk(reached map[int32]int64, found origin.Found) error {
	if found.Log != w.log || len(found.Origins) == 0 {
		return nil
	}

	for partition, end := range reached {
		if now := found.Bounds[partition].End; now < end { // 0: the partition is gone
			return origin.Mismatched(w.log,
				"partition %d of %s ends at offset %d, and had reached %d: acknowledged records are gone", partition,
				stream.Payments, now, end)
		}
	}

	return nil
}
