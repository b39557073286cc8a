package engine

import (
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// pace is how long each hop of an order takes now. A deadline that passes is no hop, so a
// silent bank does not count.
type pace struct{ hold, answer, resolve, report usual }

// need returns how long a new order needs, at most half of the deadline: orders younger than
// that always begin, so after an outage the measure becomes short again.
func (p *pace) need(deadline time.Duration) time.Duration {
	return min(p.hold.most()+p.answer.most()+p.resolve.most()+p.report.most(), deadline/2)
}

// tooLate reports whether an order is too old to end in time. To hold its money would only keep
// younger ones waiting, until none ends in time.
func (p *pace) tooLate(order *pix.Order, deadline time.Duration, now time.Time) bool {
	return now.Sub(order.AcceptedAt) > deadline-p.need(deadline)
}

// usual follows how long a hop usually takes.
type usual struct{ mean, deviation time.Duration }

func (u *usual) observe(took time.Duration) {
	if *u == (usual{}) {
		u.mean, u.deviation = took, took/2
		return
	}
	const gain = 64 // orders until a change counts for two thirds
	off := took - u.mean
	u.mean += off / gain
	u.deviation += (off.Abs() - u.deviation) / gain
}

// most is what few hops exceed.
func (u *usual) most() time.Duration { return u.mean + 4*u.deviation }
