package room

import (
	"slices"
	"sync"
	"time"
)

// waits joins each order with its outcome by the key of their records, and so measures how long each payment
// took, by the times of the two records. Whoever calls its methods holds the lock.
type waits struct {
	mu    sync.Mutex
	open  map[waitKey]time.Time // when an order without an outcome came
	early map[waitKey]bool      // outcomes that were read before their orders, or again
	took  []time.Duration       // since the last look
	swept time.Time             // when early and open were swept
}

type waitKey [idMax]byte

// Bounds of what is measured.
const (
	waitsMax   = 200_000 // orders without an outcome; the oldest are kept
	waitMax    = 10 * time.Minute
	earlyMax   = 50_000
	sweepEvery = 10 * time.Second
	tookMax    = 50_000      // payments of one look
	strayMost  = time.Minute // a sender dates its records as it likes
)

func newWaits() *waits { return &waits{open: map[waitKey]time.Time{}, early: map[waitKey]bool{}} }

// order takes the record of an order.
func (w *waits) order(key []byte, at, now time.Time) {
	if len(key) != idMax {
		return // it becomes a dead letter
	}

	k := waitKey(key)
	if w.early[k] {
		delete(w.early, k)
		return
	}

	if _, known := w.open[k]; known || len(w.open) >= waitsMax {
		return
	}

	if age := now.Sub(at); age < 0 || age > strayMost {
		at = now
	}
	w.open[k] = at
}

// outcome takes the record of a report, or of a dead letter.
func (w *waits) outcome(key []byte, at time.Time) {
	if len(key) != idMax {
		return
	}

	k := waitKey(key)

	began, known := w.open[k]
	if !known && len(w.early) < earlyMax {
		w.early[k] = true
	}
	delete(w.open, k)

	if known && len(w.took) < tookMax {
		w.took = append(w.took, max(0, at.Sub(began)))
	}
}

// take returns how long the payments took that have ended since the last call, in ascending order.
func (w *waits) take(now time.Time) []time.Duration {
	if now.Sub(w.swept) > sweepEvery {
		clear(w.early)
		w.swept = now

		for key, at := range w.open {
			if now.Sub(at) > waitMax {
				delete(w.open, key)
			}
		}
	}
	took := w.took
	w.took = nil
	slices.Sort(took)

	return took
}
