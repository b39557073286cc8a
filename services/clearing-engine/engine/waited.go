package engine

import (
	"slices"
	"time"
)

// waited measures for how long the next record of a partition has waited, by this machine's clock:
// since it first saw an end above that record. A record may bear any timestamp.
type waited struct {
	ends   []endSeen
	before endSeen // the next record, and for how long it had waited, when that was compared last
	age    time.Duration
}

type endSeen struct {
	at     time.Time
	offset int64
}

// endsMax bounds the ends that are remembered.
const endsMax = 64

// observe notes which record is next, and the end of what may be read.
func (w *waited) observe(next, end int64, deadline time.Duration, now time.Time) {
	w.ends = slices.DeleteFunc(w.ends, func(end endSeen) bool { return end.offset <= next })
	if n := len(w.ends); end > next && n < endsMax && (n == 0 || now.Sub(w.ends[n-1].at) >= deadline/endsMax) {
		w.ends = append(w.ends, endSeen{now, end})
	}
}

// younger returns the first offset of younger records, if the next one has waited for nearly as
// long as it may, limit, and the one before it for less. After an outage they wait less and less,
// so they end in time, and none is overtaken.
func (w *waited) younger(next int64, limit, deadline time.Duration, now time.Time) (to int64, found bool) {
	if now.Sub(w.before.at) < deadline/8 {
		return 0, false
	}

	age := time.Duration(0)
	if len(w.ends) > 0 {
		age = now.Sub(w.ends[0].at)
	}
	grows := age >= w.age && next > w.before.offset

	w.before, w.age = endSeen{now, next}, age
	if !grows || age < limit-limit/8 {
		return 0, false
	}

	for _, end := range w.ends {
		if now.Sub(end.at) >= deadline/4 {
			to = end.offset
		}
	}

	return to, to > next
}
