package answers

import (
	"slices"
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

// An account is funded, holds 300 and pays them.
func TestABalanceIsOneThatTheAccountHad(t *testing.T) {
	account := pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	own, other := ledger.CustomerAccount(account), ledger.TransitAccount("10000001")
	at := func(n int) uint64 { return uint64(millisecond(n).UnixNano()) }
	amount := tb.ToUint128

	p := pastOf([]tb.Transfer{
		{ID: amount(1), DebitAccountID: other, CreditAccountID: own, Amount: amount(1000), Timestamp: at(100)},
		{ID: amount(2), DebitAccountID: own, CreditAccountID: other, Amount: amount(300),
			Flags: tb.TransferFlags{Pending: true}.ToUint16(), Timestamp: at(200)},
		{ID: amount(3), PendingID: amount(2), DebitAccountID: own, CreditAccountID: other, Amount: amount(300),
			Flags: tb.TransferFlags{PostPendingTransfer: true}.ToUint16(), Timestamp: at(300)},
	}, own)
	for _, c := range []struct {
		name                   string
		from, to               int
		posted, out, available int64
		want                   string
	}{
		{"held", 250, 260, 1000, 300, 700, ""},
		{"available is too much", 250, 260, 1000, 300, 1000, "not what is posted less"},
		{"before the payment or after it", 250, 350, 1000, 300, 700, ""},
		{"after it", 250, 350, 700, 0, 700, ""},
		{"paid long ago, and still there", 350, 360, 1000, 300, 700, "never held that"},
	} {
		said := saidOf(balance{account, Span{From: millisecond(c.from), To: millisecond(c.to)}, c.posted, c.out,
			c.available}.conclude, p)
		if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: it says %q, want %q", c.name, said, c.want)
		}
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
		"closing,2026-05-05T18:00:00Z,,,,,,900,1",
	}

	judge := func(rows []string) string {
		return saidOf(dayReading{bank, next, first.Add(30 * time.Hour),
			[]byte(strings.Join(rows, "\r\n") + "\r\n")}.conclude, p)
	}
	if said := judge(rows); said != "" {
		t.Error(said)
	}

	for i := 1; i < len(rows); i++ {
		if judge(slices.Delete(slices.Clone(rows), i, i+1)) == "" {
			t.Errorf("it passes without %q", rows[i])
		}
	}
}
