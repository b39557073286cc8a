package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
)

// The tests run the real program, this test binary started again under another name, on a
// real stack.
const asProgram = "LIQUIDA_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// said is what a run of the program said, and how it ended.
type said struct {
	out, err string
	code     int
}

func liquida(t *testing.T, url, keyFile string, arguments ...string) said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], arguments...)
	command.Env = append(os.Environ(), asProgram+"=1", "LIQUIDA_URL="+url, "LIQUIDA_KEY_FILE="+keyFile)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	s := said{out.String(), errs.String(), command.ProcessState.ExitCode()}
	t.Logf("liquida %s: %d\n%s%s", strings.Join(arguments, " "), s.code, s.out, s.err)
	return s
}

// is checks a code, and that all of it was said.
func (s said) is(t *testing.T, code int, holds ...string) said {
	t.Helper()
	if s.code != code {
		t.Errorf("exit code %d, not %d: %s%s", s.code, code, s.out, s.err)
	}
	for _, text := range holds {
		if !strings.Contains(s.out+s.err, text) {
			t.Errorf("%q is missing: %s%s", text, s.out, s.err)
		}
	}
	return s
}

// read decodes the JSON objects of the output, one a line.
func read[V any](t *testing.T, s said) (all []V) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(s.out))
	for decoder.More() {
		var one V
		if err := decoder.Decode(&one); err != nil {
			t.Fatalf("%v in %s", err, s.out)
		}
		all = append(all, one)
	}
	if lines := strings.Count(s.out, "\n"); lines != len(all) || lines == 0 {
		t.Fatalf("%d lines for %d objects: %s", lines, len(all), s.out)
	}
	return all
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
		got := liquida(t, nowhere, "", strings.Fields(c.arguments)...).is(t, exitBadUsage, c.says, "--help")
		if got.out != "" {
			t.Errorf("%s: said %s", c.arguments, got.out)
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
		liquida(t, nowhere, "", append(strings.Fields(command), "--retry-for", "0s")...).is(t, exitUnknown, "connection refused")
	}
}

func TestCompletion(t *testing.T) {
	liquida(t, nowhere, "", "completion", "bash").is(t, exitDone, "__start_liquida")
	liquida(t, nowhere, "", "__complete", "st").is(t, exitDone, "statement", "status")
}

// startStack starts a stack with such settings, in the folder "stack" of the one it returns.
func startStack(t *testing.T, env map[string][]string) (s *stack.Stack, folder string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a whole stack, which -short does not start")
	}
	folder = t.TempDir()
	root, err := stack.RepoRoot()
	if err == nil {
		err = stack.Build(t.Context(), root, folder+"/bin")
	}
	if err == nil {
		s, err = stack.Start(t.Context(), stack.Config{Dir: folder + "/stack", BinDir: folder + "/bin", Ports: stack.FreePorts, CacheGrid: "128MiB", Env: env})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, folder
}

func TestOnARealStack(t *testing.T) {
	s, folder := startStack(t, map[string][]string{
		// Shorter than in production, so that a silent bank's payment ends within the test.
		stack.Engine:   {"ENGINE_DEADLINE=15s", "ENGINE_PENDING_TIMEOUT=25s", "SHUTDOWN_TIMEOUT=4s"},
		stack.Producer: {"PUBLISH_TIMEOUT=1s"},
	})
	as := func(holder string) func(...string) said {
		return func(arguments ...string) said {
			t.Helper()
			return liquida(t, s.ProducerURL(), folder+"/stack/keys/"+holder, arguments...)
		}
	}
	do, other, centralBank := as("10000001"), as("10000002"), as(keys.CentralBank)
	const payer, payee = "10000001/0001/1", "10000002/0001/1"
	posted := func(account string) int64 {
		t.Helper()
		return read[client.AccountBalance](t, do("balance", account, "--json").is(t, exitDone))[0].PostedCentavos
	}
	before := posted(payer)

	// Paid, asked for, and paid again with the same id: once.
	settled := read[client.PaymentState](t, do("pay", payer, payee, "12.34", "--info", "order 7", "--json").is(t, exitDone))[0]
	if settled.Status != client.Settled || settled.AmountCentavos != 1234 || len(settled.Legs) != 3 {
		t.Errorf("%+v", settled)
	}
	do("pay", payer, payee, "12.34", "--id", settled.EndToEndID).is(t, exitDone, settled.EndToEndID+" settled  BRL 12.34 from "+payer+" to "+payee)
	do("status", settled.EndToEndID).is(t, exitDone, "settled  BRL 12.34")
	do("watch", settled.EndToEndID).is(t, exitDone, "settled  BRL 12.34")
	if now := posted(payer); now != before-1234 {
		t.Errorf("%d is left of %d", now, before)
	}
	later := strings.Fields(do("pay", payer, payee, "1.00", "--wait", "0s").is(t, exitDone, " accepted").out)[0]
	do("watch", later).is(t, exitDone, "settled  BRL 1.00")

	// Rejected, refused, not known, not decided yet.
	rejected := do("pay", payer, "10000002/9003/1", "1.00").is(t, exitNot, "rejected AC06", "the payee's account is blocked")
	do("status", strings.Fields(rejected.out)[0]).is(t, exitNot, "rejected AC06")
	do("pay", payee, payer, "1.00").is(t, exitNot, "Not yours (403)", "payer.ispb")
	liquida(t, s.ProducerURL(), "", "pay", payer, payee, "1.00").is(t, exitNot, "Unknown caller (401)", "--key-file")
	do("status", "E10000001202601010000ABCDEFGHIJK").is(t, exitUnknown, "not in the ledger yet")
	do("pay", payer, payee, "1.00", "--id", "E10000001202001010000ABCDEFGHIJK").is(t, exitNot, "end_to_end_id", "rule: ")
	do("balance", "10000001/0001/99999999").is(t, exitNot, "404")
	centralBank("participants", "99999999").is(t, exitNot, "404")
	open := do("pay", payer, "10000002/9001/1", "1.00", "--wait", "1s").is(t, exitUnknown, "not decided yet", "liquida status E10000001")
	do("watch", strings.Fields(open.out)[0]).is(t, exitNot, "rejected AB03")

	// Given back in two parts, by the bank that received it; more than all of it is not.
	back := other("return", settled.EndToEndID, "2.34").is(t, exitDone, "settled  BRL 2.34 from "+payee+" to "+payer)
	other("status", strings.Fields(back.out)[0]).is(t, exitDone, "settled  BRL 2.34")
	other("return", settled.EndToEndID, "10.01", "--reason", "FR01").is(t, exitNot, "rejected AM09", "more than what is left")
	other("return", settled.EndToEndID, "10.00", "--reason", "FR01", "--json").is(t, exitDone, `"return_reason_code":"FR01"`)
	do("return", settled.EndToEndID, "0.01").is(t, exitNot, "403")
	do("status", settled.EndToEndID).is(t, exitDone, "returned BRL 12.34 of BRL 12.34", strings.Fields(back.out)[0]+" settled  BRL 2.34 for MD06", "settled  BRL 10.00 for FR01")
	for _, both := range []func(...string) said{do, other} { // the bank that gives back, and the one that gets it back
		both("watch", strings.Fields(back.out)[0]).is(t, exitDone, "settled  BRL 2.34 from "+payee+" to "+payer)
	}
	other("status", "D10000002202601010000ABCDEFGHIJK").is(t, exitUnknown, "404")

	// Lists and streams.
	if lines := read[client.StatementLine](t, other("statement", payee, "--limit", "2", "--json").is(t, exitDone)); len(lines) != 2 {
		t.Errorf("%+v", lines)
	}
	do("statement", payer, "--limit", "200").is(t, exitDone, "posted    -BRL 12.34", settled.EndToEndID, "+BRL 1000000.00")
	if all := read[client.Participant](t, centralBank("participants", "--json").is(t, exitDone)); len(all) != 5 || all[0].ThreeLegs == nil {
		t.Errorf("%+v", all)
	}
	centralBank("participants", "10000002").is(t, exitDone, "10000002  reserve BRL ", "books agree")
	type told struct {
		client.Settlement
		Position string
	}
	first := read[told](t, do("watch", "10000001", "--from", "start", "--count", "1", "--json").is(t, exitDone))[0]
	next := read[told](t, do("watch", "10000001", "--from", first.Position, "--count", "1", "--json").is(t, exitDone))[0]
	// The payment that was sent twice is told twice, at two positions.
	if first.EndToEndID == "" || next.EndToEndID == "" || first.Position == next.Position {
		t.Errorf("%+v, then %+v", first, next)
	}
	do("watch", "10000001", "--for", "1s").is(t, exitDone)
	do("watch", "10000001", "--for", "1s", "--count", "1").is(t, exitUnknown, "0 of 1")
	do("watch", "10000001", "--from", "nowhere").is(t, exitNot, "from")

	// Kafka is away: the fate is unknown, the same is sent again, and is made once.
	before = posted(payer)
	if err := s.Kill(stack.Broker); err != nil {
		t.Fatal(err)
	}
	unknown := do("pay", payer, payee, "5.00", "--retry-for", "2s").is(t, exitUnknown, "Fate unknown (503)", "liquida pay "+payer+" "+payee+" 5.00 --id E10000001")
	id := strings.Fields(unknown.err[strings.LastIndex(unknown.err, "--id ")+len("--id "):])[0]
	broker := make(chan error, 1)
	go func() {
		time.Sleep(2 * time.Second) // so that some tries fail; all is right without it too
		broker <- s.StartProcess(stack.Broker)
	}()
	outcome := do("pay", payer, payee, "5.00", "--id", id, "--retry-for", "2m", "--wait", "2m")
	if err := <-broker; err != nil {
		t.Fatal(err)
	}
	spent := int64(500)
	if outcome.code != exitDone { // a machine so slow that the first of them came past the deadline
		outcome.is(t, exitNot, id+" rejected AB03")
		spent = 0
	}
	do("pay", payer, payee, "5.00", "--id", id).is(t, outcome.code, outcome.out)
	if now := posted(payer); now != before-spent {
		t.Errorf("%d is left of %d", now, before)
	}

	// The ledger is away: nothing is known, which is told as such.
	if err := s.Kill(stack.TigerBeetle); err != nil {
		t.Fatal(err)
	}
	do("status", id, "--retry-for", "1s").is(t, exitUnknown, "503")
}
