package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// On a secured Kafka every program has the rights that it needs, and no others: payments of
// every kind end as they must, and the audit reads what it must. A program without a right says
// so, and nothing is lost.
func TestSecuredKafka(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) {
		c.KafkaSecured = true
		// more than the loads here write
		c.Env[stack.Bootstrap] = append(c.Env[stack.Bootstrap],
			fmt.Sprint("KAFKA_WRITER_BYTES_PER_SECOND_MAX=", 256<<10))
	})
	engine := stack.EngineName(0)
	s.load(100, 500, "--mix", "demo").wait()
	s.audit()

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	for user, topics := range map[string][]string{
		"producer":       {stream.Settlements, stream.DeadLetters},
		"bank-simulator": {stream.Payments, stream.Settlements},
	} {
		client := s.as(user)
		for _, topic := range topics {
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); !errors.Is(err,
				kerr.TopicAuthorizationFailed) {
				t.Errorf("%s writing to %s: got %v, want TOPIC_AUTHORIZATION_FAILED", user, topic, err)
			}
		}
	}

	// An engine that may no longer report says so, and ends. Bootstrap grants the right again.
	s.must(s.StopProcess(ctx, engine))
	ended, err := s.StartToDie(engine)
	s.must(err)
	s.ready(engine)

	taken, err := kadm.NewClient(s.as(stream.Admin)).DeleteACLs(ctx, kadm.NewACLs().Allow("User:clearing-engine").
		AllowHosts().Topics(stream.Settlements).Operations(kadm.OpWrite))
	s.must(err)

	if len(taken) == 0 || len(taken[0].Deleted) == 0 {
		t.Fatalf("taken from the engine: %v", taken)
	}
	load := s.load(20, 20, duringFaults...)
	kit.Holds(t, s.lastWords(engine, ended), "cannot produce to "+stream.Settlements, "TOPIC_AUTHORIZATION_FAILED")
	s.bring(stack.Bootstrap)
	s.bring(engine)
	load.wait()
	s.audit()
}

// as returns a client that connects as a user of the broker.
func (s *system) as(user string) *kgo.Client {
	s.t.Helper()
	config := s.Kafka()
	folder := filepath.Dir(filepath.Dir(config.SASLPasswordFile))
	config.SASLUser, config.SASLPasswordFile = user, keys.PasswordFile(folder, user)
	options, err := config.Options()
	s.must(err)
	client, err := kgo.NewClient(options...)
	s.must(err)
	s.t.Cleanup(client.Close)

	return client
}
