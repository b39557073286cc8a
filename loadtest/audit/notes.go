package audit

import (
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

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
	j.rebuild.imported = t.Flags&spec.ImportedFlag != 0
	if !j.rebuild.imported {
		return
	}

	if j.rebuild.ended {
		j.add(UnexplainedMoney, spec.TransferName(*t), "it was imported after the end of the rebuild")
	}
	j.rebuild.begun = true
	t.Flags &^= spec.ImportedFlag
}

// takeRebuilt takes the end of a rebuild, or that its acts are confirmed.
func (j *Judge) takeRebuilt(t tb.Transfer) {
	roles := map[uint16]uint64{spec.CodeRebuilt: 13, spec.CodeConfirmed: 29}
	if spec.NumberOf(t.ID) != (spec.Number{Low: roles[t.Code]}) || !spec.IsNote(t) || j.whole && !j.rebuild.begun ||
		j.rebuild.told > 0 {
		j.add(UnexplainedMoney, spec.TransferName(t),
			"what ends a rebuild has the id %d, moves nothing from issuance to refusals, and comes after what was imported and told",
			roles[t.Code])
	}
	j.rebuild.ended = true
}

// takeTold takes the begin or the end of what was reported. The id names the time at which the past ends.
func (j *Judge) takeTold(t tb.Transfer) {
	id, pastEnds, place := spec.NumberOf(t.ID), j.rebuild.told, uint64(3)
	if pastEnds == 0 {
		pastEnds, place = id.High, 2
	}

	if id != (spec.Number{High: pastEnds, Low: place<<4 | 13}) || t.Timestamp <= pastEnds || !spec.IsNote(t) ||
		!j.rebuild.imported {
		j.add(UnexplainedMoney, spec.TransferName(t),
			"it begins or ends what a rebuild wrote of reports: it must be imported, move nothing from issuance to refusals, and come behind the time in its id, the begin with 45 and the end with 61 below that")
	}

	if j.rebuild.told = pastEnds; place == 3 {
		j.rebuild.told = 0
	}
}

// takeRenewal takes the transfer with which a ledger took the place of another. What was reported before and is missing
// in this one shows as report without a verdict, until it is paid again. So the books are not clean, whatever comes
// after.
func (j *Judge) takeRenewal(t tb.Transfer) {
	givenUp := spec.NumberOf(t.UserData128)
	j.add(LedgerRenewed, spec.TransferName(t),
		"this ledger took the place of the ledger %v (LEDGER_GIVEN_UP): what was paid there and is missing here is lost",
		source.Identity{Number: uint32(givenUp.High), Since: givenUp.Low})
}

// takeName takes the name of a log, or that it was given up. What was lost with a log stands in no list, so the
// books are not clean, whatever comes after.
func (j *Judge) takeName(t tb.Transfer) {
	switch n, err := source.LogNameIn(t); {
	case err != nil:
		j.add(UnexplainedMoney, spec.TransferName(t), "a transfer with code %d: %v", t.Code, err)
	case n.Partition < 0:
		j.add(LogGivenUp, spec.TransferName(t),
			"log %d of %s was given up (PAYMENTS_LOG_GIVEN_UP) at %s: orders that were acknowledged before and not cleared are lost, and only their senders know them: see ForeignLog in deploy/runbook.md",
			n.Log, source.Payments, time.Unix(0, int64(t.Timestamp)).UTC().Format(time.RFC3339))
	}
}

// takeMarker takes bootstrap's last transfer.
func (j *Judge) takeMarker(t tb.Transfer) {
	if spec.NumberOf(t.ID) != spec.MarkerID || !spec.IsNote(t) {
		j.add(WrongFunding, spec.TransferName(t),
			"a marker of %s; the one marker has the id 15 and moves none from issuance to refusals", spec.MovedBy(t))
		return
	}

	j.books.marked = true
	if is := spec.PopulationIn(t.UserData128, t.UserData64); is != j.books.population {
		j.add(WrongFunding, spec.TransferName(t), "the marker says %v, but the issuance account says %v", is,
			j.books.population)
	}
}

// takeArchived takes how the archive of a day ends: the day must be over.
func (j *Judge) takeArchived(t tb.Transfer) {
	day := uint64(t.UserData32)

	// Midnight in São Paulo, at the end of the day.
	over := spec.Epoch.Add(time.Duration(t.UserData32+1)*24*time.Hour + behindUTC)
	if spec.NumberOf(t.ID) != (spec.Number{Low: day<<4 | 13}) || !spec.IsNote(t) || t.Timestamp < uint64(over.UnixNano()) { //nolint:gosec // after 1970
		j.add(UnexplainedMoney, spec.TransferName(t),
			"the end of an archived day has the id %d, moves nothing from issuance to refusals, and comes after the day, %v",
			day<<4|13, over)
	}
}
