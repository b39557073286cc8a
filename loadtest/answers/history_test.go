package answers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// saidOf returns what is wrong with a claim.
func saidOf(compare func(*Judge, *past), p *past) (text string) {
	j := NewJudge(1, 0)
	compare(j, p)

	for _, contradiction := range j.verdict.Contradictions {
		text += contradiction.String()
	}

	return text
}

// An account is funded, holds 300 and pays them, expects 40 that expire after a second, and pays
// back 7 that are voided.
func TestABalanceIsOneThatTheAccountHad(t *testing.T) {
	account := pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	own, other := ledger.CustomerAccount(account), ledger.TransitAccount("10000001")
	at := func(n int) uint64 { return uint64(millisecond(n).UnixNano()) }
	amount := tb.ToUint128
	pending, post, void := tb.TransferFlags{Pending: true}.ToUint16(),
		tb.TransferFlags{PostPendingTransfer: true}.ToUint16(), tb.TransferFlags{VoidPendingTransfer: true}.ToUint16()

	p := pastOf([]tb.Transfer{
		{ID: amount(1), DebitAccountID: other, CreditAccountID: own, Amount: amount(1000), Timestamp: at(100)},
		{ID: amount(2), DebitAccountID: own, CreditAccountID: other, Amount: amount(300), Flags: pending, Timeout: 60,
			Timestamp: at(200)},
		{ID: amount(3), PendingID: amount(2), DebitAccountID: own, CreditAccountID: other, Amount: amount(300),
			Flags: post, Timestamp: at(300)},
		{ID: amount(4), DebitAccountID: other, CreditAccountID: own, Amount: amount(40), Flags: pending, Timeout: 1,
			Timestamp: at(400)},
		{ID: amount(6), DebitAccountID: own, CreditAccountID: other, Amount: amount(7), Flags: pending, Timeout: 60,
			Timestamp: at(8000)},
		{ID: amount(7), PendingID: amount(6), DebitAccountID: own, CreditAccountID: other, Amount: amount(7),
			Flags: void, Timestamp: at(9000)},
	}, own)
	for _, c := range []struct {
		name                              string
		from, to                          int
		posted, out, pendingIn, available int64
		want                              string
	}{
		{"held", 250, 260, 1000, 300, 0, 700, ""},
		{"held, and not told", 250, 260, 1000, 0, 0, 1000, "never held that"},
		{"available is too much", 250, 260, 1000, 300, 0, 1000, "not what is posted less"},
		{"before the hold or after it", 150, 250, 1000, 0, 0, 1000, ""},
		{"posted, and still held", 250, 350, 700, 300, 0, 400, "never held that"},
		{"expected", 500, 510, 700, 0, 40, 700, ""},
		{"expired, and not yet given back", 2000, 2010, 700, 0, 40, 700, ""},
		{"expired long ago", 7000, 7010, 700, 0, 40, 700, "never held that"},
		{"voided, and still held", 9500, 9510, 700, 7, 0, 693, "never held that"},
	} {
		said := saidOf(balance{account, Span{From: millisecond(c.from), To: millisecond(c.to)}, c.posted, c.out,
			c.pendingIn, c.available}.conclude, p)
		if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: it says %q, want %q", c.name, said, c.want)
		}
	}

	if len(p.lines) != 6 || !strings.Contains(p.lines[0], "released debit 7") ||
		!p.times[0].Equal(noon.Add(9*time.Second)) {
		t.Errorf("the lines are %v", p.lines)
	}
}

// A bank is funded, and on the next day pays 100 to another.
func TestAStatementOfADayIsThatOfTheLedger(t *testing.T) {
	bank := pix.ISPB("10000001")
	own, first := ledger.ReserveAccount(bank), time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	p := pastOf([]tb.Transfer{
		{ID: tb.ToUint128(1), DebitAccountID: ledger.IssuanceAccount, CreditAccountID: own, Amount: tb.ToUint128(1000),
			Code: ledger.CodeFunding, Timestamp: uint64(first.UnixNano())},
		{ID: tb.ToUint128(2), DebitAccountID: own, CreditAccountID: ledger.ReserveAccount("10000002"),
			Amount: tb.ToUint128(100), Code: 250, Timestamp: uint64(first.Add(24 * time.Hour).UnixNano())},
	}, own)
	next := pix.DayOf(first).Next()
	rows := []string{
		"record,at,kind,id,counterparty,direction,amount_centavos,balance_centavos,count",
		"opening,2026-05-05T03:00:00Z,,,,,,1000,",
		"line,2026-05-05T12:00:00Z,code 250,00000000000000000000000000000002,10000002,debit,100,900,",
		"sum,,,,10000002,debit,100,,1",
		"closing,2026-05-05T18:00:00Z,,,,,,900,1",
	}

	judge := func(rows []string) string {
		return saidOf(dayReading{bank, next, first.Add(30 * time.Hour),
			[]byte(strings.Join(rows, "\r\n") + "\r\n")}.conclude, p)
	}
	if said := judge(rows); said != "" {
		t.Error(said)
	}

	for i := range rows {
		wrong := append([]string{}, rows...)
		if wrong[i] = strings.Replace(wrong[i], "0", "7", 1) +
			"x"; !strings.Contains(judge(wrong), fmt.Sprintf("row %d is not", i)) {
			t.Errorf("%q passes", wrong[i])
		}

		if judge(rows[:i]) == "" {
			t.Errorf("%d rows pass", i)
		}
	}
}
