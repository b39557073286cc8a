package main

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/services/producer/query"
)

var sample = regexp.MustCompile(`(?m)^pix_(\w+)_centavos(?:\{ispb="(\w+)"\})? (\S+)$`)

// books returns the metrics of money in centavos, by name and bank.
func (p *program) books(t *testing.T) map[string]int64 {
	t.Helper()
	found := map[string]int64{}

	for _, match := range sample.FindAllStringSubmatch(p.metrics(), -1) {
		value, err := strconv.ParseFloat(match[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(match[1]+" "+match[2], " ")] = int64(value)
	}

	return found
}

// lawsOfMoneyWhileItComesAndGoes is a step of TestWholeLedger. Banks join, and money comes and goes:
// the laws hold at every reading, without a restart. Money without an act is seen at once.
func lawsOfMoneyWhileItComesAndGoes(t *testing.T, l *ledgertest.Server, client tigerbeetle.Client) {
	p := startProgram(t, startBroker(t), l, "BOOKS_INTERVAL=200ms")
	p.AwaitNeed("register", false)
	holds := func() (map[string]int64, bool) {
		t.Helper()

		books := p.books(t)
		for name, centavos := range books {
			if strings.Contains(name, "difference") && centavos != 0 {
				t.Errorf("%s is %d", name, centavos)
				return books, false
			}
		}

		return books, true
	}

	first := newBank(t, p)
	for i := range 3 {
		bank := newBank(t, p).ISPB
		p.onParticipant(t, bank, "out", `{"act": "liquidity-out", "amount_centavos": 7}`)
		want := map[string]int64{"reserve": 99_993, "transit": -50_000, "reserve_funded": 99_993, "books_difference": 0}
		kit.Await(t, "the books of a new bank", func() (bool, string) {
			books, ok := holds()
			for name, centavos := range want {
				if got, known := books[name+" "+string(bank)]; !known || got != centavos {
					return !ok, fmt.Sprintf("bank %d: %v", i, books)
				}
			}

			return true, ""
		})
	}

	// A bank deposits more than 64 bits hold. Its front door stays up, and the laws stay exact.
	rich := newBank(t, p)
	for i := range 3 {
		chain := ledger.AppendAct(nil, string(rich.ISPB), fmt.Sprintf("huge-%d", i),
			ledger.Act{Kind: ledger.Deposit, Bank: rich.ISPB, Account: rich, Centavos: ledger.ActCentavosMax})
		for i := range chain {
			chain[i].Amount = tb.ToUint128(1 << 62) // as four thousand deposits
		}

		if results, err := client.CreateTransfers(chain); err != nil || len(results) > 0 {
			t.Fatal(results, err)
		}
	}
	kit.Await(t, "huge balances", func() (bool, string) {
		books, ok := holds()
		return !ok || books["transit "+string(rich.ISPB)] == math.MinInt64, fmt.Sprint(books)
	})

	if got := p.call("GET", "/v1/participants/"+string(rich.ISPB), ""); got.code != http.StatusOK ||
		!strings.Contains(got.text, `"difference_centavos":0`) {
		t.Errorf("%d %s", got.code, got.text)
	}

	if got := p.call("GET", accountPath(rich), ""); got.code != http.StatusOK ||
		!strings.Contains(got.text, `"posted_centavos":9223372036854775807`) {
		t.Errorf("%d %s", got.code, got.text)
	}

	// Money comes and is given back. A deposit beside it hides it from the books of the bank, and from nothing else.
	reserve, transit, customer := ledger.ReserveAccount(first.ISPB), ledger.TransitAccount(first.ISPB),
		ledger.CustomerAccount(first)
	for _, c := range []struct {
		debit, credit  ledger.AccountID
		code           ledger.ActKind
		books, unacted int64
	}{
		{ledger.IssuanceAccount, reserve, ledger.LiquidityIn, 1, 1}, {transit, customer, ledger.Deposit, 0, 1},
		{customer, transit, ledger.Withdrawal, 1, 1}, {reserve, ledger.IssuanceAccount, ledger.LiquidityOut, 0, 0},
	} {
		write(t, client, []tb.Transfer{
			{ID: tb.ID(), DebitAccountID: c.debit, CreditAccountID: c.credit, Amount: tb.ToUint128(1),
				Ledger: ledger.Ledger, Code: uint16(c.code)}})
		kit.Await(t, "money without an act", func() (bool, string) {
			books := p.books(t)
			return books["books_difference "+string(first.ISPB)] == c.books &&
				books["conservation_difference"] == c.unacted, fmt.Sprint(books)
		})

		if got := get[query.ParticipantPage](t, p, "/v1/participants").Issuance; got.DifferenceCentavos != c.unacted ||
			got.Holds != (c.unacted == 0) || got.IssuedCentavos <= 0 {
			t.Errorf("%+v, want %d without an act", got, c.unacted)
		}
	}
}

// lawsOfMoneyOfManyBanks is a step of TestWholeLedger. The laws hold over more banks than one look-up
// reads.
func lawsOfMoneyOfManyBanks(t *testing.T, l *ledgertest.Server, _ tigerbeetle.Client) {
	p := startProgram(t, startBroker(t), l, "BOOKS_INTERVAL=200ms", "LEDGER_LOOKUP_IDS_MAX=134", "PAGE_MAX=100",
		"ACT_BURST_MAX=1000")
	p.AwaitNeed("register", false)

	banks := make([]string, (134-1)/3+1)
	for i := range banks {
		bank := ownBanks().Payer.ISPB
		p.onParticipant(t, bank, "join", `{"act": "register"}`)
		p.onParticipant(t, bank, "in", fmt.Sprintf(`{"act": "liquidity-in", "amount_centavos": %d}`, i+1))
		p.onParticipant(t, bank, "day", `{"act": "day-cap", "cap_centavos": 5, "window_seconds": 120}`)
		p.onParticipant(t, bank, "night", `{"act": "night-cap", "cap_centavos": 5, "window_seconds": 120}`)
		banks[i] = string(bank)
	}
	kit.Await(t, "the books of all", func() (bool, string) {
		books := p.books(t)
		if books["conservation_difference"] != 0 {
			t.Errorf("central-bank money appeared or vanished: %d", books["conservation_difference"])
		}

		for i, bank := range banks {
			if has, known := books["reserve "+bank]; !known || has != int64(i+1) ||
				books["books_difference "+bank] != 0 {
				return false, fmt.Sprintf("bank %d: %v", i, books)
			}
		}

		return strings.Count(p.metrics(), "pix_outflow_left_centavos{") == len(ledger.Windows)*len(banks), "caps"
	})
}
