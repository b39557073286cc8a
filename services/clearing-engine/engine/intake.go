package engine

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// intake fetches orders while there is room for them.
func (e *Engine) intake(ctx context.Context) {
	for {
		most := e.room.Wait(ctx)
		if most == 0 {
			return
		}
		polling, done := e.room.Polling(ctx)
		fetches := e.group.PollRecords(polling, most)
		done()
		// Records come with the error of the batch behind them, and are taken first: the error pauses the partition.
		fetches.EachPartition(func(fetched kgo.FetchTopicPartition) {
			p := e.partition(fetched.Partition)
			if p == nil {
				return // the partition was lost; its next owner fetches the records
			}

			if err := p.orders.take(fetched.Records, p.admit); err != nil {
				e.pause(p, p.orders, err)
			}
			e.room.Earn(len(fetched.Records))
		})
		fetches.EachError(func(topic string, number int32, err error) {
			e.fetchError(ctx, topic, number, err, func(p *partition) *position { return p.orders })
		})
		e.group.AllowRebalance()
	}
}
