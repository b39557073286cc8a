package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
)

// fault begins a fault, lasts for hold, and ends it.
type fault struct {
	kind   string
	inject func(w *world, s *service, random *rand.Rand, hold time.Duration)
}

// lane is where one fault happens at a time. Faults of different lanes overlap.
type lane struct {
	target string
	of     *service // nil: not of one service
	faults []fault
}

func (w *world) lanes() []lane {
	lanes := []lane{{"broker", nil, brokerFaults}, {"requests to Kafka", nil, requestFaults},
		{"ledger", nil, ledgerFaults},
		{"banks", nil, bankFaults}, {"engines", nil, groupFaults}, {"senders", nil, senderFaults},
		{"acts", nil, actFaults()}}

	for _, s := range w.all() {
		faults := serviceFaults
		if strings.HasPrefix(s.name, archiverName) {
			faults = archiverFaults()
		} else if s.name == bankSimulator {
			// A late bank whose clock is set right responds too soon: such a payment has no one right end.
			faults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return f.kind == clockFarBehind })
		} else {
			faults = append(faults[:len(faults):len(faults)], engineFaults...)
		}

		if s.clients != nil {
			faults = append(faults[:len(faults):len(faults)], doorFaults...)
		}
		lanes = append(lanes, lane{s.name, s, faults})
	}

	return lanes
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(random.Int64N(int64(high-low)))).Round(time.Millisecond)
}

const clockFarBehind = "clock is far behind"

// serviceFaults can happen to every service.
var serviceFaults = []fault{
	{"die", func(_ *world, s *service, _ *rand.Rand, hold time.Duration) {
		s.kill(hold, "")
		time.Sleep(hold)
	}},
	{"die and come back at once", once(func(_ *world, s *service) { s.kill(restartTime, "") })},
	{"die at a step", func(w *world, s *service, random *rand.Rand, hold time.Duration) {
		step := fmt.Sprintf("%s:%d", s.steps[random.IntN(len(s.steps))], 1+random.IntN(30))
		w.note("%s: its next life ends at %s", s.name, step)
		s.kill(restartTime, step)
		time.Sleep(hold)
	}},
	{"restart", once(func(_ *world, s *service) { s.now().stop() })},
	{"cut from Kafka", onLink(link.Cut, 0)},
	{"Kafka stalls", onLink(link.Stalled, 0)},
	{"Kafka's responses stall", onLink(link.HalfOpen, 0)},
	{"slow Kafka", onLink(link.Slow, 300*time.Millisecond)},
	{"Kafka's responses are lost", func(w *world, s *service, _ *rand.Rand, hold time.Duration) {
		l := s.now()
		l.set(link.HalfOpen, 0)
		time.Sleep(hold)
		l.set(link.Cut, 0) // what is held on its way is gone
		time.Sleep(w.latency)
		l.heal(w)
	}},
	{"clock jumps", func(_ *world, s *service, random *rand.Rand, hold time.Duration) {
		for end := time.Now().Add(hold); time.Now().Before(end); time.Sleep(between(random, 0, time.Second)) {
			s.setOffset(between(random, -time.Second, time.Second))
		}
		s.setOffset(0)
	}},
	{clockFarBehind, func(w *world, s *service, random *rand.Rand, hold time.Duration) {
		began := time.Now()
		s.setOffset(-between(random, 2*time.Second, 70*time.Second))
		time.Sleep(hold)
		s.setOffset(0)

		if s.clients != nil {
			return // a front door keeps no deadline
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wrongClocks = append(w.wrongClocks, audit.Interval{From: began, To: time.Now()})
	}},
	{"frozen", func(w *world, s *service, random *rand.Rand, _ time.Duration) {
		defer w.late()()
		resume := s.pause()
		time.Sleep(between(random, time.Second, 20*time.Second)) // a session has 3 s
		resume()
	}},
}

// engineFaults can happen to engines, too.
var engineFaults = []fault{
	{"cut from all", func(w *world, s *service, _ *rand.Rand, hold time.Duration) { // a zombie when it comes back
		defer w.late()()
		l := s.now()
		l.set(link.Stalled, 0)
		l.ledger.Cut(true, true)
		time.Sleep(hold)
		l.heal(w)
	}},
	{"requests to the ledger stall", onLedger(true, false, 0)},
	{"replies of the ledger stall", onLedger(false, true, 0)},
	{"slow ledger", onLedger(false, false, 200*time.Millisecond)},
	// It must refuse each of them: see Mismatch in platform/origin.
	{"ledger-rolled-back", func(w *world, s *service, _ *rand.Rand, hold time.Duration) {
		is := w.books()
		older := is.Clone()
		time.Sleep(2 * w.engineConfig.PulseInterval)
		// it is lost, or nobody has said anything since: then nobody can see that it is older
		if is != w.books() || w.knows(older) {
			return
		}
		s.livesOn(older, hold)
	}},
	{"ledger-lost", func(_ *world, s *service, _ *rand.Rand, hold time.Duration) {
		s.livesOn(ledgermodel.New(), hold)
	}},
	{"ledger-of-another", func(w *world, s *service, _ *rand.Rand, hold time.Duration) {
		another := ledgermodel.New()
		config := parsed(w.t, &bootstrap.Config{})

		config.Population = population
		if err := bootstrap.Populate(w.ends, config, another.Connect(nil)); err != nil && w.ends.Err() == nil {
			w.t.Error(err)
		}
		// An archive without a segment is of no ledger yet: it would be of this one.
		if !strings.HasPrefix(s.name, archiverName) || w.archived() > 0 {
			s.livesOn(another, hold)
		}
	}},
}

// livesOn lets a service begin again with another ledger, and goes back to the world's own later.
func (s *service) livesOn(another *ledgermodel.Ledger, hold time.Duration) {
	s.takesBooks(another)
	s.kill(restartTime, "")
	time.Sleep(hold)
	s.takesBooks(nil)
	s.kill(restartTime, "")
}

func (s *service) takesBooks(of *ledgermodel.Ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books = of
}

// knows reports whether a ledger has all that the topics say is in the world's. It compares for itself.
func (w *world) knows(books *ledgermodel.Ledger) bool {
	ctx, cancel := context.WithTimeout(w.ends, 10*time.Second)
	defer cancel()

	known, _ := origin.ReadCheckpoints(ctx, w.client) // without them nobody can know
	for _, checkpoint := range known {
		for _, id := range checkpoint.Seen {
			if found, _ := books.Connect(nil).LookupTransfers([]tb.Uint128{id}); len(found) == 0 {
				return false
			}
		}
	}

	return true
}

// doorFaults can happen to producers, too.
var doorFaults = []fault{
	{"clients are cut off", onClients(link.Cut, 0)},
	{"clients get no answers", onClients(link.HalfOpen, 0)},
	{"clients stall", onClients(link.Stalled, 0)},
	{"slow clients", onClients(link.Slow, 500*time.Millisecond)},
}

// once makes something happen once; nothing else does until the fault ends.
func once(do func(*world, *service)) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, s *service, _ *rand.Rand, hold time.Duration) {
		do(w, s)
		time.Sleep(hold)
	}
}

func onClients(state link.State, delay time.Duration) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, s *service, _ *rand.Rand, hold time.Duration) {
		s.clients.Set(state, delay)
		time.Sleep(hold)
		s.clients.Set(link.Slow, w.latency)
	}
}

func onLink(state link.State, delay time.Duration) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, s *service, _ *rand.Rand, hold time.Duration) {
		l := s.now()
		l.set(state, delay)
		time.Sleep(hold)
		l.heal(w)
	}
}

func onLedger(requests, replies bool, delay time.Duration) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, s *service, _ *rand.Rand, hold time.Duration) {
		defer w.late()()
		l := s.now()
		l.ledger.Cut(requests, replies)
		l.slow(delay)
		time.Sleep(hold)
		l.heal(w)
	}
}

// forAll turns a fault of a service into one that all have at once.
func forAll(change func(*life)) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, _ *service, _ *rand.Rand, hold time.Duration) {
		for _, s := range w.all() {
			change(s.now())
		}
		time.Sleep(hold)

		for _, s := range w.all() {
			s.now().heal(w)
		}
	}
}

var brokerFaults = []fault{
	{"broker is absent", forAll(func(l *life) { l.set(link.Cut, 0) })},
	{"broker stalls", forAll(func(l *life) { l.set(link.Stalled, 0) })},
	{"broker is slow", forAll(func(l *life) { l.set(link.Slow, 200*time.Millisecond) })},
	{"broker restarts", func(w *world, _ *service, _ *rand.Rand, hold time.Duration) { w.broker.restart(hold) }},
	{"broker dies", func(w *world, _ *service, _ *rand.Rand, hold time.Duration) { w.broker.kill(hold) }},
	{"broker dies and comes back at once", once(func(w *world, _ *service) { w.broker.kill(restartTime) })},
	{"leaders and coordinators move", once(func(w *world, _ *service) {
		w.broker.now().ShufflePartitionLeaders()
		w.broker.now().RehashCoordinators()
	})},
}

var ledgerFaults = []fault{
	{"ledger is absent", func(w *world, s *service, random *rand.Rand, hold time.Duration) {
		defer w.late()()
		forAll(func(l *life) { l.ledger.Cut(true, true) })(w, s, random, hold)
	}},
	{"ledger's replies stall", func(w *world, s *service, random *rand.Rand, hold time.Duration) {
		defer w.late()() // of the next request: TigerBeetle's client sends it when it has the reply to the one before
		forAll(func(l *life) { l.ledger.Cut(false, true) })(w, s, random, hold)
	}},
	{"ledger is slow", forAll(func(l *life) { l.slow(100 * time.Millisecond) })},
}

// rejectedByBank is what a bank says that rejects without a reason of its own.
var rejectedByBank = pix.MustReason("AG01")

var bankFaults = []fault{
	{"silent bank", behaving(`{"silent_share": 1}`)},
	{"late bank", behaving(`{"late_share": 1}`)},
	{"slow bank", behaving(`{"delay": {"min_ms": 500, "mean_ms": 4000, "max_ms": 39900}}`)},
	{"bank says all twice", behaving(`{"duplicate_share": 1}`)},
	{"rejecting bank", behaving(`{"accept_share": 0.5, "reject_codes": ["AG01"]}`)},
	{"forged responses", forge},
	{"bank over HTTP", overHTTP},
}

// overHTTP has a bank answer over HTTP alone, if there are front doors; without one it is silent.
func overHTTP(w *world, _ *service, random *rand.Rand, hold time.Duration) {
	bank := population.Bank(random.IntN(population.Banks))
	ctx, cancel := context.WithTimeout(w.ends, hold)
	defer cancel()

	if len(w.doors) > 0 {
		go w.answerOverHTTP(ctx, bank, between(random, time.Second, 20*time.Second))
	}
	w.behave(bank, `{"silent_share": 1}`, hold)
}

// behaving changes the profile of a bank for a time.
func behaving(profile string) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		w.behave(population.Bank(random.IntN(population.Banks)), profile, hold)
	}
}

// behave changes the profile of a bank by the simulator's own API. It tries until the simulator, which may be dead, has
// the profile or the world ends. A new life of it begins with the profiles of the sandbox.
func (w *world) behave(bank pix.ISPB, profile string, hold time.Duration) {
	put := func(method, profile string) {
		for w.ends.Err() == nil {
			code, said := w.request(w.ends, 5*time.Second, method, "http://"+banksAddress+"/v1/profiles/"+string(bank),
				nil, profile)
			if code != 0 && code/100 != 2 {
				w.t.Errorf("profile %s of bank %s: %d %s", profile, bank, code, said)
			}

			if code != 0 {
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	put(http.MethodPut, profile)
	time.Sleep(hold)
	put(http.MethodDelete, "")
}
