package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/telemetry"
)

// KafkaNeed is the name under which Watch reports. Who starts Watch adds the need first,
// before anyone can ask for health.
const KafkaNeed = "kafka"

// watchEvery and watchPatience bound how long an absent broker goes unnoticed: their sum.
const (
	watchEvery    = time.Second
	watchPatience = 2 * time.Second
)

// Watch tells Health, until ctx ends, whether Kafka answers and has the topics. The
// client itself never says: it retries for as long as it takes.
func Watch(ctx context.Context, client *kgo.Client, t *telemetry.Telemetry, topics ...string) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		err := probe(ctx, client, topics)
		if ctx.Err() != nil {
			return
		}
		if t.Health.Report(KafkaNeed, err) {
			if err != nil {
				t.Log.Warn("kafka is away", zap.Error(err))
			} else {
				t.Log.Info("kafka answers")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func probe(ctx context.Context, client *kgo.Client, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	// Reach first: it tries once and says why it failed, where Request would retry until
	// the time is up and say only that.
	if err := Reach(ctx, client); err != nil {
		return err
	}
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = kmsg.StringPtr(topic)
		request.Topics = append(request.Topics, wanted)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("the broker does not tell its topics: %w", err)
	}
	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w; bootstrap creates the topics and says who may use them", *topic.Topic, err)
		}
	}
	return nil
}
