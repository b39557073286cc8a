package ledgerfacts

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

var givenBack = pix.ReturnReasons[0] // MD06

func newReturnID(t testing.TB, psp pix.ISPB) pix.ReturnID {
	t.Helper()
	id, err := pix.ParseReturnID("D" + newID(t, psp).String()[1:])
	kit.Must(t, err)
	return id
}

// repayment is a return with all that a test needs to know about it.
type repayment struct {
	id      pix.ReturnID
	content pix.ReturnContent
	of      *payment
}

func (p *payment) giveBack(t testing.TB, centavos uint64) *repayment {
	return &repayment{newReturnID(t, p.content.Payee.ISPB), pix.ReturnContent{Original: p.id, AmountCentavos: centavos, Reason: givenBack}, p}
}

func (g *repayment) reserve(slot int) []tb.Transfer {
	return ledger.AppendReturnedMark(ledger.AppendReturnReserve(nil, g.id, g.content, slot, g.of.content, g.of.timeout), g.content.Original)
}
func (g *repayment) post(slot int) []tb.Transfer {
	return ledger.AppendReturnPost(nil, g.id, g.content, slot, g.of.content.SameBank())
}
func (g *repayment) void(slot int, reason pix.Reason) []tb.Transfer {
	return ledger.AppendReturnVoid(nil, g.id, g.content, slot, g.of.content.SameBank(), reason)
}
func (g *repayment) receipt(reason pix.Reason) []tb.Transfer {
	return ledger.AppendReturnReceipt(nil, g.id, g.content, reason, true)
}

func (b *engine) lookup(t testing.TB, ids []tb.Uint128) []tb.Transfer {
	t.Helper()
	reply := make(chan []tb.Transfer, 1)
	b.reader.Read(reply, ids)
	return receive(t, b, reply)
}

func (b *engine) returnTrace(t testing.TB, g *repayment) ledger.ReturnTrace {
	t.Helper()
	return ledger.ReturnTraceOf(g.id, g.content, b.lookup(t, ledger.AppendReturnTraceIDs(nil, g.id, g.content.Original)))
}

// The results of the chains of a return of a settled payment.
func TestAnswersToReturns(t *testing.T) {
	for name, steps := range map[string]func(t *testing.T, p *payment){
		"part of it, and everything again": func(t *testing.T, p *payment) {
			g := p.giveBack(t, 40)
			run(t, step{g.reserve(0), ok, 0}, step{g.reserve(0), tb.TransferExists, 0}, step{g.post(0), ok, 0},
				step{g.post(0), tb.TransferExists, 0}, step{g.reserve(0), tb.TransferExists, 0})
			p.checkMoney(t, 0, amount-40)
		},
		"a void after the post, and a receipt": func(t *testing.T, p *payment) {
			g := p.giveBack(t, 40)
			run(t, step{g.reserve(0), ok, 0}, step{g.post(0), ok, 0},
				step{g.void(0, silent), tb.TransferExistsWithDifferentUserData32, 0},
				step{g.receipt(silent), tb.TransferExistsWithDifferentFlags, 0})
			p.checkMoney(t, 0, amount-40)
		},
		"a post after the receipt changes nothing": func(t *testing.T, p *payment) {
			g := p.giveBack(t, 40)
			run(t, step{g.reserve(0), ok, 0}, step{g.receipt(silent), ok, 0}, step{g.receipt(silent), tb.TransferExists, 0},
				step{g.post(0), tb.TransferExistsWithDifferentFlags, 0}, step{g.void(0, silent), tb.TransferExistsWithDifferentFlags, 0})
			p.checkMoney(t, -40, amount)
		},
		"voided": func(t *testing.T, p *payment) {
			g := p.giveBack(t, 40)
			run(t, step{g.reserve(0), ok, 0}, step{g.void(0, closed), ok, 0}, step{g.void(0, closed), tb.TransferExists, 0},
				step{g.post(0), tb.TransferExistsWithDifferentUserData32, 0})
			p.checkMoney(t, 0, amount)
		},
		"another return in the same slot": func(t *testing.T, p *payment) {
			run(t, step{p.giveBack(t, 40).reserve(0), ok, 0}, step{p.giveBack(t, 40).reserve(0), tb.TransferExistsWithDifferentUserData128, 0})
			p.checkMoney(t, -40, amount)
		},
		"refused, and marks say so, once": func(t *testing.T, p *payment) {
			g, other := p.giveBack(t, amount+deposit+1), p.giveBack(t, 1)
			marks := func(chain []tb.Transfer, slots ledger.BurntSlots) []tb.Transfer {
				return ledger.AppendBurntMarks(chain, p.id, slots)
			}
			first := ledger.BurntSlots(0).Add(0)
			run(t, step{g.reserve(0), tb.TransferExceedsCredits, 0}, step{marks(g.receipt(silent), first), ok, 0},
				step{marks(g.receipt(silent), first.Add(1)), tb.TransferExists, 0}, // a redelivery adds the missing one
				step{marks(other.reserve(2), first.Add(3)), ok, 0})
			if trace := shared.returnTrace(t, p.giveBack(t, 1)); trace.Burnt() != first.Add(1).Add(3) {
				t.Errorf("marked as burnt: %b", trace.Burnt())
			}
			p.checkMoney(t, -1, amount)
		},
		"refused, and nobody can have the slot": func(t *testing.T, p *payment) {
			g, other := p.giveBack(t, amount+deposit+1), p.giveBack(t, 1)
			run(t, step{g.reserve(0), tb.TransferExceedsCredits, 0}, step{other.reserve(0), tb.TransferIDAlreadyFailed, 0}, step{other.reserve(1), ok, 0})
			p.checkMoney(t, -1, amount)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPayment(t)
			run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0})
			steps(t, p)
		})
	}
}

func TestAnExpiredReturnLeavesAReceipt(t *testing.T) {
	p := newPayment(t)
	run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0})
	p.timeout = shortTimeout
	g := p.giveBack(t, 40)
	run(t, step{g.reserve(0), ok, 0})
	(&payment{p.id, ledger.Backwards(p.content, 40), shortTimeout}).waitUntilExpired(t)
	// The verdict is before the legs in the chain, so leg 1 has the status.
	run(t, step{g.post(0), tb.TransferPendingTransferExpired, 1})
	// Until a verdict says so, the money does not count as free: only the ledger's clock knows.
	other := p.giveBack(t, amount)
	trace := shared.returnTrace(t, other)
	if left := trace.Left(shared.lookup(t, trace.AppendOthers(nil))); left != amount-40 {
		t.Fatalf("%d is left without a verdict", left)
	}
	run(t, step{g.receipt(silent), ok, 0})
	if left := trace.Left(shared.lookup(t, trace.AppendOthers(nil))); left != amount {
		t.Fatalf("%d is left, want all", left)
	}
	p.checkMoney(t, 0, amount)
}

// end is how a return ended, as one engine saw it.
type end struct {
	settled bool
	reason  pix.Reason
}

// clear does with a return what an engine does: it reads the slots, and takes the first free one if
// enough is left. accept is the receiving bank's response.
func (b *engine) clear(t testing.TB, g *repayment, accept bool) end {
	var burnt ledger.BurntSlots
	for {
		trace := b.returnTrace(t, g)
		if verdict, decided := trace.Verdict(); decided {
			return end{verdict.Settled, verdict.Reason}
		}
		slot, held := trace.Slot()
		refusal := pix.ReasonNone
		if !held {
			var free bool
			if slot, free = trace.FreeSlot(burnt); !free {
				refusal = pix.ReasonReturnsUsedUp
			} else if trace.Left(b.lookup(t, trace.AppendOthers(nil))) < g.content.AmountCentavos {
				refusal = pix.ReasonReturnExceeds
			} else {
				switch answer := b.write(t, g.reserve(slot)); {
				case answer.OK():
				case answer.Exists():
					continue // another return took it, or an earlier try of this one
				case answer.Status == tb.TransferIDAlreadyFailed:
					burnt = burnt.Add(slot)
					continue
				case answer.Status == tb.TransferExceedsCredits:
					refusal = pix.ReasonPayerShort
				default:
					t.Errorf("phase 1 of a return: %+v", answer)
					return end{}
				}
			}
		}
		chain := g.post(slot)
		switch {
		case refusal != pix.ReasonNone:
			chain = g.receipt(refusal)
		case !accept:
			chain = g.void(slot, closed)
		}
		if answer := b.write(t, chain); !answer.OK() && (!answer.Exists() || answer.Index != 0) {
			t.Errorf("phase 2 of a return: %+v", answer)
			return end{}
		}
	}
}

// Several engines at once clear each of many returns of one payment, without knowing of each other.
// The bank rejects some, and for some the payee is short of money. No more than was paid is ever
// given back, every engine sees the same end of each return, and each is in one slot.
func TestNoMoreIsGivenBackThanWasPaidWhoeverRaces(t *testing.T) {
	for round := range 20 {
		random := rand.New(rand.NewPCG(uint64(round), 77))
		poor := round%2 == 1
		payer, payeeBank := newCustomer(t, newPSP(t, reserve), deposit), newPSP(t, reserve)
		payee := newCustomer(t, payeeBank, 1)
		if round%4 >= 2 {
			payee = newCustomer(t, payer.ISPB, 1)
		}
		p := newPaymentBetween(t, payer, payee)
		run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0})
		owns := int64(amount + 1)
		if poor {
			spent := newPaymentBetween(t, payee, newCustomer(t, payeeBank, 1))
			spent.content.AmountCentavos = 60
			run(t, step{spent.reserve(), ok, 0}, step{spent.post(), ok, 0})
			owns -= 60
		}
		engines := []*engine{open(ledger.BatchConfig{EventsMax: 8189, InFlightMax: 1}), open(ledger.BatchConfig{EventsMax: 200, InFlightMax: 2}), shared}
		const returns = 10
		var ends [returns][]end
		repayments := [returns]*repayment{}
		var all sync.WaitGroup
		for i := range returns {
			g, accept := p.giveBack(t, 1+random.Uint64N(60)), random.IntN(4) > 0
			repayments[i], ends[i] = g, make([]end, len(engines))
			for k, b := range engines {
				all.Go(func() { ends[i][k] = b.clear(t, g, accept) })
			}
		}
		all.Wait()
		engines[0].close()
		engines[1].close()
		if t.Failed() {
			return
		}
		var back uint64
		slots := map[int]pix.ReturnID{}
		summary := ""
		for i, g := range repayments {
			for _, end := range ends[i] {
				if end != ends[i][0] {
					t.Fatalf("round %d: one engine saw %+v, another %+v", round, ends[i][0], end)
				}
			}
			summary += fmt.Sprintf(" %d:%t%s", g.content.AmountCentavos, ends[i][0].settled, ends[i][0].reason)
			if ends[i][0].settled {
				back += g.content.AmountCentavos
			}
			trace := shared.returnTrace(t, g)
			if slot, held := trace.Slot(); held {
				if before, taken := slots[slot]; taken {
					t.Fatalf("round %d: %s and %s are in the slot %d", round, before, g.id, slot)
				}
				slots[slot] = g.id
			} else if ends[i][0].settled {
				t.Fatalf("round %d: %s settled without a slot", round, g.id)
			}
		}
		t.Logf("round %d, %d of %d given back:%s", round, back, amount, summary)
		if marked := len(shared.lookup(t, []tb.Uint128{ledger.ReturnedMark(p.id)})) == 1; !marked {
			t.Fatalf("round %d: the payment is not marked, and %d returns are in its slots", round, len(slots))
		}
		if back > amount || int64(back) > owns {
			t.Fatalf("round %d: %d given back of %d, the payee had %d", round, back, amount, owns)
		}
		if got := balancesOf(t, ledger.CustomerAccount(payee), ledger.CustomerAccount(payer)); got[0].posted != owns-int64(back) || got[1].posted != deposit-amount+int64(back) {
			t.Fatalf("round %d: %+v after %d was given back", round, got, back)
		}
	}
}

// A payment has 64 slots and no more.
func TestTheSlotsOfAPaymentAreUsedUp(t *testing.T) {
	p := newPayment(t)
	run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0})
	for i := range ledger.ReturnSlots {
		if end := shared.clear(t, p.giveBack(t, 1), true); !end.settled {
			t.Fatalf("return %d: %+v", i+1, end)
		}
	}
	if end := shared.clear(t, p.giveBack(t, 1), true); end.reason != pix.ReasonReturnsUsedUp {
		t.Fatalf("%+v", end)
	}
	p.checkMoney(t, 0, amount-ledger.ReturnSlots)
}
