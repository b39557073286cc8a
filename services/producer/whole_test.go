package main

import (
	"testing"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/sandbox"
)

// TestWholeLedger has a server to itself, for all that looks at the whole ledger or kills it. Each step
// leaves a ledger on which the laws hold, so each may also run alone.
func TestWholeLedger(t *testing.T) {
	t.Parallel()
	l := startLedger(t)
	client := connect(t, l)
	nothingIsToldFromAnEmptyLedger(t, l)
	fund(t, client, sandbox.Population{Banks: 3, Customers: 7, DepositCentavos: 1000, ReserveCentavos: 10_000})

	for _, step := range []struct {
		name string
		do   func(*testing.T, *ledgertest.Server, tigerbeetle.Client)
	}{
		{"AParticipantsBooksAgree", aParticipantsBooksAgree},
		{"LawsOfMoneyOfManyBanks", lawsOfMoneyOfManyBanks},
		{"LawsOfMoneyWhileItComesAndGoes", lawsOfMoneyWhileItComesAndGoes},
		{"NothingIsTakenIntoALogThatIsNotTheLedgers", nothingIsTakenIntoALogThatIsNotTheLedgers},
		{"NothingIsAcceptedAfterTheLogHasShrunk", nothingIsAcceptedAfterTheLogHasShrunk},
		{"OnlyActsBeforeARebuildIsConfirmed", onlyActsBeforeARebuildIsConfirmed},
		{"WithTheLedgerAwayNothingIsTaken", withTheLedgerAwayNothingIsTaken}, // last: it kills the server
	} {
		t.Run(step.name, func(t *testing.T) { step.do(t, l, client) })
	}
}
