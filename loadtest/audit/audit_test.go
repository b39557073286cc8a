package audit

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// history is all that an audit reads: the records of three topics and the objects of the
// ledger. A test makes a clean one by hand, spoils one thing and sees it found.
type history struct {
	t         *testing.T
	now       time.Time
	random    *rand.Rand
	orders    []source.Record
	letters   []source.Record
	reports   []source.Record
	transfers []tb.Transfer
	accounts  []tb.Account
	// uncommitted are orders, the last ones, that the engines' group has not committed, in the one partition.
	uncommitted int64
	secrets     Secrets // nil: responses are not audited
	answers     []source.Record
	cut         reach
	questions   []source.Record // nil: requests are not audited
	cutAsked    reach

	config Config

	settled, voided, refused, sameBank *giver // of withReturns
}

var (
	alice = pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	bruno = pix.Account{ISPB: "10000002", Branch: "0001", Number: "12345678901234567890"}
	clara = pix.Account{ISPB: "10000001", Branch: "9010", Number: "1"}
	// Of the population, and in no payment. Bruno is in payments, and not of the population.
	diana = pix.Account{ISPB: "10000002", Branch: "0001", Number: "1"}
	elisa = pix.Account{ISPB: "10000002", Branch: "9010", Number: "1"}
)

const (
	reserveCentavos = 1_000_000
	depositCentavos = 50_000
)

// The user_data of the issuance account and of the marker: 2 banks, 2 ordinary customers.
var (
	populationMoney = spec.Number{High: reserveCentavos, Low: depositCentavos}.TigerBeetle()
	populationCount = uint64(2<<32 | 2)
)

// The payments of the clean history, by their place in orders.
const (
	settledOrder  = 0
	sameBankOrder = 1
	voidedOrder   = 2
	receiptOrder  = 3
	repeatedOrder = 4 // of settledOrder
	conflictOrder = 5 // with settledOrder
	garbageOrder  = 6
	unknownOrder  = 7 // of a PSP that does not exist
	expiredOrder  = 8 // held, released by the timeout, and refused by a receipt
)

// clean returns a history in which everything is as it must be.
func clean(t *testing.T) *history {
	h := &history{t: t, now: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), random: rand.New(rand.NewPCG(7, 7))}
	for _, account := range []tb.Account{
		{ID: spec.Issuance.TigerBeetle(), Code: spec.KindIssuance, UserData128: populationMoney,
			UserData64: populationCount},
		{ID: spec.Refusals.TigerBeetle(), Code: spec.KindRefusals},
		h.account(spec.ReserveOf(idOf(alice))), h.account(spec.ReserveOf(idOf(bruno))),
		h.account(spec.TransitOf(idOf(alice))), h.account(spec.TransitOf(idOf(bruno))),
		h.account(idOf(alice)), h.account(idOf(bruno)), h.account(idOf(clara)),
		h.account(idOf(diana)), h.account(idOf(elisa)),
	} {
		account.Ledger = spec.LedgerNumber
		h.accounts = append(h.accounts, account)
	}

	for _, bank := range []pix.Account{alice, bruno} {
		h.fund(spec.Issuance, spec.ReserveOf(idOf(bank)), reserveCentavos)
	}

	for _, customer := range []pix.Account{clara, elisa} {
		h.fund(spec.TransitOf(idOf(customer)), idOf(customer), 2*reserveCentavos)
	}

	for _, customer := range []pix.Account{alice, diana} {
		h.fund(spec.TransitOf(idOf(customer)), idOf(customer), depositCentavos)
	}
	h.transfers = append(h.transfers, tb.Transfer{
		ID: tb.ToUint128(15), DebitAccountID: spec.Issuance.TigerBeetle(), CreditAccountID: spec.Refusals.TigerBeetle(),
		UserData128: populationMoney, UserData64: populationCount, Ledger: spec.LedgerNumber, Code: spec.CodeMarker,
	})
	h.move(spec.CodeClockProbe, spec.Issuance, spec.Refusals, 0)

	settled := h.order(alice, bruno, 1_000)
	sameBank := h.order(alice, clara, 250)
	voided := h.order(bruno, alice, 99)
	receipt := h.order(bruno, alice, 1<<60)
	h.append(settled)
	conflict := proto.Clone(settled).(*pixv1.PaymentOrder)
	conflict.AmountCentavos++
	h.append(conflict)
	h.orders = append(h.orders, source.Record{Offset: int64(len(h.orders)), Time: h.now, Value: []byte{0xff}})
	unknown := h.order(pix.Account{ISPB: "ZZZZZZZZ", Branch: "0001", Number: "1"}, alice, 5)
	expired := h.order(alice, bruno, 77)

	h.clear(settled, "", 1, 2, 3)
	h.report(settled, "")
	h.clear(sameBank, "", 1, 3)
	h.clear(voided, "AC06", 1, 2, 3)
	h.receipt(receipt, "LQ01", spec.TransitOf(idOf(bruno)), spec.ReserveOf(idOf(bruno)))
	h.report(receipt, "LQ01")
	h.receipt(unknown, "RC09", spec.Issuance, spec.Refusals)
	h.report(unknown, "RC09")
	h.hold(expired, 1, 2, 3)
	h.receipt(expired, "AB03", spec.TransitOf(idOf(alice)), spec.ReserveOf(idOf(alice)))
	h.report(expired, "AB03")
	h.letter(conflictOrder, "DUPL")
	h.letter(garbageOrder, "FF01")
	h.stamp()

	return h
}

func (h *history) committed() int64 { return int64(len(h.orders)) - h.uncommitted }

func (h *history) audit() Verdict {
	j := newJudge(h.config)
	for _, r := range h.letters {
		j.DeadLetter(r)
	}

	for _, r := range h.orders {
		j.Order(r)
	}
	j.EndOfOrders()

	for _, r := range h.reports {
		j.Report(r)
	}

	if h.secrets != nil {
		j.Answers(h.secrets, h.cut)

		for _, r := range h.answers {
			j.Answer(r)
		}
	}

	if h.questions != nil {
		j.Questions(h.cutAsked)

		for _, r := range h.questions {
			j.Request(r)
		}
	}

	for _, account := range h.accounts {
		j.Account(account)
	}
	h.stamp()
	transfers := slices.Clone(h.transfers)
	slices.SortStableFunc(transfers, func(x, y tb.Transfer) int { return cmp.Compare(x.Timestamp, y.Timestamp) })

	for _, transfer := range transfers {
		j.Transfer(transfer)
	}
	j.GroupLag(0, h.committed(), int64(len(h.orders)))

	return j.Judge()
}

// finds requires that an audit finds so many faults, all of one kind: none of "".
func (h *history) finds(what any, kind string, count int) Verdict {
	h.t.Helper()

	verdict := h.audit()
	if verdict.FindingCount != count || verdict.ByKind[kind] != count || verdict.Clean != (count == 0) {
		h.t.Errorf("%v: there must be %d of %q, not %+v", what, count, kind, verdict.Findings)
	}

	return verdict
}

func TestCleanHistoryPasses(t *testing.T) {
	(&history{t: t}).finds("empty", "", 0)

	for text, of := range map[string]func(*testing.T) *history{
		"6 payments and 0 returns 2 1 1 0": clean, "6 payments and 4 returns 2 2 2 550": withReturns,
	} {
		verdict := of(t).finds(text, "", 0)
		s := verdict.Summary

		got := fmt.Sprintf("%d payments and %d returns %d %d %d %v", s.Payments, s.Returns, s.Settled, s.RepeatedOrders,
			s.RepeatedReports, s.ReturnedCentavos)
		if got != text || total(s.Rejected) != 4 || total(s.DeadLetters) != 2 ||
			!strings.HasPrefix(verdict.String(), "AUDIT CLEAN: "+text[:24]) {
			t.Errorf("%v: %+v", verdict, s)
		}
	}
}

// A copy that was one too many at one delivery may be a duplicate, or a conflict, at the next.
func TestACopyTooManyIsNoProblem(t *testing.T) {
	h := clean(t)
	h.letter(repeatedOrder, "LQ09")
	h.letter(repeatedOrder, "LQ09")
	h.letter(conflictOrder, "LQ09") // beside DUPL
	h.finds("copies too many", "", 0)
}

// A payment that was refused before phase 1 leaves a receipt and no legs. A conflicting
// message can then hold money under its ids, until the ledger releases it: the message is a
// dead letter, and the receipt stands.
func TestConflictingMessageHeldBesideAReceipt(t *testing.T) {
	h := clean(t)
	late := h.order(alice, bruno, 500)
	conflict := proto.Clone(late).(*pixv1.PaymentOrder)
	conflict.Payee = h.message(sameBankOrder).Payee // leg 1 is the same, the others are not
	h.append(conflict)
	h.letter(len(h.orders)-1, "DUPL")
	h.receipt(late, "LQ13", spec.TransitOf(idOf(alice)), spec.ReserveOf(idOf(alice)))
	h.report(late, "LQ13")
	h.hold(conflict, 1, 3)
	h.finds("all of it is held", "", 0)
	h.dropTransfers(len(h.orders)-1, 2)
	h.finds("only a part of it is held", LegsDisagree, 1)
}

// The engine may refuse an order as too old if it is older than half of the deadline, but for the
// difference of two clocks.
func TestARefusalAsTooOldNeedsTheAge(t *testing.T) {
	for age, found := range map[time.Duration]int{0: 1, 17 * time.Second: 1, 18 * time.Second: 0, time.Minute: 0} {
		h := clean(t)
		h.refuse("LQ10", 500, age)
		h.finds(age, WrongTransfer, found)
	}
}

// The reason of a receipt must follow from the order and the ledger.
func TestARefusalMustBeJustified(t *testing.T) {
	nobody, noBank := alice, alice

	nobody.Number, noBank.ISPB = "99", "99999999"
	for _, c := range []struct {
		reason       string
		payer, payee pix.Account
		centavos     uint64
		before       func(h *history) // what happens between the order and its verdict
		justified    bool
	}{
		{"LQ01", alice, bruno, depositCentavos + 1, nil, true},
		{"LQ01", alice, bruno, 500, nil, false},
		{"LQ01", alice, bruno, 48_000, (*history).holdMost, true},
		{"LQ01", nobody, bruno, 500, nil, false},
		{"AC02", nobody, bruno, 500, nil, true},
		{"AC02", alice, bruno, 500, nil, false},
		{"AC03", bruno, nobody, 500, nil, true},
		{"AC03", bruno, noBank, 500, nil, false},
		{"RC09", noBank, bruno, 500, nil, true},
		{"RC09", alice, bruno, 500, nil, false},
		{"RC10", bruno, noBank, 500, nil, true},
		{"AM04", clara, bruno, reserveCentavos * 3 / 2, nil, true},
		{"AM04", alice, clara, reserveCentavos * 3 / 2, nil, false},
		{"AM01", alice, bruno, 0, nil, true},
		{"LQ02", alice, bruno, 500, nil, true}, // it depends on settings
		{"LQ04", alice, bruno, 500, nil, false},
		{"DS27", alice, bruno, 500, nil, true}, // there is no register
	} {
		h := clean(t)
		h.now = h.now.Add(time.Minute)

		o := h.order(c.payer, c.payee, c.centavos)
		if c.before != nil {
			c.before(h)
		}

		debit, credit := spec.TransitOf(idOf(c.payer)), spec.ReserveOf(idOf(c.payer))
		if c.payer == noBank {
			debit, credit = spec.Issuance, spec.Refusals
		}
		h.receipt(o, c.reason, debit, credit)
		h.transfers[len(h.transfers)-1].Timestamp = uint64(h.now.Add(time.Second).UnixNano())
		h.report(o, c.reason)
		verdict := h.audit()

		found := verdict.ByKind[WrongReason] + verdict.ByKind[WrongTransfer]
		if verdict.Clean != c.justified || !c.justified && found != 1 {
			t.Errorf("%s of %d centavos from %v to %v: %+v", c.reason, c.centavos, c.payer, c.payee, verdict.Findings)
		}

		if unchecked := verdict.Summary.NotChecked[RefusalsWith+c.reason]; unchecked > 0 != (c.reason == "DS27" ||
			c.reason == "LQ02") {
			t.Errorf("%s: %d are not checked", c.reason, unchecked)
		}
	}
}

// holdMost holds nearly all that alice has, for bruno, and voids it a second later.
func (h *history) holdMost() {
	o := h.order(alice, bruno, 47_000)
	h.stamp()
	h.hold(o, 1, 2, 3)
	h.dateLegs(h.now)
	h.void(o, "AC06", 1, 2, 3)
	h.dateLegs(h.now.Add(time.Second / 2))
	h.report(o, "AC06")
}

// dateLegs gives the last three transfers their time in the ledger.
func (h *history) dateLegs(at time.Time) {
	for i := range 3 {
		h.last(1 + i).Timestamp = uint64(at.UnixNano())
	}
}

// waitForDeadline adds a payment that waits for its deadline and is voided some time after it.
func (h *history) waitForDeadline(after time.Duration) {
	o := h.order(alice, bruno, 100)
	h.stamp()
	h.hold(o, 1, 2, 3)
	h.dateLegs(h.now)
	h.void(o, "AB03", 1, 2, 3)
	h.dateLegs(h.now.Add(40*time.Second + after))
	h.report(o, "AB03")
}

func TestTheDeadlineIsKept(t *testing.T) {
	for _, c := range []struct {
		name  string
		after []time.Duration // the deadline, of payments in a row
		found int
	}{
		{"on time", repeated(100*time.Millisecond, 20), 0},
		{"some late, as an outage makes them",
			append(repeated(time.Duration(0), 1), repeated(15*time.Second, 9)...), 0},
		{"every one four seconds late", repeated(4*time.Second, 20), 1},
		{"four seconds early", repeated(-4*time.Second, 20), 20},
	} {
		h := clean(t)
		for _, after := range c.after {
			h.waitForDeadline(after)
		}
		h.finds(c.name, WrongDeadline, c.found)
	}
}

// Nothing is said about the deadline of an order that was open while a clock was wrong. An engine's shorter
// deadline counts only for what was open meanwhile.
func TestADeadlineOfATime(t *testing.T) {
	for name, of := range map[string]func(*Config, Interval){
		"a wrong clock": func(c *Config, open Interval) { c.WrongClocks = []Interval{open} },
		"a shorter deadline": func(c *Config, open Interval) {
			c.DeadlineMin, c.ShortDeadlines = 5*time.Second, []Interval{open}
		},
	} {
		for offset, found := range map[time.Duration]int{0: 0, -time.Hour: 1, time.Hour: 1} {
			h := clean(t)
			h.waitForDeadline(-30 * time.Second)
			of(&h.config, Interval{h.now.Add(offset), h.now.Add(offset + time.Second)})
			h.finds(fmt.Sprintf("%s %v later", name, offset), WrongDeadline, found)
		}
	}
}

func repeated[T any](value T, n int) []T { return slices.Repeat([]T{value}, n) }

// A fault that repeats must not push the others out of the list: it is one line, with examples.
func TestEveryKindIsListed(t *testing.T) {
	h := clean(t)
	for i := range 1000 {
		h.order(alice, bruno, 5)
		h.sayInLetter(garbageOrder, strings.Repeat("X", i%100+1), "value: 1 bytes") // each in a way of its own
	}
	h.accountOf(idOf(alice)).DebitsPending = tb.ToUint128(1)
	verdict := h.audit()

	listed := map[string]int{}
	for _, f := range verdict.Findings {
		listed[f.Kind] += f.Count
	}

	if len(listed) != len(verdict.ByKind) || listed[NoOutcome] != 1000 || verdict.ByKind[NoOutcome] != 1000 ||
		len(verdict.Findings) > formsMax*len(verdict.ByKind) {
		t.Fatalf("listed are %v of %v", listed, verdict.ByKind)
	}
}

func (h *history) order(payer, payee pix.Account, amount uint64) *pixv1.PaymentOrder {
	h.now = h.now.Add(time.Second)
	o := orderMessage(pix.NewEndToEndID(payer.ISPB, h.now, h.random).String(), payer, payee, amount, h.now)
	h.append(o)

	return o
}

// unordered returns an order that is in no record.
func (h *history) unordered() *pixv1.PaymentOrder {
	o := h.order(alice, bruno, 5)
	h.orders = h.orders[:len(h.orders)-1]
	return o
}

func (h *history) append(o *pixv1.PaymentOrder) {
	h.orders = append(h.orders,
		source.Record{Offset: int64(len(h.orders)), Time: h.now, Key: []byte(o.EndToEndId), Value: encode(h.t, o)})
}

func (h *history) message(order int) *pixv1.PaymentOrder {
	var o pixv1.PaymentOrder
	kit.Must(h.t, proto.Unmarshal(h.orders[order].Value, &o))
	return &o
}

func (h *history) letter(order int, reason string, change ...func(*pixv1.DeadLetter)) {
	r := h.orders[order]

	message := &pixv1.DeadLetter{
		Topic: source.Payments, Offset: int64(order), ReasonCode: reason, Reason: h.letterText(r, reason),
		PayloadSizeBytes: uint64(len(r.Value)), Payload: r.Value,
	}
	for _, c := range change {
		c(message)
	}
	letter, err := proto.Marshal(message)
	kit.Must(h.t, err)
	h.letters = append(h.letters, source.Record{Offset: int64(len(h.letters)), Key: r.Key, Value: letter})
}

// letterText returns a text that names what is wrong.
func (h *history) letterText(r source.Record, reason string) string {
	read, invalid := spec.ReadOrder(r.Value, h.now)
	for _, flaw := range invalid {
		if flaw.Code == reason {
			return fmt.Sprintf("%s: %q is wrong", flaw.Field, flaw.Value)
		}
	}

	return fmt.Sprintf("end_to_end_id: %s is the id of another", read.ID)
}

func (h *history) report(o *pixv1.PaymentOrder, reason string) {
	status := pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	if reason != "" {
		status = pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT
	}
	h.appendReport(&pixv1.SettlementReport{EndToEndId: o.EndToEndId, Status: status, ReasonCode: reason, Payer: o.Payer,
		Payee: o.Payee, AmountCentavos: o.AmountCentavos})
}

func (h *history) appendReport(report *pixv1.SettlementReport) {
	value, err := report.MarshalVT()
	kit.Must(h.t, err)
	key := cmp.Or(report.OriginalEndToEndId, report.EndToEndId)
	h.reports = append(h.reports,
		source.Record{Offset: int64(len(h.reports)), Time: h.now, Key: []byte(key), Value: value})
}

func (h *history) dropReports(order int) {
	id := h.message(order).EndToEndId
	h.reports = slices.DeleteFunc(h.reports, func(r source.Record) bool {
		return strings.Contains(string(r.Value), id)
	})
}

// sayInLetter replaces the dead letter of an order by one with a code and a text.
func (h *history) sayInLetter(order int, reason, text string) {
	h.dropLetter(order)
	h.letter(order, reason, func(l *pixv1.DeadLetter) { l.Reason = text })
}

func (h *history) dropLetter(order int) {
	h.letters = slices.DeleteFunc(h.letters, func(r source.Record) bool {
		var letter pixv1.DeadLetter
		kit.Must(h.t, proto.Unmarshal(r.Value, &letter))
		return letter.Offset == int64(order)
	})
}

// legsOf returns the payment that an order makes, to know its legs by.
func (h *history) legsOf(o *pixv1.PaymentOrder) (*spec.Order, spec.Number) {
	read, err := spec.ReadOrder(encode(h.t, o), h.now)
	if err != nil {
		h.t.Fatal(err)
	}

	return &read, spec.PaymentKey(read.ID, read.Minutes)
}

func (h *history) hold(o *pixv1.PaymentOrder, legs ...int) {
	p, key := h.legsOf(o)

	names, ispb := spec.UserData(p.ID, p.Minutes)
	for _, leg := range legs {
		debit, credit := p.Content.Leg(leg)
		h.transfers = append(h.transfers, tb.Transfer{
			ID: key.Role(leg - 1).TigerBeetle(), DebitAccountID: debit.TigerBeetle(),
			CreditAccountID: credit.TigerBeetle(),
			Amount:          tb.ToUint128(o.AmountCentavos), UserData128: names.TigerBeetle(), UserData64: ispb,
			Ledger: spec.LedgerNumber, Code: uint16(leg), Timeout: 60,
			Flags: tb.TransferFlags{Pending: true}.ToUint16(),
		})
	}
}

func (h *history) post(o *pixv1.PaymentOrder, legs ...int) {
	p, _ := h.legsOf(o)
	for _, leg := range legs {
		debit, credit := p.Content.Leg(leg)
		h.add(debit, int64(o.AmountCentavos), 0)
		h.add(credit, 0, int64(o.AmountCentavos))
	}
	h.resolve(o, tb.TransferFlags{PostPendingTransfer: true}, "", legs)
}

func (h *history) void(o *pixv1.PaymentOrder, reason string, legs ...int) {
	h.resolve(o, tb.TransferFlags{VoidPendingTransfer: true}, reason, legs)
}

// clear holds an order and ends it: without a reason it settles. Then it reports that.
func (h *history) clear(o *pixv1.PaymentOrder, reason string, legs ...int) {
	h.hold(o, legs...)

	if reason == "" {
		h.post(o, legs...)
	} else {
		h.void(o, reason, legs...)
	}
	h.report(o, reason)
}

func (h *history) resolve(o *pixv1.PaymentOrder, flags tb.TransferFlags, reason string, legs []int) {
	_, key := h.legsOf(o)
	for _, leg := range legs {
		t := *h.find(key.Role(leg - 1))
		t.ID, t.PendingID = key.Role(spec.ResolutionRole+leg-1).TigerBeetle(), t.ID
		t.UserData32, t.Flags, t.Timeout, t.Timestamp = reasonOf(reason), flags.ToUint16(), 0,
			verdictAt(o.AcceptedAtUnixMs, reason)
		h.transfers = append(h.transfers, t)
	}
}

func (h *history) receipt(o *pixv1.PaymentOrder, reason string, debit, credit spec.AccountID) {
	p, key := h.legsOf(o)
	names, _ := spec.UserData(p.ID, p.Minutes)
	h.transfers = append(h.transfers, tb.Transfer{
		ID: key.Role(spec.ResolutionRole).TigerBeetle(), DebitAccountID: debit.TigerBeetle(),
		CreditAccountID: credit.TigerBeetle(),
		UserData128:     names.TigerBeetle(), UserData64: p.Hash, UserData32: reasonOf(reason),
		Ledger:    spec.LedgerNumber,
		Code:      spec.CodeReceipt,
		Timestamp: verdictAt(o.AcceptedAtUnixMs, reason),
	})
}

// verdictAt returns the ledger's time of a verdict that waited for the deadline; 0 for others, which
// get their time from stamp.
func verdictAt(acceptedMs int64, reason string) uint64 {
	if reason != "AB03" && reason != "LQ13" {
		return 0
	}

	return uint64(time.UnixMilli(acceptedMs).Add(40 * time.Second).UnixNano())
}

// move adds a transfer that belongs to no payment, and moves the money.
func (h *history) move(code uint16, debit, credit spec.AccountID, amount uint64) {
	h.transfers = append(h.transfers, tb.Transfer{
		ID: tb.ToUint128(uint64(len(h.transfers) + 100)), DebitAccountID: debit.TigerBeetle(),
		CreditAccountID: credit.TigerBeetle(),
		Amount:          tb.ToUint128(amount), Ledger: spec.LedgerNumber, Code: code,
	})
	h.add(debit, int64(amount), 0)
	h.add(credit, 0, int64(amount))
}

// fund adds a funding as bootstrap makes it: its id is that of the account.
func (h *history) fund(debit, credit spec.AccountID, amount uint64) {
	h.move(spec.CodeFunding, debit, credit, amount)
	h.last(1).ID = credit.TigerBeetle()
}

func (h *history) transfer(order, role int) *tb.Transfer {
	_, key := h.legsOf(h.message(order))
	return h.find(key.Role(role))
}

func (h *history) find(id spec.Number) *tb.Transfer { return &h.transfers[h.place(id)] }

func (h *history) place(id spec.Number) int {
	h.t.Helper()

	at := slices.IndexFunc(h.transfers, func(t tb.Transfer) bool { return spec.NumberOf(t.ID) == id })
	if at < 0 {
		h.t.Fatalf("there is no transfer %x", id)
	}

	return at
}

func (h *history) drop(id spec.Number) {
	at := h.place(id)
	h.transfers = slices.Delete(h.transfers, at, at+1)
}

func (h *history) dropTransfers(order int, roles ...int) {
	_, key := h.legsOf(h.message(order))
	for _, role := range roles {
		h.drop(key.Role(role))
	}
}

func (h *history) account(id spec.AccountID) tb.Account {
	guarded := spec.Chart[spec.KindOf(id)].Guarded
	return tb.Account{ID: id.TigerBeetle(), Code: uint16(spec.KindOf(id)),
		Flags: tb.AccountFlags{DebitsMustNotExceedCredits: guarded}.ToUint16()}
}

func (h *history) accountOf(id spec.AccountID) *tb.Account {
	at := slices.IndexFunc(h.accounts, func(a tb.Account) bool { return spec.NumberOf(a.ID) == id })
	if at < 0 {
		h.t.Fatalf("there is no account %s", spec.AccountName(id))
	}

	return &h.accounts[at]
}

func (h *history) add(id spec.AccountID, debits, credits int64) {
	account := h.accountOf(id)
	sum := func(amount *tb.Uint128, more int64) {
		*amount = spec.Number(spec.MoneyIn(*amount).Plus(
			spec.Money{High: uint64(more >> 63), Low: uint64(more)})).TigerBeetle()
	}
	sum(&account.DebitsPosted, debits)
	sum(&account.CreditsPosted, credits)
}

func orderMessage(id string, payer, payee pix.Account, amount uint64, at time.Time) *pixv1.PaymentOrder {
	return &pixv1.PaymentOrder{EndToEndId: id, Payer: accountMessage(payer), Payee: accountMessage(payee),
		AmountCentavos: amount, AcceptedAtUnixMs: at.UnixMilli(), RemittanceInformation: "coffee"}
}

func accountMessage(a pix.Account) *pixv1.Account {
	return &pixv1.Account{Ispb: string(a.ISPB), Branch: a.Branch, Number: a.Number}
}

func encode(t *testing.T, o *pixv1.PaymentOrder) []byte {
	value, err := o.MarshalVT()
	kit.Must(t, err)
	return value
}

// judgedByPlatform decodes and validates as the services do.
func judgedByPlatform(value []byte, recordTime time.Time) error {
	var m pixv1.PaymentOrder
	if err := m.UnmarshalVT(value); err != nil {
		return err
	}

	if m.ReturnOrder != nil && m.EndToEndId == "" && m.Payer == nil && m.Payee == nil {
		_, err := pix.ReturnDraft{
			ReturnID: m.ReturnOrder.ReturnId, OriginalEndToEndID: m.ReturnOrder.OriginalEndToEndId,
			AmountCentavos: m.ReturnOrder.AmountCentavos,
			ReasonCode:     m.ReturnOrder.ReasonCode, AcceptedAtUnixMs: m.ReturnOrder.AcceptedAtUnixMs,
		}.Validate(recordTime)

		return err
	}
	_, err := pix.Draft{
		EndToEndID: m.EndToEndId, Payer: pix.AccountIn(m.Payer), Payee: pix.AccountIn(m.Payee),
		AmountCentavos:   m.AmountCentavos,
		AcceptedAtUnixMs: m.AcceptedAtUnixMs, RemittanceInformation: m.RemittanceInformation,
	}.Validate(recordTime)

	return err
}

func idOf(a pix.Account) spec.AccountID {
	id, err := spec.CustomerAccount(string(a.ISPB), a.Branch, a.Number)
	if err != nil {
		panic(fmt.Sprint(a, err))
	}

	return id
}

func reasonOf(code string) uint32 {
	reason, err := spec.ReasonNumber(code)
	if err != nil {
		panic(err)
	}

	return reason
}

// Two engines that believe both to have a partition repeat each other's reports. Each is blamed.
func TestRepeatsOfEachProducerCount(t *testing.T) {
	for writers := int64(1); writers <= 2; writers++ {
		j, p := newJudge(Config{}), &payment{sending: sending{copies: 1}}
		for n := range 100 {
			j.countReport(p, source.Record{Writer: int64(n) % writers, Time: time.UnixMilli(int64(100 * n))})
		}
		j.judgeRepeats()

		if found := j.counts[RepeatedReport]; int64(found) != writers {
			t.Errorf("of %d producers that repeat an outcome, %d are found", writers, found)
		}
	}
}
