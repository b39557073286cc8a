package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/platform/kit"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// base is the ledger's time before all that a follower sees of a history.
const base = 1_780_000_000_000_000_000

// follow gives a history to a follower that begins after so many transfers, in some order of the streams.
func (h *history) follow(random *rand.Rand, begin int) (findings []Finding, f *Judge) {
	transfers := inTime(h.transfers)
	for begin > 0 && begin < len(transfers) && transfers[begin-1].Flags&spec.LinkedFlag != 0 {
		begin++ // a chain is of one instant
	}

	f = h.followFrom(uint64(base+begin), &findings)
	if begin > 0 {
		f.From(0, int64(len(h.orders)))
	}

	for _, t := range transfers[:begin] {
		f.History(t)
	}
	f.Begin()
	orders, letters, reports, left := h.orders, h.letters, h.reports, transfers[begin:]
	answer := func() { answerFrom(transfers, f) }

	for len(orders)+len(letters)+len(reports)+len(left) > 0 {
		switch random.IntN(5) {
		case 0:
			orders = takeOne(orders, f.Order)
		case 1:
			letters = takeOne(letters, f.DeadLetter)
		case 2:
			reports = takeOne(reports, f.Report)
		case 3:
			left = takeOne(left, f.Transfer)
		case 4:
			answer()
		}
	}

	for range 3 { // a doubt may lead to a question, and its answer to a doubt
		mark := f.Mark()
		f.ReadTo(uint64(base + len(transfers) + 2))
		f.Passed(mark, map[int32]int64{0: h.committed()})
		answer()
	}

	return findings, f
}

func takeOne[T any](all []T, take func(T)) []T {
	if len(all) == 0 {
		return nil
	}
	take(all[0])

	return all[1:]
}

// inTime returns transfers with their times and chains.
func inTime(transfers []tb.Transfer) []tb.Transfer {
	transfers = slices.Clone(transfers)
	for i := range transfers {
		transfers[i].Timestamp = uint64(base + i + 1)
		if i > 0 && inOneChain(transfers[i-1], transfers[i]) {
			transfers[i-1].Flags |= spec.LinkedFlag
		}
	}

	return transfers
}

// inOneChain reports whether the services write two transfers as one chain.
func inOneChain(t, next tb.Transfer) bool {
	const phases = 1<<1 | 1<<2 | 1<<3 // pending, posted, voided
	key, _ := spec.Split(spec.NumberOf(t.ID))
	nextKey, _ := spec.Split(spec.NumberOf(next.ID))
	ofLeg := func(code uint16) bool {
		return code >= 1 && code <= 3 || code >= spec.CodeReturnLeg1 && code <= spec.CodeReturnLeg1+2
	}

	return ofLeg(t.Code) && ofLeg(next.Code) && key == nextKey && t.Flags&phases == next.Flags&phases &&
		t.Code < next.Code ||
		t.Code == spec.CodeReturn && ofLeg(next.Code) && next.Flags&phases != 1<<1
}

// However far the streams are ahead of each other, and wherever it begins, nothing is wrong with a clean
// history. From the beginning on it checks every payment, and then it keeps none.
func TestFollowerPassesACleanHistory(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := histories[seed%3](t)

		begin := 0
		if seed%4 > 1 {
			begin = random.IntN(len(h.transfers))
		}

		findings, f := h.follow(random, begin)
		if len(findings) > 0 {
			t.Fatalf("seed %d, from transfer %d: %+v", seed, begin, findings)
		}

		if ends := h.outcomes(); begin == 0 && (f.Checked() != ends || f.Kept() > 0 || f.summary.RepeatedReports == 0) {
			t.Errorf("seed %d: %d of %d checked, %d kept, %d repeated", seed, f.Checked(), ends, f.Kept(),
				f.summary.RepeatedReports)
		}
	}
}

// followFrom returns a judge that begins at an instant, and adds what it finds to found.
func (h *history) followFrom(from uint64, found *[]Finding) *Judge {
	return Follow(h.accountOf(spec.Issuance), from, func(one Finding) { *found = append(*found, one) })
}

// histories are clean, with returns, and with acts of all kinds.
var histories = []func(*testing.T) *history{
	clean,
	withReturns,
	func(t *testing.T) *history {
		h := withRegister(t)
		h.actsOfAllKinds()
		h.stamp()

		return h
	},
}

// outcomes returns how many payments and returns have a report.
func (h *history) outcomes() int64 {
	ids := map[string]bool{}

	for _, r := range h.reports {
		var m pixv1.SettlementReport
		kit.Must(h.t, m.UnmarshalVT(r.Value))
		ids[m.EndToEndId] = true
	}

	return int64(len(ids))
}

// A report is read before its verdict, and a mark passes between them: the ledger is asked, and the payment is
// checked all the same, once.
func TestFollowerCountsWhatIsReportedBeforeItsVerdictIsRead(t *testing.T) {
	for i, make := range histories[:2] {
		for read := range len(make(t).transfers) {
			for _, late := range []bool{false, true} { // the answer comes after what was not read
				h := make(t)

				h.transfers = inTime(h.transfers)
				if read > 0 && h.transfers[read-1].Flags&spec.LinkedFlag != 0 {
					continue // a chain is read whole
				}
				var findings []Finding
				f := h.followFrom(base, &findings)
				f.Begin()
				all(h.orders, f.Order)
				all(h.letters, f.DeadLetter)
				all(h.transfers[:read], f.Transfer)
				all(h.reports, f.Report)
				f.Passed(f.Mark(), nil)

				if late {
					all(h.transfers[read:], f.Transfer)
				}
				answerFrom(h.transfers, f)
				f.Passed(f.Mark(), nil)

				if !late {
					all(h.transfers[read:], f.Transfer)
				}
				f.ReadTo(uint64(base + len(h.transfers) + 2))

				for range 3 {
					f.Passed(f.Mark(), map[int32]int64{0: h.committed()})
					answerFrom(h.transfers, f)
				}

				if ends := h.outcomes(); len(findings) > 0 || f.Checked() != ends || f.Kept() > 0 {
					t.Errorf("history %d, %d of %d transfers read before, answer late %v: %d of %d checked, %d kept, %+v",
						i, read, len(h.transfers), late, f.Checked(), ends, f.Kept(), findings)
				}
			}
		}
	}
}

func all[T any](of []T, take func(T)) {
	for _, one := range of {
		take(one)
	}
}

// answerFrom gives a follower what it asks the ledger for.
func answerFrom(transfers []tb.Transfer, f *Judge) {
	for {
		ids, answer := f.LookUps(3)
		var found []tb.Transfer

		for _, id := range ids {
			if i := slices.IndexFunc(transfers, func(t tb.Transfer) bool { return t.ID == id }); i >= 0 {
				found = append(found, transfers[i])
			}
		}

		if answer(found); len(ids) == 0 {
			return
		}
	}
}

// onlyAtTheEnd are the faults that no follower can see: they show in balances, in whole topics, by the settings
// of the engines, or need all that was before.
var onlyAtTheEnd = []string{
	"a customer has one centavo too much", "an account is gone",
	"money is pending",
	"an account is closed",
	"one centavo vanished between two banks",
	"messages that the engines have not finished",
	"a dead letter of a record that is not there", "an equal message called a conflict",
	"every message of a payment called a conflict",
	"another content without a dead letter", "a hold that ends before the deadline", "rejected before the deadline",
	"after 90 days", "settled before its original", // by the ledger's clock, which a test of a follower does not keep
	"a mark of a payment of which nothing was given back", "held in a slot that is marked as burnt",
	"held, and the payment is not marked",
	"no marker", "a deposit is missing", "refused too early as past its deadline",
}

// isFollowed requires that a follower finds a fault, too, in every order of the streams.
func (h *history) isFollowed(name, kind string) {
	if slices.Contains(onlyAtTheEnd, name) {
		return
	}

	for seed := range uint64(20) {
		findings, _ := h.follow(rand.New(rand.NewPCG(seed, 2)), 0)
		if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == kind }) {
			h.t.Fatalf("seed %d: a follower finds no %q, but %+v", seed, kind, findings)
		}
	}
}

// conflicts adds two orders with one id and says which one is the payment: the other is a dead letter.
func (h *history) conflicts(winner int, change func(*pixv1.PaymentOrder)) {
	first := h.order(alice, bruno, 300)
	second := proto.Clone(first).(*pixv1.PaymentOrder)
	change(second)
	h.append(second)
	paid := []*pixv1.PaymentOrder{first, second}[winner]

	legs := []int{1, 2, 3}
	if paid.Payer.Ispb == paid.Payee.Ispb {
		legs = []int{1, 3}
	}
	h.hold(paid, legs...)
	h.post(paid, legs...)
	h.report(paid, "")
	h.report(paid, "")
	h.letter(len(h.orders)-1-winner, "DUPL")
	h.stamp()
}

func otherAmount(o *pixv1.PaymentOrder) { o.AmountCentavos += 7 }

func otherPayee(o *pixv1.PaymentOrder) {
	o.Payee = accountMessage(clara)
}

// Any of the orders with one id may be the payment, whichever of them and of its transfers is read first. A hold that
// is none of the orders' is found, and so is a report about the order that lost.
func TestFollowerTakesAnyOfConflictingOrders(t *testing.T) {
	for _, c := range []struct {
		change func(*pixv1.PaymentOrder)
		kind   string // of the finding; empty: none
		spoil  func(h *history, lost int)
	}{
		{otherAmount, "", func(*history, int) {}},
		{otherPayee, "", func(*history, int) {}},
		{otherAmount, WrongTransfer, func(h *history, lost int) { h.transfer(lost, 1).Amount = tb.ToUint128(301) }},
		{otherAmount, ReportedContent, func(h *history, lost int) {
			h.reports = h.reports[:len(h.reports)-2]
			h.report(h.message(lost), "")
		}},
	} {
		for seed := range uint64(200) {
			h := clean(t)
			winner := int(seed % 2)
			h.conflicts(winner, c.change)
			lost := len(h.orders) - 1 - winner
			c.spoil(h, lost)

			findings, f := h.follow(rand.New(rand.NewPCG(seed, 5)), 0)

			wrong := len(findings) > 0 || f.Checked() != h.outcomes() || f.Kept() > 0
			if c.kind != "" {
				wrong = !slices.ContainsFunc(findings, func(f Finding) bool {
					return f.Kind == c.kind && f.Subject == h.message(lost).EndToEndId
				})
			}

			if wrong {
				t.Fatalf("seed %d: it must find %q: %d of %d checked, %d kept, %+v", seed, c.kind, f.Checked(),
					h.outcomes(), f.Kept(), findings)
			}
		}
	}
}

// A judge that begins after a payment has settled learns from the ledger what it is about, when its report comes
// again. A conflicting order that comes then is not the payment.
func TestFollowerKnowsAConflictWithWhatWasBefore(t *testing.T) {
	h := clean(t)
	h.conflicts(0, otherAmount)
	h.transfers = inTime(h.transfers)
	var findings []Finding
	f := h.followFrom(uint64(base+len(h.transfers)), &findings)
	f.From(0, h.committed())
	f.Begin()
	passed := func() {
		f.Passed(f.Mark(), nil)
		answerFrom(h.transfers, f)
	}
	f.Report(h.reports[len(h.reports)-1])
	passed()
	f.Order(h.orders[len(h.orders)-1])
	passed()
	f.DeadLetter(h.letters[len(h.letters)-1])
	passed()

	if len(findings) > 0 {
		t.Errorf("%+v", findings)
	}
}

// endedHistory is a clean history and a follower that keeps nothing of it.
type endedHistory struct {
	*history
	judge *Judge
	found []Finding // since
}

func ended(h *history) *endedHistory {
	h.stamp()
	h.transfers = inTime(h.transfers)
	e := &endedHistory{history: h}
	e.judge = h.followFrom(0, &e.found)
	e.judge.Begin()
	all(h.orders, e.judge.Order)
	all(h.letters, e.judge.DeadLetter)
	all(h.transfers, e.judge.Transfer)
	all(h.reports, e.judge.Report)
	e.pass(1)
	e.mustBeClean("at first")

	return e
}

// pass lets a mark pass, and the ledger answer what is asked then.
func (e *endedHistory) pass(times int) {
	for range times {
		e.judge.Passed(e.judge.Mark(), map[int32]int64{0: int64(len(e.orders))})
		answerFrom(e.transfers, e.judge)
	}
}

func (e *endedHistory) mustBeClean(when string) {
	e.t.Helper()

	if len(e.found) > 0 || e.judge.Kept() > 0 {
		e.t.Fatalf("%s: %d kept, %+v", when, e.judge.Kept(), e.found)
	}
}

// reportOf returns the report of an order, to be written again.
func (e *endedHistory) reportOf(o *pixv1.PaymentOrder) source.Record {
	return e.reports[slices.IndexFunc(e.reports, func(r source.Record) bool { return string(r.Key) == o.EndToEndId })]
}

// conflict adds another order with the id of one, and its dead letter.
func (e *endedHistory) conflict(order int) *pixv1.PaymentOrder {
	late := e.message(order)
	otherAmount(late)
	e.append(late)
	e.letter(len(e.orders)-1, "DUPL")

	return late
}

// An engine that takes over may write the dead letter of a committed record again, and somebody may write
// one of a record that was before the beginning. None is kept.
func TestFollowerKeepsNoLetterOfACommittedRecord(t *testing.T) {
	e := ended(clean(t))
	all(e.letters, e.judge.DeadLetter)
	e.mustBeClean("letters of committed records")
	e.judge = e.followFrom(uint64(base+len(e.transfers)), &e.found)
	e.judge.Begin()
	all(e.letters, e.judge.DeadLetter) // before it knows what is committed
	e.pass(1)
	e.mustBeClean("letters of records before the beginning")
}

// It begins between the verdict of a payment and the commit of its record, when the report is already there:
// it sees the verdict and no report, and keeps neither for ever.
func TestFollowerForgetsWhatWasReportedBeforeTheBeginning(t *testing.T) {
	for seed := range uint64(20) {
		h := clean(t)
		o := h.order(alice, bruno, 500)
		h.hold(o, 1, 2, 3)
		h.post(o, 1, 2, 3)
		h.stamp() // the report was before

		findings, f := h.follow(rand.New(rand.NewPCG(seed, 8)), len(h.transfers)-6)
		if len(findings) > 0 || f.Kept() > 0 {
			t.Fatalf("seed %d: %d kept, %+v", seed, f.Kept(), findings)
		}
	}
}

// A payment has ended and is forgotten. Then another order comes under its id, which is a dead letter, and
// its report comes again: the ledger has what the first order asked for, which was judged.
func TestFollowerForgetsWhatAConflictingOrderIsComparedWith(t *testing.T) {
	for _, order := range []int{settledOrder, voidedOrder, receiptOrder} {
		for seed := range uint64(20) {
			e := ended(clean(t))
			checked := e.judge.Checked()
			again := e.reportOf(e.conflict(order))
			steps := []func(){
				func() { e.judge.Order(e.orders[len(e.orders)-1]) },
				func() { e.judge.DeadLetter(e.letters[len(e.letters)-1]) },
				func() { e.judge.Report(again) },
			}
			rand.New(rand.NewPCG(seed, 7)).Shuffle(len(steps), func(i, j int) {
				steps[i], steps[j] = steps[j], steps[i]
			})

			for _, step := range steps {
				step()
			}
			e.pass(3)

			if e.mustBeClean(fmt.Sprintf("order %d, seed %d", order, seed)); e.judge.Checked() != checked {
				t.Fatalf("order %d, seed %d: %d more checked", order, seed, e.judge.Checked()-checked)
			}
		}
	}
}

// A second verdict of a payment that has ended and is forgotten is a finding about that payment.
func TestFollowerFindsASecondVerdictOfAForgottenPayment(t *testing.T) {
	e := ended(clean(t))
	settled := e.message(settledOrder)
	e.receipt(settled, "AB03", spec.TransitOf(idOf(alice)), spec.ReserveOf(idOf(alice)))
	second := e.last(1)
	_, key := e.legsOf(settled)
	second.ID, second.Timestamp = key.Role(15).TigerBeetle(), uint64(base+len(e.transfers))
	e.judge.Transfer(*second)
	e.pass(3)

	if len(e.found) != 1 || e.found[0].Kind != WrongTransfer || e.found[0].Subject != settled.EndToEndId {
		t.Errorf("%+v", e.found)
	}
}

// A refused payment whose conflicting message holds money beside the receipt is forgotten, and reported again.
func TestFollowerForgetsAReceiptBesideAHold(t *testing.T) {
	e := &endedHistory{history: clean(t)}
	late := e.order(alice, bruno, 500)
	conflict := e.conflict(len(e.orders) - 1)
	e.receipt(late, "LQ13", spec.TransitOf(idOf(alice)), spec.ReserveOf(idOf(alice)))
	e.report(late, "LQ13")
	e.hold(conflict, 1, 2, 3)
	e = ended(e.history)
	e.judge.Report(e.reports[len(e.reports)-1])
	e.pass(3)
	e.mustBeClean("reported again")
}

// A refused payment is forgotten. Then a conflicting order comes and holds money beside its receipt, until it gets a
// dead letter, and the report may come again.
func TestFollowerTakesAConflictingOrderAfterAForgottenReceipt(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 9))
		e := ended(clean(t))
		late := e.conflict(receiptOrder)
		e.hold(late, 1, 2, 3)
		held := false

		steps := []func(){
			func() { e.judge.DeadLetter(e.letters[len(e.letters)-1]) },
			func() {
				held = true

				for i := range 3 {
					hold := e.last(3 - i)
					hold.Timestamp = uint64(base + len(e.transfers) + i)
					e.judge.Transfer(*hold)
				}
			},
		}
		if seed%2 == 0 {
			steps = append(steps, func() { e.judge.Report(e.reportOf(late)) })
		}
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		e.judge.Order(e.orders[len(e.orders)-1])

		for i, step := range steps {
			// What is read to a mark has the holds, too, if it has the dead letter: that comes after them.
			if step(); random.IntN(2) == 0 && (held || i == len(steps)-1) {
				e.judge.Passed(e.judge.Mark(), nil)
				answerFrom(e.transfers, e.judge)
			}
		}
		e.pass(3)
		e.mustBeClean(fmt.Sprintf("seed %d", seed))
	}
}

// The ledger answers late: what has come since must not be judged without its answer.
func TestFollowerWaitsForWhatItHasAsked(t *testing.T) {
	for _, order := range []int{settledOrder, voidedOrder, receiptOrder} {
		e := ended(clean(t))
		copied := e.message(order)
		e.append(copied)
		e.judge.Report(e.reportOf(copied))
		e.judge.Passed(e.judge.Mark(), nil) // it asks
		e.judge.Order(e.orders[len(e.orders)-1])

		for range 3 {
			e.judge.Passed(e.judge.Mark(), map[int32]int64{0: int64(len(e.orders))})
		}
		answerFrom(e.transfers, e.judge)
		e.pass(3)
		e.mustBeClean(fmt.Sprintf("order %d", order))
	}
}
