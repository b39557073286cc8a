package engine

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// intake fetches orders while there is room for them.
func (e *Engine) intake(ctx context.Context) {
	for {
		most := e.room.wait(ctx)
		if most == 0 {
			return
		}
		fetches := e.group.PollRecords(ctx, most)
		fetches.EachError(func(topic string, number int32, err error) {
			e.fetchError(ctx, topic, number, err, func(p *partition) *position { return p.orders })
		})
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			p := e.partition(fetched.Partition)
			if p == nil {
				return // the partition was lost; its next owner fetches the records
			}
			if err := p.orders.take(fetched.Records, p.admit); err != nil {
				e.pause(p, p.orders, err)
			}
			e.room.earn(len(fetched.Records))
		})
		e.group.AllowRebalance()
	}
}
