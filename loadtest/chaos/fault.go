package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/host"
)

// kind is a kind of fault. inject causes the fault, ends it, and returns when everything is
// ready again.
type kind struct {
	name    string
	meaning string
	where   where
	inject  injection
}

// where is what a kind of fault needs.
type where int

const (
	anywhere where = iota
	// processesOnly are faults that need a program's environment or its connections.
	processesOnly
	// replicatedOnly are faults of which a ledger of one server does not recover in time.
	replicatedOnly
)

// fault is a fault while it is injected.
type fault struct {
	*Event
	random *rand.Rand
	world  *world
}

const loseReplica = "lose-replica"

// kinds are all kinds of faults. It is set below, because the faults refer to it.
var kinds []kind

func init() {
	kinds = []kind{
		{"kill-engine", "SIGKILL, then started again at once", anywhere, kill(engines, 0, 0)},
		{"kill-engine-takeover", "SIGKILL, then down for 6 to 10 s: another engine takes over", anywhere, kill(engines, 6*time.Second, 10*time.Second)},
		{"pause-engine", "SIGSTOP for 4 to 9 s, longer than its session: a zombie when it continues", anywhere, pause(engines, 4*time.Second, 9*time.Second)},
		{"restart-engines", "every engine restarted in order, one after another", anywhere, restartEngines},
		{"add-engine", "one more engine joins for 5 to 10 s and leaves again", anywhere, addEngine},
		{"remove-engine", "an engine leaves in order for 5 to 10 s", anywhere, on(engines, removeEngine)},
		{"crash-engine", "an engine dies by itself at a step of a payment", processesOnly, crashAt(engineCrash)},
		{"crash-bank", "the bank simulator dies by itself at a step of a response", processesOnly, crashAt(bankCrash)},
		{"crash-producer", "the producer dies by itself at a step of accepting a payment", processesOnly, crashAt(producerCrash)},
		{"kill-ledger", "SIGKILL of a TigerBeetle server, started again within 2 s", anywhere, kill(replicas, 0, 2*time.Second)},
		{loseReplica, "one of three TigerBeetle servers is down for 20 to 40 s: the other two go on", replicatedOnly, kill(replicas, 20*time.Second, 40*time.Second)},
		{"pause-ledger", "SIGSTOP of a TigerBeetle server for 2 to 6 s", anywhere, pause(replicas, 2*time.Second, 6*time.Second)},
		{"kill-broker", "SIGKILL of a Kafka broker, started again within 2 s", anywhere, kill(brokers, 0, 2*time.Second)},
		{"pause-broker", "SIGSTOP of a Kafka broker for 2 to 6 s", anywhere, pause(brokers, 2*time.Second, 6*time.Second)},
		{"kill-bank", "SIGKILL of the bank simulator, started again within 2 s", anywhere, kill(only(stack.Simulator), 0, 2*time.Second)},
		{"kill-producer", "SIGKILL of the producer, started again within 2 s", anywhere, kill(only(stack.Producer), 0, 2*time.Second)},
		{"kill-archiver", "SIGKILL of the archiver, started again within 2 s", processesOnly, kill(only(stack.Archiver), 0, 2*time.Second)},
		{"bank-silent", "a bank does not respond for 4 to 8 s", anywhere, bankBehaves(`{"silent_share": 1}`)},
		{"bank-late", "for 4 to 8 s a bank accepts everything after the deadline", anywhere, bankBehaves(`{"late_share": 1}`)},
		{"bank-slow", "for 4 to 8 s a bank takes 0.5 to 8 s to respond", anywhere, bankBehaves(`{"delay": {"min_ms": 500, "mean_ms": 2000, "max_ms": 8000}}`)},
		{"bank-duplicate", "for 4 to 8 s a bank sends every response twice", anywhere, bankBehaves(`{"duplicate_share": 1}`)},
		{"bank-rejecting", "for 4 to 8 s a bank rejects half of its payments", anywhere, bankBehaves(`{"accept_share": 0.5, "reject_codes": ["` + rejectedByBank.String() + `"]}`)},
		{"flood", "for 4 to 8 s one bank sends 4,000 conflicting orders and 2,000 copies of a waiting payment a second", anywhere, floodByABank},
		{"read-flood", "for 4 to 8 s one bank reads all it may: statements of 1,000 lines, of the day, balances", anywhere, floodWithReads},
		{"large-answers", "for 4 to 8 s somebody writes 60 responses of 120 kB a second that are none", anywhere, largeAnswers},
		{"forge-answers", "for 4 to 8 s forged responses: from other banks, about unknown payments, against the verdict, racing with the true ones", anywhere, forgeAnswers},
		{"overload", "for 4 to 8 s all banks pay as fast as they can, over HTTP and straight to Kafka", anywhere, overload},
		{"acts", "an operator acts for 4 to 8 s: a bank is suspended or joins, money comes and goes, an account is blocked", anywhere, act("")},
		{"suspend-bank", "a bank is suspended for 4 to 8 s", anywhere, act("suspension")},
		{"bomb", "a batch that unpacks to 900 MB, on a partition of the payments and of the responses", anywhere, dropBomb},
		{"damaged-log", "the broker is killed, and a byte of a log is flipped, or its tail cut: it must refuse to start, and then gets its own files", processesOnly, on(only(stack.Broker), damageLog)},
		{"partitions-added", "all topics get one more partition, pix.payments last", processesOnly, addPartition},
		{"unreadable-batch", "a batch that no client can read, on a partition of the payments and of the responses", anywhere, plantUnreadable},
	}
	for _, at := range []struct {
		name, meaning string
		from          targets
		to            []destination
	}{
		{"kafka", "between an engine and Kafka", engines, []destination{toKafka}},
		{"ledger", "between an engine and the ledger", engines, []destination{toLedger}},
		{"bank", "between the bank simulator and Kafka", only(stack.Simulator), []destination{toKafka}},
		{"producer", "between the producer and Kafka or the ledger", only(stack.Producer), []destination{toKafka, toLedger}},
	} {
		kinds = append(kinds,
			kind{"cut-" + at.name, "connections " + at.meaning + " are reset and refused for 2 to 6 s", processesOnly, breakLink(at.from, at.to, link.Cut)},
			kind{"stall-" + at.name, "nothing passes " + at.meaning + " for 2 to 6 s", processesOnly, breakLink(at.from, at.to, link.Stalled)},
			kind{"half-open-" + at.name, "requests pass " + at.meaning + ", responses are held for 2 to 6 s", processesOnly, breakLink(at.from, at.to, link.HalfOpen)},
			kind{"slow-" + at.name, "100 to 500 ms more each way " + at.meaning + " for 2 to 6 s", processesOnly, breakLink(at.from, at.to, link.Slow)})
	}
}

// between draws a duration.
func (f *fault) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(f.random.Int64N(int64(high-low)))
}

// hold keeps the fault for a drawn time, or until ctx ends.
func (f *fault) hold(ctx context.Context, low, high time.Duration) {
	host.Sleep(ctx, f.between(low, high))
}

// targets are the programs of which a fault hits one.
type targets func(w *world) []string

func engines(w *world) []string  { return w.engines }
func replicas(w *world) []string { return w.Replicas() }
func brokers(w *world) []string  { return w.Brokers() }

func only(name string) targets { return func(*world) []string { return []string{name} } }

// injection is what injects a fault.
type injection func(ctx context.Context, w *world, f *fault) error

// on reserves one of the targets, finds the partitions that it clears, and hits it.
func on(all targets, hit func(ctx context.Context, w *world, f *fault, name string) error) injection {
	return func(ctx context.Context, w *world, f *fault) error {
		names := all(w)
		name := names[f.random.IntN(len(names))]
		free, err := w.take(ctx, name)
		if err != nil {
			return err
		}
		defer free()
		f.Target, f.Partitions = name, w.partitionsOf(ctx, name)
		return hit(ctx, w, f, name)
	}
}

func kill(all targets, low, high time.Duration) injection {
	return on(all, func(ctx context.Context, w *world, f *fault, name string) error {
		if err := w.Kill(name); err != nil {
			return err
		}
		w.begin(f) // it is dead now: it settles nothing after this
		f.hold(ctx, low, high)
		return w.bring(ctx, f, name)
	})
}

func pause(all targets, low, high time.Duration) injection {
	return on(all, func(ctx context.Context, w *world, f *fault, name string) error {
		w.begin(f)
		if err := w.Pause(name); err != nil {
			return err
		}
		f.hold(ctx, low, high)
		err := w.Resume(name)
		w.end(f)
		if err != nil {
			return err
		}
		return w.WaitReady(ctx, name)
	})
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

func removeEngine(ctx context.Context, w *world, f *fault, name string) error {
	w.begin(f)
	if err := w.StopProcess(ctx, name); err != nil {
		return err
	}
	f.hold(ctx, 5*time.Second, 10*time.Second)
	return w.bring(ctx, f, name)
}

// crashTarget is a program that can be told to die at a step. The steps are listed here again
// on purpose: a step that the program no longer has must fail the run.
type crashTarget struct {
	variable string
	of       targets
	points   []string
	passages int // about how many payments to let pass first
}

var (
	engineCrash = crashTarget{"ENGINE_CRASH_AT", engines, []string{
		"after-fetch", "after-phase-1-sent", "after-phase-1-answered", "after-request-produced", "after-response-read",
		"after-phase-2-sent", "after-phase-2-answered", "after-report-produced", "after-report-acknowledged",
		"after-offset-marked", "after-commit"}, 200}
	bankCrash = crashTarget{"SIMULATOR_CRASH_AT", only(stack.Simulator), []string{
		"after-fetch", "after-answer-produced", "after-answer-acknowledged", "after-commit"}, 200}
	producerCrash = crashTarget{"PRODUCER_CRASH_AT", only(stack.Producer), []string{
		"after-request-read", "after-published", "after-acknowledged"}, 20}
)

// diesWithin bounds the wait for the step: other faults may delay payments.
const diesWithin = time.Minute

func crashAt(c crashTarget) injection {
	return on(c.of, func(ctx context.Context, w *world, f *fault, name string) error {
		point, passage := c.points[f.random.IntN(len(c.points))], 1+f.random.IntN(c.passages)
		if point == "after-commit" {
			passage = 1 + passage%5 // commits are rare
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
	})
}

func breakLink(from targets, to []destination, state link.State) injection {
	return on(from, func(ctx context.Context, w *world, f *fault, name string) error {
		at := to[f.random.IntN(len(to))]
		f.Detail = "to " + at.String()
		delay := f.between(100*time.Millisecond, 500*time.Millisecond)
		if state == link.Slow {
			f.Detail += fmt.Sprintf(" %d ms each way", delay.Milliseconds())
		}
		links, err := w.links.between(name, at)
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
	})
}
