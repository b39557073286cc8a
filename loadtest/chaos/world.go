package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
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

// take reserves a target for one fault.
func (w *world) take(ctx context.Context, target string) (free func(), err error) {
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

// engineTelemetry returns the telemetry URLs of all engines, also of those that have left.
func (w *world) engineTelemetry() (urls []string) {
	for _, name := range w.Names() {
		if strings.HasPrefix(name, "engine-") {
			urls = append(urls, w.TelemetryURL(name))
		}
	}

	return urls
}

// invite has the guest join, with a key of its own and a secret to seal its responses.
func (w *world) invite(ctx context.Context, seed uint64) error {
	w.keys[string(load.Guest)] = keys.New(string(load.Guest))

	operator := &load.Operator{Door: w.door, Population: w.population, Random: rand.New(rand.NewPCG(seed, 1001)),
		Did: w.event}
	if err := operator.Invite(w.keys[string(load.Guest)]); err != nil {
		return err
	}

	return w.Run(ctx, w.file, w.file, "bootstrap", "participant", string(load.Guest))
}

// door returns a client of the HTTP API, as who acts. The front door may be down by a fault.
func (w *world) door(holder string) (*client.Client, error) {
	api, err := client.New(w.ProducerURL(), w.keys[holder])
	if err == nil {
		api.RetryFor = recoveryMax
	}

	return api, err
}

const balancesEvery = 200 * time.Millisecond

// readBalances reads reserve, transit and books of every bank in one request, again and again. It
// returns after ctx has ended and the last request is done.
func readBalances(ctx context.Context, client tigerbeetle.Client, population sandbox.Population,
	judge *answers.Judge) error {
	var ids []tb.Uint128

	for n := range population.Banks {
		bank := population.Bank(n)
		ids = append(ids, ledger.ReserveAccount(bank), ledger.TransitAccount(bank), ledger.BooksAccount(bank))
	}

	for ctx.Err() == nil {
		accounts, err := client.LookupAccounts(ids)
		if err != nil {
			return err
		}

		funds := make([]int64, len(accounts)/3)
		for i, account := range accounts {
			if has := ledger.Less(account.CreditsPosted, account.DebitsPosted); i%3 < 2 {
				funds[i/3] += has
			} else {
				funds[i/3] -= has
			}
		}
		judge.TakeFunds(funds)
		host.Sleep(ctx, balancesEvery)
	}

	return nil
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
