package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/link"
	"github.com/liquida/liquida/platform/stream"
)

// world is the clearing house that is being broken.
type world struct {
	stack     *stack.Stack
	admin     *kadm.Client
	simulator *banks
	live      *live

	// engines are those that are there from beginning to end. The first of them reaches
	// broker and ledger directly, the others, the linked ones, over links that break.
	engines []string
	linked  []string
	links   map[string]*engineLinks
	env     map[string][]string // the stack's: read when an engine is added

	start time.Time // of the load

	mu    sync.Mutex
	taken map[string]chan struct{} // by process: holds a token while a fault is at it

	addMu sync.Mutex
}

// engineLinks are the links of one engine.
type engineLinks struct {
	kafka  *link.Link
	ledger []*link.Link // one for each server
}

func (l *engineLinks) to(d destination) []*link.Link {
	if d == toKafka {
		return []*link.Link{l.kafka}
	}
	return l.ledger
}

func (l *engineLinks) close() {
	for _, one := range append(l.ledger, l.kafka) {
		if one != nil {
			one.Close()
		}
	}
}

// addEngine starts one more engine, over links of its own.
func (w *world) addEngine(ctx context.Context) (string, error) {
	w.addMu.Lock()
	defer w.addMu.Unlock()
	next := stack.EngineName(len(w.links) + 1) // engine-0 has none
	links := &engineLinks{}
	var err error
	if links.kafka, err = link.ListenKafka(w.stack.KafkaAddress()); err != nil {
		return "", err
	}
	var addresses []string
	for _, server := range strings.Split(w.stack.TigerBeetleAddresses(), ",") {
		l, err := link.Listen(server)
		if err != nil {
			links.close()
			return "", err
		}
		links.ledger = append(links.ledger, l)
		addresses = append(addresses, l.Address())
	}
	w.links[next] = links
	w.env[next] = []string{"KAFKA_BROKERS=" + links.kafka.Address(), "TIGERBEETLE_ADDRESSES=" + strings.Join(addresses, ",")}
	name, err := w.stack.AddEngine(ctx)
	if err == nil && name != next {
		err = fmt.Errorf("the stack added %s, its links were made for %s", name, next)
	}
	return name, err
}

// take reserves a process for one fault.
func (w *world) take(ctx context.Context, name string) (free func(), err error) {
	w.mu.Lock()
	token := w.taken[name]
	if token == nil {
		token = make(chan struct{}, 1)
		w.taken[name] = token
	}
	w.mu.Unlock()
	select {
	case token <- struct{}{}:
		return func() { <-token }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (w *world) begin(f *fault) {
	f.Began = time.Since(w.start).Seconds()
	w.live.event("%s %s %s", f.Kind, f.Target, f.Detail)
}

// end notes that nothing stands in the way any more; recovery may still take its time.
func (w *world) end(f *fault) {
	if f.Ended == 0 {
		f.Ended = time.Since(w.start).Seconds()
	}
}

// bring starts a process that a fault has ended and waits until it is ready.
func (w *world) bring(ctx context.Context, f *fault, name string) error {
	if err := w.stack.StartProcess(name); err != nil {
		return err
	}
	w.end(f)
	return w.stack.WaitReady(ctx, name)
}

func (w *world) pause(ctx context.Context, f *fault, name string, low, high time.Duration) error {
	w.begin(f)
	if err := w.stack.Pause(name); err != nil {
		return err
	}
	f.hold(ctx, low, high)
	err := w.stack.Resume(name)
	w.end(f)
	if err != nil {
		return err
	}
	return w.stack.WaitReady(ctx, name)
}

// partitionsOf asks the group which partitions an engine clears. Without an answer it
// returns none: the figures of the fault are then about all of them.
func (w *world) partitionsOf(ctx context.Context, engine string) []int32 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	groups, err := w.admin.DescribeGroups(ctx, stream.EngineGroup)
	if err != nil {
		return nil
	}
	var partitions []int32
	for _, member := range groups[stream.EngineGroup].Members {
		if member.InstanceID == nil || *member.InstanceID != engine {
			continue
		}
		if assigned, ok := member.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				partitions = append(partitions, topic.Partitions...)
			}
		}
	}
	slices.Sort(partitions)
	return partitions
}
