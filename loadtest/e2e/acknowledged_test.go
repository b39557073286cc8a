package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// Two callers pay all the time, while the broker is stopped and killed, the topic
// is made anew, and its log is given up as the runbook says. Each payment that the front door
// accepted stands in the topic. Into a topic that was made anew it accepts nothing until the log is
// given up. Then it goes on by itself: it refuses nothing, and engines clear what it accepts.
//
// The callers are slow. A broker remembers the last five batches of a producer and partition, so only
// a producer that has sent little can be caught in beginning its sequence anew.
func TestAcknowledgedIsStored(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) {
		// While no engine runs it must go on accepting: with the default of a second, a busy machine closes it before.
		c.Env[stack.Producer] = append(c.Env[stack.Producer], "SHED_AGE=2m")
	})
	c := &counting{system: s, engine: stack.EngineName(0), counts: counts{refused: map[string]int{}}}
	c.connect()

	for _, end := range []func() error{
		func() error { return s.StopProcess(t.Context(), stack.Broker) },
		func() error { defer time.Sleep(time.Second); return s.Kill(stack.Broker) },
	} {
		c.some(10)
		s.must(end()) // between payments
		s.bring(stack.Broker, stack.Producer, c.engine)
		c.some(20)
		c.still(func() {})
	}
	c.makeAnew()
}

// counting compares what the front door accepts with what the topic holds.
type counting struct {
	*system
	engine     string
	client     *kgo.Client
	partitions int32
	api        *client.Client // of the front door

	paying sync.RWMutex // whoever holds it alone keeps the callers from paying
	mu     sync.Mutex
	counts
}

// counts is what the front door has answered since the last event.
type counts struct {
	accepted []string // EndToEndIds
	refused  map[string]int
}

func (c *counting) connect() {
	c.api = c.system.api(payer)
	c.api.RetryFor = 0
	var err error
	c.client, err = kgo.NewClient(kgo.SeedBrokers(c.KafkaAddress()), kgo.MetadataMinAge(time.Second/4),
		kgo.MetadataMaxAge(time.Second))
	c.must(err)
	c.t.Cleanup(c.client.Close)
	c.partitions = int32(len(c.bounds()))
	ctx, stop := context.WithCancel(c.t.Context())
	var callers sync.WaitGroup
	c.t.Cleanup(func() { stop(); callers.Wait() })

	for range 2 {
		callers.Go(func() {
			for ctx.Err() == nil {
				c.paying.RLock()
				c.pay(ctx)
				c.paying.RUnlock()
				host.Sleep(ctx, time.Second/4)
			}
		})
	}
}

const payer = "10000001"

// pay sends a payment once, and counts the answer.
func (c *counting) pay(ctx context.Context) {
	account := func(ispb string) client.Account { return client.Account{ISPB: ispb, Branch: "0001", Number: "1"} }
	state, err := c.api.Pay(ctx,
		client.Payment{Payer: account(payer), Payee: account("10000002"), AmountCentavos: 1}, 0)
	c.mu.Lock()
	defer c.mu.Unlock()

	switch {
	case ctx.Err() != nil:
	case err == nil:
		c.accepted = append(c.accepted, state.EndToEndID)
	default:
		problem := new(client.Problem)
		errors.As(err, &problem)
		c.refused[fmt.Sprintf("%s %v", problem.Type, err)]++
	}
}

// take returns the counts so far and begins new ones.
func (c *counting) take() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.counts
	c.counts = counts{refused: map[string]int{}}

	return taken
}

// some waits until so many payments more are accepted.
func (c *counting) some(payments int) {
	c.t.Helper()
	now := func() (int, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.accepted), fmt.Sprintf("refused: %v", c.refused)
	}
	goal, _ := now()
	kit.Await(c.t, fmt.Sprintf("%d payments more to be accepted", payments), func() (bool, string) {
		accepted, refused := now()
		return accepted >= goal+payments, refused
	})
}

func (c *counting) bounds() map[int32]stream.Bounds {
	c.t.Helper()
	var bounds map[int32]stream.Bounds
	c.eventually("the bounds of the topic are known", func() (known bool) {
		var err error
		bounds, err = stream.BoundsOf(c.t.Context(), c.client, stream.Payments)
		return err == nil
	})

	return bounds
}

// stored fails the test unless all of these stand in the topic.
func (c *counting) stored(accepted []string) {
	c.t.Helper()

	missing := map[string]bool{}
	for _, id := range accepted {
		missing[id] = true
	}

	for partition, of := range c.bounds() {
		c.must(stream.ReadRange(c.t.Context(), c.Kafka(), host.System().Dial, stream.Payments, partition,
			of.Start, of.End,
			func(r *kgo.Record) { delete(missing, string(r.Key)) }))
	}

	if len(missing) > 0 {
		c.t.Errorf("%d of %d accepted payments are in no topic: %v", len(missing), len(accepted), missing)
	}
	c.t.Logf("%d accepted payments are stored", len(accepted)-len(missing))
}

// still keeps the callers from paying while it does something: nobody can say whether a payment was
// stored that was on its way when the topic was deleted.
func (c *counting) still(do func()) {
	c.t.Helper()
	c.paying.Lock()
	defer c.paying.Unlock()
	c.stored(c.take().accepted)
	do()
}

// makeAnew makes the topic anew.
func (c *counting) makeAnew() {
	c.must(c.StopProcess(c.t.Context(), stack.Producer))
	c.bring(stack.Producer)
	c.eventually("there is a record in each partition", func() bool {
		for _, of := range c.bounds() {
			if of.End == 0 {
				return false
			}
		}

		return true
	})
	c.cleared()
	c.must(c.StopProcess(c.t.Context(), c.engine))
	c.some(4) // which no engine takes
	admin := kadm.NewClient(c.client)
	c.still(func() {
		deleted, err := admin.DeleteTopic(c.t.Context(), stream.Payments)
		c.must(errors.Join(err, deleted.Err))
		c.eventually("the topic is made anew", func() bool {
			created, err := admin.CreateTopic(c.t.Context(), c.partitions, 1, nil, stream.Payments)
			if err != nil && !errors.Is(created.Err, kerr.TopicAlreadyExists) { // the old one is still being deleted
				c.t.Fatal(err, created.ErrMessage)
			}

			return err == nil
		})
	})
	c.eventually("the front door says that the log is not the ledger's", func() bool {
		err := c.Ready(c.t.Context(), stack.Producer)
		return err != nil && strings.Contains(err.Error(), "the ledger's log")
	})

	if accepted := c.take().accepted; len(accepted) > 0 {
		c.t.Errorf("%d payments were accepted into a topic that was made anew", len(accepted))
	}
	c.giveUp()
}

// cleared waits until the engine has cleared what is accepted, so that the ledger names each partition.
func (c *counting) cleared() {
	c.t.Helper()
	c.paying.Lock()
	defer c.paying.Unlock()
	c.mu.Lock()
	accepted := append([]string{}, c.accepted...)
	c.mu.Unlock()
	c.known(accepted)
}

// known waits until the front door knows payments, as it does when they are cleared.
func (c *counting) known(accepted []string) {
	c.t.Helper()

	for _, id := range accepted {
		c.eventually(id+" is cleared", func() bool {
			_, err := c.api.Payment(c.t.Context(), id)
			return err == nil
		})
	}
}

// giveUp gives up the log as the runbook says: see ForeignLog.
func (c *counting) giveUp() {
	c.t.Helper()
	kit.Holds(c.t, c.dies(stack.Bootstrap, "PAYMENTS_LOG_GIVEN_UP=1"), "gave up log 1 of "+stream.Payments)
	c.must(c.StartProcess(c.engine))
	c.ready(c.engine, stack.Producer)
	c.paying.Lock()
	before := c.take() // the payments of the time between
	c.paying.Unlock()
	c.some(3 * int(c.partitions))
	c.paying.Lock()
	defer c.paying.Unlock()

	after := c.take()
	for why, times := range after.refused {
		// Until the engine says that it has taken what was accepted without it, the door says overload. Where the
		// ledger or the broker are slow on a busy machine, the caller is told.
		if !strings.Contains(why, ":overload ") && !strings.Contains(why, "-away ") &&
			!strings.Contains(why, "PUBLISH_TIMEOUT") {
			c.t.Errorf("after the log was given up, %d payments were not accepted: %s", times, why)
		}
	}

	if len(after.accepted) == 0 {
		c.t.Error("after the log was given up, no payment was accepted")
	}
	all := append(before.accepted, after.accepted...)
	c.stored(all)
	c.known(all)
}
