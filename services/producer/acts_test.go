package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/act"
	"github.com/liquida/liquida/services/producer/query"
)

// openRegister creates the central bank's accounts, unless they are there.
func openRegister(t *testing.T, client tigerbeetle.Client) {
	t.Helper()

	var accounts []tb.Account
	for _, id := range []tb.Uint128{ledger.IssuanceAccount, ledger.RefusalsAccount, ledger.RegisterAccount,
		ledger.AllowanceSourceAccount} {
		accounts = append(accounts, ledger.NewAccount(id))
	}

	results, err := client.CreateAccounts(accounts)
	for _, result := range results {
		if result.Result != tb.AccountExists {
			t.Fatalf("%v", results)
		}
	}

	if err != nil {
		t.Fatal(err)
	}
}

// put does an act that must be done, and returns the response.
func put[B any](t *testing.T, p *program, path, body string) (done B) {
	t.Helper()
	var got reply
	kit.Await(t, "the ledger", func() (bool, string) { // repeating an act is safe
		got = p.call("PUT", path, body)
		return got.code != http.StatusServiceUnavailable, got.text
	})

	if err := json.Unmarshal([]byte(got.text), &done); err != nil || got.code != http.StatusOK {
		t.Fatalf("PUT %s %s: %d %s %v", path, body, got.code, got.text, err)
	}

	return done
}

// bankPath begins the paths of the central bank's acts on a bank in this process: its ids name acts on
// all banks.
func bankPath(psp pix.ISPB) string {
	return fmt.Sprintf("/v1/participants/%s/acts/%s-", psp, psp)
}

func (p *program) onParticipant(t *testing.T, psp pix.ISPB, id, body string) act.ParticipantActDone {
	t.Helper()
	return put[act.ParticipantActDone](t, p, bankPath(psp)+id, body)
}

func (p *program) onAccount(t *testing.T, account pix.Account, id, body string) act.AccountActDone {
	t.Helper()
	return put[act.AccountActDone](t, p, accountPath(account)+"/acts/"+id, body)
}

const liquidity = `{"act": "liquidity-in", "amount_centavos": 100000}`

// newBank registers a bank that no other test knows, with an account that has BRL 500 of BRL 1000.
func newBank(t *testing.T, p *program) pix.Account {
	t.Helper()
	account := ownBanks().Payer
	p.onParticipant(t, account.ISPB, "join", `{"act": "register"}`)
	p.onParticipant(t, account.ISPB, "in", liquidity)
	p.onAccount(t, account, "open", `{"act": "open"}`)
	p.onAccount(t, account, "deposit", `{"act": "deposit", "amount_centavos": 50000}`)

	return account
}

// startForActs starts a producer on the shared ledger, which has a register.
func startForActs(t *testing.T, env ...string) (*program, *kit.Broker, tigerbeetle.Client) {
	t.Helper()
	l, client := sharedLedger(t)
	openRegister(t, client)
	b := startBroker(t)
	p := startProgram(t, b, l, env...)
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("register", false)

	return p, b, client
}

func payment(payer, payee pix.Account) string {
	named := func(a pix.Account) string {
		return fmt.Sprintf(`{"ispb": %q, "branch": %q, "number": %q}`, a.ISPB, a.Branch, a.Number)
	}

	return `{"payer": ` + named(payer) + `, "payee": ` + named(payee) + `, "amount_centavos": 12345}`
}

func TestABankJoinsAndWorks(t *testing.T) {
	t.Parallel()
	p, b, _ := startForActs(t)
	account := newBank(t, p)
	psp := account.ISPB
	other := ownBanks().Payee
	check := func(state string, reserve, transit int64) {
		t.Helper()

		got := get[query.Participant](t, p, "/v1/participants/"+string(psp))
		if got.State != state || got.Reserve != balance(reserve, 0, 0, reserve) ||
			got.Transit != balance(transit, 0, 0, transit) || got.Books == nil || !got.Books.Holds ||
			got.Books.BooksCentavos != reserve+transit {
			t.Errorf("%+v %+v", got, got.Books)
		}
	}
	check("active", 100_000, -50_000)
	pays := func(code int) {
		t.Helper()

		if got := p.call("POST", "/v1/payments", payment(account, other)); got.code != code || code != 202 &&
			(got.Field != "payer" || got.Rule == "" || !strings.Contains(string(got.Value), string(psp))) {
			t.Errorf("%d %s, want %d", got.code, got.text, code)
		}
	}
	pays(202)

	for _, c := range []struct{ act, state string }{{"block", "blocked"}, {"close", "closed"}} {
		if done := p.onAccount(t, account, c.act, `{"act": "`+c.act+`"}`); done.Account.State != c.state ||
			done.Act.Act != c.act || done.Act.By != string(psp) || done.Act.At.IsZero() {
			t.Errorf("%+v", done)
		}
		pays(422) // at once: who has done an act here sees it here

		if _, _, _, text := p.as("", "POST", batchPath, payment(account, other)+"\n"); !strings.Contains(text,
			`"status":422`) || !strings.Contains(text, "account-not-open") {
			t.Errorf("a line of a batch: %s", text)
		}

		for _, moves := range []string{"deposit", "withdraw"} {
			if got := p.call("PUT", accountPath(account)+"/acts/"+c.act+moves,
				`{"act": "`+moves+`", "amount_centavos": 1}`); got.code != 422 || got.Field != "account" ||
				got.Rule == "" {
				t.Errorf("%s: %d %s", moves, got.code, got.text)
			}
		}

		if done := p.onAccount(t, account, "re"+c.act, `{"act": "reopen"}`); done.Account.State != "open" {
			t.Errorf("%+v", done)
		}
		pays(202)
	}

	if done := p.onAccount(t, account, "w",
		`{"act": "withdraw", "amount_centavos": 20000}`); done.Account.PostedCentavos != 30_000 ||
		done.Act.AmountCentavos != 20_000 {
		t.Errorf("%+v", done)
	}

	if done := p.onParticipant(t, psp, "out",
		`{"act": "liquidity-out", "amount_centavos": 10000}`); done.Participant.Reserve.PostedCentavos != 90_000 ||
		done.Act.By != keys.CentralBank {
		t.Errorf("%+v", done)
	}
	check("active", 90_000, -30_000)

	if done := p.onParticipant(t, psp, "s", `{"act": "suspend"}`); done.Participant.State != "suspended" {
		t.Errorf("%+v", done)
	}
	p.onParticipant(t, psp, "cap", `{"act": "payment-cap", "cap_centavos": 700}`)

	if done := p.onParticipant(t, psp, "r", `{"act": "resume"}`); done.Participant.State != "active" ||
		done.Participant.PaymentCapCentavos != 700 {
		t.Errorf("%+v", done)
	}

	if done := p.onParticipant(t, psp, "nocap",
		`{"act": "payment-cap", "cap_centavos": 0}`); done.Participant.PaymentCapCentavos != 0 ||
		done.Act.CapCentavos == nil || *done.Act.CapCentavos != 0 {
		t.Errorf("%+v", done)
	}
	// The history, in pages of any size, and among that of all.
	want := "register liquidity-in open deposit block reopen close reopen withdraw liquidity-out suspend payment-cap resume payment-cap"

	for _, path := range []string{"/v1/participants/" + string(psp) + "/acts", "/v1/acts"} {
		for _, limit := range []int{1, 3, 1000} {
			var names []string
			before := time.Time{}

			for cursor := ""; ; {
				page := get[query.ActPage](t, p, fmt.Sprintf("%s?limit=%d%s", path, limit, cursor))
				for _, one := range page.Acts {
					if !one.At.After(before) {
						t.Errorf("%v is not after %v", one.At, before)
					}

					if before = one.At; one.Participant == string(psp) {
						names = append(names, one.Act)
					}
				}

				if cursor = "&cursor=" + page.NextCursor; len(page.Acts) == 0 {
					break
				}
			}

			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s in pages of %d: %s", path, limit, got)
			}

			if path == "/v1/acts" {
				break // it has the acts of all tests
			}
		}
	}
	second := account
	second.Number = "2"
	p.onAccount(t, second, "open-2", `{"act": "open"}`)
	list := get[query.AccountPage](t, p, "/v1/participants/"+string(psp)+"/accounts?limit=1")

	rest := get[query.AccountPage](t, p, "/v1/participants/"+string(psp)+"/accounts?cursor="+list.NextCursor)
	if len(list.Accounts) != 1 || list.Accounts[0].Number != "1" || list.Accounts[0].PostedCentavos != 30_000 ||
		list.Accounts[0].State != "open" || len(rest.Accounts) != 1 || rest.Accounts[0].Number != "2" ||
		rest.NextCursor != "" {
		t.Errorf("%+v %+v", list, rest)
	}

	if records := published(t, b, 3); len(records) != 3 {
		t.Errorf("%d payments were sent, want 3", len(records))
	}
}

// A cap on outflow and its allowance are one act: the account of the ledger that holds leg 4 says what
// the cap says, whoever else sets caps at the same time.
func TestACapGrantsItsAllowance(t *testing.T) {
	t.Parallel()
	p, _, client := startForActs(t, "ACT_RATE_MAX=1000", "ACT_BURST_MAX=1000", "CALLER_SHARE_MAX=1")
	l, _ := sharedLedger(t)
	q := startProgram(t, startBroker(t), l, "ACT_RATE_MAX=1000", "ACT_BURST_MAX=1000", "CALLER_SHARE_MAX=1")
	q.AwaitNeed("register", false)
	account := newBank(t, p)
	psp, other := account.ISPB, ownBanks().Payee
	set := func(of *program, id, kind string, centavos int) act.ParticipantActDone {
		t.Helper()
		return of.onParticipant(t, psp, id,
			fmt.Sprintf(`{"act": %q, "cap_centavos": %d, "window_seconds": 3600}`, kind, centavos))
	}
	check := func(done act.ParticipantActDone, want ...query.OutflowCap) {
		t.Helper()

		if fmt.Sprint(done.Participant.OutflowCaps) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", done.Participant.OutflowCaps, want)
		}
	}
	night := query.OutflowCap{When: "night", CapCentavos: 500, WindowSeconds: 3600, LeftCentavos: 500}
	day := query.OutflowCap{When: "day", CapCentavos: 1000, WindowSeconds: 3600, LeftCentavos: 1000}
	check(set(p, "night", "night-cap", 500), night)
	check(set(q, "day", "day-cap", 1000), day, night)
	check(set(q, "day", "day-cap", 1000), day, night) // once
	// What a payment holds is not left, and a lower cap takes what is free.
	content := pix.Content{Payer: account, Payee: other, AmountCentavos: 300}
	id := pix.NewEndToEndID(psp, time.Now(), random)
	capped := ledger.AppendCap(nil, id, content, ledger.Day, 600)
	write(t, client, capped)
	day.CapCentavos, day.LeftCentavos = 400, 100
	check(set(p, "lower", "day-cap", 400), day, night)
	day.CapCentavos, day.LeftCentavos = 100, 0
	check(set(p, "lowest", "day-cap", 100), day, night)
	// Once the payment ends the rest of the lower cap is taken, by whichever producer comes first.
	allowance := func() ledger.Grant {
		found, err := client.LookupAccounts([]tb.Uint128{ledger.AllowanceAccount(psp, ledger.Day)})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}

		return ledger.GrantOf(found[0])
	}
	if has := allowance().Centavos(); has != 300 {
		t.Errorf("while 300 are held the allowance is %d", has)
	}
	write(t, client, ledger.AppendCapRelease(nil, id, pix.ReasonPayeeBlocked))
	kit.Await(t, "the allowance comes down to the cap", func() (bool, string) {
		has := allowance().Centavos()
		return has == 100, fmt.Sprint(has)
	})
	kit.Await(t, "the metric of what is left", func() (bool, string) {
		return strings.Contains(p.metrics(),
			fmt.Sprintf("pix_outflow_left_centavos{ispb=%q,window=\"day\"} 100\n", psp)), ""
	})
	day.CapCentavos, day.LeftCentavos = 2000, 2000
	check(set(p, "higher", "day-cap", 2000), day, night)
	lifted := set(p, "lifted", "night-cap", 0)
	check(lifted, day)
	// From two front doors at once: each act is done, and the allowance is the last one's.
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() { set([]*program{p, q}[i%2], fmt.Sprint("race-", i), "day-cap", 1000+i) })
	}
	all.Wait()

	found, err := client.GetAccountTransfers(
		tb.AccountFilter{AccountID: ledger.BooksAccount(psp), Limit: 1,
			Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32()})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}

	last, _, err := ledger.ActOf(found[0])
	if err != nil {
		t.Fatal(err)
	}
	day.CapCentavos, day.LeftCentavos = last.Centavos, last.Centavos
	kit.Await(t, "this front door follows the last act of the other", func() (bool, string) {
		caps := get[query.Participant](t, p, "/v1/participants/"+string(psp)).OutflowCaps
		return fmt.Sprint(caps) == fmt.Sprint([]query.OutflowCap{day}), fmt.Sprint(caps)
	})
}

// A repeated act changes nothing and answers the same, and its id names no other act.
func TestARepeatedActChangesNothing(t *testing.T) {
	t.Parallel()
	p, _, _ := startForActs(t)
	account := newBank(t, p)
	path := bankPath(account.ISPB) + "in"

	first := p.call("PUT", path, liquidity)
	for range 3 {
		if again := p.call("PUT", path, liquidity); again.code != 200 || again.text != first.text {
			t.Errorf("%d %s, want %s", again.code, again.text, first.text)
		}
	}

	for _, other := range []string{`{"act": "liquidity-in", "amount_centavos": 100001}`,
		`{"act": "liquidity-out", "amount_centavos": 100000}`, `{"act": "suspend"}`} {
		if got := p.call("PUT", path, other); got.code != http.StatusConflict || got.Field != "act_id" ||
			got.Rule == "" || got.Type != "urn:liquida:problem:act-id-used" {
			t.Errorf("%s: %d %s", other, got.code, got.text)
		}
	}
	// A deposit that was done is done, whatever became of the account.
	p.onAccount(t, account, "close", `{"act": "close"}`)

	if done := p.onAccount(t, account, "deposit",
		`{"act": "deposit", "amount_centavos": 50000}`); done.Account.State != "closed" ||
		done.Account.PostedCentavos != 50_000 {
		t.Errorf("%+v", done)
	}
	p.onAccount(t, account, "reopen", `{"act": "reopen"}`)
	// The bank's ids are not the central bank's.
	p.onAccount(t, account, "in", `{"act": "deposit", "amount_centavos": 1}`)
	// What the ledger refuses burns the id, and a new try needs a new one.
	for _, c := range []struct{ path, big, small string }{
		{accountPath(account) + "/acts/w", `{"act": "withdraw", "amount_centavos": 50002}`,
			`{"act": "withdraw", "amount_centavos": 1}`},
		{bankPath(account.ISPB) + "out", `{"act": "liquidity-out", "amount_centavos": 100001}`,
			`{"act": "liquidity-out", "amount_centavos": 1}`},
	} {
		if got := p.call("PUT", c.path, c.big); got.code != 422 || got.Field != "amount_centavos" || got.Rule == "" {
			t.Errorf("%d %s", got.code, got.text)
		}

		for _, body := range []string{c.big, c.small} {
			if got := p.call("PUT", c.path, body); got.code != http.StatusConflict || got.Field != "act_id" ||
				got.Rule != "a new try needs a new id" {
				t.Errorf("%d %s", got.code, got.text)
			}
		}
		put[any](t, p, c.path+"2", c.small)
	}
	// What is there is not made again, but the act that made it says so.
	for _, c := range []struct{ path, body, field string }{
		{bankPath(account.ISPB), `{"act": "register"}`, "ispb"},
		{accountPath(account) + "/acts/", `{"act": "open"}`, "account"},
	} {
		if got := p.call("PUT", c.path+"again", c.body); got.code != http.StatusConflict || got.Field != c.field ||
			got.Rule == "" {
			t.Errorf("%d %s", got.code, got.text)
		}
		put[any](t, p, c.path+map[string]string{"ispb": "join", "account": "open"}[c.field], c.body)
	}

	got := get[query.Participant](t, p, "/v1/participants/"+string(account.ISPB))
	if got.Reserve.PostedCentavos != 99_999 || got.Transit.PostedCentavos != -50_000 || !got.Books.Holds ||
		got.State != "active" {
		t.Errorf("%+v %+v", got, got.Books)
	}
}

// Two front doors get the same acts at the same time: each is done once.
// Every bank may follow its acts, as often as its rate allows.
func TestWhoFollowsActsAsksTheLedgerNothing(t *testing.T) {
	t.Parallel()
	p, _, client := startForActs(t)
	account := newBank(t, p)
	psp := account.ISPB
	var asked atomic.Int64
	counted := changedLedger{client, func(filter tb.AccountFilter, found []tb.Transfer) []tb.Transfer {
		if filter.AccountID == ledger.BooksAccount(psp) {
			asked.Add(1)
		}

		return found
	}}
	l, _, follows := queryLedger(t.Context(), t, counted, func(*query.Config) {})
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		if err := follows.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); following.Wait() })
	page := func(cursor string) *query.ActPage {
		t.Helper()
		r := httptest.NewRequest("GET", "/v1/participants/"+string(psp)+"/acts?cursor="+cursor, nil)
		r.SetPathValue("ispb", string(psp))
		var page *query.ActPage
		kit.Await(t, "the ledger", func() (bool, string) {
			got, problem := l.ParticipantActs(access.With(r, access.Caller{Holder: keys.CentralBank}))
			page = got
			return problem == nil, fmt.Sprint(problem)
		})

		return page
	}

	all := page("2")
	if len(all.Acts) != 4 {
		t.Fatalf("%+v", all)
	}
	kit.Await(t, "the register", func() (bool, string) {
		for range 100 {
			before := asked.Load()
			_, fresh := follows.Current()

			if rest := page(all.NextCursor); len(rest.Acts) != 0 || rest.NextCursor != all.NextCursor {
				t.Fatalf("%+v", rest)
			}

			if _, still := follows.Current(); !fresh || !still {
				return false, "it is stale"
			}

			if asked.Load() != before {
				return false, "the ledger is asked"
			}
		}

		return true, ""
	})
	p.onAccount(t, account, "block", `{"act": "block"}`)
	kit.Await(t, "the next act", func() (bool, string) {
		next := page(all.NextCursor)
		return len(next.Acts) == 1 && next.Acts[0].Act == "block" && next.NextCursor != all.NextCursor,
			fmt.Sprintf("%+v", next)
	})
}

func TestActsRaceFromTwoFrontDoors(t *testing.T) {
	t.Parallel()
	p, _, _ := startForActs(t, "ACT_RATE_MAX=1000", "ACT_BURST_MAX=1000", "CALLER_SHARE_MAX=1")
	l, _ := sharedLedger(t)
	q := startProgram(t, startBroker(t), l, "ACT_RATE_MAX=1000", "ACT_BURST_MAX=1000", "CALLER_SHARE_MAX=1")
	q.AwaitNeed("register", false)
	account := ownBanks().Payer
	race := func(path string, bodies ...string) map[int]int {
		t.Helper()
		codes, texts := map[int]int{}, map[string]bool{}
		var mu sync.Mutex

		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				got := []*program{p, q}[i%2].call("PUT", path, bodies[i%len(bodies)])
				mu.Lock()
				defer mu.Unlock()

				codes[got.code]++
				if got.code == 200 {
					texts[got.text[:strings.Index(got.text, `"participant"`)]] = true
				}
			})
		}
		all.Wait()

		if len(texts) != 1 {
			t.Errorf("%s: %v %v", path, codes, texts)
		}

		return codes
	}

	base := bankPath(account.ISPB)
	for i, body := range []string{`{"act": "register"}`, liquidity, `{"act": "suspend"}`} {
		if codes := race(fmt.Sprint(base, i), body); codes[200] != 8 {
			t.Errorf("%s: %v", body, codes)
		}
	}

	if codes := race(base+"one-of", liquidity, `{"act": "liquidity-in", "amount_centavos": 5}`,
		`{"act": "resume"}`); codes[200] == 0 || codes[200]+codes[409] != 8 {
		t.Errorf("%v", codes)
	}
	// Each account by 8 acts: one opens it, the others are told.
	for i := range 4 {
		account.Number = fmt.Sprint(i + 1)
		var opened, told int
		var mu sync.Mutex

		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				got := []*program{p, q}[n%2].call("PUT", fmt.Sprintf("%s/acts/open-%d-%d", accountPath(account), i, n),
					`{"act": "open"}`)
				mu.Lock()
				defer mu.Unlock()

				switch got.code {
				case 200:
					opened++
				case 409:
					told++
				}
			})
		}
		all.Wait()

		if opened != 1 || told != 7 {
			t.Errorf("%d acts opened %v, %d were told", opened, account, told)
		}
	}

	if got := get[query.Participant](t, q, "/v1/participants/"+string(account.ISPB)); !got.Books.Holds ||
		got.Reserve.PostedCentavos < 100_000 || got.Reserve.PostedCentavos > 200_000 {
		t.Errorf("%+v %+v", got, got.Books)
	}
}

func TestABadActIsRefusedWithTheFieldAndTheValue(t *testing.T) {
	t.Parallel()
	p, _, client := startForActs(t)
	account := newBank(t, p)
	bank := bankPath(account.ISPB)
	customer := accountPath(account) + "/acts/"
	last := func() uint64 {
		found, err := client.GetAccountTransfers(
			tb.AccountFilter{AccountID: ledger.BooksAccount(account.ISPB), Limit: 1,
				Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32()})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}

		return found[0].Timestamp
	}
	before := last()

	for i, c := range []struct {
		path, body   string
		code         int
		field, value string
	}{
		{bank, ``, 400, "", ""},
		{bank, `{"act": "suspend", "why": "x"}`, 400, "why", ""},
		{bank, `{"act": "suspend", "act": "resume"}`, 400, "act", ""},
		{bank, `{}`, 400, "act", ""},
		{bank, `{"act": ""}`, 422, "act", `""`},
		{bank, `{"act": "block"}`, 422, "act", `"block"`},
		{bank, `{"act": "opening"}`, 422, "act", `"opening"`},
		{bank, `{"act": "suspend", "amount_centavos": 1}`, 422, "amount_centavos", "1"},
		{bank, `{"act": "suspend", "cap_centavos": 0}`, 422, "cap_centavos", "0"},
		{bank, `{"act": "payment-cap", "cap_centavos": 5, "window_seconds": 200}`, 422, "window_seconds", "200"},
		{bank, `{"act": "liquidity-in"}`, 422, "amount_centavos", "0"},
		{bank, `{"act": "liquidity-in", "amount_centavos": -1}`, 400, "amount_centavos", `"number -1"`},
		{bank, `{"act": "liquidity-in", "amount_centavos": 1000000000000001}`, 422, "amount_centavos",
			"1000000000000001"},
		{bank, `{"act": "payment-cap"}`, 422, "cap_centavos", ""},
		{bank, `{"act": "payment-cap", "cap_centavos": 1000000000000001}`, 422, "cap_centavos", "1000000000000001"},
		{bank, `{"act": "day-cap", "cap_centavos": 5}`, 422, "window_seconds", "0"},
		{bank, `{"act": "day-cap", "cap_centavos": 5, "window_seconds": 119}`, 422, "window_seconds", "119"},
		{bank, `{"act": "night-cap", "cap_centavos": 5, "window_seconds": 86401}`, 422, "window_seconds", "86401"},
		{customer, `{"act": "suspend"}`, 422, "act", `"suspend"`},
		{customer, `{"act": "block", "amount_centavos": 1}`, 422, "amount_centavos", "1"},
		{customer, `{"act": "deposit"}`, 422, "amount_centavos", "0"},
		{customer, `{"act": "withdraw", "amount_centavos": 1000000000000001}`, 422, "amount_centavos",
			"1000000000000001"},
		{"/v1/accounts/" + string(account.ISPB) + "/1/1/acts/", `{"act": "open"}`, 422, "account", `"branch":"1"`},
		{"/v1/accounts/" + string(account.ISPB) + "/0001/999/acts/", `{"act": "block"}`, 404, "account", `"999"`},
		{"/v1/accounts/" + string(account.ISPB) + "/0001/999/acts/", `{"act": "deposit", "amount_centavos": 1}`, 404,
			"account", `"999"`},
		{"/v1/accounts/99999999/0001/1/acts/", `{"act": "open"}`, 404, "ispb", `"99999999"`},
		{"/v1/participants/99999999/acts/", `{"act": "suspend"}`, 404, "ispb", `"99999999"`},
		{"/v1/participants/9999999/acts/", `{"act": "register"}`, 422, "ispb", `"9999999"`},
	} {
		got := p.call("PUT", fmt.Sprintf("%sbad-%d", c.path, i), c.body)
		if got.code != c.code || got.Field != c.field || !strings.Contains(string(got.Value), c.value) ||
			c.code == 422 && got.Rule == "" || got.contentType != "application/problem+json" {
			t.Errorf("%s %s: %d %s, want %d %s %s", c.path, c.body, got.code, got.text, c.code, c.field, c.value)
		}
	}

	for _, id := range []string{"a b", "ä", strings.Repeat("x", 65), "a+b"} {
		if got := p.call("PUT", strings.ReplaceAll(bank+id, " ", "%20"), `{"act": "suspend"}`); got.code != 422 ||
			got.Field != "act_id" || got.Rule == "" {
			t.Errorf("id %q: %d %s", id, got.code, got.text)
		}
	}

	if after := last(); after != before {
		t.Error("something was written")
	}

	for _, path := range []string{"/v1/acts?limit=0", "/v1/participants/1/acts", "/v1/participants/1/accounts",
		"/v1/participants/" + string(account.ISPB) + "/acts?cursor=x"} {
		if got := p.call("GET", path, ""); got.code != 422 || got.Field == "" || got.Rule == "" {
			t.Errorf("%s: %d %s", path, got.code, got.text)
		}
	}

	for _, path := range []string{"/v1/participants/99999999/acts", "/v1/participants/99999999/accounts"} {
		if got := p.call("GET", path, ""); got.code != 404 || got.Field != "ispb" {
			t.Errorf("%s: %d %s", path, got.code, got.text)
		}
	}
}

// Each act is tried by everybody who may not do it.
// A balance ends at 2^63-1 centavos. The act that would come near is refused with the rule, and its id stays free.
func TestNoActBringsABalanceToItsEnd(t *testing.T) {
	t.Parallel()
	p, _, client := startForActs(t)
	account := newBank(t, p)
	const most = ledger.CustomersCentavosMax

	results, err := client.CreateTransfers(
		[]tb.Transfer{{ID: tb.ID(), DebitAccountID: ledger.TransitAccount(account.ISPB),
			CreditAccountID: ledger.CustomerAccount(account),
			Amount:          tb.ToUint128(most - 50_000 - 1_000), Ledger: ledger.Ledger, Code: ledger.CodeFunding}})
	if err != nil || len(results) > 0 {
		t.Fatal(results, err)
	}

	deposit := func(centavos int) reply {
		return p.call("PUT", accountPath(account)+"/acts/last",
			fmt.Sprintf(`{"act": "deposit", "amount_centavos": %d}`, centavos))
	}
	if got := deposit(1_001); got.code != http.StatusUnprocessableEntity ||
		!strings.Contains(got.text, `"amount_centavos"`) ||
		!strings.Contains(got.text, fmt.Sprintf("at most %d centavos", most)) {
		t.Errorf("%d %s", got.code, got.text)
	}

	if got := deposit(1_000); got.code != http.StatusOK {
		t.Errorf("%d %s", got.code, got.text)
	}

	if got := get[query.AccountBalance](t, p, accountPath(account)); got.PostedCentavos != most {
		t.Errorf("the account has %d, want %d", got.PostedCentavos, int64(most))
	}
}

func TestOnlyWhoMayActActs(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	p, _, client := startForActs(t, "HTTP_KEYS_FILE="+r.digests)
	own, other, bank := "Bearer "+r.of(t, "10000001"), "Bearer "+r.of(t, "10000002"),
		"Bearer "+r.of(t, keys.CentralBank)

	try := func(as, path, body string, want int, field string) {
		t.Helper()

		if code, _, problem, text := p.as(as, "PUT", path, body); code != want || problem.Field != field ||
			code == 403 && (problem.Rule == "" || problem.Value == nil) {
			t.Errorf("%.20s %s %s: %d %s, want %d", as, path, body, code, text, want)
		}
	}
	for _, kind := range []string{"register", "suspend", "resume", "liquidity-in", "liquidity-out", "payment-cap",
		"day-cap", "night-cap"} {
		body := `{"act": "` + kind + `", "amount_centavos": 1, "cap_centavos": 1}`
		try(own, "/v1/participants/10000001/acts/permission-"+kind, body, 403, "act")
		try(other, "/v1/participants/10000001/acts/permission-"+kind, body, 403, "ispb")
	}

	for _, kind := range []string{"name-key", "revoke-key", "name-seal", "revoke-seal"} {
		body := `{"act": "` + kind + `", "digest": "` + strings.Repeat("ab", 24) + `"}`
		try(other, "/v1/participants/10000001/acts/permission-"+kind, body, 403, "ispb")

		if strings.HasSuffix(kind, "seal") {
			try(own, "/v1/participants/10000001/acts/permission-"+kind, body, 403, "act")
		}
	}

	for _, kind := range []string{"open", "block", "close", "reopen", "deposit", "withdraw"} {
		for _, as := range []string{other, bank} {
			try(as, "/v1/accounts/10000001/0001/1/acts/permission-"+kind, `{"act": "`+kind+`", "amount_centavos": 1}`,
				403, "ispb")
		}
	}

	for _, c := range []struct {
		as, path string
		code     int
	}{
		{own, "/v1/acts", 403}, {other, "/v1/participants/10000001/acts", 403},
		{other, "/v1/participants/10000001/accounts", 403}, {bank, "/v1/acts", 200},
	} {
		if code, _, _, text := p.as(c.as, "GET", c.path, ""); code != c.code {
			t.Errorf("%.20s %s: %d %s", c.as, c.path, code, text)
		}
	}

	for _, holder := range []string{"10000001", "10000002", keys.CentralBank} { // nothing was written
		for _, kind := range []string{"register", "suspend", "open", "block", "deposit", "name-key", "revoke-key",
			"name-seal", "revoke-seal"} {
			found, err := client.LookupTransfers([]tb.Uint128{ledger.ActRecordID(holder, "permission-"+kind)})
			if err != nil || len(found) > 0 {
				t.Errorf("%s by %s: %v %v", kind, holder, found, err)
			}
		}
	}
}

// Whoever floods the register is slowed down, and nobody else: within a second, and within a day.
func TestABankActsOnlySoOften(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		limit           string
		env             []string
		tries, takenMin int
	}{
		{"ACT_RATE_MAX", []string{"ACT_RATE_MAX=1", "ACT_BURST_MAX=3"}, 10, 3},
		{"ACTS_PER_DAY_MAX", []string{"ACT_RATE_MAX=10000", "ACT_BURST_MAX=1000", "ACTS_PER_DAY_MAX=100"}, 110, 100},
	} {
		t.Run(c.limit, func(t *testing.T) {
			t.Parallel()
			r := makeRing(t)
			p, _, _ := startForActs(t, append(c.env, "HTTP_KEYS_FILE="+r.digests)...)
			p.asIs = true // each try counts
			codes := map[int]int{}
			unready := 0

			for i := range c.tries {
				code, header, problem, _ := p.as("Bearer "+r.of(t, "10000003"), "PUT",
					fmt.Sprintf("/v1/accounts/10000003/0001/9/acts/flood-%d", i), `{"act": "block"}`)
				for code == 503 { // on a slow machine the register was not read in time; the try counts
					unready++
					time.Sleep(100 * time.Millisecond)
					code, header, problem, _ = p.as("Bearer "+r.of(t, "10000003"), "PUT",
						fmt.Sprintf("/v1/accounts/10000003/0001/9/acts/flood-%d", i), `{"act": "block"}`)
				}

				if codes[code]++; code == 429 &&
					(!strings.Contains(problem.Rule, c.limit) || header.Get("Retry-After") == "") {
					t.Errorf("%+v", problem)
				}
			}

			if codes[404] < c.takenMin-unready || codes[429] < 3 || codes[404]+codes[429] != c.tries {
				t.Errorf("%v, and %d tries met 503", codes, unready)
			}

			if code, _, _, text := p.as("Bearer "+r.of(t, keys.CentralBank), "PUT", "/v1/participants/99999999/acts/x",
				`{"act": "suspend"}`); code != 404 {
				t.Errorf("another is slowed down, too: %d %s", code, text)
			}
		})
	}
}

// While the ledger is away nobody takes payments, because what was blocked is not known, and an act
// has an unknown fate, which the same act tells later.
func TestAnActWithoutTheLedgerHasAnUnknownFate(t *testing.T) {
	t.Parallel()
	_, toLedger, behindLink := linkedLedger(t)
	p, _, _ := startForActs(t, behindLink, "STATUS_TIMEOUT=1s")
	account := newBank(t, p)
	p.asIs = true
	toLedger.Set(link.Cut, 0)

	if got := p.call("PUT", accountPath(account)+"/acts/later", `{"act": "block"}`); got.code != 503 ||
		got.retryAfter == "" {
		t.Errorf("%d %s", got.code, got.text)
	}
	p.AwaitNeed("register", true)

	if got := p.call("POST", "/v1/payments", payment(account, ownBanks().Payee)); got.code != 503 ||
		got.Type != "urn:liquida:problem:register-away" {
		t.Errorf("%d %s", got.code, got.text)
	}
	toLedger.Set(link.Whole, 0)
	p.asIs = false
	kit.Await(t, "the act", func() (bool, string) {
		got := p.call("PUT", accountPath(account)+"/acts/later", `{"act": "block"}`)
		return got.code == 200 && strings.Contains(got.text, `"blocked"`), got.text
	})
}

// Questions of the caller that come between an act's write and its response may leave no room to read
// how things are. Then no response says that nothing was done.
func TestAnActThatWasWrittenIsNeverSaidToBeUndone(t *testing.T) {
	t.Parallel()
	p, _, _ := startForActs(t, "STATUS_IN_FLIGHT_MAX=1", "ACT_BURST_MAX=10000", "CALLER_SHARE_MAX=1")
	account := newBank(t, p)
	p.asIs = true // a repetition may be refused although the act is done
	var at sync.WaitGroup

	undone := make([]int, 100) // deposits of 1000 + i centavos
	for i := range undone {
		at.Go(func() {
			got := p.call("PUT", fmt.Sprintf("%s/acts/one-%d", accountPath(account), i),
				fmt.Sprintf(`{"act": "deposit", "amount_centavos": %d}`, 1000+i))
			if got.code != http.StatusOK && got.Type != "urn:liquida:problem:unknown-fate" {
				undone[i] = got.code
			}
		})
	}
	at.Wait()

	p.asIs = false
	for _, done := range get[query.ActPage](t, p, "/v1/participants/"+string(account.ISPB)+"/acts").Acts {
		if i := int(done.AmountCentavos) - 1000; done.Act == "deposit" && i < len(undone) && undone[i] != 0 {
			t.Errorf("deposit %d was done, and the response was %d", i, undone[i])
		}
	}
}

// Every engine and producer keeps the accounts that are not open in memory: a bank fills no more than
// its share of it, and may always block less.
func TestABankBlocksOnlySoMany(t *testing.T) {
	t.Parallel()
	p, _, _ := startForActs(t, "ACCOUNTS_NOT_OPEN_MAX=2")
	account := newBank(t, p)

	do := func(number, id, act string, want int) {
		t.Helper()
		account.Number = number
		var got reply
		kit.Await(t, "the ledger", func() (bool, string) {
			got = p.call("PUT", accountPath(account)+"/acts/"+number+"-"+id, `{"act": "`+act+`"}`)
			return got.code != http.StatusServiceUnavailable, got.text
		})

		if got.code != want || want == 409 &&
			(got.Field != "account" || !strings.Contains(got.Rule, "ACCOUNTS_NOT_OPEN_MAX")) {
			t.Errorf("%s %s: %d %s, want %d", number, act, got.code, got.text, want)
		}
	}
	for _, number := range []string{"71", "72", "73"} {
		do(number, "open", "open", 200)
	}
	do("71", "block", "block", 200)
	do("72", "close", "close", 200)
	do("73", "block", "block", 409)
	do("71", "close", "close", 200) // one that is counted
	do("72", "reopen", "reopen", 200)
	do("73", "again", "close", 200)
	do("72", "block", "block", 409)
}
