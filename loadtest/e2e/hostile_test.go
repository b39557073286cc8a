package e2e

import (
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/stream"
)

// Batches that no client can read stand between payments, on the orders and on the responses. Each
// one on the orders is one dead letter; every payment ends as it must; no program takes the memory
// that a bomb asks for; and the audit accounts for all of it. The embedded broker takes them,
// because it is told not to look. Apache Kafka takes the bomb only.
func TestHostileBatches(t *testing.T) {
	s := start(t, 2, func(c *stack.Config) {
		c.Env[stack.Broker] = []string{"BROKER_CHECK_BATCHES=false"} // it takes batches that no client can read
	})
	load := s.load(300, 2400)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()))
	s.must(err)
	defer client.Close()
	now := time.Now().UnixMilli()
	bomb, err := hostile.Bomb(now, 900<<20, kgo.CodecZstd)
	s.must(err)
	elsewhere := hostile.New(now, nil)
	elsewhere.Records = hostile.Record(100, []byte("one"))
	letters := 0
	for i, batch := range []*hostile.Batch{bomb, hostile.Garbage(now), hostile.Claim(now, math.MaxInt32), elsewhere, bomb, hostile.Garbage(now)} {
		for _, topic := range []string{stream.Payments, stream.AuthorizationResponses} {
			_, err := hostile.Produce(t.Context(), client, topic, int32(i)%4, batch.Encode())
			switch refusal, refused := errors.AsType[*kerr.Error](err); {
			case refused && os.Getenv("E2E_KAFKA") == "apache" && batch != bomb:
				t.Logf("batch %d is refused: %v", i, refusal)
			case err != nil:
				t.Fatal(err)
			case topic == stream.Payments:
				letters++
			}
		}
	}
	load.wait()
	s.settlesAgain()
	verdict := s.audit()
	if got := verdict.Summary.DeadLetters["LQ08"]; got != letters {
		t.Errorf("%d dead letters LQ08, want %d", got, letters)
	}
	if why := verdict.Summary.AnswersUnread; why != "" {
		t.Errorf("the audit did not check the responses: %s", why)
	}
	if letters < 2 {
		t.Errorf("the broker took %d hostile batches: too few to show anything", letters)
	}
	for _, name := range []string{stack.EngineName(0), stack.EngineName(1), stack.Producer, stack.Simulator} {
		bytes := s.metric(name, "go_memstats_sys_bytes")
		t.Logf("%s took %.0f MiB of memory", name, bytes/(1<<20))
		if bytes > 700<<20 {
			t.Errorf("%s took %.0f MiB of memory", name, bytes/(1<<20))
		}
	}
}
