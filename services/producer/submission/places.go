package submission

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// places puts each order into a partition by its key, as any client of Kafka does, but only into those that
// an engine has owned: in one that was just added, orders would wait until the engines know of it.
type places struct {
	owned atomic.Pointer[[]int32] // ascending; nil or empty: it is not known, or no engine has ever run
	known chan struct{}           // closed by the first Own
	once  sync.Once
}

// Own says in which partitions an engine has committed.
func (p *places) Own(partitions []int32) {
	slices.Sort(partitions)
	p.owned.Store(&partitions)
	p.once.Do(func() { close(p.known) })
}

// Placed is closed when the first look has said which partitions engines own.
func (p *places) Placed() <-chan struct{} { return p.known }

// ForTopic is for the Kafka client.
func (p *places) ForTopic(topic string) kgo.TopicPartitioner {
	return byKey{kgo.StickyKeyPartitioner(nil).ForTopic(topic), p}
}

type byKey struct {
	all    kgo.TopicPartitioner
	places *places
}

// RequiresConsistency is true: an order goes to its partition, or waits for it.
func (b byKey) RequiresConsistency(*kgo.Record) bool { return true }

func (b byKey) Partition(order *kgo.Record, partitions int) int {
	var owned []int32
	if known := b.places.owned.Load(); known != nil {
		owned = *known
	}

	for len(owned) > 0 && int(owned[len(owned)-1]) >= partitions { // this client does not know it yet
		owned = owned[:len(owned)-1]
	}

	if len(owned) == 0 {
		return b.all.Partition(order, partitions)
	}

	return int(owned[b.all.Partition(order, len(owned))])
}
