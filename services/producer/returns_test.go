package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

func newReturn(t *testing.T, original pix.EndToEndID) (pix.ReturnID, pix.ReturnContent) {
	t.Helper()
	return pix.NewReturnID(content.Payee.ISPB, time.Now(), random),
		pix.ReturnContent{Original: original, AmountCentavos: 40, Reason: pix.ReturnReasons[0]}
}

// The state of a return is computed from the ledger alone, like that of a payment.
func TestTheStateOfAReturnIsWhatTheLedgerSays(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l)
	p.AwaitNeed("ledger", false)
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
		}, 200, []string{`"status":"reserved"`, `"amount_centavos":40`, `"return_reason_code":"MD06"`,
			`"payer":{"ispb":"10000002"`, `"payee":{"ispb":"10000001"`}, []string{"decided_at"}},
		{"posted", func(id pix.ReturnID, c pix.ReturnContent, slot int) {
			write(t, client, ledger.AppendReturnReserve(nil, id, c, slot, content, 60))
			write(t, client, ledger.AppendReturnPost(nil, id, c, slot, false))
		}, 200, []string{`"status":"settled"`, `"amount_centavos":40`, `"original_end_to_end_id":"` + original.String(),
			"decided_at"}, []string{`"reason_code"`}},
		{"voided", func(id pix.ReturnID, c pix.ReturnContent, slot int) {
			write(t, client, ledger.AppendReturnReserve(nil, id, c, slot, content, 60))
			write(t, client, ledger.AppendReturnVoid(nil, id, c, slot, false, pix.ReasonPayeeClosed))
		}, 200, []string{`"status":"rejected"`, `"reason_code":"AC07"`, `"amount_centavos":40`}, nil},
		{"refused", func(id pix.ReturnID, c pix.ReturnContent, _ int) {
			write(t, client, ledger.AppendReturnReceipt(nil, id, c, pix.ReasonReturnExceeds, true))
		}, 200, []string{`"status":"rejected"`, `"reason_code":"AM09"`, original.String()}, []string{"reserved_at"}},
		{"nothing, but another return has its verdict", func(id pix.ReturnID, c pix.ReturnContent, slot int) {
			other, _ := newReturn(t, original)
			fundPayee(t, client, 40)
			write(t, client, ledger.AppendReturnReserve(nil, other, c, slot, content, 60))
			chain := ledger.AppendReturnPost(nil, other, c, slot, false)
			chain[0].ID = ledger.ReturnVerdict(id) // as if both had the same
			write(t, client, chain)
		}, 404, nil, []string{"settled"}},
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
			lines := p.call("GET", "/v1/accounts/10000001/0001/1/statement?limit=1000", "")
			if text := strings.ReplaceAll(lines.text, " ", ""); !strings.Contains(text, id.String()) ||
				!strings.Contains(text, `"code":13`) {
				t.Errorf("the statement does not show the return: %s", text)
			}
		}
	}
}

// The returns of a payment are computed from the ledger alone, at every instant.
func TestAPaymentTellsWhatWasGivenBackOfIt(t *testing.T) {
	t.Parallel()
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	p := startProgram(t, startBroker(t), l, "LEDGER_LOOKUP_IDS_MAX=134", "PAGE_MAX=100")
	p.AwaitNeed("ledger", false)
	original := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	path := "/v1/payments/" + original.String()
	state := func() (s query.PaymentState, text string) {
		t.Helper()

		got := p.call("GET", path, "")
		if err := json.Unmarshal([]byte(got.text), &s); err != nil || got.code != 200 {
			t.Fatalf("%d %s: %v", got.code, got.text, err)
		}

		return s, got.text
	}
	write(t, client, ledger.AppendReserve(nil, original, content, 60))

	if _, text := state(); strings.Contains(text, "return") {
		t.Errorf("held: %s", text)
	}
	write(t, client, ledger.AppendPost(nil, original, false))

	if _, text := state(); strings.Contains(text, "return") {
		t.Errorf("nothing was given back: %s", text)
	}
	var want []string
	returned := int64(0)
	told := func(after string) {
		t.Helper()
		s, text := state()

		var got []string
		for _, r := range s.Returns {
			got = append(got, fmt.Sprint(r.ReturnID, " ", r.AmountCentavos, " ", r.ReturnReasonCode, " ", r.Status,
				r.ReasonCode, " ", !r.ReservedAt.IsZero(), r.DecidedAt != nil))
		}

		if !slices.Equal(got, want) || s.ReturnedCentavos != returned || s.Status != query.Settled ||
			s.AmountCentavos != int64(content.AmountCentavos) {
			t.Fatalf("after %s: want %v and %d centavos in %s", after, want, returned, text)
		}

		followed, err := io.ReadAll(p.send(t.Context(), "GET", path+"/events", "").Body)
		if err != nil || !strings.Contains(string(followed), strings.TrimSpace(text)) {
			t.Errorf("after %s: its events say %s (%v), but it is %s", after, followed, err, text)
		}
	}
	give := func(centavos uint64) (pix.ReturnID, pix.ReturnContent) {
		id, back := newReturn(t, original)
		back.AmountCentavos = centavos
		return id, back
	}
	posted, first := give(40)
	// as the engine does, with each
	write(t, client, ledger.AppendReturnedMark(
		ledger.AppendReturnReserve(nil, posted, first, 0, content, 60), original))
	want = []string{posted.String() + " 40 MD06 reserved true false"}
	told("the first was held")
	write(t, client, ledger.AppendReturnPost(nil, posted, first, 0, false))
	want[0], returned = posted.String()+" 40 MD06 settled true true", 40
	told("the first was posted")
	voided, second := give(30) // slot 1 is burnt
	write(t, client, ledger.AppendReturnReserve(nil, voided, second, 2, content, 60))
	write(t, client, ledger.AppendReturnVoid(nil, voided, second, 2, false, pix.ReasonPayeeClosed))
	want = append(want, voided.String()+" 30 MD06 rejectedAC07 true true")
	told("the second was voided")
	conflict := first // other content with the id of the first: it can never be posted
	conflict.AmountCentavos = 1
	write(t, client, ledger.AppendReturnReserve(nil, posted, conflict, 3, content, 60))
	want = append(want, posted.String()+" 1 MD06 rejectedDUPL true true")
	told("a conflicting message was held")
	refused, third := give(100)
	write(t, client, ledger.AppendReturnReceipt(nil, refused, third, pix.ReasonReturnExceeds, true))
	told("one was refused, which takes no slot")
	last, all := give(59)
	write(t, client, ledger.AppendReturnReserve(nil, last, all, ledger.ReturnSlots-1, content, 1))
	want = append(want, last.String()+" 59 MD06 rejectedAB03 true false")
	kit.Await(t, "the last one to expire", func() (bool, string) {
		s, text := state()
		return len(s.Returns) == 4 && s.Returns[3].Status == query.Rejected, text
	})
	told("the last one expired without a verdict")
}

// back writes the report of a return as an engine does, keyed by the original.
func back(t *testing.T, b *kit.Broker, id pix.ReturnID, original pix.EndToEndID, settled bool) {
	t.Helper()

	client, err := kgo.NewClient(kgo.SeedBrokers(b.Address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	report := &pixv1.SettlementReport{EndToEndId: id.String(), OriginalEndToEndId: original.String(),
		AmountCentavos: 40, Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT, ReasonCode: "AM09"}
	if settled {
		report.Status, report.ReasonCode = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, ""
		report.Payer, report.Payee = field.AccountOf(content.Payee).Proto(), field.AccountOf(content.Payer).Proto()
	}

	value, err := report.MarshalVT()
	if err == nil {
		err = client.ProduceSync(t.Context(),
			&kgo.Record{Topic: stream.Settlements, Key: []byte(original.String()), Value: value}).FirstErr()
	}

	if err != nil {
		t.Fatal(err)
	}
}

func TestAReturnIsWaitedForAndFollowed(t *testing.T) {
	t.Parallel()
	p, b, client := wokenByReports(t)
	original := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, original, content, 60))
	write(t, client, ledger.AppendPost(nil, original, false))
	id, of := newReturn(t, original)
	settle := func() {
		write(t, client, ledger.AppendReturnedMark(ledger.AppendReturnReserve(nil, id, of, 0, content, 60), original))
		write(t, client, ledger.AppendReturnPost(nil, id, of, 0, false))
		back(t, b, id, original, true)
	}
	following := events(p.send(t.Context(), "GET", "/v1/returns/"+id.String()+"/events", ""))
	expect := func(status string) {
		t.Helper()
		e := next(t, following)

		var state query.ReturnState
		if err := json.Unmarshal([]byte(e.data), &state); err != nil || e.kind != "state" || e.id != status ||
			state.Status != status || state.ReturnID != id.String() {
			t.Errorf("%+v %v, want %s", e, err, status)
		}
	}
	expect(query.Unknown)
	var settling sync.WaitGroup
	settling.Go(func() {
		kit.Await(t, "the submission to wait", func() (bool, string) {
			return strings.Contains(p.metrics(), "pix_producer_waits 1\n"), ""
		})
		settle()
	})

	body := fmt.Sprintf(`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": 40, "reason_code": "MD06"}`,
		id, original)
	for range 2 { // the second time the outcome is known
		response := p.send(t.Context(), "POST", "/v1/returns", body, "Prefer", "wait=600")

		var state query.ReturnState
		if err := json.NewDecoder(response.Body).Decode(&state); err != nil {
			t.Fatal(err)
		}

		if response.StatusCode != 200 || response.Header.Get("Preference-Applied") != "wait=60" ||
			state.Status != query.Settled || state.AmountCentavos != 40 ||
			state.OriginalEndToEndID != original.String() {
			t.Errorf("%s %v %+v", response.Status, response.Header, state)
		}
	}
	settling.Wait()
	expect(query.Settled)

	select {
	case e, more := <-following:
		if more {
			t.Errorf("after the end: %+v", e)
		}
	case <-time.After(kit.Patience):
		t.Error("the stream does not end")
	}
	other, _ := newReturn(t, original)

	never := p.send(t.Context(), "POST", "/v1/returns", strings.Replace(body, id.String(), other.String(), 1),
		"Prefer", "wait=1")
	if never.StatusCode != 202 || never.Header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("one that does not end: %s", never.Status)
	}

	if got := p.call("GET", "/v1/returns/"+original.String()+"/events", ""); got.code != 422 ||
		got.Field != "return_id" {
		t.Errorf("%d %s", got.code, got.text)
	}
}

func TestBothBanksAreToldHowAReturnEnds(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t), lasting...)
	p.AwaitNeed("kafka", false)
	p.awaitSettlements()
	original := pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random)
	settled, _ := newReturn(t, original)
	rejected, _ := newReturn(t, original)
	follow := func(participant pix.ISPB, from string) <-chan event {
		return events(p.send(t.Context(), "GET", "/v1/settlements?participant="+string(participant)+"&from="+from, ""))
	}
	both := []<-chan event{follow("10000001", "end"), follow("10000002", "end")}
	third := follow("10000003", "end")
	back(t, b, settled, original, true)
	back(t, b, rejected, original, false)

	both = append(both, follow("10000001", "start"), follow("10000002", "start")) // and streams that begin later
	for i, told := range both {
		// one key, so in order
		for _, want := range []string{settled.String() + " settled", rejected.String() + " rejectedAM09"} {
			var s feed.Settlement
			if err := json.Unmarshal([]byte(next(t, told).data), &s); err != nil ||
				s.EndToEndID+" "+s.Status+s.ReasonCode != want || s.OriginalEndToEndID != original.String() ||
				s.AmountCentavos != 40 || (s.Payer != nil) != (s.Status == query.Settled) {
				t.Errorf("stream %d: %+v %v, want %s", i, s, err, want)
			}
		}
	}

	select {
	case e := <-third:
		t.Errorf("a bank that has no part in it is told %+v", e)
	default: // all reports were passed on under one lock
	}
}

// Whatever the id of a return: a bank that did not receive the payment is denied, and
// nothing is written.
func TestAReturnIsTakenFromTheBankThatReceivedThePaymentAlone(t *testing.T) {
	t.Parallel()
	r := makeRing(t)
	l, client := sharedLedger(t)
	openBooks(t, client, content)
	b := startBroker(t)
	p := startProgram(t, b, l, "HTTP_KEYS_FILE="+r.digests, "STREAM_TIME_MAX=1s")
	p.AwaitNeed("kafka", false)
	p.AwaitNeed("ledger", false)
	original, nowhere := pix.NewEndToEndID("10000001", time.Now(), random),
		pix.NewEndToEndID("10000001", time.Now(), random)
	write(t, client, ledger.AppendReserve(nil, original, content, 60))
	write(t, client, ledger.AppendPost(nil, original, false))
	payer, payee, third, bank := "Bearer "+r.of(t, "10000001"), "Bearer "+r.of(t, "10000002"),
		"Bearer "+r.of(t, "10000003"), "Bearer "+r.of(t, keys.CentralBank)
	own := pix.NewReturnID("10000002", time.Now(), random).String()

	of := func(id string, original pix.EndToEndID) string {
		return fmt.Sprintf(`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": 40, "reason_code": "FR01"}`,
			id, original)
	}
	for _, c := range []struct {
		as, body string
		code     int
		field    string
	}{
		{payer, of("", original), 403, "original_end_to_end_id"},
		{third, of("", original), 403, "original_end_to_end_id"},
		// the same response, which does not show that the payment is unknown
		{third, of("", nowhere), 403, "original_end_to_end_id"},
		{payee, of("", nowhere), 403, "original_end_to_end_id"},
		{third, of(pix.NewReturnID("10000003", time.Now(), random).String(), original), 403, "original_end_to_end_id"},
		{payer, of(own, original), 403, "return_id"},
		{bank, of(own, original), 403, "return_id"},
		{bank, of("", original), 422, "return_id"},
		{payee, of(own, original), 202, ""},
		{payee, of(own, original), 202, ""}, // again: the engine recognizes it
		{payee, of("", original), 202, ""},
	} {
		code, _, problem, text := p.as(c.as, "POST", "/v1/returns", c.body)
		if code != c.code || problem.Field != c.field || code == 403 &&
			(problem.Type != web.Kind("not-yours") || problem.Rule == "") {
			t.Errorf("%.20s %s: %d %s, want %d", c.as, c.body, code, text, c.code)
		}
	}
	var named []string

	for _, record := range published(t, b, 3) {
		var order pixv1.PaymentOrder
		if err := order.UnmarshalVT(record.Value); err != nil || order.ReturnOrder == nil {
			t.Fatalf("%v %v", &order, err)
		}
		named = append(named, order.ReturnOrder.ReturnId)
	}

	if named[0] != own || named[1] != own || named[2] == own || !strings.HasPrefix(named[2], "D10000002") {
		t.Errorf("written were %v", named)
	}

	// The bank that gives back, the bank that gets it back, and the central bank may read it.
	id, content40 := newReturn(t, original)
	unsent, _ := newReturn(t, original)
	refused, tooMuch := newReturn(t, original)
	write(t, client, ledger.AppendReturnReceipt(nil, refused, tooMuch, pix.ReasonReturnExceeds, true))
	write(t, client, ledger.AppendReturnedMark(
		ledger.AppendReturnReserve(nil, id, content40, 0, content, 600), original))

	for _, c := range []struct {
		as   string
		id   pix.ReturnID
		code int
	}{
		{payee, id, 200}, {payer, id, 200}, {bank, id, 200}, {third, id, 403},
		{payee, refused, 200}, {payer, refused, 200}, {bank, refused, 200}, {third, refused, 403},
		{payee, unsent, 404}, {payer, unsent, 403}, {third, unsent, 403}, {bank, unsent, 404},
	} {
		for _, path := range []string{"/v1/returns/" + c.id.String(), "/v1/returns/" + c.id.String() + "/events"} {
			want := c.code
			if want == 404 && strings.HasSuffix(path, "/events") {
				want = 200 // it may come
			}

			if code, _, problem, text := p.as(c.as, "GET", path, ""); code != want || code == 403 &&
				problem.Field != "return_id" {
				t.Errorf("%.20s %s: %d %s, want %d", c.as, path, code, text, want)
			}
		}
	}

	for _, as := range []string{payer, payee, bank} {
		if _, _, _, text := p.as(as, "GET", "/v1/payments/"+original.String(), ""); !strings.Contains(text,
			id.String()) {
			t.Errorf("%.20s is not told of the return: %s", as, text)
		}
	}
}

func TestAReturnIsInTheTopicOnceItIsAccepted(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	p := startProgram(t, b, aLedger(t))
	p.AwaitNeed("kafka", false)
	original := pix.NewEndToEndID("10000001", time.Now(), random)
	id := pix.NewReturnID("10000002", time.Now(), random)

	body := func(id, original, amount, reason string) string {
		return fmt.Sprintf(`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": %s, "reason_code": %q}`,
			id, original, amount, reason)
	}
	if got := p.call("POST", "/v1/returns", body(id.String(), original.String(), "40", "FR01")); got.code != 202 ||
		!strings.Contains(got.text, id.String()) {
		t.Fatalf("%d %s", got.code, got.text)
	}
	record := published(t, b, 1)[0]

	var order pixv1.PaymentOrder
	if err := order.UnmarshalVT(record.Value); err != nil || record.Topic != stream.Payments ||
		string(record.Key) != original.String() {
		t.Fatalf("%s keyed %s: %v", record.Topic, record.Key, err)
	}

	back := order.ReturnOrder
	if back == nil || back.ReturnId != id.String() || back.OriginalEndToEndId != original.String() ||
		back.AmountCentavos != 40 || back.ReasonCode != "FR01" || back.AcceptedAtUnixMs == 0 || order.EndToEndId != "" {
		t.Fatalf("published %v", &order)
	}

	for _, c := range []struct{ field, code, body string }{
		{"return_id", "FF08", body("", original.String(), "40", "FR01")},
		{"return_id", "FF08", body(original.String(), original.String(), "40", "FR01")},
		{"original_end_to_end_id", "FF08", body(id.String(), id.String(), "40", "FR01")},
		{"amount_centavos", "AM01", body(id.String(), original.String(), "0", "FR01")},
		{"amount_centavos", "FF01", body(id.String(), original.String(), "9223372036854775808", "FR01")},
		{"reason_code", "FF01", body(id.String(), original.String(), "40", "AC06")},
	} {
		if got := p.call("POST", "/v1/returns", c.body); got.code != 422 || got.Field != c.field ||
			got.Code != c.code || got.Rule == "" {
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
	write(t, client, []tb.Transfer{
		{ID: tb.ID(), DebitAccountID: ledger.TransitAccount(content.Payee.ISPB),
			CreditAccountID: ledger.CustomerAccount(content.Payee),
			Amount:          tb.ToUint128(centavos), Ledger: ledger.Ledger, Code: ledger.CodeFunding}})
	write(t, client, []tb.Transfer{
		{ID: tb.ID(), DebitAccountID: ledger.IssuanceAccount,
			CreditAccountID: ledger.ReserveAccount(content.Payee.ISPB),
			Amount:          tb.ToUint128(centavos), Ledger: ledger.Ledger, Code: ledger.CodeFunding}})
}
