package answers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// Statements of two banks after a payment of 100 from one to the other, and what is wrong with them.
func TestStatementsOfDaysAgree(t *testing.T) {
	client := ledgermodel.New().Connect(nil)
	one, other := pix.ISPB("10000001"), pix.ISPB("10000002")
	accounts := []tb.Account{ledger.NewAccount(ledger.IssuanceAccount), ledger.NewAccount(ledger.ReserveAccount(one)), ledger.NewAccount(ledger.ReserveAccount(other))}
	if results, err := client.CreateAccounts(accounts); err != nil || len(results) > 0 {
		t.Fatalf("%v %v", results, err)
	}
	move := func(debit, credit ledger.AccountID, centavos, code uint64) tb.Transfer {
		return tb.Transfer{ID: tb.ID(), DebitAccountID: debit, CreditAccountID: credit, Amount: tb.ToUint128(centavos), Ledger: ledger.Ledger, Code: uint16(code)} //nolint:gosec // small
	}
	moves := []tb.Transfer{
		move(ledger.IssuanceAccount, ledger.ReserveAccount(one), 1000, 9), move(ledger.IssuanceAccount, ledger.ReserveAccount(other), 1000, 9),
		move(ledger.ReserveAccount(one), ledger.ReserveAccount(other), 100, 2),
	}
	if results, err := client.CreateTransfers(moves); err != nil || len(results) > 0 {
		t.Fatalf("%v %v", results, err)
	}
	made, err := client.LookupTransfers([]tb.Uint128{moves[0].ID, moves[1].ID, moves[2].ID})
	if err != nil || len(made) != len(moves) {
		t.Fatal(made, err)
	}
	instants := func(text string) string { // of @1 to @3
		for i, transfer := range made {
			text = strings.ReplaceAll(text, fmt.Sprint("@", i+1), time.Unix(0, int64(transfer.Timestamp)).UTC().Format(time.RFC3339Nano)) //nolint:gosec // Unix time
		}
		return text
	}
	const head = "record,at,kind,id,counterparty,direction,amount_centavos,balance_centavos,count\n"
	day, next := pix.DayOf(time.Unix(1_800_000_000, 0)), pix.DayOf(time.Unix(1_800_086_400, 0))
	text := map[string]string{
		"one":         head + "opening,,,,,,,0,\nline,@1,funding,f1,central-bank,credit,1000,1000,\nsum,,,,central-bank,credit,1000,,1\nclosing,,,,,,,1000,1\n",
		"one, next":   head + "opening,,,,,,,1000,\nline,@3,payment,e1,10000002,debit,100,900,\nsum,,,,10000002,debit,100,,1\nclosing,,,,,,,900,1\n",
		"other":       head + "opening,,,,,,,0,\nline,@2,funding,f2,central-bank,credit,1000,1000,\nsum,,,,central-bank,credit,1000,,1\nclosing,,,,,,,1000,1\n",
		"other, next": head + "opening,,,,,,,1000,\nline,@3,payment,e1,10000001,credit,100,1100,\nsum,,,,10000001,credit,100,,1\nclosing,,,,,,,1100,1\n",
	}
	for _, c := range []struct {
		name, of, old, new string
		again              bool
		want               string
	}{
		{name: "they agree"},
		{name: "another the second time", again: true, want: "not the same when it was read again"},
		{name: "a line is missing", of: "other, next", old: "line,@3,payment,e1,10000001,credit,100,1100,\n", want: "do not sum up"},
		{name: "another amount, everywhere in one statement", of: "other, next", old: "100", new: "200", want: "do not agree about it"},
		{name: "another id", of: "other, next", old: "e1", new: "e2", want: "do not agree about it"},
		{name: "another bank", of: "other, next", old: "10000001", new: "10000003", want: "do not agree about it"},
		{name: "a sum", of: "one", old: "sum,,,,central-bank,credit,1000", new: "sum,,,,central-bank,credit,1001", want: "do not sum up"},
		{name: "it opens with something else", of: "one, next", old: "1000,\n", new: "1001,\n", want: "does not open with"},
		{name: "it closes with something else", of: "one, next", old: "900", new: "901", want: "do not sum up"},
		{name: "a line of another instant", of: "one, next", old: "@3", new: "@1", want: "another balance at that instant"},
		{name: "a balance that is one line late", of: "one, next", old: "100,900,", new: "100,1000,", want: "another balance at that instant"},
		{name: "a day of both is missing", of: "one, next both", want: "does not close with the reserve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := NewJudge(1, 0)
			for _, of := range []string{"one", "one, next", "other", "other, next"} {
				if c.of == "one, next both" && strings.HasSuffix(of, "next") {
					continue
				}
				statement := text[of]
				if of == c.of {
					if statement = strings.ReplaceAll(statement, c.old, c.new); statement == text[of] {
						t.Fatal("the case changes nothing")
					}
				}
				bank, on := one, day
				if strings.HasPrefix(of, "other") {
					bank = other
				}
				if strings.HasSuffix(of, "next") {
					on = next
				}
				reading, err := parseDay(bank, on, []byte(instants(statement)))
				kit.Must(t, err)
				j.takeDay(reading, !c.again)
			}
			v, err := j.Conclude(client)
			kit.Must(t, err)
			if found := fmt.Sprint(v.Contradictions); v.Clean != (c.want == "") || !strings.Contains(found, c.want) {
				t.Errorf("%s, want %q", found, c.want)
			}
		})
	}
	for name, wrong := range map[string]string{"nothing": "", "no end": text["one"][:len(text["one"])-len("closing,,,,,,,1000,1\n")], "not an amount": strings.Replace(text["one"], "1000", "x", 1)} {
		if _, err := parseDay(one, day, []byte(instants(wrong))); err == nil {
			t.Errorf("%s is a statement", name)
		}
	}
}
