package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/liquida/liquida/services/clearing-engine/engine"
)

// groupFaults happen to the engines as a group.
var groupFaults = []fault{
	{"an engine joins and leaves", func(w *world, _ *service, _ *rand.Rand, hold time.Duration) {
		s := w.startEngineAs("engine-new", "engine-new", newEnginePort)
		time.Sleep(hold)
		s.retire()
	}},
	{"engines restart one by one", func(w *world, _ *service, _ *rand.Rand, hold time.Duration) {
		engines := w.engines()
		for _, s := range engines {
			s.now().stop()
			time.Sleep(hold / time.Duration(len(engines)))
		}
	}},
	{"two engines with one name", func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		engines := w.engines()
		instance := engines[random.IntN(len(engines))].name
		s := w.startEngineAs(instance+"-twin", instance, newEnginePort)
		time.Sleep(hold)
		s.retire()
	}},
	{"settings change", func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		engines := w.engines()
		s := engines[random.IntN(len(engines))]
		changed := changes[random.IntN(len(changes))]
		w.note("%s: %s", s.name, changed.name)
		s.restartWith(changed.change)
		time.Sleep(hold)
		s.restartWith(nil)
	}},
	{"settings change everywhere", func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		changed := changes[random.IntN(len(changes))]
		w.note("all engines: %s", changed.name)
		for _, s := range w.engines() {
			s.restartWith(changed.change)
		}
		time.Sleep(hold)
		for _, s := range w.engines() {
			s.restartWith(nil)
		}
	}},
}

const (
	firstEnginePort = 9103
	newEnginePort   = 9110
)

// engines returns those that are there all the time.
func (w *world) engines() (engines []*service) {
	for i := range w.engineCount {
		name := engineName(i)
		for _, s := range w.all() {
			if s.name == name {
				engines = append(engines, s)
			}
		}
	}
	return engines
}

func engineName(number int) string { return fmt.Sprintf("engine-%d", number) }

// restartWith gives an engine other settings, or its own again, for its next life, and kills it.
func (s *service) restartWith(change func(*engine.Config)) {
	s.mu.Lock()
	s.change = change
	s.mu.Unlock()
	s.kill(restartTime, "")
}

// inactiveBank is the bank that some settings exclude.
const inactiveBank = 2

// deadlineAtLeast is the shortest deadline that a change of settings brings.
const deadlineAtLeast = 5 * time.Second

// changes of settings. What was decided or begun before must not change.
var changes = []struct {
	name   string
	change func(*engine.Config)
}{
	{"a hold of 45 s", func(c *engine.Config) { c.PendingTimeout = 45 * time.Second }},
	{"a deadline of 5 s, a hold of 10 s", func(c *engine.Config) { c.Deadline, c.PendingTimeout = deadlineAtLeast, 10*time.Second }},
	{"an inactive participant", func(c *engine.Config) {
		c.InactiveParticipants = []string{string(population.Bank(inactiveBank))}
	}},
	{"little room", func(c *engine.Config) { c.InFlightMax, c.WorkingMax, c.InFlightPSPShare = 1000, 16, 0.02 }},
	{"small requests", func(c *engine.Config) { c.Batch.EventsMax = 134 }}, // the least that an engine takes
	{"a session of 10 s, no drain", func(c *engine.Config) { c.SessionTimeout, c.RevokeDrain = 10*time.Second, 0 }},
	{"a commit every 5 s", func(c *engine.Config) { c.CommitInterval = 5 * time.Second }},
}
