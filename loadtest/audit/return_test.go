package audit

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// The ids, chains and hashes of these histories are made by the services' packages, so every
// test here also compares the audit's own derivations with theirs.

// giver is a return, as the services see it.
type giver struct {
	h       *history
	id      pix.ReturnID
	content pix.ReturnContent
	payment pix.Content // the original's
	message *pixv1.PaymentOrder
}

const backCentavos = 300

// withReturns is the clean history with returns of settledOrder (alice paid bruno 1,000)
// and of sameBankOrder (alice paid clara 250).
func withReturns(t *testing.T) *history {
	h := clean(t)
	h.stamp()
	h.settled = h.giveBack(settledOrder, backCentavos)
	h.settled.settle(0)
	h.settled.report("")
	h.voided = h.giveBack(settledOrder, backCentavos)
	h.voided.hold(2) // the slot 1 is burnt
	h.voided.void(2, "AC06")
	h.voided.report("AC06")
	h.refused = h.giveBack(settledOrder, 900)
	h.refused.receipt("AM09", true)
	h.refused.report("AM09")
	h.sameBank = h.giveBack(sameBankOrder, 250)
	h.sameBank.settle(0)
	h.orders = append(h.orders, h.orders[len(h.orders)-1])
	h.stamp()

	return h
}

// stamp gives every transfer that has none its time by the ledger's clock.
func (h *history) stamp() {
	for i := range h.transfers {
		if h.transfers[i].Timestamp == 0 {
			h.transfers[i].Timestamp = uint64(h.now.UnixNano()) + uint64(i)
		}
	}
}

func (h *history) giveBack(order int, centavos uint64) *giver {
	o := h.message(order)
	original, err := pix.ParseEndToEndID(o.EndToEndId)
	kit.Must(h.t, err)
	payment := pix.Content{Payer: pix.AccountIn(o.Payer), Payee: pix.AccountIn(o.Payee),
		AmountCentavos: o.AmountCentavos}
	g := &giver{h, pix.NewReturnID(payment.Payee.ISPB, h.now, h.random),
		pix.ReturnContent{Original: original, AmountCentavos: centavos, Reason: pix.ReturnReasons[0]}, payment, nil}
	g.message = &pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
		ReturnId: g.id.String(), OriginalEndToEndId: original.String(), AmountCentavos: centavos,
		ReasonCode: g.content.Reason.String(), AcceptedAtUnixMs: h.now.UnixMilli(),
	}}
	g.append()

	return g
}

// unsaid returns a return that is in no record.
func (h *history) unsaid(order int) *giver {
	g := h.giveBack(order, 9)
	h.orders = h.orders[:len(h.orders)-1]
	return g
}

func (g *giver) append() {
	key := g.message.ReturnOrder.OriginalEndToEndId
	g.h.orders = append(g.h.orders,
		source.Record{Offset: int64(len(g.h.orders)), Time: g.h.now, Key: []byte(key), Value: encode(g.h.t, g.message)})
}

// write keeps a chain as the ledger does: a resolution takes from its pending what it leaves out.
func (h *history) write(chain []tb.Transfer) {
	for _, t := range chain {
		if t.PendingID != (tb.Uint128{}) {
			pending := *h.find(spec.NumberOf(t.PendingID))
			t.DebitAccountID, t.CreditAccountID, t.Amount = pending.DebitAccountID, pending.CreditAccountID,
				pending.Amount

			t.UserData128, t.UserData64, t.Ledger, t.Code = pending.UserData128, pending.UserData64, pending.Ledger,
				pending.Code
			if t.UserData32 == 0 {
				t.UserData32 = pending.UserData32
			}
		}

		flags := t.TransferFlags()
		if flags.BalancingDebit {
			from := h.accountOf(spec.NumberOf(t.DebitAccountID))

			free := spec.MoneyIn(from.CreditsPosted).Minus(spec.MoneyIn(from.DebitsPosted)).Minus(
				spec.MoneyIn(from.DebitsPending))
			if free.Less(spec.MoneyIn(t.Amount)) {
				t.Amount = spec.Number(free).TigerBeetle()
			}
		}

		if amount, _ := spec.Centavos(t.Amount); amount > 0 && !flags.Pending && !flags.VoidPendingTransfer {
			h.add(spec.NumberOf(t.DebitAccountID), int64(amount), 0)
			h.add(spec.NumberOf(t.CreditAccountID), 0, int64(amount))
		}
		h.transfers = append(h.transfers, t)
	}
	h.stamp()
}

func (g *giver) hold(slot int) {
	chain := ledger.AppendReturnReserve(nil, g.id, g.content, slot, g.payment, 60)
	if !slices.ContainsFunc(g.h.transfers, func(t tb.Transfer) bool { return t.ID == g.mark() }) {
		chain = ledger.AppendReturnedMark(chain, g.content.Original)
	}
	g.h.write(chain)
}
func (g *giver) burnt(slot int) []tb.Transfer {
	return ledger.AppendBurntMarks(nil, g.content.Original, ledger.BurntSlots(0).Add(slot))
}
func (g *giver) mark() tb.Uint128 { return ledger.ReturnedMark(g.content.Original) }
func (g *giver) post(slot int) {
	g.h.write(ledger.AppendReturnPost(nil, g.id, g.content, slot, g.payment.SameBank()))
}
func (g *giver) settle(slot int) {
	g.hold(slot)
	g.post(slot)
	g.report("")
}
func (g *giver) void(slot int, reason string) {
	g.h.write(ledger.AppendReturnVoid(nil, g.id, g.content, slot, g.payment.SameBank(), pix.MustReason(reason)))
}
func (g *giver) receipt(reason string, payerKnown bool) {
	before := len(g.h.transfers)
	g.h.write(ledger.AppendReturnReceipt(nil, g.id, g.content, pix.MustReason(reason), payerKnown))

	if at := verdictAt(g.message.ReturnOrder.AcceptedAtUnixMs, reason); at != 0 {
		g.h.transfers[before].Timestamp = at
	}
}

func (g *giver) report(reason string) {
	report := &pixv1.SettlementReport{
		EndToEndId: g.id.String(), OriginalEndToEndId: g.content.Original.String(),
		AmountCentavos: g.content.AmountCentavos,
		Status:         pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, ReasonCode: reason,
	}
	if reason == "" {
		report.Status, report.Payer, report.Payee = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC,
			accountMessage(g.payment.Payee), accountMessage(g.payment.Payer)
	}
	g.h.appendReport(report)
}

func (g *giver) dropReports() {
	g.h.reports = slices.DeleteFunc(g.h.reports, func(r source.Record) bool {
		return strings.Contains(string(r.Value), g.id.String())
	})
}

func (g *giver) drop(ids ...tb.Uint128) {
	g.h.transfers = slices.DeleteFunc(g.h.transfers, func(t tb.Transfer) bool { return slices.Contains(ids, t.ID) })
}

func (g *giver) ids(slot int) ledger.PaymentIDs { return ledger.ReturnIDs(g.content.Original, slot) }

// What may be beside a verdict: a hold that its timeout released, one of a conflicting
// message, a return of a payment that nobody knows, and marks of burnt slots.
func TestWhatMayBeBesideTheVerdictOfAReturn(t *testing.T) {
	h := withReturns(t)
	settled := h.settled
	expired := h.giveBack(settledOrder, 10)
	expired.hold(3)
	expired.receipt("AB03", true)
	expired.report("AB03")
	h.write(ledger.AppendBurntMarks(nil, settled.content.Original, ledger.BurntSlots(0).Add(7).Add(63)))
	conflict := *settled
	conflict.content.AmountCentavos++
	conflict.message = proto.Clone(settled.message).(*pixv1.PaymentOrder)
	conflict.message.ReturnOrder.AmountCentavos++
	conflict.append()
	h.letter(len(h.orders)-1, "DUPL")
	conflict.hold(4)
	unknown := h.giveBack(settledOrder, 10)
	unknown.content.Original[31] ^= 1
	unknown.message.ReturnOrder.OriginalEndToEndId = unknown.content.Original.String()
	h.orders = h.orders[:len(h.orders)-1]
	unknown.append()
	unknown.receipt("LQ04", false)
	unknown.report("LQ04")
	malformed := *settled
	malformed.message = proto.Clone(settled.message).(*pixv1.PaymentOrder)
	malformed.message.ReturnOrder.ReasonCode = "AB03"
	malformed.append()
	h.letter(len(h.orders)-1, "FF01")
	h.finds("beside verdicts", "", 0)
}

// Without its original nobody knows who is short of money for a return.
func TestAReturnOfNothingIsRefusedAsThat(t *testing.T) {
	for reason, wrong := range map[string]int{"LQ04": 0, "LQ01": 1, "AM04": 1, "AM09": 1} {
		h := withReturns(t)
		g := h.unsaid(settledOrder)
		g.content.Original[31] ^= 1
		g.message.ReturnOrder.OriginalEndToEndId = g.content.Original.String()
		g.append()
		g.receipt(reason, true)
		g.report(reason)
		h.finds(reason, WrongReason, wrong)
	}
}
