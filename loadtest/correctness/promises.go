package correctness

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// promise is what the project promises, and the tests that would fail if it did not hold.
type promise struct {
	name  string
	tests []string
}

// promises are in the order in which they are shown. The audit, after every end-to-end
// test, holds the first three against each payment of it; listed are the tests that aim there.
var promises = []promise{
	{"three-leg invariant", []string{"TestEveryCase", "TestOneLegFailsAndTheOthersAreLinked", "TestOnlyTheBadChainOfARequestFails", "TestBatchesNeverCutAChain"}},
	{"no money created", []string{"TestEveryCase", "TestEngineKilledTenTimes", "TestItGoesOnFromAnyHalfDoneState"}},
	{"exactly one outcome", []string{"TestEveryCase", "TestOneVerdictWhoeverRaces", "TestOnePhase1WhoeverRaces", "TestConflictWithARefusedPayment", "TestSettingsChangedAcrossRestarts"}},
	{"crash at every point", []string{"TestEngineKilledAtEveryStep", "TestEngineKilledTenTimes", "TestChaos"}},
	{"zombie engine", []string{"TestZombieEngine"}},
	{"rolling restart", []string{"TestEnginesRestartedInOrder", "TestEnginesComeAndGo"}},
	{"takeover", []string{"TestEngineTakenOver", "TestEnginesComeAndGo"}},
	{"replica loss", []string{"TestReplicaLost"}},
	{"ledger away", []string{"TestLedgerAway", "TestLedgerAwayPastTheDeadline"}},
	{"broker loss", []string{"TestBrokerKilled"}},
	{"bank misbehaviour", []string{"TestBanksMisbehave", "TestBanksKilled"}},
	{"partitions", []string{"TestNetworkToKafka", "TestNetworkToLedger"}},
	{"returns within the payment", []string{"TestReturnsRace", "TestReturnsAtTheFrontDoor", "TestNoMoreIsGivenBackThanWasPaidWhoeverRaces"}},
	{"no answer taken back", []string{"TestChaos", "TestNetworkToLedger", "TestEnginesComeAndGo"}},
	{"rights at Kafka", []string{"TestLockedKafka"}},
	{"poison input", []string{"TestBadInput"}},
	{"idempotent bootstrap", []string{"TestTwoAtOnceFromNothingAndThenAgain", "TestItGoesOnFromAnyHalfDoneState"}},
}

// proves names the promises that rest on a test.
func proves(test string) string {
	var names []string
	for _, p := range promises {
		if slices.Contains(p.tests, test) {
			names = append(names, p.name)
		}
	}
	return strings.Join(names, ", ")
}

// refuseBroken names a promise that rests on a test that is not there (any more).
func refuseBroken(tests map[string]string) error {
	for _, p := range promises {
		for _, test := range p.tests {
			if _, there := tests[test]; !there {
				return fmt.Errorf("the promise %q rests on %s, which is in none of %s: name the test that proves it now in loadtest/correctness/promises.go",
					p.name, test, strings.Join(packages, ", "))
			}
		}
	}
	return nil
}

// writePromises prints the table of promises in Markdown. One of which no test has run is
// left out: the run was of some tests only.
func writePromises(w io.Writer, rows []Row) {
	fmt.Fprintln(w, "| promise | passed | payments audited | tests |\n|---|---|---|---|")
	for _, p := range promises {
		sum, tests := Row{}, 0
		for _, row := range rows {
			if slices.Contains(p.tests, row.Test) {
				sum.Passed, sum.Runs, sum.Skipped, sum.Payments = sum.Passed+row.Passed, sum.Runs+row.Runs, sum.Skipped+row.Skipped, sum.Payments+row.Payments
				tests++
			}
		}
		if tests > 0 {
			fmt.Fprintf(w, "| %s | %s | %s | %d |\n", p.name, sum.passed(), sum.payments(), tests)
		}
	}
	fmt.Fprintln(w)
}
