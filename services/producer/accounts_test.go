package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/services/producer/query"
)

// get reads an answer that must be 200.
func get[B any](t *testing.T, p *program, path string) (body B) {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.HTTP+path, nil)
	if err != nil {
		t.Fatal(err)
	}

	response, err := p.do(http.DefaultClient, request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}

	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %s %v", path, response.Status, text, err)
	}

	return body
}

func balance(posted, out, in, available int64) query.Balance {
	return query.Balance{PostedCentavos: posted, PendingOutCentavos: out, PendingInCentavos: in,
		AvailableCentavos: available}
}

func TestTheBalanceIsTheLedgers(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	content := ownBanks()
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("ledger", false)
	payer, payee := accountPath(content.Payer), accountPath(content.Payee)
	check := func(path string, want query.Balance) {
		t.Helper()

		if got := get[query.AccountBalance](t, p, path); got.Balance != want ||
			"/v1/accounts/"+got.ISPB+"/"+got.Branch+"/"+got.Number != path {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	check(payer, balance(1_000_000, 0, 0, 1_000_000))
	write(t, client, ledger.AppendReserve(nil, id, content, 60))
	check(payer, balance(1_000_000, 100, 0, 999_900))
	check(payee, balance(0, 0, 100, 0))
	write(t, client, ledger.AppendPost(nil, id, false))
	check(payer, balance(999_900, 0, 0, 999_900))
	check(payee, balance(100, 0, 0, 100))

	if got := p.call("GET", "/v1/accounts/"+string(content.Payer.ISPB)+"/0001/99",
		""); got.code != http.StatusNotFound || got.Field != "account" {
		t.Errorf("%d %s", got.code, got.text)
	}

	for _, path := range []string{"/v1/accounts/1/0001/1", "/v1/accounts/10000001/1/1", "/v1/accounts/10000001/0001/01",
		payer + "/statement?limit=0", payer + "/statement?limit=x", payer + "/statement?cursor=-1",
		"/v1/participants/1", "/v1/participants?limit=1000000"} {
		if got := p.call("GET", path, ""); got.code != 422 || got.Field == "" || got.Rule == "" || got.Code != "FF01" {
			t.Errorf("%s: %d %s", path, got.code, got.text)
		}
	}
}

func TestTheStatementNamesEveryMovement(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	content := ownBanks()
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("ledger", false)

	settled, voided := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random),
		pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	for _, id := range []pix.EndToEndID{settled, voided} {
		write(t, client, ledger.AppendReserve(nil, id, content, 60))
	}
	write(t, client, ledger.AppendPost(nil, settled, false))
	write(t, client, ledger.AppendVoid(nil, voided, false, pix.ReasonPayeeBlocked))
	path := accountPath(content.Payer) + "/statement"
	want := []string{ // newest first
		fmt.Sprint("released debit 100 1 ", voided, " AC06"),
		fmt.Sprint("posted debit 100 1 ", settled, " "),
		fmt.Sprint("held debit 100 1 ", voided, " "),
		fmt.Sprint("held debit 100 1 ", settled, " "),
		"posted credit 1000000 9  ",
	}

	for limit := 1; limit <= 6; limit++ { // the lines do not depend on the pages
		var got []string
		before := time.Now().Add(time.Hour)

		for cursor := ""; ; {
			page := get[query.Statement](t, p, fmt.Sprintf("%s?limit=%d%s", path, limit, cursor))
			if len(page.Lines) > limit {
				t.Errorf("%d lines in a page of %d", len(page.Lines), limit)
			}

			for _, line := range page.Lines {
				got = append(got, fmt.Sprint(line.Kind, " ", line.Direction, " ", line.AmountCentavos, " ", line.Code,
					" ", line.EndToEndID, " ", line.ReasonCode))
				if !line.At.Before(before) {
					t.Errorf("%v does not come after %v", before, line.At)
				}
				before = line.At
			}

			if page.NextCursor == "" {
				break
			}
			cursor = "&cursor=" + page.NextCursor
		}

		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("in pages of %d: %q, want %q", limit, got, want)
		}
	}

	idle := ledger.NewAccount(
		ledger.CustomerAccount(pix.Account{ISPB: content.Payer.ISPB, Branch: "0001", Number: "2"}))
	if results, err := client.CreateAccounts([]tb.Account{idle}); err != nil || len(results) > 0 {
		t.Fatalf("%v %v", results, err)
	}

	if page := get[query.Statement](t, p,
		"/v1/accounts/"+string(content.Payer.ISPB)+"/0001/2/statement"); len(page.Lines) != 0 || page.NextCursor != "" {
		t.Errorf("an account without movements: %+v", page)
	}

	if got := p.call("GET", "/v1/accounts/"+string(content.Payer.ISPB)+"/0001/99/statement",
		""); got.code != http.StatusNotFound {
		t.Errorf("%d %s", got.code, got.text)
	}
}

// fund makes a sandbox population of two banks as bootstrap does.
func fund(t *testing.T, client tigerbeetle.Client, p sandbox.Population) {
	t.Helper()
	marker := ledger.Marker{Banks: uint32(p.Banks), Customers: uint32(p.Customers), DepositCentavos: p.DepositCentavos,
		ReserveCentavos: p.ReserveCentavos}

	opened := []tb.Account{marker.Issuance()}
	for _, id := range []ledger.AccountID{ledger.RefusalsAccount, ledger.RegisterAccount,
		ledger.AllowanceSourceAccount} {
		opened = append(opened, ledger.NewAccount(id))
	}
	var funding []tb.Transfer
	move := func(debit, credit ledger.AccountID, amount uint64) {
		funding = append(funding,
			tb.Transfer{ID: tb.ID(), DebitAccountID: debit, CreditAccountID: credit, Amount: tb.ToUint128(amount),
				Ledger: ledger.Ledger, Code: ledger.CodeFunding})
	}
	customer := func(account pix.Account) {
		opened = append(opened, ledger.NewAccount(ledger.CustomerAccount(account)))
		if deposit := p.DepositOf(account); deposit > 0 {
			move(ledger.TransitAccount(account.ISPB), ledger.CustomerAccount(account), deposit)
		}
	}

	for bank := range p.Banks {
		psp := p.Bank(bank)
		for _, id := range []ledger.AccountID{ledger.ReserveAccount(psp), ledger.TransitAccount(psp),
			ledger.BooksAccount(psp), ledger.AllowanceAccount(psp, ledger.Day),
			ledger.AllowanceAccount(psp, ledger.Night)} {
			opened = append(opened, ledger.NewAccount(id))
		}
		move(ledger.IssuanceAccount, ledger.ReserveAccount(psp), p.ReserveCentavos)
		funding = ledger.AppendAct(funding, "", "",
			ledger.Act{Kind: ledger.Opening, Bank: psp, Centavos: int64(p.ReserveCentavos) - int64(p.DepositsOf(bank)),
				ByCentralBank: true})
		funding = ledger.AppendAct(funding, keys.CentralBank, "join-"+string(psp),
			ledger.Act{Kind: ledger.Joined, Bank: psp, ByCentralBank: true})

		for _, branch := range sandbox.SpecialBranches {
			customer(p.Special(bank, branch))
		}
	}

	for i := range p.Customers {
		customer(p.Customer(i))
	}

	if results, err := client.CreateAccounts(opened); err != nil || len(results) > 0 {
		t.Fatalf("%v %v", results, err)
	}
	write(t, client, append(funding, marker.Transfer()))
}

// nothingIsToldFromAnEmptyLedger begins TestWholeLedger: before bootstrap the topics name no ledger.
func nothingIsToldFromAnEmptyLedger(t *testing.T, l *ledgertest.Server) {
	t.Helper()
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("ledger", false)
	p.AwaitNeed("register", false)

	if got := p.call("GET", "/v1/participants", ""); got.code != http.StatusServiceUnavailable ||
		!strings.Contains(got.Detail, "run bootstrap") {
		t.Errorf("participants of an empty ledger: %d %s", got.code, got.text)
	}
}

// aParticipantsBooksAgree is a step of TestWholeLedger.
func aParticipantsBooksAgree(t *testing.T, l *ledgertest.Server, client tigerbeetle.Client) {
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("ledger", false)
	check := func(ispb string, reserve, transit query.Balance) {
		t.Helper()

		got := get[query.Participant](t, p, "/v1/participants/"+ispb)
		if got.ISPB != ispb || got.Reserve != reserve || got.Transit != transit || got.Books == nil ||
			!got.Books.Holds || got.Books.DifferenceCentavos != 0 {
			t.Errorf("%+v %+v, want reserve %+v and transit %+v", got, got.Books, reserve, transit)
		}
	}
	// Deposits: two or three customers, and twice the reserve for the one of the rich branch.
	check("10000001", balance(10_000, 0, 0, 10_000), balance(-23_000, 0, 0, -23_000))
	id := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, id, content, 60))
	check("10000001", balance(10_000, 100, 0, 9900), balance(-23_000, 0, 100, -23_000))
	write(t, client, ledger.AppendPost(nil, id, false))
	check("10000001", balance(9900, 0, 0, 9900), balance(-22_900, 0, 0, -22_900))
	check("10000002", balance(10_100, 0, 0, 10_100), balance(-22_100, 0, 0, -22_100))
	var all []string

	for cursor := ""; ; {
		page := get[query.ParticipantPage](t, p, "/v1/participants?limit=2"+cursor)
		for _, one := range page.Participants {
			all = append(all, one.ISPB)
		}

		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}

	if fmt.Sprint(all) != "[10000001 10000002 10000003]" {
		t.Errorf("the participants are %v", all)
	}
	// Money without a source must be reported, until it is given back.
	move := func(debit, credit ledger.AccountID) {
		t.Helper()
		write(t, client, []tb.Transfer{
			{ID: tb.ID(), DebitAccountID: debit, CreditAccountID: credit, Amount: tb.ToUint128(1),
				Ledger: ledger.Ledger, Code: 99}})
	}
	move(ledger.TransitAccount("10000003"), ledger.RefusalsAccount)

	if got := get[query.Participant](t, p, "/v1/participants/10000003"); got.Books.Holds ||
		got.Books.DifferenceCentavos != -1 {
		t.Errorf("a breach of the law is reported as %+v", got.Books)
	}
	move(ledger.RefusalsAccount, ledger.TransitAccount("10000003"))
	check("10000003", balance(10_000, 0, 0, 10_000), balance(-22_000, 0, 0, -22_000))

	if got := p.call("GET", "/v1/participants/99999999", ""); got.code != http.StatusNotFound {
		t.Errorf("%d %s", got.code, got.text)
	}
}
