package chaos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/stream"
)

// system is a clearing house that can be broken: a stack of processes (*stack.Stack), or the
// containers of docker compose (*containers).
type system interface {
	Kafka() stream.Config // as a user that may do everything
	TigerBeetleAddresses() string
	ProducerURL() string
	Keys() (map[string]string, error)
	SimulatorURL() string
	TelemetryURL(name string) string
	Replicas() []string
	Brokers() []string

	StartProcess(name string) error
	WaitReady(ctx context.Context, name string) error
	StopProcess(ctx context.Context, name string) error
	Kill(name string) error
	Pause(name string) error
	Resume(name string) error
	AddEngine(ctx context.Context) (string, error)

	Crashes() []stack.Crash
	Stop(ctx context.Context) error
}

// world is the clearing house under test.
type world struct {
	system
	admin     *kadm.Client
	simulator *banks
	callers   *load.Callers // of the producer
	screen    *screen

	// processes and links are nil for containers, which have neither links nor crash points.
	processes *stack.Stack
	links     *links
	// instance is the name of an engine in its group.
	instance func(engine string) string
	// engines are the engines that run from beginning to end.
	engines []string

	roomURL string // empty: there is no control room

	start   time.Time // of the load
	planted hostile.Planted

	mu    sync.Mutex
	taken map[string]chan struct{} // by process: holds a token while a fault uses it
	extra []string                 // engines that a fault added
}

// addEngine starts one more engine.
func (w *world) addEngine(ctx context.Context) (string, error) {
	name, err := w.AddEngine(ctx)
	if name != "" {
		w.mu.Lock()
		w.extra = append(w.extra, name)
		w.mu.Unlock()
	}
	return name, err
}

// allEngines returns all engines, also those that have left.
func (w *world) allEngines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Concat(w.engines, w.extra)
}

// take reserves processes for one fault.
func (w *world) take(ctx context.Context, names ...string) (free func(), err error) {
	var tokens []chan struct{}
	free = func() {
		for _, token := range tokens {
			<-token
		}
	}
	for _, name := range names {
		w.mu.Lock()
		token := w.taken[name]
		if token == nil {
			token = make(chan struct{}, 1)
			w.taken[name] = token
		}
		w.mu.Unlock()
		select {
		case token <- struct{}{}:
			tokens = append(tokens, token)
		case <-ctx.Done():
			free()
			return nil, context.Cause(ctx)
		}
	}
	return free, nil
}

func (w *world) begin(f *fault) {
	f.Began = time.Since(w.start).Seconds()
	w.screen.event("%s %s %s", f.Kind, f.Target, f.Detail)
}

// end records that the cause is gone. Recovery may still take time.
func (w *world) end(f *fault) {
	if f.Ended == 0 {
		f.Ended = time.Since(w.start).Seconds()
	}
}

// bring starts a process that a fault ended, and waits until it is ready.
func (w *world) bring(ctx context.Context, f *fault, name string) error {
	if err := w.StartProcess(name); err != nil {
		return err
	}
	w.end(f)
	return w.WaitReady(ctx, name)
}

// partitionsOf asks the group which partitions an engine clears. If that fails, or if it is no
// engine, there are none, and the figures of the fault are about all partitions.
func (w *world) partitionsOf(ctx context.Context, engine string) []int32 {
	if !slices.Contains(w.engines, engine) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, err := load.PartitionsOfEngines(ctx, w.admin)
	if err != nil {
		return nil
	}
	return all[w.instance(engine)]
}

// persist tries until it succeeds or ctx ends: other faults may be in the way.
func persist(ctx context.Context, every time.Duration, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if !host.Sleep(ctx, every) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
