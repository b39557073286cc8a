package submission

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/query"
)

// sending is an order that may be sent.
type sending struct {
	*kgo.Record
	query.Order
	newID bool // made here: nobody has sent it before
	known bool // the ledger knows this order
}

// flights remembers the content of orders that were sent here, for the time until the ledger knows
// them. It holds between flightsMax and twice as many, and forgets the oldest: of what it has
// forgotten, and of what another front door has sent, the engine makes a dead letter.
type flights struct {
	mu         sync.Mutex
	young, old map[pix.EndToEndID]uint64 // hash of the content
}

// flightsMax is some 13 s at the rate of one bank (CALLER_RATE_MAX), in 10 MB at most.
const flightsMax = 1 << 16

// take reports whether the order may be sent: nothing was sent with its id, or only the same.
func (f *flights) take(o query.Order) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, known := f.young[o.ID]
	if !known {
		content, known = f.old[o.ID]
	}
	if known {
		return content == o.Content.Hash()
	}
	if len(f.young) >= flightsMax || f.young == nil {
		f.old, f.young = f.young, make(map[pix.EndToEndID]uint64)
	}
	f.young[o.ID] = o.Content.Hash()
	return true
}

// forget is for an order that was not sent.
func (f *flights) forget(id pix.EndToEndID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.young, id)
	delete(f.old, id)
}

// compare asks the ledger what it knows of payments that their callers have named. It returns the problems
// of those with other content, or of all if the ledger does not answer, by their place.
func (s *Submissions) compare(ctx context.Context, payments []*sending) map[int]*web.Problem {
	var orders []query.Order
	var places []int
	for i, payment := range payments {
		if !payment.newID {
			orders, places = append(orders, payment.Order), append(places, i)
		}
	}
	if len(orders) == 0 {
		return nil
	}
	problems := map[int]*web.Problem{}
	known, problem := s.ledger.KnowsPayments(ctx, s.permits, orders)
	if problem != nil {
		problem.Detail = "nothing was sent: " + problem.Detail
		for _, place := range places {
			problems[place] = problem
		}
		return problems
	}
	for i, knows := range known {
		switch payment := payments[places[i]]; knows {
		case query.KnowsSame:
			payment.known = true
		case query.KnowsOther:
			problems[places[i]] = query.KnownConflict(payment.ID.String())
		}
	}
	return problems
}

// inFlight returns a problem if an order with this id and other content was sent here, and the ledger
// knows neither.
func (p *Publisher) inFlight(o *sending) *web.Problem {
	if o.known || p.flights.take(o.Order) {
		return nil
	}
	return query.FlightConflict(o.ID.String())
}
