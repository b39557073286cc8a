package correctness

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// promise is what the project promises, with the tests that fail if it does not hold.
type promise struct {
	name  string
	tests []string
}

// promises are in the order of the table. The audit after every end-to-end test and in every
// world checks the first three for each of its payments; listed are the tests that aim at them.
var promises = []promise{
	{"three-leg invariant", []string{"TestEveryCase", "TestOneLegFailsAndTheOthersAreLinked", "TestOnlyTheBadChainOfARequestFails", "TestBatchesNeverCutAChain"}},
	{"no money created", []string{"TestEveryCase", "TestEngineKilledTenTimes", "TestItGoesOnFromAnyHalfDoneState"}},
	{"exactly one outcome", []string{"TestEveryCase", "TestOneVerdictWhoeverRaces", "TestOnePhase1WhoeverRaces", "TestConflictWithARefusedPayment", "TestSettingsChangedAcrossRestarts", "TestEveryOrderOfEvents"}},
	{"crash at every point", []string{"TestEngineKilledAtEveryStep", "TestEngineKilledTenTimes", "TestChaos"}},
	{"zombie engine", []string{"TestZombieEngine", "TestEngineCutFromEverything"}},
	{"acts bite in two seconds", []string{"TestAFrozenEngineAcrossASuspension", "TestSuspensionUnderLoad", "TestNothingBeginsWithoutTheRegister", "TestADecisionOutlivedByAnActIsMadeAgain"}},
	{"rolling restart", []string{"TestEnginesRestartedInOrder", "TestEnginesComeAndGo"}},
	{"takeover", []string{"TestEngineTakenOver", "TestEnginesComeAndGo"}},
	{"replica loss", []string{"TestReplicaLost"}},
	{"ledger away", []string{"TestLedgerKilled", "TestLedgerAway", "TestLedgerAwayPastTheDeadline"}},
	{"broker loss", []string{"TestBrokerKilled"}},
	{"bank misbehaviour", []string{"TestBanksMisbehave", "TestBanksKilled", "TestForgedAnswersAreNotBelieved"}},
	{"partitions", []string{"TestNetworkToKafka", "TestNetworkToLedger"}},
	{"returns within the payment", []string{"TestReturnsRace", "TestReturnsAtTheFrontDoor", "TestNoMoreIsGivenBackThanWasPaidWhoeverRaces"}},
	{"no answer taken back", []string{"TestChaos", "TestWorlds"}},
	{"rights at Kafka", []string{"TestSecuredKafka"}},
	{"poison input", []string{"TestBadInput", "TestHostileBatches", "TestHostileBatchesWhileEnginesRestart"}},
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

// writePromises prints the table of promises in Markdown. It leaves out a promise of which
// no test ran, because only some tests were asked for.
func writePromises(w io.Writer, rows []Row) {
	fmt.Fprintln(w, "| promise | passed | payments audited |\n|---|---|---|")
	for _, p := range promises {
		sum := Row{}
		for _, row := range rows {
			if slices.Contains(p.tests, row.Test) {
				sum.Passed, sum.Runs, sum.Skipped, sum.Payments = sum.Passed+row.Passed, sum.Runs+row.Runs, sum.Skipped+row.Skipped, sum.Payments+row.Payments
			}
		}
		if sum.Runs+sum.Skipped > 0 {
			fmt.Fprintf(w, "| %s | %s | %s |\n", p.name, sum.passed(), sum.payments())
		}
	}
	fmt.Fprintln(w)
}
