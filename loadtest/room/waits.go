package room

import (
	"slices"
	"sync"
	"time"
)

// waits joins each order with its outcome by the key of their records, and so measures how long each payment
// took, by the times of the two records. Whoever calls order, outcome, oldest and take holds the lock.
type waits struct {
	mu    sync.Mutex
	open  map[waitKey]*wait
	early map[waitKey]bool  // outcomes that were read before their orders, or again
	lines map[int32][]*wait // by partition: the open ones and some that have ended, oldest first

	took    []time.Duration // since the last look
	swept   time.Time       // when early was emptied
	watches []*watch
}

type waitKey [idMax]byte

// wait is an order without an outcome.
type wait struct {
	key   waitKey
	at    time.Time // of its record
	ended bool
}

// Bounds of what is measured.
const (
	waitsMax  = 200_000 // orders without an outcome; the oldest are kept
	waitMax   = 10 * time.Minute
	earlyMax  = 50_000
	earlyFor  = 10 * time.Second
	tookMax   = 50_000      // payments of one look
	strayMost = time.Minute // a sender dates its records as it likes
)

func newWaits() *waits {
	return &waits{open: map[waitKey]*wait{}, early: map[waitKey]bool{}, lines: map[int32][]*wait{}}
}

// order takes the record of an order.
func (w *waits) order(key []byte, partition int32, at, now time.Time) {
	if len(key) != idMax {
		return // it becomes a dead letter
	}

	k := waitKey(key)
	if w.early[k] {
		delete(w.early, k)
		return
	}

	if w.open[k] != nil || len(w.open) >= waitsMax {
		return
	}

	if age := now.Sub(at); age < 0 || age > strayMost {
		at = now
	}
	one := &wait{key: k, at: at}
	w.open[k] = one

	line := append(w.lines[partition], one)
	if len(line) > 2*len(w.open)+100 { // behind an old one, many have ended
		line = slices.DeleteFunc(line, func(one *wait) bool { return one.ended })
	}
	w.lines[partition] = line
}

// outcome takes the record of a report, or of a dead letter.
func (w *waits) outcome(key []byte, partition int32, at time.Time, settled bool) {
	if len(key) != idMax {
		return
	}

	if settled {
		oldest := w.oldest(partition, at)
		for _, watch := range w.watches {
			watch.settled(partition, at, oldest)
		}
	}

	one := w.open[waitKey(key)]
	if one == nil {
		if len(w.early) < earlyMax {
			w.early[waitKey(key)] = true
		}

		return
	}
	one.ended = true
	delete(w.open, one.key)

	if len(w.took) < tookMax {
		w.took = append(w.took, max(0, at.Sub(one.at)))
	}
}

// oldest returns when the oldest order without an outcome came; zero if there is none.
func (w *waits) oldest(partition int32, now time.Time) time.Time {
	line := w.lines[partition]
	for len(line) > 0 && (line[0].ended || now.Sub(line[0].at) > waitMax) {
		if !line[0].ended {
			delete(w.open, line[0].key)
		}
		line = line[1:]
	}

	w.lines[partition] = line
	if len(line) == 0 {
		return time.Time{}
	}

	return line[0].at
}

// take returns how long the payments took that have ended since the last call, in ascending order.
func (w *waits) take(now time.Time) []time.Duration {
	if now.Sub(w.swept) > earlyFor {
		clear(w.early)
		w.swept = now
	}
	w.watches = slices.DeleteFunc(w.watches, func(watch *watch) bool { return watch.over })
	took := w.took
	w.took = nil
	slices.Sort(took)

	return took
}

// watch measures what something that was broken does to the payments of some partitions.
type watch struct {
	what         string // was broken
	began, ended time.Time
	partitions   []int32             // nil: all
	last         map[int32]time.Time // settlement, by partition
	standstill   time.Duration       // the longest time in which one of the partitions settled nothing
	over         bool
}

// aftermath is the time after a fault in which a standstill counts as its effect.
const aftermath = 2 * time.Second

// watchMax ends the watch of what nobody mends.
const watchMax = waitMax

// broke begins a watch. What is broken twice was mended in between.
func (w *waits) broke(what string, began time.Time, partitions []int32) *watch {
	w.mended(what)
	w.mu.Lock()
	defer w.mu.Unlock()
	one := &watch{what: what, began: began, partitions: partitions, last: map[int32]time.Time{}}
	w.watches = append(w.watches, one)
	w.watches = w.watches[max(0, len(w.watches)-storyMax):] // each is of a line of the story

	return one
}

// mended says that what was broken works again.
func (w *waits) mended(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, watch := range w.watches {
		if watch.what == what && watch.ended.IsZero() {
			watch.ended = time.Now()
		}
	}
}

func (w *watch) of(partition int32) bool {
	return w.partitions == nil || slices.Contains(w.partitions, partition)
}

// within reports whether the time is of the fault, or of its aftermath.
func (w *watch) within(at time.Time) bool {
	return w.ended.IsZero() || !at.After(w.ended.Add(aftermath))
}

// stood returns since when a partition stands: from its last settlement, or from the oldest order that waits.
// Without an order nothing can settle.
func (w *watch) stood(partition int32, oldest time.Time) time.Time {
	since := w.last[partition]
	for _, at := range []time.Time{w.began, oldest} {
		if at.After(since) {
			since = at
		}
	}

	return since
}

func (w *watch) settled(partition int32, at, oldest time.Time) {
	if !w.of(partition) || at.Before(w.began) {
		return
	}

	if since := w.stood(partition, oldest); w.within(since) {
		w.standstill = max(w.standstill, at.Sub(since))
	}
	w.last[partition] = at
}

// told returns what came of it until now, and whether that is all: the payments from before its end have ended.
func (w *waits) told(one *watch, now time.Time) (standstill time.Duration, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	standstill, over = one.standstill, !one.ended.IsZero() && now.Sub(one.ended) > 2*aftermath
	for partition := range w.lines {
		oldest := w.oldest(partition, now)
		if oldest.IsZero() || !one.of(partition) || !one.within(oldest) {
			continue
		}
		over = false

		if since := one.stood(partition, oldest); one.within(since) {
			standstill = max(standstill, now.Sub(since))
		}
	}
	one.over = over || now.Sub(one.began) > watchMax

	return standstill, one.over
}
