package e2e

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/stream"
)

// duringFaults excuses AB03 and LQ10: an outage may last longer than the deadline, or leave too little of it.
var duringFaults = []string{"--mix", "demo", "--allow", "AB03,LQ10"}

// The engine is killed again and again in the middle of a load. Its successor finishes what it
// began, from the ledger and redelivery alone.
func TestEngineKilledTenTimes(t *testing.T) {
	s := start(t, 1)
	load := s.load(500, 10_000, duringFaults...)
	for range 10 {
		load.progress(50)
		time.Sleep(rand.N(500 * time.Millisecond)) // at a random point of its work
		s.must(s.Kill(stack.EngineName(0)))
		s.bring(stack.EngineName(0))
	}
	load.proven()
}

// One at a time of three TigerBeetle replicas is lost and comes back: the first two are killed,
// the third freezes. Each is usually the primary at that time, because the primary moves to the
// next replica. The other two go on. On a busy machine three replicas may be slower than the
// deadline, so AB03 is excused; the audit excuses nothing.
func TestReplicaLost(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) { c.Replicas = 3 })
	load := s.load(200, 6000, duringFaults...)
	replicas := s.Replicas()
	for _, replica := range replicas {
		lose, bring := s.Kill, s.StartProcess
		if replica == replicas[2] {
			lose, bring = s.Pause, s.Resume
		}
		load.progress(100)
		s.must(lose(replica))
		load.progress(100) // on two replicas
		s.ready(stack.EngineName(0))
		s.must(bring(replica))
		s.ready(replica)
	}
	load.proven()
}

// The broker's disk is full in the middle of a load. The broker stops by itself and says why.
// When there is room again, every acknowledged payment ends.
func TestBrokerDiskFull(t *testing.T) {
	s := start(t, 1)
	s.must(s.Kill(stack.Broker))
	stopped, err := s.StartToDie(stack.Broker)
	s.must(err)
	s.ready(stack.Broker, stack.EngineName(0))
	load := s.load(400, 4000, duringFaults...)
	load.progress(400)
	// The disk looks full to the process: none of its files, its log included, can grow past so many bytes. That is much
	// more than its log, and less than a topic. It needs no privileges.
	var limit unix.Rlimit
	s.must(unix.Prlimit(s.PID(stack.Broker), unix.RLIMIT_FSIZE, nil, &limit))
	limit.Cur = 64 << 10
	s.must(unix.Prlimit(s.PID(stack.Broker), unix.RLIMIT_FSIZE, &limit, nil))
	log := s.lastWords(stack.Broker, stopped)
	data := filepath.Join(filepath.Dir(filepath.Dir(s.Log(stack.Broker))), "data")
	if !strings.Contains(strings.ToLower(log), "file too large") || !strings.Contains(log, data) {
		t.Errorf("the broker did not say that its disk in %s is full:\n%s", data, log)
	}
	s.bring(stack.Broker, stack.EngineName(0))
	load.proven()
}

// Batches that no client can read stand between payments, on the orders and on the responses. Each
// one on the orders is one dead letter; every payment ends as it must; no program takes the memory
// that a bomb asks for; and the audit accounts for all of it. The embedded broker takes them,
// because it is told not to look. Apache Kafka takes the bomb only.
func TestHostileBatches(t *testing.T) {
	s := start(t, 2, func(c *stack.Config) {
		c.Env[stack.Broker] = []string{"BROKER_CHECK_BATCHES=false"} // it takes batches that no client can read
	})
	load := s.load(300, 2400)
	client := s.kafka()
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
