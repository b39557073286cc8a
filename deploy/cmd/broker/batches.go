package main

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/stream"
)

// checkBatches makes the broker refuse batches that no client can read, if asked to look. kfake checks the form of
// a batch, and not what its records are. It always refuses a batch that says that the broker gives the time: kfake
// would change the batch and not its checksum, and at the next start nobody could read the log from there on.
func checkBatches(cluster *kfake.Cluster, look bool) {
	most := stream.Config{}.BatchMax()
	cluster.ControlKey(kmsg.Produce.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		produce := request.(*kmsg.ProduceRequest)
		for i := range produce.Topics {
			topic := &produce.Topics[i]
			for j := range topic.Partitions {
				records := topic.Partitions[j].Records

				var refusal *kerr.Error
				if look {
					refusal, _ = errors.AsType[*kerr.Error](stream.CheckBatch(records, most))
				}

				const attributes, logAppendTime = 22, 8 // the byte and the bit
				if len(records) > attributes && records[attributes]&logAppendTime != 0 {
					refusal = kerr.InvalidTimestamp
				}

				if refusal == nil {
					continue
				}
				// It answers for this partition of this request, and lets the others through.
				cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.Produce}, Topic: topic.Topic, TopicID: topic.TopicID,
					Partitions: []int32{topic.Partitions[j].Partition},
					Err:        refusal, When: func(r kmsg.Request) bool { return r == request },
				})
			}
		}

		return nil, nil, false
	})
}
