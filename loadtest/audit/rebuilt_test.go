package audit

import (
	"slices"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
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
