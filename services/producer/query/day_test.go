package query

import (
	"strings"
	"testing"
)

// The ledger cannot be made to contradict itself: here lines are lost, doubled and changed.
func TestAStatementThatDoesNotSumUpIsNoStatement(t *testing.T) {
	balances := DayBalances{OpeningCentavos: 1000, CreditCentavos: 70, DebitCentavos: 30, ClosingCentavos: 1040}
	lines := []DayLine{{Direction: "credit", AmountCentavos: 70, Counterparty: "10000002"}, {Direction: "debit", AmountCentavos: 30, Counterparty: "10000003"}}
	prove := func(lines ...DayLine) error {
		sums := daySums{balance: balances.OpeningCentavos, by: map[string]*DaySum{}}
		for i := range lines {
			sums.add(&lines[i])
		}
		return sums.prove(balances)
	}
	if err := prove(lines...); err != nil {
		t.Error(err)
	}
	canceling := []DayLine{{Direction: "debit", AmountCentavos: 5}, {Direction: "credit", AmountCentavos: 5}}
	for name, wrong := range map[string][]DayLine{
		"none": nil, "one is lost": lines[:1], "one comes twice": {lines[0], lines[1], lines[1]},
		"an amount": {lines[0], {Direction: "debit", AmountCentavos: 31}}, "a direction": {lines[0], {Direction: "credit", AmountCentavos: 30}},
		"two that cancel each other": append(canceling, lines...),
	} {
		if err := prove(wrong...); err == nil || !strings.Contains(err.Error(), "broken law") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
