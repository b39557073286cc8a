package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// On a secured Kafka every program has the rights that it needs, and no others: payments of
// every kind end as they must, and the audit reads what it must. A program without a right says
// so, and nothing is lost.
func TestSecuredKafka(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) {
		c.KafkaSecured = true
		c.Env[stack.Bootstrap] = append(c.Env[stack.Bootstrap], fmt.Sprint("KAFKA_WRITER_BYTES_PER_SECOND_MAX=", 256<<10)) // more than the loads here write
	})
	engine := stack.EngineName(0)
	result := s.load(100, 500, "--mix", "demo").wait()
	s.settledAtLeast(result, 0.4)
	s.audit()

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	admin := s.as(stream.Admin)
	for user, topics := range map[string][]string{
		"producer":       {stream.Settlements, stream.DeadLetters},
		"bank-simulator": {stream.Payments, stream.Settlements},
	} {
		client := s.as(user)
		for _, topic := range topics {
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
				t.Errorf("%s writing to %s: got %v, want TOPIC_AUTHORIZATION_FAILED", user, topic, err)
			}
		}
	}

	t.Run("a program of a bank that writes more than its quota", func(t *testing.T) {
		if os.Getenv("E2E_KAFKA") != stack.Apache {
			t.Skip("the embedded broker stores quotas and does not enforce them")
		}
		slowed := make(throttled, 1)
		client := s.as("bank-simulator", kgo.WithHooks(slowed), kgo.ProducerBatchCompression(kgo.NoCompression()))
		for text := make([]byte, 10_000); ; { // no answers: the engine counts and drops them
			select {
			case <-slowed:
				return
			default:
				s.must(client.ProduceSync(ctx, &kgo.Record{Topic: stream.AuthorizationResponses, Value: text}).FirstErr())
			}
		}
	})

	t.Run("a wrong password", func(t *testing.T) {
		guessed := filepath.Join(t.TempDir(), "password")
		s.must(keys.MakePassword(guessed))
		s.must(s.StopProcess(ctx, stack.Producer))
		ended, err := s.StartToDie(stack.Producer, "KAFKA_SASL_PASSWORD_FILE="+guessed)
		s.must(err)
		s.eventually("it says why it is not ready", func() bool {
			why := s.Ready(ctx, stack.Producer)
			return why != nil && strings.Contains(why.Error(), "password") && strings.Contains(why.Error(), "KAFKA_SASL_USER")
		})
		s.must(s.Kill(stack.Producer))
		<-ended
		s.must(s.Restart(ctx, stack.Producer))
	})

	t.Run("an engine that may no longer report", func(t *testing.T) {
		s.must(s.StopProcess(ctx, engine))
		ended, err := s.StartToDie(engine)
		s.must(err)
		s.ready(engine)
		taken, err := kadm.NewClient(admin).DeleteACLs(ctx, kadm.NewACLs().Allow("User:clearing-engine").AllowHosts().Topics(stream.Settlements).Operations(kadm.OpWrite))
		s.must(err)
		if len(taken) != 1 || len(taken[0].Deleted) != 1 {
			t.Fatalf("taken from the engine: %v", taken)
		}
		load := s.load(20, 20, duringFaults...)
		select {
		case <-ended:
		case <-ctx.Done():
			t.Fatal("it goes on although it cannot report")
		}
		log, err := os.ReadFile(s.Log(engine))
		s.must(err)
		if want := "cannot produce to " + stream.Settlements; !strings.Contains(string(log), want) || !strings.Contains(string(log), "TOPIC_AUTHORIZATION_FAILED") {
			t.Errorf("it ended without saying why:\n%s", log)
		}
		// Without any right to the topic it does not even start, and its message differs from that of missing topics.
		_, err = kadm.NewClient(admin).DeleteACLs(ctx, kadm.NewACLs().Allow("User:clearing-engine").AllowHosts().Topics(stream.Settlements).Operations(kadm.OpRead, kadm.OpDescribe))
		s.must(err)
		ended, err = s.StartToDie(engine)
		s.must(err)
		s.eventually("it says why it is not ready", func() bool {
			why := s.Ready(ctx, engine)
			return why != nil && strings.Contains(why.Error(), "TOPIC_AUTHORIZATION_FAILED")
		})
		s.must(s.Kill(engine))
		<-ended
		s.must(s.Restart(ctx, stack.Bootstrap)) // which grants the right again
		s.must(s.Restart(ctx, engine))
		load.wait()
	})
	s.audit()
}

// throttled receives when a broker has made its client wait.
type throttled chan struct{}

func (t throttled) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) {
	select {
	case t <- struct{}{}:
	default:
	}
}

// as returns a client that connects as a user of the broker.
func (s *system) as(user string, more ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	config := s.Kafka()
	folder := filepath.Dir(filepath.Dir(config.SASLPasswordFile))
	config.SASLUser, config.SASLPasswordFile = user, keys.PasswordFile(folder, user)
	options, err := config.Options()
	s.must(err)
	client, err := kgo.NewClient(append(options, more...)...)
	s.must(err)
	s.t.Cleanup(client.Close)
	return client
}
