package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/link"
)

// kind is a kind of fault. inject does the harm, undoes it and returns when everything is
// ready again.
type kind struct {
	name    string
	meaning string
	where   where
	inject  func(ctx context.Context, w *world, f *fault) error
}

// where says what a kind of fault needs.
type where int

const (
	anywhere where = iota
	// processesOnly are the faults that need a program's environment or its connections.
	processesOnly
)

// fault is one that is being injected.
type fault struct {
	*Event
	random *rand.Rand
	world  *world
}

// kinds are all there are. Initialized below, for the faults refer to it.
var kinds []kind

func init() {
	kinds = []kind{
		{"kill-engine", "SIGKILL, and started again at once", anywhere, killEngine(0, 0)},
		{"kill-engine-takeover", "SIGKILL, and away for 6 to 10 s: another engine takes over", anywhere, killEngine(6*time.Second, 10*time.Second)},
		{"pause-engine", "SIGSTOP for 4 to 9 s, past its session: a zombie when it goes on", anywhere, pauseEngine},
		{"restart-engines", "every engine restarted in order, one after the other", anywhere, restartEngines},
		{"add-engine", "one more engine joins for 5 to 10 s and leaves again", anywhere, addEngine},
		{"remove-engine", "an engine leaves in order for 5 to 10 s", anywhere, removeEngine},
		{"crash-engine", "an engine dies by itself at a step of a payment", processesOnly, crashAt(engineCrash)},
		{"crash-bank", "the bank simulator dies by itself at a step of an answer", processesOnly, crashAt(bankCrash)},
		{"crash-producer", "the producer dies by itself at a step of taking a payment", processesOnly, crashAt(producerCrash)},
		{"kill-ledger", "SIGKILL of a TigerBeetle server, started again within 2 s", anywhere, killServer(ledgerServer)},
		{"pause-ledger", "SIGSTOP of a TigerBeetle server for 2 to 6 s", anywhere, pauseServer(ledgerServer)},
		{"kill-broker", "SIGKILL of the Kafka broker, started again within 2 s", anywhere, killServer(brokerServer)},
		{"pause-broker", "SIGSTOP of the Kafka broker for 2 to 6 s", anywhere, pauseServer(brokerServer)},
		{"kill-bank", "SIGKILL of the bank simulator, started again within 2 s", anywhere, killServer(bankServer)},
		{"kill-producer", "SIGKILL of the producer, started again within 2 s", anywhere, killServer(producerServer)},
		{"bank-silent", "a bank answers nothing for 4 to 8 s", anywhere, bankBehaves(`{"silent_share": 1}`)},
		{"bank-late", "a bank accepts for 4 to 8 s everything, but after the deadline", anywhere, bankBehaves(`{"late_share": 1}`)},
		{"bank-slow", "a bank takes 0.5 to 8 s for its answers for 4 to 8 s", anywhere, bankBehaves(`{"delay": {"min_ms": 500, "mean_ms": 2000, "max_ms": 8000}}`)},
		{"bank-duplicate", "a bank answers everything twice for 4 to 8 s", anywhere, bankBehaves(`{"duplicate_share": 1}`)},
		{"bank-rejecting", "a bank rejects half of everything for 4 to 8 s", anywhere, bankBehaves(`{"accept_share": 0.5, "reject_codes": ["` + rejectedByBank.String() + `"]}`)},
		{"forge-answers", "for 4 to 8 s answers of other banks, about unknown payments, against the verdict, and that race with the true ones", anywhere, forgeAnswers},
	}
	for _, at := range []struct {
		name, meaning string
		breaks        linked
	}{
		{"kafka", "between an engine and Kafka", linkOfEngine(toKafka)},
		{"ledger", "between an engine and the ledger", linkOfEngine(toLedger)},
		{"bank", "between the bank simulator and Kafka", linkOf(stack.Simulator, toKafka)},
		{"producer", "between the producer and Kafka or the ledger", linkOf(stack.Producer, toKafka, toLedger)},
	} {
		kinds = append(kinds,
			kind{"cut-" + at.name, "connections " + at.meaning + " are reset and refused for 2 to 6 s", processesOnly, breakLink(at.breaks, link.Cut)},
			kind{"stall-" + at.name, "nothing passes " + at.meaning + " for 2 to 6 s", processesOnly, breakLink(at.breaks, link.Stalled)},
			kind{"half-open-" + at.name, "requests pass " + at.meaning + ", the answers are held for 2 to 6 s", processesOnly, breakLink(at.breaks, link.HalfOpen)},
			kind{"slow-" + at.name, "100 to 500 ms more each way " + at.meaning + " for 2 to 6 s", processesOnly, breakLink(at.breaks, link.Slow)})
	}
}

// between draws a time.
func (f *fault) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(f.random.Int64N(int64(high-low)))
}

// hold keeps the harm up for a drawn time, or until the run is given up.
func (f *fault) hold(ctx context.Context, low, high time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(f.between(low, high)):
	}
}

// takeEngine reserves an engine for the fault and notes which partitions it clears.
func (f *fault) takeEngine(ctx context.Context, names []string) (name string, free func(), err error) {
	name = names[f.random.IntN(len(names))]
	if free, err = f.world.take(ctx, name); err != nil {
		return "", nil, err
	}
	f.Target = name
	f.Partitions = f.world.partitionsOf(ctx, name)
	return name, free, nil
}

func killEngine(low, high time.Duration) func(context.Context, *world, *fault) error {
	return func(ctx context.Context, w *world, f *fault) error {
		name, free, err := f.takeEngine(ctx, w.engines)
		if err != nil {
			return err
		}
		defer free()
		if err := w.Kill(name); err != nil {
			return err
		}
		w.begin(f) // it is dead now: whatever settles from here on, another life has settled
		f.hold(ctx, low, high)
		return w.bring(ctx, f, name)
	}
}

func pauseEngine(ctx context.Context, w *world, f *fault) error {
	name, free, err := f.takeEngine(ctx, w.engines)
	if err != nil {
		return err
	}
	defer free()
	return w.pause(ctx, f, name, 4*time.Second, 9*time.Second)
}

func restartEngines(ctx context.Context, w *world, f *fault) error {
	f.Target = "all engines"
	w.begin(f)
	defer w.end(f)
	for _, name := range w.engines {
		free, err := w.take(ctx, name)
		if err != nil {
			return err
		}
		if err = w.StopProcess(ctx, name); err == nil {
			if err = w.StartProcess(name); err == nil {
				err = w.WaitReady(ctx, name)
			}
		}
		free()
		if err != nil {
			return err
		}
	}
	return nil
}

func addEngine(ctx context.Context, w *world, f *fault) error {
	w.begin(f)
	defer w.end(f)
	name, err := w.addEngine(ctx)
	if err != nil {
		return err
	}
	f.Target = name
	f.hold(ctx, 5*time.Second, 10*time.Second)
	return w.StopProcess(ctx, name)
}

func removeEngine(ctx context.Context, w *world, f *fault) error {
	name, free, err := f.takeEngine(ctx, w.engines)
	if err != nil {
		return err
	}
	defer free()
	w.begin(f)
	if err := w.StopProcess(ctx, name); err != nil {
		return err
	}
	f.hold(ctx, 5*time.Second, 10*time.Second)
	return w.bring(ctx, f, name)
}

// crashing is a program that can be told to die, and where. The steps are listed here
// again on purpose: one that the program no longer has must fail.
type crashing struct {
	variable string
	names    func(w *world) []string
	points   []string
	passages int // about how many payments to let pass
}

var (
	engineCrash = crashing{"ENGINE_CRASH_AT", func(w *world) []string { return w.engines }, []string{
		"after-fetch", "after-phase-1-sent", "after-phase-1-answered", "after-request-produced", "after-response-read",
		"after-phase-2-sent", "after-phase-2-answered", "after-report-produced", "after-report-acknowledged",
		"after-offset-marked", "after-commit"}, 200}
	bankCrash = crashing{"SIMULATOR_CRASH_AT", func(*world) []string { return []string{stack.Simulator} }, []string{
		"after-fetch", "after-answer-produced", "after-answer-acknowledged", "after-commit"}, 200}
	producerCrash = crashing{"PRODUCER_CRASH_AT", func(*world) []string { return []string{stack.Producer} }, []string{
		"after-request-read", "after-published", "after-acknowledged"}, 20}
)

// diesWithin bounds the wait for a step to come by: other faults may hold payments up.
const diesWithin = time.Minute

func crashAt(c crashing) func(context.Context, *world, *fault) error {
	return func(ctx context.Context, w *world, f *fault) error {
		name, free, err := f.takeEngine(ctx, c.names(w))
		if err != nil {
			return err
		}
		defer free()
		point, passage := c.points[f.random.IntN(len(c.points))], 1+f.random.IntN(c.passages)
		if point == "after-commit" {
			passage = 1 + passage%5 // commits are few
		}
		f.Detail = fmt.Sprintf("%s:%d", point, passage)
		w.begin(f)
		if err := w.Kill(name); err != nil {
			return err
		}
		died, err := w.processes.StartToDie(name, c.variable+"="+f.Detail)
		if err != nil {
			return err
		}
		select {
		case <-died:
		case <-ctx.Done():
		case <-time.After(diesWithin):
			return fmt.Errorf("%s did not die at %s within %v", name, f.Detail, diesWithin)
		}
		return w.bring(ctx, f, name)
	}
}

var (
	ledgerServer   = func(w *world, f *fault) string { r := w.Replicas(); return r[f.random.IntN(len(r))] }
	brokerServer   = func(*world, *fault) string { return stack.Broker }
	bankServer     = func(*world, *fault) string { return stack.Simulator }
	producerServer = func(*world, *fault) string { return stack.Producer }
)

func killServer(which func(*world, *fault) string) func(context.Context, *world, *fault) error {
	return func(ctx context.Context, w *world, f *fault) error {
		name := which(w, f)
		free, err := w.take(ctx, name)
		if err != nil {
			return err
		}
		defer free()
		f.Target = name
		w.begin(f)
		if err := w.Kill(name); err != nil {
			return err
		}
		f.hold(ctx, 0, 2*time.Second)
		return w.bring(ctx, f, name)
	}
}

func pauseServer(which func(*world, *fault) string) func(context.Context, *world, *fault) error {
	return func(ctx context.Context, w *world, f *fault) error {
		name := which(w, f)
		free, err := w.take(ctx, name)
		if err != nil {
			return err
		}
		defer free()
		f.Target = name
		return w.pause(ctx, f, name, 2*time.Second, 6*time.Second)
	}
}

// linked chooses whose link to where breaks, and reserves that program.
type linked func(ctx context.Context, w *world, f *fault) (program string, to destination, free func(), err error)

func linkOfEngine(to destination) linked {
	return func(ctx context.Context, w *world, f *fault) (string, destination, func(), error) {
		name, free, err := f.takeEngine(ctx, w.engines)
		return name, to, free, err
	}
}

func linkOf(program string, destinations ...destination) linked {
	return func(ctx context.Context, w *world, f *fault) (string, destination, func(), error) {
		to := destinations[f.random.IntN(len(destinations))]
		f.Target, f.Detail = program, "to "+to.String()
		free, err := w.take(ctx, program)
		return program, to, free, err
	}
}

func breakLink(choose linked, state link.State) func(context.Context, *world, *fault) error {
	return func(ctx context.Context, w *world, f *fault) error {
		name, to, free, err := choose(ctx, w, f)
		if err != nil {
			return err
		}
		defer free()
		delay := f.between(100*time.Millisecond, 500*time.Millisecond)
		if state == link.Slow {
			f.Detail = strings.TrimSpace(fmt.Sprintf("%s %d ms each way", f.Detail, delay.Milliseconds()))
		}
		links, err := w.links.between(name, to)
		if err != nil {
			return err
		}
		w.begin(f)
		for _, l := range links {
			l.Set(state, delay)
		}
		f.hold(ctx, 2*time.Second, 6*time.Second)
		for _, l := range links {
			l.Set(link.Whole, 0)
		}
		w.end(f)
		return w.WaitReady(ctx, name)
	}
}
