package answers

import (
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// An account is funded, holds 300 and pays them, expects 40 that expire after a second, and pays
// back 7 that are voided.
func TestABalanceIsOneThatTheAccountHad(t *testing.T) {
	account := pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	own, other := ledger.CustomerAccount(account), ledger.TransitAccount("10000001")
	at := func(n int) uint64 { return uint64(millisecond(n).UnixNano()) }
	amount := tb.ToUint128
	pending, post, void := tb.TransferFlags{Pending: true}.ToUint16(), tb.TransferFlags{PostPendingTransfer: true}.ToUint16(), tb.TransferFlags{VoidPendingTransfer: true}.ToUint16()
	transfers := []tb.Transfer{
		{ID: amount(1), DebitAccountID: other, CreditAccountID: own, Amount: amount(1000), Timestamp: at(100)},
		{ID: amount(2), DebitAccountID: own, CreditAccountID: other, Amount: amount(300), Flags: pending, Timeout: 60, Timestamp: at(200)},
		{ID: amount(3), PendingID: amount(2), DebitAccountID: own, CreditAccountID: other, Amount: amount(300), Flags: post, Timestamp: at(300)},
		{ID: amount(4), DebitAccountID: other, CreditAccountID: own, Amount: amount(40), Flags: pending, Timeout: 1, Timestamp: at(400)},
		{ID: amount(6), DebitAccountID: own, CreditAccountID: other, Amount: amount(7), Flags: pending, Timeout: 60, Timestamp: at(8000)},
		{ID: amount(7), PendingID: amount(6), DebitAccountID: own, CreditAccountID: other, Amount: amount(7), Flags: void, Timestamp: at(9000)},
	}
	for _, c := range []struct {
		name                              string
		from, to                          int
		posted, out, pendingIn, available int64
		want                              string
	}{
		{"funded", 150, 160, 1000, 0, 0, 1000, ""},
		{"held", 250, 260, 1000, 300, 0, 700, ""},
		{"held, and not told", 250, 260, 1000, 0, 0, 1000, "never held that"},
		{"held, and told the other way round", 250, 260, 1000, 0, 300, 1000, "never held that"},
		{"available is too much", 250, 260, 1000, 300, 0, 1000, "not what is posted less"},
		{"before the hold or after it", 150, 250, 1000, 0, 0, 1000, ""},
		{"posted, and still held", 250, 350, 700, 300, 0, 400, "never held that"},
		{"expected", 500, 510, 700, 0, 40, 700, ""},
		{"expected before it was", 350, 360, 700, 0, 40, 700, "never held that"},
		{"expired, and not yet given back", 2000, 2010, 700, 0, 40, 700, ""},
		{"expired, and given back", 2000, 2010, 700, 0, 0, 700, ""},
		{"expired long ago", 7000, 7010, 700, 0, 40, 700, "never held that"},
		{"voided", 9500, 9510, 700, 0, 0, 700, ""},
		{"voided, and still held", 9500, 9510, 700, 7, 0, 693, "never held that"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := NewJudge(1, 0)
			j.concludeBalance(balance{account, Span{From: millisecond(c.from), To: millisecond(c.to)}, c.posted, c.out, c.pendingIn, c.available}, pastOf(transfers, own).levels)
			said := ""
			for _, contradiction := range j.verdict.Contradictions {
				said += contradiction.String()
			}
			if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
	if lines := pastOf(transfers, own).lines; len(lines) != len(transfers) || lines[0].Kind != "released" || !lines[0].At.Equal(noon.Add(9*time.Second)) {
		t.Errorf("the lines are %v", lines)
	}
}
