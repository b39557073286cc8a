package audit

import (
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"
)

// Each fault is one finding, which names the transfer: money in the wrong place must not
// hide behind what follows from it.
func TestEveryFundingFollowsFromTheMarker(t *testing.T) {
	funding := func(h *history, credit accountID) *tb.Transfer { return h.find(credit) }
	last := func(h *history) string { return transferName(h.transfers[len(h.transfers)-1]) }
	of := func(id accountID) func(*history) string {
		return func(*history) string { return transferName(tb.Transfer{ID: id.toTigerBeetle()}) }
	}
	for _, fault := range []struct {
		name    string
		spoil   func(*history)
		subject func(*history) string
	}{
		{"a second funding of a reserve", func(h *history) { h.move(codeFunding, issuance, reserveOf(idOf(alice)), 500) }, last},
		{"a second deposit of a customer", func(h *history) { h.move(codeFunding, transitOf(idOf(alice)), idOf(alice), 500) }, last},
		{"a second funding with the right amount", func(h *history) { h.move(codeFunding, transitOf(idOf(alice)), idOf(alice), depositCentavos) }, last},
		{"a deposit of a customer outside the population", func(h *history) { h.fund(transitOf(idOf(bruno)), idOf(bruno), depositCentavos) }, last},
		{"a funding of nothing", func(h *history) { h.move(codeFunding, issuance, reserveOf(idOf(alice)), 0) }, last},
		{"a deposit of one centavo more", func(h *history) {
			funding(h, idOf(alice)).Amount = tb.ToUint128(depositCentavos + 1)
			h.add(idOf(alice), 0, 1)
			h.add(transitOf(idOf(alice)), 1, 0)
		}, of(idOf(alice))},
		{"a second marker", func(h *history) { h.move(codeMarker, issuance, refusals, 0) }, last},
		{"a marker of another population", func(h *history) { h.find(markerID).UserData64++ }, of(markerID)},
		{"no marker", func(h *history) { h.drop(markerID) }, func(*history) string { return "marker" }},
		{"a deposit is missing", func(h *history) {
			h.drop(idOf(elisa))
			h.add(idOf(elisa), 0, -2*reserveCentavos)
			h.add(transitOf(idOf(elisa)), -2*reserveCentavos, 0)
		}, of(idOf(elisa))},
	} {
		t.Run(fault.name, func(t *testing.T) {
			h := clean(t)
			fault.spoil(h)
			verdict := h.audit()
			if len(verdict.Findings) != 1 || verdict.Findings[0].Kind != WrongFunding || verdict.Findings[0].Subject != fault.subject(h) {
				t.Fatalf("found are %+v; there must be one, %q about %s", verdict.Findings, WrongFunding, fault.subject(h))
			}
		})
	}
}

// A forged population must not stop the audit, whatever is in it.
func TestForgedPopulationIsJudged(t *testing.T) {
	for _, count := range []uint64{0, 5, 1 << 32, 1<<64 - 1} {
		h := clean(t)
		h.accountOf(issuance).UserData64 = count
		h.find(markerID).UserData64 = count
		if verdict := h.audit(); verdict.Clean || verdict.ByKind[WrongFunding] == 0 {
			t.Errorf("%#x: %v", count, verdict)
		}
	}
}

// The two derivations of the population meet only here.
func TestPopulationsAgreeWithThePlatform(t *testing.T) {
	for _, theirs := range []sandbox.Population{
		{Banks: 2, Customers: 4, DepositCentavos: 3, ReserveCentavos: 7},
		{Banks: 5, Customers: 5003, DepositCentavos: 1e12, ReserveCentavos: 1e15},
	} {
		marker := ledger.Marker{Banks: uint32(theirs.Banks), Customers: uint32(theirs.Customers), DepositCentavos: theirs.DepositCentavos, ReserveCentavos: theirs.ReserveCentavos}
		if fromTigerBeetle(marker.Transfer().ID) != markerID {
			t.Fatal("the ids of the marker differ")
		}
		ours := populationIn(marker.Transfer().UserData128, marker.Transfer().UserData64)
		funded := map[accountID]uint64{}
		for i := range ours.fundings() {
			credit, amount := ours.funding(i)
			funded[credit] = amount
		}
		expected := 0
		expect := func(credit ledger.AccountID, centavos uint64) {
			if centavos > 0 {
				expected++
			}
			if amount := funded[fromTigerBeetle(credit)]; amount != centavos {
				t.Fatalf("%s: %d centavos; theirs are %d", ledger.AccountName(credit), amount, centavos)
			}
		}
		for bank := range theirs.Banks {
			expect(ledger.ReserveAccount(theirs.Bank(bank)), theirs.ReserveCentavos)
			for _, branch := range sandbox.SpecialBranches {
				customer := theirs.Special(bank, branch)
				expect(ledger.CustomerAccount(customer), theirs.DepositOf(customer))
			}
		}
		for i := range theirs.Customers {
			expect(ledger.CustomerAccount(theirs.Customer(i)), theirs.DepositCentavos)
		}
		if len(funded) != expected || uint64(expected) != ours.fundings() {
			t.Fatalf("%d of %d fundings", len(funded), expected)
		}
	}
}
