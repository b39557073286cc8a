package audit

import (
	"testing"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// The two derivations of the population meet only here.
func TestPopulationsAgreeWithThePlatform(t *testing.T) {
	for _, theirs := range []sandbox.Population{
		{Banks: 2, Customers: 4, DepositCentavos: 3, ReserveCentavos: 7},
		{Banks: 5, Customers: 5003, DepositCentavos: 1e12, ReserveCentavos: 1e15},
	} {
		marker := ledger.Marker{Banks: uint32(theirs.Banks), Customers: uint32(theirs.Customers),
			DepositCentavos: theirs.DepositCentavos, ReserveCentavos: theirs.ReserveCentavos}
		if spec.NumberOf(marker.Transfer().ID) != spec.MarkerID {
			t.Fatal("the ids of the marker differ")
		}
		ours := spec.PopulationIn(marker.Transfer().UserData128, marker.Transfer().UserData64)
		var expected uint64

		expect := func(credit ledger.AccountID, centavos uint64) {
			if centavos > 0 {
				expected++
			}

			if amount, funded := ours.Funding(spec.NumberOf(credit)); amount != centavos && funded ||
				funded != (centavos > 0) {
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

		expect(ledger.CustomerAccount(theirs.Customer(theirs.Customers)), 0)

		if expected != ours.Fundings() {
			t.Fatalf("%d of %d fundings", ours.Fundings(), expected)
		}
	}
}
