package engine

import (
	"maps"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// returnRate bounds how often returns of one payment begin. Each costs a look-up of all slots
// of its payment, whatever becomes of it.
type returnRate struct {
	interval time.Duration                // between two returns of a payment, in the long run
	next     map[pix.EndToEndID]time.Time // when the next return of a payment would be in time
	sweepAt  int                          // size of next
}

// returnsAtOnce may begin at once: who fills all slots of a payment is not refused.
const returnsAtOnce = 2 * ledger.ReturnSlots

func newReturnRate(perSecond int) returnRate {
	return returnRate{interval: time.Second / time.Duration(perSecond), next: map[pix.EndToEndID]time.Time{}}
}

// allow reports whether a return of a payment may begin, and counts it.
func (r *returnRate) allow(original pix.EndToEndID, now time.Time) bool {
	at := r.next[original]
	if at.Before(now) {
		at = now
	}
	if at.Sub(now) >= returnsAtOnce*r.interval {
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
