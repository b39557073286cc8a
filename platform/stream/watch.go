package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/telemetry"
)

// KafkaNeed is the name under which Watch reports. The starter of Watch adds the need before
// health is served.
const KafkaNeed = "kafka"

// An absent broker goes unnoticed for at most watchInterval + watchTimeout.
const (
	watchInterval = time.Second
	watchTimeout  = 2 * time.Second
)

// Watch reports to Health, until ctx ends, whether Kafka answers and has the topics. The
// client itself never says: it retries forever.
func Watch(ctx context.Context, client *kgo.Client, t *telemetry.Telemetry, topics ...string) {
	for {
		err := probe(ctx, client, topics)
		if ctx.Err() != nil {
			return
		}
		t.Report(KafkaNeed, err)
		if !host.Sleep(ctx, watchInterval) {
			return
		}
	}
}

func probe(ctx context.Context, client *kgo.Client, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	// Reach first: it tries once and says why it failed. Request would retry until the timeout
	// and report only that.
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
