package chaos

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/keys"
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
		kind := load.Interventions[f.random.IntN(len(load.Interventions))]
		for _, named := range load.Interventions {
			if named.Name == name {
				kind = named
			}
		}
		f.Target, f.Detail = "register", kind.Name
		w.begin(f)
		defer w.end(f)
		return kind.Play(ctx, &load.Operator{
			Door: w.door, Population: w.simulator.population, Random: f.random, Hold: f.between(4*time.Second, 8*time.Second), Did: w.screen.event,
		})
	}
}

// invite has the guest join, with a key among callers and a secret to seal its responses.
func (w *world) invite(ctx context.Context, config Config, callers map[string]string) error {
	key := keys.New(string(load.Guest))
	operator := &load.Operator{
		Door: func(holder string) (*client.Client, error) {
			if holder == string(load.Guest) {
				return w.doorWith(key)
			}
			return w.door(holder)
		},
		Population: config.Population, Random: rand.New(rand.NewPCG(config.Seed, 1001)), Did: w.screen.event,
	}
	if err := operator.Invite(key); err != nil {
		return err
	}
	callers[string(load.Guest)] = key
	return w.processes.Run(ctx, w.screen.file, w.screen.file, "bootstrap", "participant", string(load.Guest))
}

// door returns a client of the HTTP API, as who acts. The front door may be down by another fault.
func (w *world) door(holder string) (*client.Client, error) {
	callers, err := w.Keys()
	if err != nil {
		return nil, err
	}
	return w.doorWith(callers[holder])
}

func (w *world) doorWith(key string) (*client.Client, error) {
	api, err := client.New(w.ProducerURL(), key)
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
