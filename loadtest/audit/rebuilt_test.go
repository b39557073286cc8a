package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
	"github.com/liquida/liquida/platform/ledger"
)

// rebuilt returns the clean history as a ledger has it that was lost and built again.
func rebuilt(t *testing.T) *history {
	h := clean(t)
	h.rebuild()
	return h
}

// rebuild makes a history that of a ledger that was lost and built again. Holds that nothing has ended are not there,
// but for legs 4, which hold again. forward is what was reported since.
func (h *history) rebuild(forward ...func()) {
	ended := map[tb.Uint128]bool{}
	for _, t := range h.transfers {
		ended[t.PendingID] = true
	}
	var marker tb.Transfer
	var legs4 []tb.Transfer

	h.transfers = slices.DeleteFunc(h.transfers, func(t tb.Transfer) bool {
		open := t.TransferFlags().Pending && !ended[t.ID]
		if t.Code == spec.CodeMarker {
			marker = t
		} else if open && t.Code == spec.CodeCapLeg {
			t.Flags, t.Timestamp = tb.TransferFlags{Pending: true}.ToUint16(), 0
			legs4 = append(legs4, t)
		}

		return open || t.Code == spec.CodeMarker || t.Code == spec.CodeClockProbe
	})
	for i := range h.transfers {
		h.transfers[i].Flags |= spec.ImportedFlag
		h.transfers[i].Timeout = 0
	}
	h.stamp()
	h.now = h.now.Add(2 * time.Minute) // after the last deadline
	h.told(2)
	begin := len(h.transfers)

	for _, write := range forward {
		write()
	}

	for i := range h.transfers[begin:] {
		h.transfers[begin+i].Flags |= spec.ImportedFlag
		h.transfers[begin+i].Timeout = 0
	}
	h.told(3)
	h.transfers = append(h.transfers, legs4...)
	h.end(spec.CodeRebuilt, 13)
	marker.Timestamp = 0
	h.transfers = append(h.transfers, marker)
	h.end(spec.CodeConfirmed, 29)
}

// end appends what ends a rebuild.
func (h *history) end(code uint16, id uint64) {
	h.move(code, spec.Issuance, spec.Refusals, 0)
	h.transfers[len(h.transfers)-1].ID = tb.ToUint128(id)
}

// told appends what begins (2) or ends (3) what was told.
func (h *history) told(place uint64) {
	h.move(spec.CodeTold, spec.Issuance, spec.Refusals, 0)
	h.transfers[len(h.transfers)-1].Flags = spec.ImportedFlag
	h.transfers[len(h.transfers)-1].ID = spec.Number{High: 1, Low: place<<4 | 13}.TigerBeetle()
}

// A ledger that was built again is clean, and what looks like one and is none is found.
func TestARebuiltLedger(t *testing.T) {
	rebuilt(t).finds("built again", "", 0)

	for name, spoil := range map[string]func(*history){
		"imported after the end": func(h *history) {
			h.move(spec.CodeReturned, spec.Issuance, spec.Refusals, 0)
			h.transfers[len(h.transfers)-1].Flags = spec.ImportedFlag
		},
		"a hold without a timeout that was not imported": func(h *history) {
			h.transfer(settledOrder, 0).Flags &^= spec.ImportedFlag
		},
		"no end":                     func(h *history) { h.drop(spec.Number{Low: 13}); h.drop(spec.Number{Low: 29}) },
		"another end":                func(h *history) { h.end(spec.CodeRebuilt, 14) },
		"what was told has no end":   func(h *history) { h.drop(spec.Number{High: 1, Low: 61}) },
		"what was told has no begin": func(h *history) { h.drop(spec.Number{High: 1, Low: 45}) },
		"what was told and money":    func(h *history) { h.find(spec.Number{High: 1, Low: 61}).Amount = tb.ToUint128(1) },
		"what was told is of now":    func(h *history) { h.find(spec.Number{High: 1, Low: 45}).Flags = 0 },
		"an end and money":           func(h *history) { h.find(spec.Number{Low: 13}).Amount = tb.ToUint128(1) },
	} {
		h := rebuilt(t)
		if spoil(h); h.audit().Clean {
			t.Errorf("%s: it is clean", name)
		}
	}
	h := clean(t)
	h.end(spec.CodeRebuilt, 13)

	if h.audit().Clean {
		t.Error("the end of a rebuild where nothing was imported: it is clean")
	}
}

// What is rolled forward was begun before, when the bank was not suspended any more: that act is lost, and is done
// again.
func TestARolledForwardReturn(t *testing.T) {
	h := withRegister(t)
	h.at(0)
	h.act(spec.CodeSuspended, brunoBooks, tb.Transfer{})
	h.rebuild(func() {
		g := h.giveBack(settledOrder, backCentavos)
		g.hold(0)
		g.post(0)
		g.report("")
		h.stamp()
	})
	h.finds("rolled forward", "", 0)
}

func TestForgedNamesAreFound(t *testing.T) {
	h := clean(t)
	good := ledger.Origin{Log: 3, Partition: 1023, Offset: 9}.Transfer()
	h.transfers = append(h.transfers, good)
	h.finds("names of logs", "", 0)
	h = clean(t)

	h.transfers = append(h.transfers, good, ledger.GivenUp(3))
	if verdict := h.audit(); verdict.FindingCount != 1 ||
		!strings.Contains(verdict.Findings[0].Detail, "log 3 of pix.payments was given up") {
		t.Errorf("a log that was given up: %+v", verdict.Findings)
	}

	for _, spoil := range []func(*tb.Transfer){
		func(n *tb.Transfer) { n.Amount = tb.ToUint128(1) },
		func(n *tb.Transfer) { n.Code = spec.CodeGivenUp },
		func(n *tb.Transfer) { n.DebitAccountID, n.CreditAccountID = n.CreditAccountID, n.DebitAccountID },
		func(n *tb.Transfer) { n.ID = tb.ToUint128(1<<36 | 2<<4 | 14) },
		func(n *tb.Transfer) { n.ID = ledger.OriginID(0, 3) },
	} {
		h := clean(t)
		forged := good
		spoil(&forged)
		h.transfers = append(h.transfers, forged)
		h.finds(forged, UnexplainedMoney, 1)
	}
}
