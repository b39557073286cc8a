package room

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/loadtest/load"
)

// sender sends the room's own load, one at a time.
type sender struct {
	config load.Config
	log    func(format string, arguments ...any)

	mu    sync.Mutex
	rate  float64
	halt  chan struct{} // of the load that runs; nil: none
	sent  Load          // of all loads
	loads atomic.Int32  // that send, or wait for their last outcomes
}

// Bounds of the room's load.
const (
	rateMax        = 30_000
	loadFor        = 10 * time.Minute
	paymentsMax    = 2_000_000
	outstandingMax = 200_000
	loadsMax       = 8
	drainMax       = 2 * time.Minute
	progressEvery  = 500 * time.Millisecond
)

// set sends at a rate from now on; 0 ends it. A load ends only with its last outcome, so a new rate is
// a new load beside the end of the old one.
func (s *sender) set(ratePerSecond float64) error {
	if ratePerSecond < 0 || ratePerSecond > 0 && ratePerSecond < 1 || ratePerSecond > rateMax {
		return refusal{"ratePerSecond", fmt.Sprint(ratePerSecond), fmt.Sprintf("0, or from 1 to %d", rateMax)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	if ratePerSecond > 0 && s.loads.Load() >= loadsMax {
		return fmt.Errorf("%d earlier loads wait for their last outcomes: try again in a minute", loadsMax)
	}

	if s.halt != nil {
		close(s.halt)
		s.halt = nil
	}

	s.rate = ratePerSecond
	if ratePerSecond == 0 {
		return nil
	}
	s.halt = make(chan struct{})
	s.loads.Add(1)
	go s.send(ratePerSecond, s.halt)

	return nil
}

// send sends until halt is closed, a load after the other, because each plans its payments before.
func (s *sender) send(ratePerSecond float64, halt chan struct{}) {
	defer s.loads.Add(-1)

	for {
		config := s.config
		config.Rate, config.Payments, config.Stop = ratePerSecond,
			min(paymentsMax, max(1, int(ratePerSecond*loadFor.Seconds()))), halt
		config.Seed = uint64(time.Now().UnixNano()) //nolint:gosec // not negative
		config.OutstandingMax, config.DrainTimeout, config.Faults, config.ProgressEvery = outstandingMax, drainMax,
			true, progressEvery
		var last load.Snapshot
		config.Progress = func(now load.Snapshot) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sent.Sent += int64(now.Sent - last.Sent)
			s.sent.Ended += int64(now.Settled + now.Rejected +
				now.DeadLetters - last.Settled - last.Rejected - last.DeadLetters)
			s.sent.Wrong += int64(now.Failed - last.Failed)
			last = now
		}
		_, err := load.Run(context.Background(), config) // its payments end in any case, so it waits for them

		select {
		case <-halt:
			return
		default:
		}

		if err != nil {
			s.mu.Lock()
			if s.halt == halt { // otherwise another load has begun
				s.halt, s.rate = nil, 0
			}
			s.mu.Unlock()
			s.log("the room's load ended: %v", err)

			return
		}
	}
}

// now returns what the load does.
func (s *sender) now() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sent
	now.Running, now.RatePerSecond = s.halt != nil, s.rate

	return now
}
