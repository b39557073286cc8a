package main

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestTransactionsAreRefusedUnlessATestWantsThem(t *testing.T) {
	for _, taken := range []bool{false, true} {
		b := newBroker(t)
		if taken {
			b.env = append(b.env, "BROKER_TRANSACTIONS=true")
		}
		b.start()
		b.createTopic("topic", 1)
		client := b.client(kgo.TransactionalID("any"), kgo.DefaultProduceTopic("topic"))
		err := client.BeginTransaction()
		if err == nil {
			err = client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr()
		}
		if taken && err != nil || !taken && !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
			t.Errorf("BROKER_TRANSACTIONS=%v: %v", taken, err)
		}
	}
}
