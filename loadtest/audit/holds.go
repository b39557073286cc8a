package audit

import (
	"cmp"
	"math"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// openHolds are pending transfers that have not ended.
type openHolds struct {
	open   map[spec.Number]openHold
	ending []holdEnd // the first to end comes first
}

type openHold struct {
	account  spec.AccountID
	centavos uint64
	ends     uint64 // at the latest, by the ledger's clock, ns
}

type holdEnd struct {
	id   spec.Number
	ends uint64
}

// expiryMargin is how long after its timeout a hold's money may come back.
const expiryMargin = uint64(time.Minute)

// endOf returns when a hold has ended at the latest.
func endOf(hold tb.Transfer) uint64 {
	if hold.Timeout == 0 {
		return math.MaxUint64
	}

	return hold.Timestamp + uint64(hold.Timeout)*uint64(time.Second) + expiryMargin
}

func (h *openHolds) add(id spec.Number, held openHold) {
	if h.open == nil {
		h.open = map[spec.Number]openHold{}
	}
	h.open[id] = held
	at, _ := slices.BinarySearchFunc(h.ending, held.ends, func(e holdEnd, ends uint64) int {
		return cmp.Compare(e.ends, ends)
	})
	h.ending = slices.Insert(h.ending, at, holdEnd{id, held.ends})
}

// release ends a hold, if it is open, and returns it.
func (h *openHolds) release(id spec.Number) openHold {
	held := h.open[id]
	delete(h.open, id)

	return held
}

// expired ends the holds that have ended by a time of the ledger, and returns them.
func (h *openHolds) expired(at uint64) (all []openHold) {
	for ; len(h.ending) > 0 && h.ending[0].ends <= at; h.ending = h.ending[1:] {
		if held, open := h.open[h.ending[0].id]; open {
			all = append(all, held)
			delete(h.open, h.ending[0].id)
		}
	}

	return all
}
