package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"
)

// world is the clearing house under test.
type world struct {
	*stack.Stack
	screen
	admin      *kadm.Client
	population sandbox.Population
	simulator  *load.Callers
	producer   *load.Callers
	keys       map[string]string // of the HTTP API, by holder
	engines    []string          // that run from beginning to end
	roomURL    string            // empty: there is no control room
	start      time.Time         // of the load

	taken sync.Map // by target: a channel that holds a token while a fault uses it
}

// now returns the seconds since the load began.
func (w *world) now() float64 { return time.Since(w.start).Seconds() }

// take reserves a target for one fault. All brokers are one: without two of three nothing is acknowledged.
func (w *world) take(ctx context.Context, target string) (free func(), err error) {
	if slices.Contains(w.Brokers(), target) {
		target = stack.Broker
	}
	made, _ := w.taken.LoadOrStore(target, make(chan struct{}, 1))

	token := made.(chan struct{}) //nolint:forcetypeassert // nothing else is stored
	select {
	case token <- struct{}{}:
		return func() { <-token }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// partitionsOf asks the group which partitions an engine clears. If that fails, or if it is no
// engine, there are none, and the figures of the fault are about all partitions.
func (w *world) partitionsOf(ctx context.Context, engine string) []int32 {
	if !slices.Contains(w.engines, engine) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, _ := load.PartitionsOfEngines(ctx, w.admin)

	return all[engine]
}

// act does an act at the front door, which may be down by a fault.
func (w *world) act(holder, id string, act ledger.Act) error {
	api, err := client.New(w.ProducerURL(), w.keys[holder])
	if err != nil {
		return err
	}
	api.RetryFor = RecoveryMax
	w.event("%s of %s by HTTP, %d centavos", act.Kind, act.Bank, act.Centavos)

	return load.ActAt(api, id, act)
}

// progressEvery is the time between two lines about the load.
const progressEvery = 3 * time.Second

// screen shows load and faults, in a line each.
type screen struct {
	file    *os.File
	planned int

	lines  sync.Mutex
	begun  atomic.Int64
	before load.Snapshot
}

// progress shows the progress of the load.
func (s *screen) progress(now load.Snapshot) {
	s.lines.Lock()
	defer s.lines.Unlock()
	fmt.Fprintf(s.file, "%s | faults %d of %d\n", now.Line(s.before), s.begun.Load(), s.planned)
	s.before = now
}

// event prints a line.
func (s *screen) event(format string, arguments ...any) {
	s.lines.Lock()
	defer s.lines.Unlock()
	fmt.Fprintln(s.file, strings.TrimRight("        "+fmt.Sprintf(format, arguments...), " "))
}
