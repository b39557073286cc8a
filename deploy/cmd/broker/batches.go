package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/stream"
)

// checkBatches makes the broker refuse batches that no client can read. kfake checks the form of
// a batch, and not what its records are.
func checkBatches(cluster *kfake.Cluster) {
	most := stream.Config{}.BatchMax()
	cluster.ControlKey(kmsg.Produce.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		produce := request.(*kmsg.ProduceRequest)
		for i := range produce.Topics {
			topic := &produce.Topics[i]
			for j := range topic.Partitions {
				refusal, refused := errors.AsType[*kerr.Error](stream.CheckBatch(topic.Partitions[j].Records, most))
				if !refused {
					continue
				}
				// It answers for this partition of this request, and lets the others through.
				cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.Produce}, Topic: topic.Topic, TopicID: topic.TopicID, Partitions: []int32{topic.Partitions[j].Partition},
					Err: refusal, When: func(r kmsg.Request) bool { return r == request },
				})
			}
		}
		return nil, nil, false
	})
}
