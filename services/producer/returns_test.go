package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

func newReturn(t *testing.T, original pix.EndToEndID) (pix.ReturnID, pix.ReturnContent) {
	t.Helper()
	return pix.NewReturnID(content.Payee.ISPB, time.Now(), random), pix.ReturnContent{Original: original, AmountCentavos: 40, Reason: pix.ReturnReasons[0]}
}

// The state of a return is computed from the ledger alone, like that of a payment.
func TestTheStateOfAReturnIsWhatTheLedgerSays(t *testing.T) {
	l := startLedger(t)
	client := books(t, l)
	p := startProgram(t, startBroker(t), l, "LEDGER_CLOCK_TOLERANCE=0s")
	p.await("ledger", false)
	original := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, original, content, 60))
	write(t, client, ledger.AppendPost(nil, original, false))
	for slot, c := range []struct {
		name  string
		do    func(pix.ReturnID, pix.ReturnContent, int)
		code  int
		holds []string
		not   []string
	}{
		{"nothing", func(pix.ReturnID, pix.ReturnContent, int) {}, 404, nil, []string{"reserved"}},
		{"held", func(id pix.ReturnID, c pix.ReturnContent, slot int) {
			write(t, client, ledger.AppendReturnReserve(nil, id, c, slot, content, 60))
		}, 200, []string{`"status":"reserved"`, `"amount_centavos":40`, `"return_reason_code":"MD06"`, `"payer":{"ispb":"10000002"`, `"payee":{"ispb":"10000001"`}, []string{"decided_at"}},
		{"posted", func(id pix.ReturnID, c pix.ReturnContent, slot int) {
			write(t, client, ledger.AppendReturnReserve(nil, id, c, slot, content, 60))
			write(t, client, ledger.AppendReturnPost(nil, id, c, slot, false))
		}, 200, []string{`"status":"settled"`, `"amount_centavos":40`, `"original_end_to_end_id":"` + original.String(), "decided_at"}, []string{`"reason_code"`}},
		{"voided", func(id pix.ReturnID, c pix.ReturnContent, slot int) {
			write(t, client, ledger.AppendReturnReserve(nil, id, c, slot, content, 60))
			write(t, client, ledger.AppendReturnVoid(nil, id, c, slot, false, pix.ReasonPayeeClosed))
		}, 200, []string{`"status":"rejected"`, `"reason_code":"AC07"`, `"amount_centavos":40`}, nil},
		{"refused", func(id pix.ReturnID, c pix.ReturnContent, _ int) {
			write(t, client, ledger.AppendReturnReceipt(nil, id, c, pix.ReasonReturnExceeds, true))
		}, 200, []string{`"status":"rejected"`, `"reason_code":"AM09"`, original.String()}, []string{"reserved_at"}},
		{"a conflicting message held beside a refusal", func(id pix.ReturnID, c pix.ReturnContent, slot int) {
			write(t, client, ledger.AppendReturnReceipt(nil, id, c, pix.ReasonReturnExceeds, true))
			c.AmountCentavos = 7
			write(t, client, ledger.AppendReturnReserve(nil, id, c, slot, content, 60))
		}, 200, []string{`"status":"rejected"`, `"reason_code":"AM09"`}, []string{"amount_centavos"}},
	} {
		id, back := newReturn(t, original)
		back.AmountCentavos = 40
		if strings.Contains(c.name, "held") || c.name == "posted" || c.name == "voided" {
			fundPayee(t, client, 40)
		}
		c.do(id, back, slot)
		got := p.call("GET", "/v1/returns/"+id.String(), "")
		if got.code != c.code {
			t.Fatalf("%s: %d %s", c.name, got.code, got.text)
		}
		text := strings.NewReplacer(" ", "", "\n", "").Replace(got.text)
		for _, holds := range c.holds {
			if !strings.Contains(text, holds) {
				t.Errorf("%s: no %s in %s", c.name, holds, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %s in %s", c.name, not, text)
			}
		}
		if c.name == "posted" {
			lines := p.call("GET", "/v1/accounts/10000001/0001/1/statement", "")
			if text := strings.ReplaceAll(lines.text, " ", ""); !strings.Contains(text, id.String()) || !strings.Contains(text, `"code":13`) {
				t.Errorf("the statement does not show the return: %s", text)
			}
		}
	}
}

func TestAReturnIsInTheTopicOnceItIsAccepted(t *testing.T) {
	b := startBroker(t)
	p := startProgram(t, b, nil)
	p.await("kafka", false)
	original := pix.NewEndToEndID("10000001", time.Now(), random)
	id := pix.NewReturnID("10000002", time.Now(), random)
	body := func(id, original, amount, reason string) string {
		return fmt.Sprintf(`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": %s, "reason_code": %q}`, id, original, amount, reason)
	}
	if got := p.call("POST", "/v1/returns", body(id.String(), original.String(), "40", "FR01")); got.code != 202 || !strings.Contains(got.text, id.String()) {
		t.Fatalf("%d %s", got.code, got.text)
	}
	record := published(t, b, 1)[0]
	var order pixv1.PaymentOrder
	if err := order.UnmarshalVT(record.Value); err != nil || record.Topic != stream.Payments || string(record.Key) != original.String() {
		t.Fatalf("%s keyed %s: %v", record.Topic, record.Key, err)
	}
	back := order.ReturnOrder
	if back == nil || back.ReturnId != id.String() || back.OriginalEndToEndId != original.String() || back.AmountCentavos != 40 || back.ReasonCode != "FR01" || back.AcceptedAtUnixMs == 0 || order.EndToEndId != "" {
		t.Fatalf("published %v", &order)
	}
	for _, c := range []struct{ field, code, body string }{
		{"return_id", "FF08", body("", original.String(), "40", "FR01")},
		{"return_id", "FF08", body(original.String(), original.String(), "40", "FR01")},
		{"original_end_to_end_id", "FF08", body(id.String(), id.String(), "40", "FR01")},
		{"amount_centavos", "AM01", body(id.String(), original.String(), "0", "FR01")},
		{"reason_code", "FF01", body(id.String(), original.String(), "40", "AC06")},
	} {
		if got := p.call("POST", "/v1/returns", c.body); got.code != 422 || got.Field != c.field || got.Code != c.code || got.Rule == "" {
			t.Errorf("%s: %d %s", c.body, got.code, got.text)
		}
	}
	if got := p.call("GET", "/v1/returns/"+original.String(), ""); got.code != 422 || got.Field != "return_id" {
		t.Errorf("%d %s", got.code, got.text)
	}
}

// fundPayee lets the payee own what it gives back.
func fundPayee(t *testing.T, client tigerbeetle.Client, centavos uint64) {
	t.Helper()
	write(t, client, []tb.Transfer{{ID: tb.ID(), DebitAccountID: ledger.TransitAccount(content.Payee.ISPB), CreditAccountID: ledger.CustomerAccount(content.Payee),
		Amount: tb.ToUint128(centavos), Ledger: ledger.Ledger, Code: ledger.CodeFunding}})
	write(t, client, []tb.Transfer{{ID: tb.ID(), DebitAccountID: ledger.IssuanceAccount, CreditAccountID: ledger.ReserveAccount(content.Payee.ISPB),
		Amount: tb.ToUint128(centavos), Ledger: ledger.Ledger, Code: ledger.CodeFunding}})
}

func TestAParticipantGivesBackOnlyWhatItReceived(t *testing.T) {
	now, original := time.Now(), pix.NewEndToEndID("10000001", time.Now(), random)
	order := func() *returnOrder {
		return &returnOrder{OriginalEndToEndID: original.String(), AmountCentavos: 1, ReasonCode: "MD06"}
	}
	own := order()
	if _, problem := own.record(caller{holder: "10000002"}, now); problem != nil || !strings.HasPrefix(own.ReturnID, "D10000002") {
		t.Errorf("%s: %+v", own.ReturnID, problem)
	}
	for holder, allowed := range map[string]bool{"": true, "10000002": true, "10000001": false, keys.CentralBank: false} {
		again := order()
		again.ReturnID = own.ReturnID
		_, problem := again.record(caller{holder: holder}, now)
		if (problem == nil) != allowed || problem != nil && (problem.Status != 403 || problem.Field != "return_id") {
			t.Errorf("%q: %+v", holder, problem)
		}
	}
	if _, problem := order().record(caller{holder: keys.CentralBank}, now); problem == nil {
		t.Error("the central bank, which owns no account, got an id made")
	}
}
