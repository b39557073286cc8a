package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/services/clearing-engine/engine"
)

const settingsChanged = "settings change"

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
	{settingsChanged, func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		engines := w.engines()
		s := engines[random.IntN(len(engines))]
		changed := changes[random.IntN(len(changes))]
		w.note("%s: %s", s.name, changed.name)
		w.change([]*service{s}, changed, hold)
	}},
	{settingsChanged + " everywhere", func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		changed := changes[random.IntN(len(changes))]
		w.note("all engines: %s", changed.name)
		w.change(w.engines(), changed, hold)
	}},
}

const (
	firstEnginePort = 9103
	newEnginePort   = 9110
)

// engines returns those that are there all the time. Others have longer names.
func (w *world) engines() []*service {
	return slices.DeleteFunc(w.all(), func(s *service) bool {
		return !strings.HasPrefix(s.name, "engine-") || len(s.name) != len(engineName(0))
	})
}

func engineName(number int) string { return fmt.Sprintf("engine-%d", number) }

// change gives engines other settings for a time, and notes for the audit what follows from them.
func (w *world) change(engines []*service, to settingsChange, hold time.Duration) {
	began := time.Now()

	for _, s := range engines {
		s.restartWith(to.change)
	}
	time.Sleep(hold)

	for _, s := range engines {
		s.restartWith(nil)
	}
	changed := *w.engineConfig
	to.change(&changed)
	w.mu.Lock()
	defer w.mu.Unlock()

	if changed.Deadline < w.engineConfig.Deadline {
		w.deadlineMin = changed.Deadline
		w.shortDeadlines = append(w.shortDeadlines, audit.Interval{From: began, To: time.Now()})
	}
}

// restartWith gives an engine other settings, or its own again, for its next life, and kills it.
func (s *service) restartWith(change func(*engine.Config)) {
	s.mu.Lock()
	s.change = change
	s.mu.Unlock()
	s.kill(restartTime, "")
}

// settingsChange changes settings of engines.
type settingsChange struct {
	name   string
	change func(*engine.Config)
}

// changes of settings. What was decided or begun before must not change. One deadline at most is
// shorter: the audit takes one.
var changes = []settingsChange{
	{"a hold of 45 s", func(c *engine.Config) { c.PendingTimeout = 45 * time.Second }},
	{"a deadline of 5 s, a hold of 10 s", func(c *engine.Config) {
		c.Deadline, c.PendingTimeout = 5*time.Second, 10*time.Second
	}},
	{"little room", func(c *engine.Config) { c.InFlightMax, c.WorkingMax, c.InFlightPSPShare = 1000, 16, 0.02 }},
	{"small requests", func(c *engine.Config) { c.Batch.EventsMax = 134 }}, // the least that an engine takes
	{"a session of 10 s, no drain", func(c *engine.Config) { c.SessionTimeout, c.RevokeDrain = 10*time.Second, 0 }},
	{"a commit every 5 s", func(c *engine.Config) { c.CommitInterval = 5 * time.Second }},
}

// Copies wait at an engine that loses its partitions. When it is back, no share of its room is taken.
func TestLostPartitionsLeaveNoShare(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		var copies sync.WaitGroup
		random := rand.New(rand.NewPCG(s.random.Uint64(), 0))
		copies.Go(func() { flooding(load.Copies, 20)(s.world, nil, random, 20*time.Second) })
		s.pass(5*time.Second, 6*time.Second)

		for i := range 2 {
			onLink(link.Stalled, 0)(s.world, s.engine(i), s.random, 8*time.Second) // a session has 3 s
		}
		copies.Wait()
		s.verdict()
	})
}
