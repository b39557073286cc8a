package submission

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/query"
)

// sending is an order that may be sent.
type sending struct {
	*kgo.Record
	query.Order
	newID   bool         // made here: nobody has sent it before
	known   bool         // the ledger knows this order
	problem *web.Problem // nil: the ledger says nothing against it
}

// flights remembers the content of orders that were sent here, for the time until the ledger knows
// them. The ledger never knows a dead letter, so a flight ends after a time. They are between flightsMax and
// twice as many, and the oldest are forgotten: of what is forgotten, and of what another front door has
// sent, the engine makes a dead letter.
type flights struct {
	lasts time.Duration

	mu         sync.Mutex
	young, old map[pix.EndToEndID]flight
}

// flight is the orders that were sent with one id and one content.
type flight struct {
	content uint64    // its hash
	sent    time.Time // the latest
	orders  int
}

// flightsMax is some 13 s at the rate of one bank (CALLER_RATE_MAX), in 20 MB at most.
const flightsMax = 1 << 16

// take reports whether the order may be sent: nothing was sent with its id, or only the same.
func (f *flights) take(o query.Order, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	found, known := f.find(o.ID)
	switch {
	case !known || now.Sub(found.sent) > f.lasts:
		found = flight{content: o.Content.Hash()}
	case found.content != o.Content.Hash():
		return false
	}
	found.sent = now
	found.orders++
	f.keep(o.ID, found)

	return true
}

// forget is for an order that was taken and not sent. Others of its flight may be on their way.
func (f *flights) forget(o query.Order) {
	f.mu.Lock()
	defer f.mu.Unlock()

	found, known := f.find(o.ID)
	if !known || found.content != o.Content.Hash() {
		return
	}

	if found.orders--; found.orders > 0 {
		f.keep(o.ID, found)
		return
	}
	delete(f.young, o.ID)
	delete(f.old, o.ID)
}

// find and keep: the caller holds the lock.
func (f *flights) find(id pix.EndToEndID) (found flight, known bool) {
	if found, known = f.young[id]; !known {
		found, known = f.old[id]
	}

	return found, known
}

func (f *flights) keep(id pix.EndToEndID, is flight) {
	if _, known := f.young[id]; !known {
		delete(f.old, id)

		if len(f.young) >= flightsMax || f.young == nil {
			f.old, f.young = f.young, make(map[pix.EndToEndID]flight)
		}
	}
	f.young[id] = is
}

// compare asks the ledger what it knows of payments that their callers have named. Those with other content
// get a problem, or all of them if the ledger does not answer.
func (s *Submissions) compare(ctx context.Context, payments ...*sending) {
	named := slices.DeleteFunc(slices.Clone(payments), func(p *sending) bool { return p.newID })
	if len(named) == 0 {
		return
	}

	var orders []query.Order
	for _, payment := range named {
		orders = append(orders, payment.Order)
	}

	known, problem := s.ledger.KnowsPayments(ctx, s.permits, orders)
	if problem != nil {
		problem.Detail = "nothing was sent: " + problem.Detail
	}

	for i, payment := range named {
		switch {
		case problem != nil:
			payment.problem = problem
		case known[i] == query.KnowsSame:
			payment.known = true
		case known[i] == query.KnowsOther:
			payment.problem = query.KnownConflict(payment.ID.String())
		}
	}
}

// inFlight returns a problem if an order with this id and other content was sent here, and the ledger
// knows neither.
func (p *Publisher) inFlight(o *sending) *web.Problem {
	if o.known || p.flights.take(o.Order, time.Now()) {
		return nil
	}

	return query.FlightConflict(o.ID.String())
}
