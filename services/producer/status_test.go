package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/producer/query"
)

// openBooks opens the accounts of a payment and its return, unless they are there, and funds them.
func openBooks(t *testing.T, client tigerbeetle.Client, content pix.Content) {
	t.Helper()
	open := func(id ledger.AccountID, kind ledger.AccountKind) tb.Account {
		return tb.Account{ID: id, Ledger: ledger.Ledger, Code: uint16(kind), Flags: kind.Flags()}
	}

	accounts := []tb.Account{open(ledger.IssuanceAccount, ledger.Issuance),
		open(ledger.RefusalsAccount, ledger.Refusals), open(ledger.CustomerAccount(content.Payer), ledger.Customer),
		open(ledger.CustomerAccount(content.Payee), ledger.Customer)}
	for _, psp := range []pix.ISPB{content.Payer.ISPB, content.Payee.ISPB} {
		accounts = append(accounts, open(ledger.ReserveAccount(psp), ledger.Reserve),
			open(ledger.TransitAccount(psp), ledger.Transit))
	}

	results, err := client.CreateAccounts(accounts)
	if err != nil {
		t.Fatal(err)
	}

	for _, result := range results {
		if result.Result != tb.AccountExists {
			t.Fatalf("%v", results)
		}
	}
	fund := func(debit, credit ledger.AccountID) tb.Transfer {
		return tb.Transfer{ID: tb.ID(), DebitAccountID: debit, CreditAccountID: credit, Amount: tb.ToUint128(1_000_000),
			Ledger: ledger.Ledger, Code: ledger.CodeFunding}
	}
	write(t, client, []tb.Transfer{
		fund(ledger.IssuanceAccount, ledger.ReserveAccount(content.Payer.ISPB)),
		fund(ledger.TransitAccount(content.Payer.ISPB), ledger.CustomerAccount(content.Payer)),
	})
}

var banksMade atomic.Int64

// ownBanks returns a payment between two banks that no other test knows.
func ownBanks() pix.Content {
	own, number := content, 20_000_000+2*banksMade.Add(1)
	own.Payer.ISPB, own.Payee.ISPB = pix.ISPB(fmt.Sprint(number)), pix.ISPB(fmt.Sprint(number+1))
	return own
}

func accountPath(a pix.Account) string {
	return "/v1/accounts/" + string(a.ISPB) + "/" + a.Branch + "/" + a.Number
}

func connect(t testing.TB, l *ledgertest.Server) tigerbeetle.Client {
	t.Helper()

	client, err := ledger.Connect(ledger.Config{Addresses: []string{l.Config.Addresses[0]}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)

	return client
}

func write(t *testing.T, client tigerbeetle.Client, transfers []tb.Transfer) {
	t.Helper()

	if results, err := client.CreateTransfers(transfers); err != nil || len(results) > 0 {
		t.Fatalf("%v %v", results, err)
	}
}

var content = pix.Content{
	Payer:          pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"},
	Payee:          pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"},
	AmountCentavos: 100,
}

func TestTheStatusIsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("ledger", false)
	const long, short = 60, 1

	for _, c := range []struct {
		name         string
		do           func(pix.EndToEndID)
		code         int
		status       string
		reason       string
		held, judged bool
		legs         string // what became of them
	}{
		{"nothing", func(pix.EndToEndID) {}, 404, "404", "", false, false, ""},
		{"held", func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, long))
		}, 200, `"reserved"`, "", true, false, "held"},
		{"posted", func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, long))
			write(t, client, ledger.AppendPost(nil, id, false))
		}, 200, `"settled"`, "", true, true, "posted"},
		{"voided", func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, long))
			write(t, client, ledger.AppendVoid(nil, id, false, pix.ReasonPayeeBlocked))
		}, 200, `"rejected"`, "AC06", true, true, "released"},
		{"held under its ids, for another payment", func(id pix.EndToEndID) {
			forged := ledger.AppendReserve(nil, id, content, long)
			for i := range forged {
				forged[i].UserData128 = tb.ToUint128(1)
			}
			write(t, client, forged)
		}, 404, "404", "", false, false, ""},
		{"refused under its ids, for another payment", func(id pix.EndToEndID) {
			forged := ledger.AppendReceipt(nil, id, content, pix.ReasonReserveShort, true)
			forged[0].UserData128 = tb.ToUint128(1)
			write(t, client, forged)
		}, 404, "404", "", false, false, ""},
		{"refused without phase 1", func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReceipt(nil, id, content, pix.ReasonReserveShort, true))
		}, 200, `"rejected"`, "AM04", false, true, ""},
		{"refused, and other content held after it", func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReceipt(nil, id, content, pix.ReasonInactivePSP, true))
			other := content
			other.AmountCentavos++
			write(t, client, ledger.AppendReserve(nil, id, other, long))
		}, 200, `"rejected"`, "DS27", false, true, ""},
		{"held past its timeout", func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, short))
		}, 200, `"rejected"`, "AB03", true, false, "released"},
		{"expired, with its receipt", func(id pix.EndToEndID) {
			write(t, client, ledger.AppendReserve(nil, id, content, short))
			write(t, client, ledger.AppendReceipt(nil, id, content, pix.ReasonPayeePSPSilent, true))
		}, 200, `"rejected"`, "AB03", true, true, "released"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
			c.do(id)
			kit.Await(t, c.status, func() (bool, string) { // at once, except for the timeout
				got := p.call("GET", "/v1/payments/"+id.String(), "")

				return got.code == c.code && string(got.Status) == c.status && got.ReasonCode == c.reason &&
						got.EndToEndID == id.String() &&
						got.has("reserved_at") == c.held && got.has("decided_at") == c.judged && legsAre(got, c.legs),
					fmt.Sprint(got.code, got.text)
			})
		})
	}
}

// legsAre reports whether a response shows the three legs in a state, or none for "".
func legsAre(got reply, state string) bool {
	var shown query.PaymentState
	if err := json.Unmarshal([]byte(got.text), &shown); state == "" {
		return !got.has("legs") && !got.has("amount_centavos") && !got.has("payer")
	} else if err != nil || len(shown.Legs) != 3 || shown.AmountCentavos != 100 || shown.Payer.Pix() != content.Payer ||
		shown.Payee.Pix() != content.Payee {
		return false
	}

	for i, want := range [][2]string{{"customer/10000001/0001/1", "transit/10000001"},
		{"reserve/10000001", "reserve/10000002"}, {"transit/10000002", "customer/10000002/0001/2"}} {
		if leg := shown.Legs[i]; leg.Leg != i+1 || leg.Debit != want[0] || leg.Credit != want[1] ||
			leg.AmountCentavos != 100 || leg.State != state {
			return false
		}
	}

	return true
}

// withTheLedgerAwayNothingIsTaken is a step of TestWholeLedger. It leaves the ledger dead.
func withTheLedgerAwayNothingIsTaken(t *testing.T, l *ledgertest.Server, client tigerbeetle.Client) {
	r, b := makeRing(t), startBroker(t)
	p := startProgram(t, b, l, "STATUS_TIMEOUT=2s", "STATUS_IN_FLIGHT_MAX=10", "CALLER_SHARE_MAX=1")

	locked := startProgram(t, b, l, "HTTP_KEYS_FILE="+r.digests, "STATUS_TIMEOUT=1s")
	for _, of := range []*program{p, locked} {
		of.AwaitNeed("log", false)
	}
	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, id, content, 3600)) // longer than any start of the ledger
	p.asIs, locked.asIs = true, true
	l.Stop()
	p.AwaitNeed("ledger", true)
	var mu sync.Mutex
	codes := map[int]int{}

	var calls sync.WaitGroup
	for range 30 {
		calls.Go(func() {
			started := time.Now()
			got := p.call("GET", "/v1/payments/"+id.String(), "")

			if took := time.Since(started); took > 10*time.Second {
				t.Errorf("it took %v, want about 2s", took)
			}

			if got.retryAfter == "" || got.EndToEndID != id.String() {
				t.Errorf("%d %s Retry-After %q", got.code, got.text, got.retryAfter)
			}
			mu.Lock()
			defer mu.Unlock()
			codes[got.code]++
		})
	}
	calls.Wait()

	if away, refused := codes[http.StatusServiceUnavailable],
		codes[http.StatusTooManyRequests]; away < 10 || refused == 0 || away+refused != 30 {
		t.Errorf("answers by code %v, want 503 at least 10 times and, past the limit, 429", codes)
	}
	// Who is blocked is not known.
	p.AwaitNeed("register", true)

	if got := p.call("POST", "/v1/payments", valid); got.code != http.StatusServiceUnavailable ||
		got.Type != "urn:liquida:problem:register-away" || got.EndToEndID != "" {
		t.Errorf("%d %s", got.code, got.text)
	}
	// It is unknown who received the payment that a bank gives back. Nothing is sent, so the problem
	// names no id.
	locked.AwaitNeed("ledger", true)

	code, header, problem, text := locked.as("Bearer "+r.of(t, "10000002"), "POST", "/v1/returns",
		`{"original_end_to_end_id": "`+id.String()+`", "amount_centavos": 40, "reason_code": "FR01"}`)
	if code != 503 || problem.EndToEndID != "" || header.Get("Retry-After") == "" ||
		!strings.Contains(problem.Detail, "nothing was") {
		t.Errorf("%d %s", code, text)
	}
	locked.End(syscall.SIGKILL)

	if err := l.StartAgain(); err != nil {
		t.Fatal(err)
	}
	p.AwaitNeed("ledger", false)
	kit.Await(t, "the status", func() (bool, string) {
		got := p.call("GET", "/v1/payments/"+id.String(), "")
		return string(got.Status) == `"reserved"`, got.text
	})
	// Without the ledger, too, a stop takes bounded time.
	l.Stop()
	p.AwaitNeed("ledger", true)
	stopping := time.Now()
	p.End(syscall.SIGTERM)

	if took := time.Since(stopping); took > 15*time.Second {
		t.Errorf("stopping took %v", took)
	}

	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}
