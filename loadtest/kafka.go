package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
)

// reach returns how to connect to Kafka, after it answered once. Fail early: with bad
// credentials the client would retry forever and say nothing.
func reach(ctx context.Context, config stream.Config) ([]kgo.Opt, error) {
	options, err := config.Options()
	if err != nil {
		return nil, err
	}
	client, err := config.Client(kgo.ClientID("loadtest"))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return options, stream.Reach(ctx, client)
}
