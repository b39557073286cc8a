package simulation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// tries is how often a smaller world runs until it counts as one that does not fail.
const tries = 6

// fails runs a part of a world until it has failed enough times, or has run so often. It returns how
// often it failed.
func (r *runner) fails(ctx context.Context, seed uint64, p part, enough, runs int) (failures int) {
	var mu sync.Mutex
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	workers(func() bool {
		mu.Lock()
		runs--
		over := runs < 0 || ctx.Err() != nil
		mu.Unlock()

		if over {
			return false
		}
		o := r.process(ctx, seed, p, "")
		mu.Lock()
		defer mu.Unlock()

		if o.failed && ctx.Err() == nil { // a process that was ended proves nothing
			failures++
		}

		if failures >= enough {
			stop()
		}

		return true
	})

	return failures
}

// shrink looks for a smaller part of the world that still fails, and prints it. The scheduler is not
// seeded: a smaller part counts if it fails at least once in some runs.
func (r *runner) shrink(failed *outcome) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), *shrinkFor)
	defer cancel()

	s := &shrinker{runner: r, ctx: ctx, seed: failed.seed, smallest: part{payments: failed.Planned, faults: []int{}}}
	for _, e := range failed.Events {
		if chosen.has(e.Number) {
			s.smallest.faults = append(s.smallest.faults, e.Number)
		}
	}
	s.withoutFaults()
	s.withFewerPayments()
	s.withoutFaults() // fewer payments may need fewer faults

	end := "nothing smaller fails"
	if ctx.Err() != nil {
		end = "the time is over"
	}
	log := filepath.Join(r.logs, fmt.Sprintf("seed-%d-smallest.log", failed.seed))

	var last outcome
	for range 10 * tries { // for its log and its trace
		if last = r.process(r.t.Context(), failed.seed, s.smallest, log); last.failed {
			break
		}
	}
	r.t.Errorf("the smallest part of seed %d that fails, after %d smaller ones in %v (%s): %d payments, %d faults\n%s\nthe services' log: %s\nto run it again: %s",
		failed.seed, s.tried, time.Since(began).Round(time.Second), end, s.smallest.payments, len(s.smallest.faults),
		last.text(), log, s.smallest.command(failed.seed))
}

// shrinker looks for a smaller part of one world.
type shrinker struct {
	*runner
	ctx      context.Context
	seed     uint64
	smallest part
	tried    int
}

// accept makes a smaller part the smallest if it fails.
func (s *shrinker) accept(smaller part) bool {
	if s.ctx.Err() != nil {
		return false
	}

	s.tried++
	if s.fails(s.ctx, s.seed, smaller, 1, tries) == 0 {
		return false
	}
	s.smallest = smaller
	fmt.Printf("simulation: it still fails with %d payments and %d faults\n", smaller.payments, len(smaller.faults))

	return true
}

// withoutFaults leaves out all faults, then ever smaller runs of them.
func (s *shrinker) withoutFaults() {
	for length := len(s.smallest.faults); length > 0; length /= 2 {
		for from := 0; from < len(s.smallest.faults); {
			smaller := s.smallest

			smaller.faults = slices.Delete(slices.Clone(smaller.faults), from, min(from+length, len(smaller.faults)))
			if !s.accept(smaller) {
				from += length
			}
		}
	}
}

// withFewerPayments leaves out half of the payments while the world fails, then ever fewer of them.
func (s *shrinker) withFewerPayments() {
	for fewer := s.smallest.payments / 2; fewer > s.smallest.payments/10; {
		smaller := s.smallest

		smaller.payments -= fewer
		if s.accept(smaller) {
			fewer = min(fewer, s.smallest.payments/2)
		} else {
			fewer /= 2
		}
	}
}
