package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
)

// reach returns how to connect to Kafka, after it has answered once: who waits for one that
// will not let him in waits for ever, and is not told why.
func reach(ctx context.Context, config stream.Config) ([]kgo.Opt, error) {
	options, err := config.Options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, kgo.ClientID("loadtest"))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return options, stream.Reach(ctx, client)
}
