package main

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
)

func TestTransactionsAreRefusedUnlessATestWantsThem(t *testing.T) {
	for _, taken := range []bool{false, true} {
		b := newBroker(t)
		if taken {
			b.env = append(b.env, "BROKER_TRANSACTIONS=true")
		}
		b.start()
		if _, err := kadm.NewClient(b.client()).CreateTopic(t.Context(), 1, 1, nil, "topic"); err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(b.address), kgo.TransactionalID("any"), kgo.DefaultProduceTopic("topic"))
		kit.Must(t, err)
		defer client.Close()
		if err = client.BeginTransaction(); err == nil {
			err = client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr()
		}
		if taken && err != nil || !taken && !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
			t.Errorf("BROKER_TRANSACTIONS=%v: %v", taken, err)
		}
	}
}
