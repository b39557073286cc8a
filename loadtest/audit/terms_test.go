package audit

import (
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// The clean history is of a night in São Paulo.
const (
	byNight       = 1
	windowSeconds = 600
)

// at moves the clock to a time after the register began.
func (h *history) at(after time.Duration) {
	h.stamp()
	h.now = time.Date(2026, 5, 4, 4, 0, 0, 0, time.UTC).Add(after)
}

// refuse adds an order and, a while later, its receipt.
func (h *history) refuse(reason string, centavos uint64, late time.Duration) {
	o := h.order(alice, bruno, centavos)
	h.receipt(o, reason, spec.TransitOf(idOf(alice)), spec.ReserveOf(idOf(alice)))
	h.last(1).Timestamp = uint64(h.now.Add(late).UnixNano())
	h.report(o, reason)
}

// cap adds the act that caps the outflow of alice's bank, with its adjustment.
func (h *history) cap(centavos uint64, changes ...func(adjustment *tb.Transfer)) {
	h.act(spec.CodeNightCap, aliceBooks, tb.Transfer{UserData64: centavos, UserData32: windowSeconds})

	if centavos > 0 {
		h.adjust(centavos, centavos, changes...)
	}
}

// adjust adds an adjustment of the allowance right behind the act that caps it, as the services write it.
func (h *history) adjust(centavos, said uint64, changes ...func(adjustment *tb.Transfer)) {
	h.last(1).Flags, h.last(1).UserData64 = spec.LinkedFlag, said

	chain := ledger.GrantOf(*h.accountOf(spec.AllowanceOf(aliceBooks, byNight))).AppendAdjustment(nil, int64(centavos))
	for i := range chain {
		chain[i].Timestamp, chain[i].UserData64 = h.last(1).Timestamp+uint64(i)+1, said
		for _, change := range changes {
			change(&chain[i])
		}
	}
	h.write(chain)
}

// capped holds an order with leg 4.
func (h *history) capped(o *pixv1.PaymentOrder) {
	h.stamp()
	id, err := pix.ParseEndToEndID(o.EndToEndId)
	kit.Must(h.t, err)
	content := pix.Content{Payer: pix.AccountIn(o.Payer), Payee: pix.AccountIn(o.Payee),
		AmountCentavos: o.AmountCentavos}

	chain := ledger.AppendCap(ledger.AppendReserve(nil, id, content, 60), id, content, ledger.Night, windowSeconds)
	for i := range chain {
		chain[i].Timestamp = uint64(h.now.UnixNano()) + uint64(len(h.transfers)+i)
	}
	h.write(chain)
}

func (h *history) voidCapLeg(o *pixv1.PaymentOrder) {
	id, err := pix.ParseEndToEndID(o.EndToEndId)
	kit.Must(h.t, err)
	h.write(ledger.AppendCapRelease(nil, id, pix.MustReason("AC06")))
}

// settle settles an order of alice's, with leg 4.
func (h *history) settle(centavos uint64) *pixv1.PaymentOrder {
	o := h.order(alice, bruno, centavos)
	h.capped(o)
	h.post(o, 1, 2, 3)
	h.report(o, "")

	return o
}

// begin holds an order without leg 4, and settles it.
func (h *history) begin(centavos uint64) {
	o := h.order(alice, bruno, centavos)
	h.hold(o, 1, 2, 3)
	h.stamp()
	h.post(o, 1, 2, 3)
	h.report(o, "")
}

func TestTermsAreJudged(t *testing.T) {
	suspend := func(h *history) { h.act(spec.CodeSuspended, brunoBooks, tb.Transfer{}) }
	resume := func(h *history) { h.act(spec.CodeResumed, brunoBooks, tb.Transfer{}) }
	capAt := func(centavos uint64) func(h *history) {
		return func(h *history) { h.act(spec.CodePaymentCap, aliceBooks, tb.Transfer{UserData64: centavos}) }
	}
	refused := func(reason string, centavos uint64) func(h *history) {
		return func(h *history) { h.refuse(reason, centavos, time.Second) }
	}
	begun := func(centavos uint64) func(h *history) { return func(h *history) { h.begin(centavos) } }
	outflowAt := func(centavos uint64) func(h *history) { return func(h *history) { h.cap(centavos) } }
	settled := func(centavos uint64) func(h *history) { return func(h *history) { h.settle(centavos) } }
	type step struct {
		at time.Duration
		do func(h *history)
	}

	second := time.Second
	for _, c := range []struct {
		name  string
		steps []step
		kind  string // of the one finding; empty: clean
	}{
		{"refused while suspended", []step{{0, suspend}, {10 * second, refused("DS27", 5)}}, ""},
		{"refused long after the resumption",
			[]step{{0, suspend}, {10 * second, resume}, {15 * second, refused("DS27", 5)}}, WrongReason},
		{"refused before the suspension", []step{{0, refused("DS27", 5)}, {10 * second, suspend}}, WrongReason},
		{"begun long after the suspension", []step{{0, suspend}, {6 * second, begun(5)}}, BeyondTerms},
		{"begun long after the suspension, by an engine that was frozen",
			[]step{{0, suspend}, {6 * second, func(h *history) {
				h.begin(5)
				h.config.LateRequests = []Interval{{h.now.Add(-10 * second), h.now.Add(-2 * second)}}
			}}}, ""},
		{"begun four seconds after an engine was frozen", []step{{0, suspend}, {30 * second, func(h *history) {
			h.begin(5)
			h.config.LateRequests = []Interval{{h.now.Add(-35 * second), h.now.Add(-4 * second)}}
		}}}, BeyondTerms},

		{"above the cap on a payment", []step{{0, capAt(100)}, {10 * second, refused("AM13", 101)}}, ""},
		{"above a cap that was lifted",
			[]step{{0, capAt(100)}, {10 * second, capAt(0)}, {16 * second, refused("AM13", 101)}}, WrongReason},
		{"begun above the cap on a payment", []step{{0, capAt(100)}, {6 * second, begun(101)}}, BeyondTerms},

		{"outflow within its cap",
			[]step{{0, outflowAt(100)}, {10 * second, settled(60)}, {10 * second, settled(40)}}, ""},
		{"refused above what is left of the cap",
			[]step{{0, outflowAt(100)}, {10 * second, settled(60)}, {20 * second, refused("LQ12", 41)}}, ""},
		{"refused within what is left of the cap",
			[]step{{0, outflowAt(100)}, {10 * second, settled(60)}, {20 * second, refused("LQ12", 40)}}, WrongReason},
		{"refused after the window", []step{{0, outflowAt(100)}, {10 * second, settled(60)},
			{windowSeconds*second + 80*second, refused("LQ12", 41)}}, WrongReason},
		{"outflow without leg 4", []step{{0, outflowAt(100)}, {10 * second, begun(5)}}, WrongAllowance},
		{"a cap is lowered", []step{{0, outflowAt(100)}, {10 * second, settled(60)}, {20 * second, func(h *history) {
			h.accountOf(spec.AllowanceOf(aliceBooks, byNight)).DebitsPending = tb.ToUint128(60)
			h.cap(30)
		}}, {30 * second, refused("LQ12", 1)}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := withRegister(t)
			for _, step := range c.steps {
				h.at(step.at)
				step.do(h)
			}

			if c.kind == "" {
				h.finds(c.name, "", 0)
				h.rebuild()
				h.finds("built again", "", 0)
			} else if verdict := h.audit(); verdict.Clean || verdict.ByKind[c.kind] != verdict.FindingCount {
				t.Errorf("there must be %q: %+v", c.kind, verdict.Findings)
			}
		})
	}
}

func TestDayAndNight(t *testing.T) {
	for text, want := range map[string][]int{
		"2026-11-23T05:59:00-03:00": {1}, "2026-11-23T05:59:59-03:00": {1, 0}, "2026-11-23T06:00:05-03:00": {0},
		"2026-11-23T19:59:57-03:00": {0}, "2026-11-23T20:00:00-03:00": {0, 1}, "2026-11-23T20:00:03-03:00": {1},
		"2026-11-23T23:30:00-03:00": {1},
	} {
		at, err := time.Parse(time.RFC3339, text)
		kit.Must(t, err)

		got := windowsBetween(uint64(at.UnixNano()), uint64(at.UnixNano()))
		if len(got) != len(want) || got[0] != want[0] {
			t.Errorf("%s: %v, it must be %v", text, got, want)
		}
	}

	from := uint64(time.Date(2026, 11, 23, 8, 59, 0, 0, time.UTC).UnixNano()) // 05:59
	if got := windowsBetween(from, from+uint64(15*time.Hour)); len(got) != 2 {
		t.Error(got)
	}
}
