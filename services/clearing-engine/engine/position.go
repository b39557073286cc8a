package engine

import (
	"fmt"
	"math"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// position is how far a client has read one partition. Anybody may write a batch that no
// client can read, or a record that claims the offset of others. So records are taken only
// without a gap. If there is a gap or an error, or the partition stands still below its end, the
// engine looks at it and passes over what cannot be read. The other partitions go on meanwhile.
type position struct {
	client *kgo.Client
	topic  string
	number int32 // of the partition

	mu     sync.Mutex
	next   int64
	until  int64 // nothing is taken from here on
	fresh  bool  // nothing is taken yet
	broken bool  // paused until somebody has looked
	seen   int64
	stood  int // so many looks found the partition at seen, and below its end
}

// newPosition begins at next. The client remembers a pause from before the partition was lost: without
// an end to it, a partition that comes back would stand still forever.
func newPosition(client *kgo.Client, topic string, number int32, next int64) *position {
	client.ResumeFetchPartitions(map[string][]int32{topic: {number}})
	return &position{client: client, topic: topic, number: number, next: next, until: math.MaxInt64,
		fresh: true, seen: -1}
}

// take calls use with the records that follow the last one taken. It returns an error if a
// record comes with a gap before it, and does not take that one.
func (r *position) take(records []*kgo.Record, use func([]*kgo.Record)) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.broken {
		return nil // dropped: they are fetched again
	}

	for !r.fresh && len(records) > 0 && records[0].Offset < r.next {
		records = records[1:]
	}

	n := 0
	for n < len(records) && records[n].Offset <= r.next && r.next < r.until {
		r.next, r.fresh = records[n].Offset+1, false
		n++
	}

	if n > 0 {
		use(records[:n])
	}

	if n < len(records) && r.next < r.until {
		return fmt.Errorf("after offset %d came %d", r.next-1, records[n].Offset)
	}

	return nil
}

// restart begins at next in another topic of the same name.
func (r *position) restart(next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next, r.fresh, r.broken, r.seen, r.stood = next, true, false, -1, 0
	r.client.ResumeFetchPartitions(map[string][]int32{r.topic: {r.number}})
}

// at returns the offset that is taken next.
func (r *position) at() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// reached reports whether all is taken up to the end of the partition.
func (r *position) reached(ends kadm.ListedOffsets) bool {
	end, known := ends.Lookup(r.topic, r.number)
	return known && r.at() >= end.Offset
}

// pause stops the fetches of the partition until look has been there.
func (r *position) pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	r.client.PauseFetchPartitions(map[string][]int32{r.topic: {r.number}})
}

// stands reports whether the partition is broken, or did not go on since the last call
// although it has records up to end.
func (r *position) stands(end int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.seen

	r.seen = r.next
	if r.next != before {
		r.stood = 0
	}

	if r.next != before || r.next >= min(end, r.until) {
		return r.broken
	}
	r.stood++

	return true
}

// goOn fetches on at next, whatever the client has fetched since.
func (r *position) goOn(next int64) {
	r.next, r.fresh, r.broken, r.stood = next, false, false, 0
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: {r.number: {Epoch: -1, Offset: next}}})
	r.client.ResumeFetchPartitions(map[string][]int32{r.topic: {r.number}})
}
