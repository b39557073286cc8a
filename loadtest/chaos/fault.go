package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/stream"
)

// kind is a kind of fault: which targets it may hit, how long it lasts, what causes it, and what ends it.
type kind struct {
	name, meaning string
	needs         needs
	of            targets
	low, high     time.Duration
	harm          step // a flood returns when it is over
	mend          step // nil: there is nothing to end
}

// needs are what a kind of fault cannot do without.
type needs int

const (
	nothing needs = iota
	// plainKafka is one broker without TLS: a link cannot put its address into what a secured one says.
	plainKafka
	// threeReplicas of the ledger: one server does not recover in time.
	threeReplicas
)

// targets are what a fault may hit; it hits one of them.
type targets func(w *world) []string

// step is a part of a fault.
type step func(ctx context.Context, w *world, f *fault) error

// fault is a fault while it is injected.
type fault struct {
	*Event
	random *rand.Rand
	index  int // of the target
	lasts  time.Duration
	links  []*link.Link // that it broke
}

const loseReplica = "lose-replica"

// kinds are all kinds of faults. It is set below, because the faults refer to it.
var kinds []kind

func init() {
	const s = time.Second

	kinds = []kind{
		{"kill-engine", "SIGKILL, then started again at once", nothing, engines, 0, 0, kill, start},
		{"kill-engine-takeover", "SIGKILL, then down for 6 to 10 s: another engine takes over", nothing, engines, 6 * s,
			10 * s, kill, start},
		{"pause-engine", "SIGSTOP for 4 to 9 s, longer than its session: a zombie when it continues", nothing, engines,
			4 * s, 9 * s, pause, resume},
		{"add-engine", "one more engine joins for 5 to 10 s and leaves again", nothing, only("one more engine"), 5 * s,
			10 * s, addEngine, stopAdded},
		{"remove-engine", "an engine leaves in order for 5 to 10 s", nothing, engines, 5 * s, 10 * s, stop, start},
		{"crash-engine", "an engine dies by itself at a step of a payment", nothing, engines, 0, 0,
			crashAt("ENGINE_CRASH_AT", 200, engineSteps...), start},
		{"crash-bank", "the bank simulator dies by itself at a step of a response", nothing, only(stack.Simulator), 0,
			0, crashAt("SIMULATOR_CRASH_AT", 200, bankSteps...), start},
		{"crash-producer", "the producer dies by itself at a step of accepting a payment", nothing,
			only(stack.Producer), 0, 0, crashAt("PRODUCER_CRASH_AT", 20, producerSteps...), start},
		{"kill-ledger", "SIGKILL of a TigerBeetle server, started again within 2 s", nothing, (*world).Replicas, 0,
			2 * s, kill, start},
		{loseReplica, "one of three TigerBeetle servers is down for 20 to 40 s: the other two go on", threeReplicas,
			(*world).Replicas, 20 * s, 40 * s, kill, start},
		{"pause-ledger", "SIGSTOP of a TigerBeetle server for 2 to 6 s", nothing, (*world).Replicas, 2 * s, 6 * s,
			pause, resume},
		{"kill-broker", "SIGKILL of a Kafka broker, started again within 2 s", nothing, (*world).Brokers, 0, 2 * s,
			kill, start},
		{"pause-broker", "SIGSTOP of a Kafka broker for 2 to 6 s", nothing, (*world).Brokers, 2 * s, 6 * s,
			pause, resume},
		{"kill-bank", "SIGKILL of the bank simulator, started again within 2 s", nothing, only(stack.Simulator), 0,
			2 * s, kill, start},
		{"kill-producer", "SIGKILL of the producer, started again within 2 s", nothing, only(stack.Producer), 0, 2 * s,
			kill, start},
		{"kill-archiver", "SIGKILL of the archiver, started again within 2 s", nothing, only(stack.Archiver), 0, 2 * s,
			kill, start},
		{"bank-silent", "a bank does not respond for 4 to 8 s", nothing, banks, 4 * s, 8 * s,
			behave(`{"silent_share": 1}`), behave("")},
		{"bank-late", "for 4 to 8 s a bank accepts everything after the deadline", nothing, banks, 4 * s, 8 * s,
			behave(`{"late_share": 1}`), behave("")},
		{"bank-slow", "for 4 to 8 s a bank takes 0.5 to 8 s to respond", nothing, banks, 4 * s, 8 * s,
			behave(`{"delay": {"min_ms": 500, "mean_ms": 2000, "max_ms": 8000}}`), behave("")},
		{"bank-duplicate", "for 4 to 8 s a bank sends every response twice", nothing, banks, 4 * s, 8 * s,
			behave(`{"duplicate_share": 1}`), behave("")},
		{"bank-rejecting", "for 4 to 8 s a bank rejects half of its payments", nothing, banks, 4 * s, 8 * s,
			behave(`{"accept_share": 0.5, "reject_codes": ["` + rejectedByBank.String() + `"]}`), behave("")},
		{"flood", "for 4 to 8 s one bank sends 4,000 conflicting orders and 2,000 copies of a waiting payment a second",
			nothing, banks, 4 * s, 8 * s, byABank, nil},
		{"read-flood", "for 4 to 8 s one bank reads all it may: statements of 1,000 lines, of the day, balances",
			nothing, banks, 4 * s, 8 * s, floodWithReads, nil},
		{"large-answers", "for 4 to 8 s somebody writes 60 responses of 120 kB a second that are none", nothing,
			only("responses"), 4 * s, 8 * s, largeAnswers, nil},
		{"overload", "one bank writes 50,000 payments straight to Kafka, as fast as it takes them", nothing, banks, 4 * s, 8 * s, overload,
			nil},
		{"acts", "an operator acts for 4 to 8 s: a bank is suspended or joins, money comes and goes, an account is blocked",
			nothing, only("register"), 4 * s, 8 * s, act(""), nil},
		{"suspend-bank", "a bank is suspended for 4 to 8 s", nothing, only("register"), 4 * s, 8 * s,
			act("suspension"), nil},
		{"damaged-log", "the broker is killed, and a byte of a log is flipped, or its tail cut: it must refuse to start, and then gets its own files",
			plainKafka, only(stack.Broker), 0, 0, damageLog, start},
	}
	for _, at := range []struct {
		name, meaning string
		from          targets
		to            []string
	}{
		{"kafka", "between an engine and Kafka", engines, []string{stack.Broker}},
		{"ledger", "between an engine and the ledger", engines, []string{stack.TigerBeetle}},
		{"bank", "between the bank simulator and Kafka", only(stack.Simulator), []string{stack.Broker}},
		{"producer", "between the producer and Kafka or the ledger", only(stack.Producer),
			[]string{stack.Broker, stack.TigerBeetle}},
	} {
		for _, how := range []struct {
			name, meaning string
			state         link.State
		}{
			{"cut-", "connections %s are reset and refused for 2 to 6 s", link.Cut},
			{"stall-", "nothing passes %s for 2 to 6 s", link.Stalled},
			{"half-open-", "requests pass %s, responses are held for 2 to 6 s", link.HalfOpen},
			{"slow-", "100 to 500 ms more each way %s for 2 to 6 s", link.Slow},
		} {
			meaning := fmt.Sprintf(how.meaning, at.meaning)
			kinds = append(kinds, kind{how.name + at.name, meaning, plainKafka, at.from, 2 * s, 6 * s,
				breakLinks(how.state, at.to), mendLinks})
		}
	}
}

func engines(w *world) []string { return w.engines }

func banks(w *world) (names []string) {
	for n := range w.population.Banks {
		names = append(names, "bank "+string(w.population.Bank(n)))
	}

	return names
}

func only(name string) targets { return func(*world) []string { return []string{name} } }

// inject causes the fault, ends it, and returns when everything is ready again.
func (k kind) inject(ctx context.Context, w *world, f *fault) error {
	names := k.of(w)
	f.index = f.random.IntN(len(names))
	f.Target, f.lasts = names[f.index], f.between(k.low, k.high)

	free, err := w.take(ctx, f.Target)
	if err != nil {
		return err
	}
	defer free()
	f.Partitions = w.partitionsOf(ctx, f.Target)
	f.Began = w.now()
	w.event("%s %s", f.Kind, f.Target)

	if err = k.harm(ctx, w, f); err == nil {
		host.Sleep(ctx, time.Until(w.start.Add(inSeconds(f.Began)+f.lasts)))
	}

	if k.mend != nil {
		err = errors.Join(err, k.mend(ctx, w, f))
	}

	f.Ended = w.now()
	if err == nil && slices.Contains(w.Names(), f.Target) {
		err = w.WaitReady(ctx, f.Target)
	}

	return err
}

// between draws a duration.
func (f *fault) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}

	return low + time.Duration(f.random.Int64N(int64(high-low)))
}

func kill(_ context.Context, w *world, f *fault) error {
	err := w.Kill(f.Target)
	f.Began = w.now() // it is dead now: it settles nothing after this
	return err
}

func start(_ context.Context, w *world, f *fault) error  { return w.StartProcess(f.Target) }
func stop(ctx context.Context, w *world, f *fault) error { return w.StopProcess(ctx, f.Target) }
func pause(_ context.Context, w *world, f *fault) error  { return w.Pause(f.Target) }
func resume(_ context.Context, w *world, f *fault) error { return w.Resume(f.Target) }

func addEngine(ctx context.Context, w *world, f *fault) (err error) {
	f.Detail, err = w.AddEngine(ctx)
	return err
}

func stopAdded(ctx context.Context, w *world, f *fault) error { return w.StopProcess(ctx, f.Detail) }

// The steps at which programs can be told to die. They are listed here again on purpose: a step that the
// program no longer has must fail the run.
var (
	engineSteps = []string{
		"after-fetch", "after-phase-1-sent", "after-phase-1-answered", "after-request-produced", "after-response-read",
		"after-phase-2-sent", "after-phase-2-answered", "after-report-produced", "after-report-acknowledged",
		"after-offset-marked", "after-commit"}
	bankSteps     = []string{"after-fetch", "after-answer-produced", "after-answer-acknowledged", "after-commit"}
	producerSteps = []string{"after-request-read", "after-published", "after-acknowledged"}
)

// crashAt starts a program that dies at a step, after it has passed it about so many times.
func crashAt(variable string, passages int, steps ...string) step {
	return func(ctx context.Context, w *world, f *fault) error {
		point, passage := steps[f.random.IntN(len(steps))], 1+f.random.IntN(passages)
		if point == "after-commit" {
			passage = 1 + passage%5 // commits are rare
		}
		f.Detail = fmt.Sprintf("%s:%d", point, passage)

		return errors.Join(w.Kill(f.Target), w.awaitDeath(ctx, f.Target, variable+"="+f.Detail))
	}
}

// awaitDeath starts a program that must end by itself, and waits for that.
func (w *world) awaitDeath(ctx context.Context, name string, env ...string) error {
	died, err := w.StartToDie(name, env...)
	if err != nil {
		return err
	}

	select {
	case <-died:
	case <-ctx.Done():
	case <-time.After(RecoveryMax):
		return errors.Join(fmt.Errorf("%s did not end within %v (%s)", name, RecoveryMax, strings.Join(env, " ")),
			w.Kill(name))
	}

	return nil
}

// damageLog flips a byte or cuts the tail of a log while the embedded broker is down. It must refuse to start,
// and name the log. Then the files come back.
func damageLog(ctx context.Context, w *world, f *fault) error {
	if err := kill(ctx, w, f); err != nil {
		return err
	}
	kept := []string{stream.Payments, stream.Settlements, stream.DeadLetters}
	topic := kept[f.random.IntN(len(kept))]

	segments, err := filepath.Glob(filepath.Join(w.KafkaFolder(), "partitions", topic+"-*", "*.dat"))
	if err != nil || len(segments) == 0 { // not the embedded broker, or nothing is there yet
		return err
	}
	segment := segments[f.random.IntN(len(segments))]

	whole, err := os.ReadFile(segment)
	if err != nil {
		return err
	}
	at := f.random.IntN(len(whole)/2 + 1) // at the end there may be what nobody has acknowledged
	damaged := slices.Clone(whole[:at])

	f.Detail = fmt.Sprintf("%s ends at byte %d", segment, at)
	if f.random.IntN(2) == 0 {
		damaged = slices.Clone(whole)
		damaged[at] ^= 1 << f.random.IntN(8)
		f.Detail = fmt.Sprintf("%s has another byte %d", segment, at)
	}

	if err := os.WriteFile(segment, damaged, 0o600); err != nil {
		return err
	}

	problem := w.refusesToStart(ctx, f.Target, "BROKER_LOSS_ACCEPTED="+topic+"/")
	if problem != nil {
		problem = fmt.Errorf("%s: %w", f.Detail, problem)
	}

	return errors.Join(problem, os.WriteFile(segment, whole, 0o600))
}

// refusesToStart starts a program that must end by itself and say why.
func (w *world) refusesToStart(ctx context.Context, name, why string) error {
	before, err := os.ReadFile(w.Log(name))
	if err != nil {
		return err
	}

	if err := w.awaitDeath(ctx, name); err != nil {
		return err
	}

	after, err := os.ReadFile(w.Log(name))
	if err == nil && !strings.Contains(string(after[min(len(before), len(after)):]), why) {
		err = fmt.Errorf("%s ended without saying %q", name, why)
	}

	return err
}

// behave sets the profile of a bank; without one, the profile from the start. The simulator may be down by
// another fault.
func behave(profile string) step {
	return func(ctx context.Context, w *world, f *fault) error {
		bank := w.population.Bank(f.index)

		ctx, cancel := context.WithTimeout(ctx, RecoveryMax)
		defer cancel()

		for {
			err := w.simulator.SetProfile(ctx, string(bank), profile)
			if err == nil || !host.Sleep(ctx, 200*time.Millisecond) {
				return err
			}
		}
	}
}

// act lets an operator intervene at the front door, by a kind of intervention or, without one, by any.
func act(name string) step {
	return func(ctx context.Context, w *world, f *fault) error {
		kind := load.Interventions[f.random.IntN(len(load.Interventions))]
		for _, named := range load.Interventions {
			if named.Name == name {
				kind = named
			}
		}
		f.Detail = kind.Name

		return kind.Play(ctx, &load.Operator{Act: w.act, Population: w.population, Random: f.random, Hold: f.lasts})
	}
}

// breakLinks breaks the links from a program to its servers of one kind.
func breakLinks(state link.State, to []string) step {
	return func(_ context.Context, w *world, f *fault) error {
		server := to[f.random.IntN(len(to))]
		delay := f.between(100*time.Millisecond, 500*time.Millisecond)

		f.Detail = "to " + server
		if state == link.Slow {
			f.Detail += fmt.Sprintf(", %d ms each way", delay.Milliseconds())
		}

		if f.links = w.Links(f.Target, server); f.links == nil {
			return fmt.Errorf("%s has no links to %s", f.Target, server)
		}

		for _, l := range f.links {
			l.Set(state, delay)
		}

		return nil
	}
}

func mendLinks(_ context.Context, _ *world, f *fault) error {
	for _, l := range f.links {
		l.Set(link.Whole, 0)
	}

	return nil
}
