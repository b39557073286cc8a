package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/settings"
)

// The tests run the real program: this test binary, started again. What it does on a real stack is tried with the
// commands of docs/liquida.md.
func TestMain(m *testing.M) { kit.Main(m, main) }

func liquida(t *testing.T, arguments ...string) kit.Output {
	t.Helper()
	return kit.Run(t, []string{"LIQUIDA_URL=" + nowhere, "LIQUIDA_KEY_FILE="}, arguments...)
}

const nowhere = "http://127.0.0.1:1" // a port that nobody listens on

func TestHelpFits(t *testing.T) {
	if texts := kit.HelpFits(t); texts < 40 {
		t.Errorf("there are only %d help texts", texts)
	}
}

func TestBadUsageSendsNothing(t *testing.T) {
	for _, c := range []struct {
		arguments, says string
	}{
		{"pay 10000001/0001/1 10000002/0001/1", "accepts 3 arg"},
		{"pay 10000001/0001/1 10000002/0001/1 12.3", "two decimals, or none"},
		{"watch", "either an id or an ISPB, or --all"},
		{"watch 10000001 --all", "either an id or an ISPB, or --all"},
		{"trace x", "ENDTOENDID"},
		{"top --interval 1ms", "--interval is 1ms"},
		{"pay 10000001/0001/1 10000002/0001/1 0.00", "at least 0.01"},
		{"pay 10000001/0001/1 10000002/0001/1 9999999999999999.999", "no separator"},
		{"pay 10000001/1 10000002/0001/1 1.00", "PAYER"},
		{"pay 10000001/0001/1 10000002/0001/01 1.00", "PAYEE"},
		{"pay 10000001/0001/1 10000002/0001/1 1.00 --id E1", "--id"},
		{"pay 10000001/0001/1 10000002/0001/1 1.00 --wait 2h", "--wait is 2h0m0s: it must be 0s to 1h0m0s"},
		{"status E1", "ENDTOENDID"},
		{"archive proof E1 archive", "EndToEndId"},
		{"archive verify", "accepts 1 arg"},
		{"answer 10000001", "either --accept-all or --reject CODE"},
		{"answer 10000001 --reject LQ01", "--reject is \"LQ01\""},
		{"answer 10000001 --accept-all --secret-file nowhere", "--secret-file"},
		{"return E1 1.00", "ENDTOENDID"},
		{"return E10000001202601010000ABCDEFGHIJK 1.00 --reason XX01", "MD06, BE08"},
		{"return E10000001202601010000ABCDEFGHIJK 1.00 --id E10000001202601010000ABCDEFGHIJK", "--id"},
		{"balance 1", "ISPB/BRANCH/NUMBER"},
		{"statement 10000001/0001/1 --limit 0", "--limit is 0"},
		{"statement", "--participant"},
		{"statement 10000001/0001/1 --day 2026-11-22", "not both"},
		{"statement --participant 1 --day 2026-11-22", "--participant \"1\""},
		{"statement --participant 10000001", "--day"},
		{"statement --participant 10000001 --day 2026-02-30", "2026-02-30"},
		{"statement --participant 10000001 --day 2026-11-22 --until noon", "--until \"noon\""},
		{"statement --participant 10000001 --day 2026-11-22 --format pdf", "csv, json, camt053"},
		{"statement --participant 10000001 --day 2026-11-22 --output /nowhere/file", "--output"},
		{"statement --participant 10000001 --day 2026-11-22 --limit 5", "--limit"},
		{"statement --participant 10000001 --day 2026-11-22 --format csv --json", "--format is csv"},
		{"statement 10000001/0001/1 --format csv", "--format"},
		{"statement 10000001/0001/1 --output file", "--output"},
		{"statement 10000001/0001/1 --until 2026-11-22T12:00:00Z", "--until"},
		{"reconcile --participant 10000001 --day 2026-11-22 --last-day 2026-11-21", "--last-day \"2026-11-21\""},
		{"reconcile --participant 10000001 --day 2026-11-22 --book /nowhere/book", "--book"},
		{"participants 1", "ISPB"},
		{"watch 1", "neither"},
		{"watch D1", "neither"},
		{"watch 10000001 --count -1", "--count"},
		{"participants --timeout 1ms", "--timeout"},
		{"participants --retry-for -1s", "--retry-for"},
		{"participants --url localhost", "LIQUIDA_URL"},
		{"participants --key-file /nowhere/key", "LIQUIDA_KEY_FILE"},
		{"participants --no-such-flag", "no-such-flag"},
		{"participant register 1", "ISPB"},
		{"participant register 10000006 --id a/b", "--id \"a/b\""},
		{"participant liquidity in 10000006 5.5", "two decimals, or none"},
		{"participant liquidity out 10000006", "accepts 2 arg"},
		{"participant cap 10000006 week 5.00", "payment, day or night"},
		{"participant cap 10000006 day 5.5", "two decimals, or none"},
		{"participant cap 10000006 night 5.00 --window 1m", "--window is 1m0s: it must be 2m0s to 24h0m0s"},
		{"account open 10000006", "ISPB/BRANCH/NUMBER"},
		{"account deposit 10000006/0001/1 0.00", "at least 0.01"},
		{"account list 1", "ISPB"},
		{"acts 1", "ISPB"},
		{"acts --for -1s", "--for"},
		{"key make 1 file", "ISPB"},
		{"key make 10000001 /nowhere/key", "/nowhere"},
		{"key name 10000001 abcd", "48 hexadecimal digits"},
		{"key list 1", "ISPB"},
		{"seal revoke 10000001 /etc/hosts", "48 hexadecimal digits"},
		{"no-such-command", "no-such-command"},
		{"participant", "register, "},
		{"participant suspnd 10000001", `"suspnd": it must be `},
		{"participant liquidity up 10000001 1.00", `"up": it must be in, out`},
		{"account opn 10000001/0001/1", `"opn": it must be `},
		{"key lst 10000001", `"lst": it must be `},
		{"seal", "list, revoke"},
		{"completion bsh", `"bsh": it must be `},
		{"help no-such-command", "is no command"},
	} {
		got := liquida(t, strings.Fields(c.arguments)...).Is(t, exitBadUsage, c.says, "--help")
		if got.Out != "" {
			t.Errorf("%s: said %s", c.arguments, got.Out)
		}
	}
}

// A key is made where it stays, in a new file. Its digest is printed, and it names no other bank's.
func TestAKeyIsMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	made := liquida(t, "key", "make", "10000006", file).Is(t, exitDone, "")

	key, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	sum := sha256.Sum256(bytes.TrimSpace(key))
	if want := hex.EncodeToString(sum[:24]) + "\n"; made.Out != want || !strings.HasPrefix(string(key), "10000006.") {
		t.Errorf("%s, want %s", made.Out, want)
	}

	if about, err := os.Stat(file); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: others can read it", about, err)
	}
	liquida(t, "key", "make", "10000006", file).Is(t, exitBadUsage, "exists")

	if again, err := os.ReadFile(file); err != nil || !bytes.Equal(again, key) {
		t.Errorf("the key was written over: %v", err)
	}
	liquida(t, "key", "name", "10000007", file).Is(t, exitBadUsage, "does not hold a key of 10000007")
}

// A book that cannot be read is named by line, field and value, and nothing is sent.
func TestAWrongBookIsNamed(t *testing.T) {
	const id = "E1000000120261122174500000abcdef"
	for _, c := range []struct{ book, says string }{
		{"", "it has no header"},
		{"id,direction,amount_centavos,state,amount_centavos\n", "it names amount_centavos twice"},
		{"id,direction,amount\n", "it must name id, direction, amount_centavos, state"},
		{"id,direction,amount_centavos,state\nE1,debit,1,settled\n", `line 2: id is "E1"`},
		{"id,direction,amount_centavos,state\n" + id + ",out,1,settled\n", `line 2: direction is "out"`},
		{"state,id,note,direction,amount_centavos\nsettled," + id + ",x,debit,1\nsettled," + id + ",x,debit,1.00\n",
			`line 3: amount_centavos is "1.00"`},
		{"id,direction,amount_centavos,state\n" + id + ",debit,0,settled\n", `line 2: amount_centavos is "0"`},
		{"id,direction,amount_centavos,state\n" + id + ",debit,1,posted\n", `line 2: state is "posted"`},
		{"id,direction,amount_centavos,state\n" + id + ",debit\n", "line 2"},
	} {
		book := filepath.Join(t.TempDir(), "book.csv")
		if err := os.WriteFile(book, []byte(c.book), 0o600); err != nil {
			t.Fatal(err)
		}
		liquida(t, "reconcile", "--participant", "10000001", "--day", "2026-11-22", "--book", book).Is(t, exitBadUsage,
			book, c.says)
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{"0.01": 1, "1": 100, "12": 1200, "9999999999999999": 999999999999999900,
		"12.34": 1234, "007.00": 700, "9999999999999999.99": 999999999999999999} {
		if got, err := centavos(text); got != want || err != nil {
			t.Errorf("%s is read as %d, not %d (%v)", text, got, want, err)
		}
	}

	for _, text := range []string{"", ".", "1.", "1.2", "1,000", "1,234.56", "0x1", "99999999999999999", "1,23",
		"-1.00", "1.234", "1e2.00", "99999999999999999.00", " 1.00", "١.٠٠"} {
		if got, err := centavos(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}

	for amount, want := range map[int64]string{0: "BRL 0.00", 5: "BRL 0.05", -1234: "-BRL 12.34",
		123456789: "BRL 1,234,567.89", 100000: "BRL 1,000.00", math.MinInt64: "-BRL 92,233,720,368,547,758.08"} {
		if got := reais(amount); got != want {
			t.Errorf("%d is written %s, not %s", amount, got, want)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	for _, command := range []string{"pay 10000001/0001/1 10000002/0001/1 1.00", "participants",
		"balance 10000001/0001/1", "watch 10000001", "statement 10000001/0001/1",
		"statement --participant 10000001 --day 2026-11-22",
		"participants", "acts", "account list 10000001"} {
		liquida(t, append(strings.Fields(command), "--retry-for", "0s")...).Is(t, exitUnknown, "connection refused")
	}
}

// Without an answer the act may have been done: the command that repeats it is printed, with its id.
func TestAnActWithoutAnAnswerSaysHowToRepeatIt(t *testing.T) {
	for command, repeat := range map[string]string{
		"participant suspend 10000001": "", "participant liquidity in 10000001 5.00": "",
		"account block 10000001/0001/1": "", "account deposit 10000001/0001/1 5.00": "",
		"participant cap 10000001 day 5.00 --window 3m":               "participant cap 10000001 day 5.00 --window 3m0s",
		"participant resume 10000001 --json --url http://127.0.0.1:1": "participant resume 10000001 --url http://127.0.0.1:1",
	} {
		got := liquida(t, append(strings.Fields(command), "--retry-for", "0s")...).Is(t, exitUnknown,
			"liquida "+cmp.Or(repeat, command)+" --id ")

		id := got.Err[strings.LastIndex(got.Err, " ")+1:]
		if !actID.MatchString(strings.TrimSpace(id)) {
			t.Errorf("%q", got.Err)
		}
	}
}

// The history says which key was named or revoked.
func TestAnActShowsItsDigest(t *testing.T) {
	var out strings.Builder
	printAct(&out, client.Act{Participant: "10000001", Act: client.RevokeKey, By: "central-bank",
		Digest: strings.Repeat("ab", 24)})

	if !strings.Contains(out.String(), strings.Repeat("ab", 24)) {
		t.Error(out.String())
	}
}

func TestCompletion(t *testing.T) {
	liquida(t, "completion", "bash").Is(t, exitDone, "__start_liquida")
	liquida(t, "__complete", "st").Is(t, exitDone, "statement", "status")
}

// A table fits a terminal of 100 columns, whatever the amounts and states are.
func TestTopFitsATerminal(t *testing.T) {
	var out bytes.Buffer
	printTop(&out, []bankRow{
		{ISPB: "10000001", State: "active", Paid: 59_998, Received: 60_001, Rejected: 1_200,
			PaidCentavos: 123_456_789_01, ReserveCentavos: 1_000_000_000_000, HeldCentavos: 99_999_999},
		{ISPB: "10000002", State: "active"},
		{ISPB: "10000003", State: "suspended", Paid: 199_998, Received: 199_998, Rejected: 199_998,
			PaidCentavos: 123_456_789_01, ReserveCentavos: 1_000_000_000_000, HeldCentavos: 99_999_999},
	}, 2*time.Second)
	printTop(&out, []bankRow{
		{ISPB: "10000004", State: "suspended", Paid: 199_998, PaidCentavos: math.MaxInt64 / 100,
			ReserveCentavos: math.MaxInt64, HeldCentavos: math.MaxInt64},
	}, time.Second)

	for line := range strings.Lines(out.String()) {
		if length := len(strings.TrimRight(line, "\n")); length > settings.Columns {
			t.Errorf("%d columns: %s", length, line)
		}
	}

	for _, want := range []string{"129,998 settled/s", "100,599 rejected/s", "BRL 123,456,789.01/s, held 1,999,999.98",
		" 10,000,000,000.00 ", " 61,728,394.50 ", "10000003 suspended", " 922,337,203 M ", " 92,233,720,368 M "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// An engine that takes over reports again what its predecessor had reported.
func TestTopCountsARedeliveryOnce(t *testing.T) {
	passed := newTally()
	payer, payee := &client.Account{ISPB: "10000001"}, &client.Account{ISPB: "10000002"}
	report := func(id, status string) {
		passed.take(client.Settlement{EndToEndID: id, Status: status, Payer: payer, Payee: payee, AmountCentavos: 5})
	}
	report("E1", client.Settled)
	report("E2", client.Rejected)
	report("E1", client.Settled)
	report("E2", client.Rejected)

	if row := passed.banks["10000001"]; row.Paid != 1 || row.PaidCentavos != 5 || row.Rejected != 1 ||
		passed.banks["10000002"].Received != 1 {
		t.Errorf("counted was %+v, but each outcome is one", row)
	}
	passed.next()
	report("E1", client.Settled)

	if len(passed.banks) != 0 {
		t.Error("what the last interval counted is counted again")
	}

	for i := range 3 * countedMax {
		report(fmt.Sprint("D", i), client.Settled)
	}

	if kept := len(passed.counted) + len(passed.before); kept > 2*countedMax {
		t.Errorf("%d ids are kept", kept)
	}
	report(fmt.Sprint("D", 3*countedMax-countedMax), client.Settled)

	if paid := passed.banks["10000001"].Paid; paid != 3*countedMax {
		t.Errorf("%d payments are counted", paid)
	}
}

func TestTraceIsInTheOrderOfTime(t *testing.T) {
	at := func(second int) *time.Time { t := time.Date(2026, 11, 23, 12, 0, second, 0, time.UTC); return &t }
	var out bytes.Buffer
	printTrace(&out, client.PaymentState{
		EndToEndID: "E1", Status: client.Settled, ReservedAt: at(1), DecidedAt: at(3), AmountCentavos: 1234,
		Legs: []client.Leg{{Leg: 1, Debit: "customer/10000001/0001/1", Credit: "transit/10000001",
			AmountCentavos: 1234, State: "posted"}},
		Returns: []client.PaymentReturn{
			{ReturnID: "D1", AmountCentavos: 234, ReturnReasonCode: "MD06", Status: client.Rejected, ReasonCode: "AC06",
				ReservedAt: *at(5), DecidedAt: at(6)}},
	})
	text := out.String()
	last := -1

	for _, want := range []string{"E1  settled", "12:00:01.000000", "held BRL 12.34", "+2s  settled",
		"+5s  return D1 of BRL 2.34 for MD06: rejected AC06", "leg 1  posted"} {
		at := strings.Index(text, want)
		if at <= last {
			t.Errorf("%q is not in its place in\n%s", want, text)
		}
		last = at
	}
}

// While there is no response, a command says why it takes so long.
func TestARetryIsTold(t *testing.T) {
	got := liquida(t, "participants", "--retry-for", "10s") // longer than all pauses in the first second
	got.Is(t, exitUnknown, "connection refused", "retrying for ", "--retry-for")
}

// On a terminal an error stands in lines that fit; scripts get each sentence whole.
func TestAnErrorFitsATerminal(t *testing.T) {
	err := fmt.Errorf("trying: %w",
		&client.Problem{Title: "Invalid value", Status: 422, Code: "AM01", RequestID: "7", Rule: "a rule",
			Detail: strings.Repeat("a sentence that goes on ", 20)})
	if text := said("liquida pay", err, false); strings.Count(text, "\n") != 4 ||
		!strings.Contains(text, "\n  code: AM01, the amount is zero\n  request: 7\n") {
		t.Errorf("%s", text)
	}

	for line := range strings.SplitSeq(said("liquida pay", err, true), "\n") {
		if len(line) > settings.Columns {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}
