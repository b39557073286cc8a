package room

import (
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Pace is how long each hop of an order takes now. A deadline that passes is no hop, so a
// silent bank does not count.
type Pace struct{ Hold, Answer, Resolve, Report Usual }

// Need returns how long a new order needs, at most half of the deadline: orders younger than
// that always begin, so after an outage the measure becomes short again.
func (p *Pace) Need(deadline time.Duration) time.Duration {
	return min(p.Hold.most()+p.Answer.most()+p.Resolve.most()+p.Report.most(), deadline/2)
}

// TooLate reports whether an order is too old to end in time. To hold its money would only keep
// younger ones waiting, until none ends in time.
func (p *Pace) TooLate(order *pix.Order, deadline time.Duration, now time.Time) bool {
	return now.Sub(order.AcceptedAt) > deadline-p.Need(deadline)
}

// Usual follows how long a hop usually takes.
type Usual struct{ mean, deviation time.Duration }

// Observe takes how long the hop took.
func (u *Usual) Observe(took time.Duration) {
	if *u == (Usual{}) {
		u.mean, u.deviation = took, took/2
		return
	}
	const gain = 64 // orders until a change counts for two thirds
	off := took - u.mean
	u.mean += off / gain
	u.deviation += (off.Abs() - u.deviation) / gain
}

// most is what few hops exceed.
func (u *Usual) most() time.Duration { return u.mean + 4*u.deviation }
