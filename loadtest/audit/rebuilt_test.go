package audit

import (
	"slices"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
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
		if t.Code == codeMarker {
			marker = t
		} else if open && t.Code == codeCapLeg {
			t.Flags, t.Timestamp = tb.TransferFlags{Pending: true}.ToUint16(), 0
			legs4 = append(legs4, t)
		}

		return open || t.Code == codeMarker || t.Code == codeClockProbe
	})
	for i := range h.transfers {
		h.transfers[i].Flags |= importedFlag
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
		h.transfers[begin+i].Flags |= importedFlag
		h.transfers[begin+i].Timeout = 0
	}
	h.told(3)
	h.transfers = append(h.transfers, legs4...)
	h.end(codeRebuilt, 13)
	marker.Timestamp = 0
	h.transfers = append(h.transfers, marker)
	h.end(codeConfirmed, 29)
}

// end appends what ends a rebuild.
func (h *history) end(code uint16, id uint64) {
	h.move(code, issuance, refusals, 0)
	h.transfers[len(h.transfers)-1].ID = tb.ToUint128(id)
}

// told appends what begins (2) or ends (3) what was told.
func (h *history) told(place uint64) {
	h.move(codeTold, issuance, refusals, 0)
	h.transfers[len(h.transfers)-1].Flags = importedFlag
	h.transfers[len(h.transfers)-1].ID = number128{high: 1, low: place<<4 | 13}.toTigerBeetle()
}

// A ledger that was built again is clean, and what looks like one and is none is found.
func TestARebuiltLedger(t *testing.T) {
	rebuilt(t).finds("built again", "", 0)

	for name, spoil := range map[string]func(*history){
		"imported after the end": func(h *history) {
			h.move(codeReturned, issuance, refusals, 0)
			h.transfers[len(h.transfers)-1].Flags = importedFlag
		},
		"a hold without a timeout that was not imported": func(h *history) {
			h.transfer(settledOrder, 0).Flags &^= importedFlag
		},
		"no end":                     func(h *history) { h.drop(number128{low: 13}); h.drop(number128{low: 29}) },
		"another end":                func(h *history) { h.end(codeRebuilt, 14) },
		"what was told has no end":   func(h *history) { h.drop(number128{high: 1, low: 61}) },
		"what was told has no begin": func(h *history) { h.drop(number128{high: 1, low: 45}) },
		"what was told and money":    func(h *history) { h.find(number128{high: 1, low: 61}).Amount = tb.ToUint128(1) },
		"what was told is of now":    func(h *history) { h.find(number128{high: 1, low: 45}).Flags = 0 },
		"an end and money":           func(h *history) { h.find(number128{low: 13}).Amount = tb.ToUint128(1) },
	} {
		h := rebuilt(t)
		if spoil(h); h.audit().Clean {
			t.Errorf("%s: it is clean", name)
		}
	}
	h := clean(t)
	h.end(codeRebuilt, 13)

	if h.audit().Clean {
		t.Error("the end of a rebuild where nothing was imported: it is clean")
	}
}

// What is rolled forward was begun before, when the bank was not suspended any more: that act is lost, and is done
// again.
func TestARolledForwardReturn(t *testing.T) {
	h := withRegister(t)
	h.at(0)
	h.act(codeSuspended, brunoBooks, tb.Transfer{})
	h.rebuild(func() {
		g := h.giveBack(settledOrder, backCentavos)
		g.hold(0)
		g.post(0)
		g.report("")
		h.stamp()
	})
	h.finds("rolled forward", "", 0)
}
