package load

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/stream"
)

// PartitionsOfEngines asks the group which partitions of pix.payments each engine clears, by the engine's instance.
func PartitionsOfEngines(ctx context.Context, admin *kadm.Client) (map[string][]int32, error) {
	groups, err := admin.DescribeGroups(ctx, stream.EngineGroup)
	if err != nil {
		return nil, err
	}
	all := map[string][]int32{}

	for _, member := range groups[stream.EngineGroup].Members {
		assigned, ok := member.Assigned.AsConsumer()
		if !ok || member.InstanceID == nil {
			continue
		}

		for _, topic := range assigned.Topics {
			if topic.Topic == stream.Payments {
				all[*member.InstanceID] = slices.Sorted(slices.Values(topic.Partitions))
			}
		}
	}

	return all, nil
}
