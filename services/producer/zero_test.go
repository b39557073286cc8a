package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/query"
)

// zeroBank packs to 0, which TigerBeetle takes for "no filter" in a query. It is the ISPB of a real bank.
const zeroBank pix.ISPB = "00000000"

// The bank whose ISPB is zero asks for all that a bank may ask for. It gets what is its own, and nothing of
// others, who have the same.
func TestABankWhoseISPBIsZeroSeesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	everybody, _, client := startForActs(t)
	other := newBank(t, everybody)

	var accounts []tb.Account
	for _, id := range []tb.Uint128{ledger.ReserveAccount(zeroBank), ledger.TransitAccount(zeroBank),
		ledger.AllowanceAccount(zeroBank, ledger.Day), ledger.AllowanceAccount(zeroBank, ledger.Night)} {
		accounts = append(accounts, ledger.NewAccount(id))
	}

	if results, err := client.CreateAccounts(accounts); err != nil || len(results) > 0 {
		t.Fatal(results, err)
	}
	b := startBroker(t)
	l, _ := sharedLedger(t)
	p := startProgram(t, b, l, append(lasting, "HTTP_KEYS_FILE="+r.digests)...)
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("register", false)
	p.awaitSettlements()
	zero, third, bank := "Bearer "+r.of(t, string(zeroBank)), "Bearer "+r.of(t, "10000003"),
		"Bearer "+r.of(t, keys.CentralBank)
	do := func(as, path, body string) {
		t.Helper()
		kit.Await(t, "the act", func() (bool, string) {
			code, _, _, text := p.as(as, "PUT", path, body)
			return code == 200, text
		})
	}
	do(bank, "/v1/participants/00000000/acts/zero-in", liquidity)

	own := []pix.Account{{ISPB: zeroBank, Branch: "0000", Number: "1"}, {ISPB: zeroBank, Branch: "0000", Number: "2"}}
	for _, account := range own {
		do(zero, accountPath(account)+"/acts/open-"+account.Number, `{"act": "open"}`)
		do(zero, accountPath(account)+"/acts/deposit-"+account.Number, `{"act": "deposit", "amount_centavos": 50000}`)
	}

	ask := func(as, path string, want int, body any) string {
		t.Helper()

		code, _, _, text := p.as(as, "GET", path, "")
		if code != want {
			t.Fatalf("%.20s %s: %d %s, want %d", as, path, code, text, want)
		}

		if body != nil {
			if err := json.Unmarshal([]byte(text), body); err != nil {
				t.Fatal(path, text, err)
			}
		}

		return text
	}
	for _, as := range []string{zero, bank} {
		for _, limit := range []int{1, 2, 100} {
			var listed []string

			for cursor := ""; ; {
				var page query.AccountPage
				ask(as, fmt.Sprintf("/v1/participants/00000000/accounts?limit=%d%s", limit, cursor), 200, &page)

				for _, a := range page.Accounts {
					listed = append(listed, fmt.Sprint(a.ISPB, a.Branch, a.Number, a.State, a.PostedCentavos))
				}

				if page.NextCursor == "" || len(listed) > 2 {
					break
				}
				cursor = "&cursor=" + page.NextCursor
			}

			if got := strings.Join(listed, " "); got != "0000000000001open50000 0000000000002open50000" {
				t.Fatalf("in pages of %d its accounts are %.300s", limit, got)
			}
		}
	}
	var acts query.ActPage
	ask(zero, "/v1/participants/00000000/acts?limit=1000", 200, &acts)

	for _, one := range acts.Acts {
		if one.Participant != "00000000" || one.Account != nil && one.Account.ISPB != "00000000" {
			t.Errorf("among its acts is %+v", one)
		}
	}

	if len(acts.Acts) != 7 { // joined, a key, money, two accounts with a deposit each
		t.Errorf("its acts are %+v", acts.Acts)
	}
	var participant query.Participant
	ask(zero, "/v1/participants/00000000", 200, &participant)

	if participant.ISPB != "00000000" || participant.Reserve.PostedCentavos != 100_000 ||
		participant.Transit.PostedCentavos != -100_000 || !participant.Books.Holds {
		t.Errorf("it is %+v %+v", participant, participant.Books)
	}
	// It pays the other bank, which sees that.
	id := pix.NewEndToEndID(zeroBank, time.Now(), random)
	paid := pix.Content{Payer: own[0], Payee: other, AmountCentavos: 100}
	write(t, client, ledger.AppendPost(ledger.AppendReserve(nil, id, paid, 600), id, false))
	foreign := pix.NewEndToEndID(other.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, foreign,
		pix.Content{Payer: other, Payee: other, AmountCentavos: 1}, 600))
	var lines query.Statement
	ask(zero, accountPath(own[0])+"/statement", 200, &lines)

	if len(lines.Lines) != 3 || lines.Lines[0].EndToEndID != id.String() { // the deposit, the hold and the post
		t.Errorf("its statement is %+v", lines)
	}

	var state query.PaymentState
	if ask(zero, "/v1/payments/"+id.String(), 200, &state); state.Status != query.Settled ||
		state.Payer.ISPB != "00000000" {
		t.Errorf("its payment is %+v", state)
	}
	_, until := lastInstant(t, client, zeroBank)
	kit.Await(t, "the statement of the day", func() (bool, string) { // the ledger's clock must have passed it
		code, _, _, text := p.as(zero, "GET", dayPath(zeroBank, pix.DayOf(until), until, "csv"), "")
		return code == 200 && strings.Contains(text, id.String()) && strings.Contains(text, "central-bank"), text
	})
	deadLetter(t, b, "FF01",
		&pixv1.PaymentOrder{EndToEndId: pix.NewEndToEndID(other.ISPB, time.Now(), random).String(), AmountCentavos: 77})
	dead := pix.NewEndToEndID(zeroBank, time.Now(), random)
	deadLetter(t, b, "LQ07", &pixv1.PaymentOrder{EndToEndId: dead.String(), AmountCentavos: 77})
	kit.Await(t, "its dead letter", func() (bool, string) {
		code, _, problem, text := p.as(zero, "GET", "/v1/payments/"+dead.String(), "")
		return code == 404 && problem.Code == "LQ07", text
	})
	reports(t, b, 0, [2]string{"of-another", "10000003"}, [2]string{"its-own", "00000000"})
	stream, end := context.WithCancel(t.Context())
	defer end()

	if e := next(t, events(p.send(stream, "GET", "/v1/settlements?participant=00000000&from=start", "", "Authorization",
		zero))); !strings.Contains(e.data, "its-own") {
		t.Errorf("its first settlement is %s", e.data)
	}
	// Of others it gets nothing, and others nothing of it.
	for _, path := range []string{
		"/v1/participants/ISPB", "/v1/participants/ISPB/acts", "/v1/participants/ISPB/accounts",
		"/v1/participants/ISPB/statements/2026-01-02",
		"/v1/accounts/ISPB/0001/1", "/v1/accounts/ISPB/0001/1/statement", "/v1/settlements?participant=ISPB",
	} {
		ask(zero, strings.ReplaceAll(path, "ISPB", string(other.ISPB)), 403, nil)
		ask(third, strings.ReplaceAll(path, "ISPB", "00000000"), 403, nil)
	}

	for _, path := range []string{"/v1/participants", "/v1/acts", "/v1/settlements?participant=all",
		"/v1/payments/" + foreign.String(), "/v1/payments/" + foreign.String() + "/events"} {
		ask(zero, path, 403, nil)
	}

	for _, path := range []string{"/v1/payments/" + id.String(), "/v1/payments/" + id.String() + "/events"} {
		ask(third, path, 403, nil)
	}
}

// foreignLedger is the real ledger, but its queries find what is another's, too.
type foreignLedger struct {
	tigerbeetle.Client
	account  ledger.AccountID
	transfer tb.Transfer
}

func (f foreignLedger) GetAccountTransfers(filter tb.AccountFilter) ([]tb.Transfer, error) {
	found, err := f.Client.GetAccountTransfers(filter)
	if filter.AccountID == ledger.RegisterAccount {
		return found, err
	}

	return append(found, f.transfer), err
}

func (f foreignLedger) QueryTransfers(filter tb.QueryFilter) ([]tb.Transfer, error) {
	found, err := f.Client.QueryTransfers(filter)
	return append(found, f.transfer), err
}

func (f foreignLedger) QueryAccounts(filter tb.QueryFilter) ([]tb.Account, error) {
	found, err := f.Client.QueryAccounts(filter)
	return append(found, ledger.NewAccount(f.account)), err
}

// Whatever a query of the ledger finds, what is another's does not leave the front door.
func TestWhatAQueryDidNotAskForIsNotTold(t *testing.T) {
	t.Parallel()
	p, _, client := startForActs(t)
	account, other := newBank(t, p), newBank(t, p)
	id := pix.NewEndToEndID(other.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, id, pix.Content{Payer: other, Payee: other, AmountCentavos: 1}, 600))

	found, err := client.LookupTransfers([]tb.Uint128{ledger.IDsOf(id).Pending(1)})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	l, health, follows := queryLedger(t.Context(), t, foreignLedger{client, ledger.CustomerAccount(other), found[0]},
		func(*query.Config) {})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		if err := follows.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); following.Wait() })

	request := httptest.NewRequest("GET", "/?cursor=2", nil)
	for name, value := range map[string]string{"ispb": string(account.ISPB), "branch": account.Branch,
		"number": account.Number} {
		request.SetPathValue(name, value)
	}
	request = access.With(request, access.Caller{Holder: string(account.ISPB)})
	tries := map[string]func() (any, *web.Problem){
		"accounts":     func() (any, *web.Problem) { return l.OpenedAccounts(request) },
		"acts":         func() (any, *web.Problem) { return l.ParticipantActs(request) },
		"statement":    func() (any, *web.Problem) { return l.Statement(request) },
		"participants": func() (any, *web.Problem) { return l.Participants(request) },
		"return": func() (any, *web.Problem) {
			return l.StateOfReturn(request.Context(), pix.NewReturnID(account.ISPB, time.Now(), random))
		},
	}
	kit.Await(t, "the register", func() (bool, string) {
		state, fresh := follows.Current()
		return fresh && state.Participant(other.ISPB) != nil, ""
	})

	for name, ask := range tries {
		told, problem := ask()

		text, err := json.Marshal(told)
		if err != nil || problem == nil || problem.Status != 500 || problem.Type != "urn:liquida:problem:broken-law" ||
			strings.Contains(string(text), string(other.ISPB)) {
			t.Errorf("%s: %+v %s %v", name, problem, text, err)
		}
	}

	if count := counted(t, health.Registry, "pix_producer_foreign_results_total"); count != float64(len(tries)) {
		t.Errorf("%v are counted, want %d", count, len(tries))
	}
}
