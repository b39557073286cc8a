package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/liquida/liquida/loadtest/link"
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
	lanes := []lane{{"broker", nil, brokerFaults}, {"ledger", nil, ledgerFaults}, {"banks", nil, bankFaults}}
	for _, s := range w.services {
		faults := serviceFaults
		if s.name != bankSimulator {
			faults = append(faults[:len(faults):len(faults)], engineFaults...)
		}
		lanes = append(lanes, lane{s.name, s, faults})
	}
	return lanes
}

// inject makes the faults of a lane, as the random numbers say, until a time.
func (w *world) inject(l lane, random *rand.Rand, gap time.Duration, until time.Time) {
	for {
		time.Sleep(between(random, 0, 2*gap))
		if !time.Now().Before(until) {
			return
		}
		f := l.faults[random.IntN(len(l.faults))]
		hold := between(random, 0, 12*time.Second)
		w.note("%s: %s for %v", l.target, f.kind, hold)
		w.mu.Lock()
		w.count[f.kind]++
		w.mu.Unlock()
		f.inject(w, l.of, random, hold)
	}
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(random.Int64N(int64(high-low)))).Round(time.Millisecond)
}

// serviceFaults can happen to every service.
var serviceFaults = []fault{
	{"die", func(_ *world, s *service, _ *rand.Rand, hold time.Duration) {
		s.kill(hold, "")
		time.Sleep(hold)
	}},
	{"die and come back at once", func(_ *world, s *service, _ *rand.Rand, hold time.Duration) {
		s.kill(restartTime, "")
		time.Sleep(hold)
	}},
	{"die at a step", func(w *world, s *service, random *rand.Rand, hold time.Duration) {
		step := fmt.Sprintf("%s:%d", s.steps[random.IntN(len(s.steps))], 1+random.IntN(30))
		w.note("%s: its next life ends at %s", s.name, step)
		s.kill(restartTime, step)
		time.Sleep(hold)
	}},
	{"restart", func(_ *world, s *service, _ *rand.Rand, hold time.Duration) {
		s.now().stop()
		time.Sleep(hold)
	}},
	{"cut from Kafka", onLink(link.Cut, 0)},
	{"Kafka stalls", onLink(link.Stalled, 0)},
	{"Kafka's responses stall", onLink(link.HalfOpen, 0)},
	{"slow Kafka", onLink(link.Slow, 300*time.Millisecond)},
	{"clock is wrong", func(_ *world, s *service, random *rand.Rand, hold time.Duration) {
		s.setOffset(between(random, -time.Second, time.Second))
		time.Sleep(hold)
		s.setOffset(0)
	}},
}

// engineFaults can happen to engines, too.
var engineFaults = []fault{
	{"cut from all", func(w *world, s *service, _ *rand.Rand, hold time.Duration) { // a zombie when it comes back
		l := s.now()
		l.set(link.Stalled, 0)
		l.ledger.Cut(true, true)
		time.Sleep(hold)
		l.heal(w)
	}},
	{"requests to the ledger stall", onLedger(true, false, 0)},
	{"replies of the ledger stall", onLedger(false, true, 0)},
	{"slow ledger", onLedger(false, false, 200*time.Millisecond)},
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
		for _, s := range w.services {
			change(s.now())
		}
		time.Sleep(hold)
		for _, s := range w.services {
			s.now().heal(w)
		}
	}
}

var brokerFaults = []fault{
	{"broker is absent", forAll(func(l *life) { l.set(link.Cut, 0) })},
	{"broker stalls", forAll(func(l *life) { l.set(link.Stalled, 0) })},
	{"broker is slow", forAll(func(l *life) { l.set(link.Slow, 200*time.Millisecond) })},
}

var ledgerFaults = []fault{
	{"ledger is absent", forAll(func(l *life) { l.ledger.Cut(true, true) })},
	{"ledger's replies stall", forAll(func(l *life) { l.ledger.Cut(false, true) })},
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
}

// behaving changes the profile of a bank by the simulator's own API.
func behaving(profile string) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		bank := string(population.Bank(random.IntN(population.Banks)))
		w.put(bank, http.MethodPut, profile)
		time.Sleep(hold)
		w.put(bank, http.MethodDelete, "")
	}
}

// put tries until the simulator, which may be dead, has the profile or the world ends. A new
// life of it begins with the profiles of the sandbox.
func (w *world) put(bank, method, profile string) {
	caller := http.Client{Transport: &http.Transport{DialContext: w.network.DialContext, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for w.ends.Err() == nil {
		request, err := http.NewRequestWithContext(context.Background(), method, "http://"+banksAddress+"/v1/profiles/"+bank, strings.NewReader(profile))
		if err != nil {
			w.t.Error(err)
			return
		}
		response, err := caller.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode/100 == 2 {
				return
			}
			w.t.Errorf("profile %s of bank %s: %s", profile, bank, response.Status)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}
