package simulation

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// part is what of a world happens: its first payments, and some of its faults.
type part struct {
	payments int // 0: all
	faults   numbers
}

func (p part) flags() []string {
	return []string{"-payments=" + strconv.Itoa(p.payments), "-faults=" + p.faults.String()}
}

// command returns how to run a part again.
func (p part) command(seed uint64) string {
	text := fmt.Sprintf("make simulate SEEDS=1 SEED=%d", seed)
	if p.payments > 0 || !p.faults.all {
		text += " ARGS='" + strings.Join(p.flags(), " ") + "'"
	}
	return text
}

// fails runs a part of a world until it has failed enough times, or has run so often. It returns how
// often it failed.
func (r *runner) fails(ctx context.Context, seed uint64, p part, enough, runs int) (failures int) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				mu.Lock()
				if runs == 0 || failures >= enough || ctx.Err() != nil {
					mu.Unlock()
					return
				}
				runs--
				mu.Unlock()
				o := r.process(ctx, seed, p, "")
				mu.Lock()
				if o.failed && ctx.Err() == nil { // a process that was ended proves nothing
					failures++
				}
				if failures >= enough {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return failures
}

// shrink looks for a smaller part of the world that still fails, and prints it. The scheduler is not
// seeded: a smaller part counts if it fails at least once in some runs.
func (r *runner) shrink(failed *outcome) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), *shrinkFor)
	defer cancel()
	s := &shrinker{runner: r, ctx: ctx, seed: failed.seed, smallest: part{payments: failed.Payments}}
	for _, e := range failed.Events {
		if chosen.has(e.Number) {
			s.smallest.faults.listed = append(s.smallest.faults.listed, e.Number)
		}
	}
	s.withoutFaults(failed.Events)
	s.withFewerPayments()
	s.withoutFaults(failed.Events) // fewer payments may need fewer faults
	end := "nothing smaller fails"
	if ctx.Err() != nil {
		end = "the time is over"
	}
	log := filepath.Join(r.logs, fmt.Sprintf("seed-%d-smallest.log", failed.seed))
	var last outcome
	for range 10 * *tries { // for its log and its trace
		if last = r.process(r.t.Context(), failed.seed, s.smallest, log); last.failed {
			break
		}
	}
	r.t.Errorf("the smallest part of seed %d that fails, after %d smaller ones in %v (%s): %d payments, %d faults\n%s\nthe services' log: %s\nto run it again: %s",
		failed.seed, s.tried, time.Since(began).Round(time.Second), end, s.smallest.payments, len(s.smallest.faults.listed), last.text(), log, s.smallest.command(failed.seed))
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
	if s.fails(s.ctx, s.seed, smaller, 1, *tries) == 0 {
		return false
	}
	s.smallest = smaller
	fmt.Printf("simulation: it still fails with %d payments and %d faults\n", smaller.payments, len(smaller.faults.listed))
	return true
}

// without accepts a part without some faults if it fails.
func (s *shrinker) without(faults []int) bool {
	smaller := s.smallest
	smaller.faults.listed = slices.DeleteFunc(slices.Clone(smaller.faults.listed), func(n int) bool { return slices.Contains(faults, n) })
	return len(smaller.faults.listed) < len(s.smallest.faults.listed) && s.accept(smaller)
}

// withoutFaults leaves out all faults, whole lanes, then ever smaller runs of faults.
func (s *shrinker) withoutFaults(events []event) {
	if s.without(slices.Clone(s.smallest.faults.listed)) {
		return
	}
	lanes := map[string][]int{}
	for _, e := range events {
		lanes[e.Lane] = append(lanes[e.Lane], e.Number)
	}
	for _, e := range events {
		if faults, left := lanes[e.Lane]; left {
			delete(lanes, e.Lane)
			s.without(faults)
		}
	}
	for length := len(s.smallest.faults.listed) / 2; length > 0; length /= 2 {
		for from := 0; from < len(s.smallest.faults.listed); {
			listed := s.smallest.faults.listed
			if !s.without(listed[from:min(from+length, len(listed))]) {
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
