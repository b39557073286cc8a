package main

import (
	"math"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// The tests run the real program: this test binary, started again. What it does on a real
// stack is tested in loadtest/e2e.
func TestMain(m *testing.M) { kit.Main(m, main) }

func liquida(t *testing.T, arguments ...string) kit.Output {
	t.Helper()
	return kit.Run(t, []string{"LIQUIDA_URL=" + nowhere, "LIQUIDA_KEY_FILE="}, arguments...)
}

const nowhere = "http://127.0.0.1:1" // a port that nobody listens on

func TestBadUsageSendsNothing(t *testing.T) {
	for _, c := range []struct {
		arguments, says string
	}{
		{"pay 10000001/0001/1 10000002/0001/1", "accepts 3 arg"},
		{"pay 10000001/0001/1 10000002/0001/1 12", "reais with two decimals"},
		{"pay 10000001/0001/1 10000002/0001/1 0.00", "at least 0.01"},
		{"pay 10000001/0001/1 10000002/0001/1 9999999999999999.999", "two decimals"},
		{"pay 10000001/1 10000002/0001/1 1.00", "PAYER"},
		{"pay 10000001/0001/1 10000002/0001/01 1.00", "PAYEE"},
		{"pay 10000001/0001/1 10000002/0001/1 1.00 --id E1", "--id"},
		{"pay 10000001/0001/1 10000002/0001/1 1.00 --wait 2h", "--wait is 2h0m0s: it must be 0s to 1h0m0s"},
		{"status E1", "ENDTOENDID"},
		{"return E1 1.00", "ENDTOENDID"},
		{"return E10000001202601010000ABCDEFGHIJK 1.00 --reason XX01", "MD06, BE08"},
		{"return E10000001202601010000ABCDEFGHIJK 1.00 --id E10000001202601010000ABCDEFGHIJK", "--id"},
		{"balance 1", "ISPB/BRANCH/NUMBER"},
		{"statement 10000001/0001/1 --limit 0", "--limit is 0"},
		{"participants 1", "ISPB"},
		{"watch 1", "neither"},
		{"watch D1", "neither"},
		{"watch 10000001 --count -1", "--count"},
		{"participants --timeout 1ms", "--timeout"},
		{"participants --retry-for -1s", "--retry-for"},
		{"participants --url localhost", "LIQUIDA_URL"},
		{"participants --key-file /nowhere/key", "LIQUIDA_KEY_FILE"},
		{"participants --no-such-flag", "no-such-flag"},
		{"no-such-command", "no-such-command"},
	} {
		got := liquida(t, strings.Fields(c.arguments)...).Is(t, exitBadUsage, c.says, "--help")
		if got.Out != "" {
			t.Errorf("%s: said %s", c.arguments, got.Out)
		}
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{"0.01": 1, "12.34": 1234, "007.00": 700, "9999999999999999.99": 999999999999999999} {
		if got, err := centavos(text); got != want || err != nil {
			t.Errorf("%s is read as %d, not %d (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"", "1", "1.2", "1,23", "-1.00", "1.234", "1e2.00", "99999999999999999.00", " 1.00", "١.٠٠"} {
		if got, err := centavos(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	for amount, want := range map[int64]string{0: "BRL 0.00", 5: "BRL 0.05", -1234: "-BRL 12.34", math.MinInt64: "-BRL 92233720368547758.08"} {
		if got := reais(amount); got != want {
			t.Errorf("%d is written %s, not %s", amount, got, want)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	for _, command := range []string{"pay 10000001/0001/1 10000002/0001/1 1.00", "participants", "balance 10000001/0001/1", "watch 10000001", "statement 10000001/0001/1"} {
		liquida(t, append(strings.Fields(command), "--retry-for", "0s")...).Is(t, exitUnknown, "connection refused")
	}
}

func TestCompletion(t *testing.T) {
	liquida(t, "completion", "bash").Is(t, exitDone, "__start_liquida")
	liquida(t, "__complete", "st").Is(t, exitDone, "statement", "status")
}
