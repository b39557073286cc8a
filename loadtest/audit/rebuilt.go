package audit

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// A ledger that was lost is built again: what an archive knew is imported, then, between two transfers with code 26,
// what was reported since, with the times of the reports. A transfer with code 23 ends that.

var importedFlag = tb.TransferFlags{Imported: true}.ToUint16()

// rebuild is how far a rebuild is, in the ledger's order.
type rebuild struct {
	begun, ended bool
	imported     bool   // the transfer at hand is of before
	told         uint64 // behind this time: it was written again because it was reported; 0: it was not
}

// again reports whether the transfer at hand was written by a rebuild: what the lost ledger had in another way.
func (r rebuild) again() bool { return r.told > 0 || r.begun && !r.ended && !r.imported }

// old reports whether the transfer at hand is of a lost ledger, imported or written again.
func (r rebuild) old() bool { return r.begun && !r.ended }

// takeImported takes the flag from an imported transfer, so that the rest of it is judged as any other.
func (j *Judge) takeImported(t *tb.Transfer) {
	j.rebuild.imported = t.Flags&importedFlag != 0
	if !j.rebuild.imported {
		return
	}

	if j.rebuild.ended {
		j.add(UnexplainedMoney, transferName(*t), "it was imported after the end of the rebuild")
	}
	j.rebuild.begun = true
	t.Flags &^= importedFlag
}

// takeRebuilt takes the end of a rebuild, or that its acts are confirmed.
func (j *Judge) takeRebuilt(t tb.Transfer) {
	roles := map[uint16]uint64{codeRebuilt: 13, codeConfirmed: 29}
	if fromTigerBeetle(t.ID) != (number128{low: roles[t.Code]}) || !isNote(t) || j.whole && !j.rebuild.begun ||
		j.rebuild.told > 0 {
		j.add(UnexplainedMoney, transferName(t),
			"what ends a rebuild has the id %d, moves nothing from issuance to refusals, and comes after what was imported and told",
			roles[t.Code])
	}
	j.rebuild.ended = true
}

// takeTold takes the begin or the end of what was reported. The id names the time at which the past ends.
func (j *Judge) takeTold(t tb.Transfer) {
	id, pastEnds, place := fromTigerBeetle(t.ID), j.rebuild.told, uint64(3)
	if pastEnds == 0 {
		pastEnds, place = id.high, 2
	}

	if id != (number128{high: pastEnds, low: place<<4 | 13}) || t.Timestamp <= pastEnds || !isNote(t) ||
		!j.rebuild.imported {
		j.add(UnexplainedMoney, transferName(t),
			"it begins or ends what a rebuild wrote of reports: it must be imported, move nothing from issuance to refusals, and come behind the time in its id, the begin with 45 and the end with 61 below that")
	}

	if j.rebuild.told = pastEnds; place == 3 {
		j.rebuild.told = 0
	}
}
