package audit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/platform/kit"
)

// base is the ledger's time before all that a follower sees of a history.
const base = 1_780_000_000_000_000_000

// follow gives a history to a follower that begins after so many transfers, in some order of the streams.
func (h *history) follow(random *rand.Rand, begin int) (findings []Finding, f *Judge) {
	transfers := inTime(h.transfers)
	for begin > 0 && begin < len(transfers) && transfers[begin-1].Flags&linkedFlag != 0 {
		begin++ // a chain is of one instant
	}
	f = Follow(h.accountOf(issuance), uint64(base+begin), func(found Finding) { findings = append(findings, found) })
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
			transfers[i-1].Flags |= linkedFlag
		}
	}
	return transfers
}

// inOneChain reports whether the services write two transfers as one chain.
func inOneChain(t, next tb.Transfer) bool {
	const phases = 1<<1 | 1<<2 | 1<<3 // pending, posted, voided
	key, _ := split(fromTigerBeetle(t.ID))
	nextKey, _ := split(fromTigerBeetle(next.ID))
	ofLeg := func(code uint16) bool {
		return code >= 1 && code <= 3 || code >= codeReturnLeg1 && code <= codeReturnLeg1+2
	}
	return ofLeg(t.Code) && ofLeg(next.Code) && key == nextKey && t.Flags&phases == next.Flags&phases && t.Code < next.Code ||
		t.Code == codeReturn && ofLeg(next.Code) && next.Flags&phases != 1<<1
}

// However far the streams are ahead of each other, and wherever it begins, nothing is wrong with a clean
// history. From the beginning on it checks every payment, and then it keeps none.
func TestFollowerPassesACleanHistory(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := clean(t)

		if seed%2 == 1 {
			h, _, _, _, _ = withReturns(t)

		}
		begin := 0
		if seed%4 > 1 {
			begin = random.IntN(len(h.transfers))
		}
		findings, f := h.follow(random, begin)
		if len(findings) > 0 {
			t.Fatalf("seed %d, from transfer %d: %+v", seed, begin, findings)
		}
		if ends := h.outcomes(); begin == 0 && (f.Checked() != ends || f.Kept() > 0 || f.summary.RepeatedReports == 0) {
			t.Errorf("seed %d: %d of %d checked, %d kept, %d repeated", seed, f.Checked(), ends, f.Kept(), f.summary.RepeatedReports)
		}
	}
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
	histories := map[string]func() *history{
		"payments": func() *history { return clean(t) },
		"returns": func() *history {
			h, _, _, _, _ := withReturns(t)
			return h
		},
	}
	for name, make := range histories {
		for read := range len(make().transfers) {
			for _, late := range []bool{false, true} { // the answer comes after what was not read
				h := make()
				h.transfers = inTime(h.transfers)
				if read > 0 && h.transfers[read-1].Flags&linkedFlag != 0 {
					continue // a chain is read whole
				}
				var findings []Finding
				f := Follow(h.accountOf(issuance), base, func(found Finding) { findings = append(findings, found) })
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
					t.Errorf("%s, %d of %d transfers read before, answer late %v: %d of %d checked, %d kept, %+v", name, read, len(h.transfers), late, f.Checked(), ends, f.Kept(), findings)
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
	"a customer has one centavo too much", "a customer's money went out and in once too often", "an account is gone", "money is pending",
	"an account is closed", "a reserve may be overdrawn", "a reserve and its transit do not make up the funding",
	"one centavo vanished between two banks", "money of a conflicting message was posted", "money posted that no report tells of",
	"a commit past the end", "messages that the engines have not finished", "a report in another partition",
	"a dead letter of a record that is not there", "an equal message called a conflict", "every message of a payment called a conflict",
	"every message of a payment called one too many", "another content without a dead letter", "two contents",
	"a hold for ten minutes", "a hold that ends before the deadline", "a hold without a timeout", "rejected before the deadline",
	"after 90 days", "settled before its original", // by the ledger's clock, which a test of a follower does not keep
	"a mark of a payment of which nothing was given back", "a burnt slot of a payment of which nothing was given back",
	"held in a slot that is marked as burnt", "held, and the payment is not marked",
}

// isFollowed requires that a follower finds a fault, too, in every order of the streams. subject is an id, or the
// beginning of a name that a follower may not know.
func (h *history) isFollowed(name, kind, subject string) {
	if slices.Contains(onlyAtTheEnd, name) {
		return
	}
	for seed := range uint64(20) {
		findings, _ := h.follow(rand.New(rand.NewPCG(seed, 2)), 0)
		if !slices.ContainsFunc(findings, func(f Finding) bool {
			return f.Kind == kind && (len(subject) < len(endToEndID{}) || f.Subject == subject)
		}) {
			h.t.Fatalf("seed %d: a follower finds no %q of %s, but %+v", seed, kind, subject, findings)
		}
	}
}

// Acts are explained money, and what is forged of them is not.
func TestFollowerKnowsActs(t *testing.T) {
	h := withRegister(t)
	h.actsOfAllKinds()
	h.stamp()
	findings, _ := h.follow(rand.New(rand.NewPCG(1, 4)), 0)
	if len(findings) > 0 {
		t.Errorf("%+v", findings)
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

// Any of the orders with one id may be the payment, whichever of them and of its transfers is read first.
func TestFollowerTakesAnyOfConflictingOrders(t *testing.T) {
	for name, change := range map[string]func(*pixv1.PaymentOrder){"amount": otherAmount, "payee": otherPayee} {
		for seed := range uint64(200) {
			h := clean(t)
			h.conflicts(int(seed%2), change)
			findings, f := h.follow(rand.New(rand.NewPCG(seed, 5)), 0)
			if len(findings) > 0 || f.Checked() != h.outcomes() || f.Kept() > 0 {
				t.Fatalf("another %s, seed %d: %d of %d checked, %d kept, %+v", name, seed, f.Checked(), h.outcomes(), f.Kept(), findings)
			}
		}
	}
}

// A judge that begins after a payment has settled learns from the ledger what it is about, when its report comes
// again. A conflicting order that comes then is not the payment.
func TestFollowerKnowsAConflictWithWhatWasBefore(t *testing.T) {
	h := clean(t)
	h.conflicts(0, otherAmount)
	h.stamp()
	for i := range h.transfers {
		h.transfers[i].Timestamp = uint64(base + i + 1)
	}
	var findings []Finding
	f := Follow(h.accountOf(issuance), uint64(base+len(h.transfers)), func(found Finding) { findings = append(findings, found) })
	f.From(0, h.committed())
	f.Begin()
	passed := func() {
		f.Passed(f.Mark(), nil)
		for {
			ids, answer := f.LookUps(100)
			if answer(slices.DeleteFunc(slices.Clone(h.transfers), func(t tb.Transfer) bool { return !slices.Contains(ids, t.ID) })); len(ids) == 0 {
				return
			}
		}
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

// A hold that is none of the orders' is found, and so is a report about the order that lost.
func TestFollowerFindsWhatNoneOfConflictingOrdersAsksFor(t *testing.T) {
	for kind, spoil := range map[string]func(h *history, lost int){
		WrongTransfer: func(h *history, lost int) { h.transfer(lost, 1).Amount = tb.ToUint128(301) },
		ReportedContent: func(h *history, lost int) {
			h.reports = h.reports[:len(h.reports)-2]
			h.report(h.message(lost), "")
		},
	} {
		for seed := range uint64(50) {
			h := clean(t)
			winner := int(seed % 2)
			h.conflicts(winner, otherAmount)
			lost := len(h.orders) - 1 - winner
			spoil(h, lost)
			findings, _ := h.follow(rand.New(rand.NewPCG(seed, 6)), 0)
			if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == kind && f.Subject == h.message(lost).EndToEndId }) {
				t.Fatalf("seed %d: no finding %q, but %+v", seed, kind, findings)
			}
		}
	}
}

// ended returns a follower of a clean history that keeps nothing of it, and the findings that come later.
func ended(t *testing.T, h *history) (f *Judge, later *[]Finding, answer func()) {
	later = &[]Finding{}
	h.stamp()
	f = Follow(h.accountOf(issuance), 0, func(found Finding) { *later = append(*later, found) })
	f.Begin()
	h.transfers = inTime(h.transfers)
	answer = func() { answerFrom(h.transfers, f) }
	for _, r := range h.orders {
		f.Order(r)
	}
	for _, r := range h.letters {
		f.DeadLetter(r)
	}
	for _, transfer := range h.transfers {
		f.Transfer(transfer)
	}
	for _, r := range h.reports {
		f.Report(r)
	}
	f.Passed(f.Mark(), map[int32]int64{0: int64(len(h.orders))})
	answer()
	if f.Kept() > 0 || len(*later) > 0 {
		t.Fatalf("%d kept, %+v", f.Kept(), *later)
	}
	return f, later, answer
}

// An engine that takes over may write the dead letter of a committed record again, and somebody may write
// one of a record that was before the beginning. None is kept.
func TestFollowerKeepsNoLetterOfACommittedRecord(t *testing.T) {
	h := clean(t)
	f, findings, answer := ended(t, h)
	for _, letter := range h.letters {
		f.DeadLetter(letter)
	}
	if f.Kept() > 0 {
		t.Errorf("%d letters of committed records are kept", f.Kept())
	}
	late := Follow(h.accountOf(issuance), uint64(base+len(h.transfers)), func(found Finding) { *findings = append(*findings, found) })
	late.Begin()
	for _, letter := range h.letters { // before it knows what is committed
		late.DeadLetter(letter)
	}
	late.Passed(late.Mark(), map[int32]int64{0: int64(len(h.orders))})
	answer()
	if len(*findings) > 0 || late.Kept() > 0 {
		t.Errorf("%d kept, %+v", late.Kept(), *findings)
	}
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
			h := clean(t)
			f, findings, answer := ended(t, h)
			checked := f.Checked()
			late := h.message(order)
			otherAmount(late)
			h.append(late)
			h.letter(len(h.orders)-1, "DUPL")
			again := h.reports[slices.IndexFunc(h.reports, func(r Record) bool { return string(r.Key) == late.EndToEndId })]
			steps := []func(){
				func() { f.Order(h.orders[len(h.orders)-1]) }, func() { f.DeadLetter(h.letters[len(h.letters)-1]) }, func() { f.Report(again) },
			}
			rand.New(rand.NewPCG(seed, 7)).Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			for _, step := range steps {
				step()
			}
			for range 3 {
				f.Passed(f.Mark(), map[int32]int64{0: int64(len(h.orders))})
				answer()
			}
			if len(*findings) > 0 || f.Kept() > 0 || f.Checked() != checked {
				t.Fatalf("order %d, seed %d: %d kept, %d more checked, %+v", order, seed, f.Kept(), f.Checked()-checked, *findings)
			}
		}
	}
}

// A second verdict of a payment that has ended and is forgotten is a finding about that payment.
func TestFollowerFindsASecondVerdictOfAForgottenPayment(t *testing.T) {
	h := clean(t)
	f, findings, answer := ended(t, h)
	h.receipt(h.message(settledOrder), "AB03", transitOf(idOf(alice)), reserveOf(idOf(alice)))
	second := h.last(1)
	_, key := h.legsOf(h.message(settledOrder))
	second.ID, second.Timestamp = key.role(15).toTigerBeetle(), uint64(base+len(h.transfers))
	f.Transfer(*second)
	for range 3 {
		f.Passed(f.Mark(), nil)
		answer()
	}
	if len(*findings) != 1 || (*findings)[0].Kind != WrongTransfer || (*findings)[0].Subject != h.message(settledOrder).EndToEndId {
		t.Errorf("%+v", *findings)
	}
}

// A refused payment whose conflicting message holds money beside the receipt is forgotten, and reported again.
func TestFollowerForgetsAReceiptBesideAHold(t *testing.T) {
	h := clean(t)
	late := h.order(alice, bruno, 500)
	conflict := proto.Clone(late).(*pixv1.PaymentOrder)
	otherAmount(conflict)
	h.append(conflict)
	h.letter(len(h.orders)-1, "DUPL")
	h.receipt(late, "AB03", transitOf(idOf(alice)), reserveOf(idOf(alice)))
	h.report(late, "AB03")
	h.hold(conflict, 1, 2, 3)
	f, findings, answer := ended(t, h)
	f.Report(h.reports[len(h.reports)-1])
	for range 3 {
		f.Passed(f.Mark(), nil)
		answer()
	}
	if len(*findings) > 0 || f.Kept() > 0 {
		t.Errorf("%d kept, %+v", f.Kept(), *findings)
	}
}

// A refused payment is forgotten. Then a conflicting order comes and holds money beside its receipt, until it gets a
// dead letter, and the report may come again.
func TestFollowerTakesAConflictingOrderAfterAForgottenReceipt(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 9))
		h := clean(t)
		f, findings, answer := ended(t, h)
		late := h.message(receiptOrder)
		otherAmount(late)
		h.append(late)
		h.letter(len(h.orders)-1, "DUPL")
		h.hold(late, 1, 2, 3)
		again := h.reports[slices.IndexFunc(h.reports, func(r Record) bool { return string(r.Key) == late.EndToEndId })]
		held := false
		steps := []func(){
			func() { f.DeadLetter(h.letters[len(h.letters)-1]) },
			func() {
				held = true
				for i := range 3 {
					hold := h.last(3 - i)
					hold.Timestamp = uint64(base + len(h.transfers) + i)
					f.Transfer(*hold)
				}
			},
		}
		if seed%2 == 0 {
			steps = append(steps, func() { f.Report(again) })
		}
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		f.Order(h.orders[len(h.orders)-1])
		for i, step := range steps {
			// What is read to a mark has the holds, too, if it has the dead letter: that comes after them.
			if step(); random.IntN(2) == 0 && (held || i == len(steps)-1) {
				f.Passed(f.Mark(), nil)
				answer()
			}
		}
		for range 3 {
			f.Passed(f.Mark(), map[int32]int64{0: int64(len(h.orders))})
			answer()
		}
		if len(*findings) > 0 || f.Kept() > 0 {
			t.Fatalf("seed %d: %d kept, %+v", seed, f.Kept(), *findings)
		}
	}
}

// The ledger answers late: what has come since must not be judged without its answer.
func TestFollowerWaitsForWhatItHasAsked(t *testing.T) {
	for _, order := range []int{settledOrder, voidedOrder, receiptOrder} {
		h := clean(t)
		f, findings, answer := ended(t, h)
		copied := h.message(order)
		h.append(copied)
		f.Report(h.reports[slices.IndexFunc(h.reports, func(r Record) bool { return string(r.Key) == copied.EndToEndId })])
		f.Passed(f.Mark(), nil) // it asks
		f.Order(h.orders[len(h.orders)-1])
		for range 3 {
			f.Passed(f.Mark(), map[int32]int64{0: int64(len(h.orders))})
		}
		for range 3 {
			answer()
			f.Passed(f.Mark(), map[int32]int64{0: int64(len(h.orders))})
		}
		if len(*findings) > 0 || f.Kept() > 0 {
			t.Errorf("order %d: %d kept, %+v", order, f.Kept(), *findings)
		}
	}
}
