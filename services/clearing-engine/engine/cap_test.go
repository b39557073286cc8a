package engine

import (
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// A leg 4 that cannot be voided any more does not keep the money of a rejected payment.
func TestAVoidGoesOnWithoutItsLeg4(t *testing.T) {
	order := pays(fixedID(1), payee, 100, 0)
	p := plot{name: "leg 4 is voided already", messages: []*message{order}, times: []time.Duration{0}, answers: 1,
		outflowCap: 150, fundCentavos: 500}
	s := p.begin(t)
	released := false

	for steps := 0; !s.hasEnded(); steps++ {
		moves := s.moves()
		if len(moves) == 0 || steps == 100 {
			t.Fatalf("the order does not end, after %d steps", steps)
		}

		m := moves[0]
		for _, other := range moves { // the bank rejects as soon as it can
			if other.kind == hears && !other.accepted && s.said == 0 {
				m = other
			}
		}

		if a := s.engines[0]; m.kind == carries && a.jobs[m.job].event.kind == written &&
			a.jobs[m.job].event.flight.writing == chainVoid && !released {
			released = true

			failures, err := s.ledger.ConnectAt(s.now).CreateTransfers(
				ledger.AppendCapRelease(nil, order.id, pix.ReasonPayeeBlocked))
			if err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
		}

		if s = s.after(m, true); s.broken != "" {
			t.Fatal(s.broken)
		}
	}
	ids := ledger.IDsOf(order.id)

	found, _ := s.ledger.ConnectAt(s.now).LookupTransfers(
		[]tb.Uint128{ids.Resolution(1), ids.Resolution(2), ids.Resolution(3)})
	if !released || len(found) != 3 || s.books.orders[order.id].reason != pix.ReasonPayeeBlocked {
		t.Errorf("released %t, %d voids, verdict %+v", released, len(found), s.books.orders[order.id])
	}
}
