package chaos

import (
	"context"
	"strings"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/loadtest/acts"
	"github.com/liquida/liquida/loadtest/audit"
)

// act lets an operator intervene at the front door, by a kind of intervention or, without one, by any:
// what it changes stays for 4 to 8 s.
func act(name string) injection {
	return func(ctx context.Context, w *world, f *fault) error {
		free, err := w.take(ctx, "register")
		if err != nil {
			return err
		}
		defer free()
		kind := acts.Kinds[f.random.IntN(len(acts.Kinds))]
		for _, named := range acts.Kinds {
			if named.Name == name {
				kind = named
			}
		}
		f.Target, f.Detail = "register", kind.Name
		w.begin(f)
		defer w.end(f)
		return kind.Play(ctx, &acts.Operator{
			Door: w.door, Population: w.simulator.population, Random: f.random, Hold: f.between(4*time.Second, 8*time.Second), Did: w.live.event,
		})
	}
}

// door returns a client of the HTTP API, as who acts. The front door may be down by another fault.
func (w *world) door(holder string) (*client.Client, error) {
	keys, err := w.Keys()
	if err != nil {
		return nil, err
	}
	api, err := client.New(w.ProducerURL(), keys[holder])
	if err == nil {
		api.RetryFor = recoveryMax
	}
	return api, err
}

// lateRequests returns when faults delayed what engines had sent to the ledger.
func (r *run) lateRequests() (late []audit.Interval) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == "pause-engine" || strings.HasSuffix(e.Kind, "-ledger") {
			at := func(seconds float64) time.Time {
				return r.world.start.Add(time.Duration(seconds * float64(time.Second)))
			}
			late = append(late, audit.Interval{From: at(e.Began), To: at(max(e.Began, e.Ended))})
		}
	}
	return late
}
