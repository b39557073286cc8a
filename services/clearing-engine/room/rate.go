package room

import (
	"maps"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Rate bounds how often returns of one payment begin. Each costs a look-up of all slots
// of its payment, whatever becomes of it.
type Rate struct {
	interval time.Duration                // between two returns of a payment, in the long run
	atOnce   time.Duration                // by so much it may be ahead
	next     map[pix.EndToEndID]time.Time // when the next return of a payment would be in time
	sweepAt  int                          // size of next
}

// NewRate returns a rate. So many returns of a payment may begin at once.
func NewRate(perSecond, atOnce int) Rate {
	interval := time.Second / time.Duration(perSecond)
	return Rate{interval: interval, atOnce: time.Duration(atOnce) * interval, next: map[pix.EndToEndID]time.Time{}}
}

// Allow reports whether a return of a payment may begin, and counts it.
func (r *Rate) Allow(original pix.EndToEndID, now time.Time) bool {
	at := r.next[original]
	if at.Before(now) {
		at = now
	}

	if at.Sub(now) >= r.atOnce {
		return false
	}

	r.next[original] = at.Add(r.interval)
	if len(r.next) >= r.sweepAt {
		maps.DeleteFunc(r.next, func(_ pix.EndToEndID, at time.Time) bool { return !at.After(now) })
		const least = 1024
		r.sweepAt = max(least, 2*len(r.next))
	}

	return true
}
