package load

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// record is the place of a record in pix.payments.
type record struct {
	partition int32
	offset    int64
}

// openPayment is a payment that was sent and whose outcome is not complete.
type openPayment struct {
	payment  mix.Payment
	id       pix.EndToEndID // or a return's id; zero if the name is neither
	intended time.Time

	sent    int // messages
	acked   int
	records [messagesMax]record     // of the acknowledged messages
	letters [messagesMax]pix.Reason // dead letters of the messages

	ends     [1 + mix.ReturnsMax]ending // of the payment, and of its returns by their first index in payment.Returns
	problem  string                     // what is wrong; empty: nothing
	excused  bool                       // rejected with a reason that the run allows
	finished bool
}

// The messages of a payment: the first, the second, and its returns.
const (
	firstReturn = 2
	messagesMax = firstReturn + mix.ReturnsMax
)

// ending is how a payment or a return ended.
type ending struct {
	reports int
	first   outcome
	hash    uint64 // of the first report; a repeated report must be equal
}

// outcome is what a report says.
type outcome struct {
	settled        bool
	reason         string
	amountCentavos uint64
}

func (o outcome) String() string {
	if o.settled {
		return strings.TrimSpace("settled " + o.reason)
	}

	return "rejected " + o.reason
}

// wanted is what the report about a payment, or about one of its returns, must say.
type wanted struct {
	mix.End
	centavos     []uint64
	original     string // of a return
	payer, payee pix.Account
}

// wantedOf returns what must be reported about the payment (0) or its returns (from 1 on), if it has an outcome.
func (a *openPayment) wantedOf(k int, settled bool) wanted {
	p := &a.payment
	if k == 0 {
		w := wanted{p.Case.Expectation().End, []uint64{p.First.AmountCentavos}, "", p.Payer, p.Payee}
		if p.Case == mix.Conflict { // the two messages race, and either may win
			w.centavos = append(w.centavos, p.Second.AmountCentavos)
		}

		return w
	}
	r := p.Returns[k-1]

	w := wanted{End: r.Ends, centavos: []uint64{r.AmountCentavos}, original: r.Original}
	if settled { // else it names no accounts
		w.payer, w.payee = p.Payee, p.Payer
	}

	return w
}

// wrong notes what is wrong with the payment (0) or one of its returns.
func (a *openPayment) wrong(k int, format string, arguments ...any) {
	if a.problem = fmt.Sprintf(format, arguments...); k > 0 {
		a.problem = fmt.Sprintf("its return %s: %s", a.payment.Returns[k-1].ID, a.problem)
	}
}

// takeReport compares a report about the payment (0) or one of its returns with what it must say. It reports whether
// this is the first one.
func (a *openPayment) takeReport(k int, report *pixv1.SettlementReport, hash uint64,
	allowed []pix.Reason) (isFirst bool) {
	e := &a.ends[k]
	if e.reports++; e.reports > 1 {
		if hash != e.hash {
			a.wrong(k, "two reports with different bytes")
		}

		return false
	}
	got := outcome{report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, report.ReasonCode,
		report.AmountCentavos}
	e.first, e.hash = got, hash
	want := a.wantedOf(k, got.settled)

	isRejected := func(reason pix.Reason) bool { return !got.settled && got.reason == reason.String() }
	switch {
	case want.Fate == mix.DeadLetter:
		a.wrong(k, "%v, but it must be a %s", got, want.End)
	case !slices.Contains(want.centavos, got.amountCentavos) || k > 0 && report.OriginalEndToEndId != want.original:
		a.wrong(k, "the report is about %d centavos of %q, sent were %d of %q", got.amountCentavos,
			report.OriginalEndToEndId, want.centavos, want.original)
	case !names(report.Payer, want.payer) || !names(report.Payee, want.payee):
		a.wrong(k, "the report is about %v to %v, it must be about %v to %v", report.Payer, report.Payee,
			want.payer, want.payee)
	case got.settled && got.reason == "" && want.Fate == mix.Settled,
		want.Fate == mix.Rejected && isRejected(want.Reason):
	case k > 0 && a.payment.Returns[k-1].Racing && isRejected(pix.ReasonReturnExceeds):
	case slices.ContainsFunc(allowed, isRejected):
		a.excused = true
	default:
		a.wrong(k, "%v, but it must be %s", got, want.End)
	}

	return true
}

// returnsComplete reports whether every return has its outcome. Then it checks all of them
// together.
func (a *openPayment) returnsComplete() bool {
	var given uint64
	racing, settled := false, 0

	for k, r := range a.payment.Returns {
		if a.returnNamed(r.ID.String()) != k {
			continue // the same return, sent twice
		}

		if a.ends[1+k].reports == 0 {
			return false
		}

		racing = racing || r.Racing
		if a.ends[1+k].first.settled {
			given += r.AmountCentavos
			settled++
		}
	}

	switch {
	case given > a.ends[0].first.amountCentavos:
		a.problem = fmt.Sprintf("%d centavos were paid and %d given back", a.ends[0].first.amountCentavos, given)
	case racing && settled != 1 && !a.excused:
		a.problem = fmt.Sprintf("%d of its returns settled, exactly one must", settled)
	}

	return true
}

// returnNamed returns the first index of the return with an id, or -1.
func (a *openPayment) returnNamed(id string) int {
	return slices.IndexFunc(a.payment.Returns, func(r mix.Return) bool { return r.ID.String() == id })
}

// takeLetter compares a dead letter of message i with the one that the case must have.
func (a *openPayment) takeLetter(i int, reason pix.Reason) {
	if a.letters[i] != pix.ReasonNone && a.letters[i] != reason {
		a.problem = fmt.Sprintf("two dead letters of one record: %s and %s", a.letters[i], reason)
		return
	}

	a.letters[i] = reason
	if i >= firstReturn {
		k := i - firstReturn
		a.wrong(k+1, "dead letter %s, but it must be %s", reason, a.payment.Returns[k].Ends)
		return
	}

	want := a.payment.Case.Expectation().End
	if a.payment.Case.Conflicting() {
		want = mix.End{Fate: mix.DeadLetter, Reason: pix.ReasonConflict}
	}

	if want.Fate != mix.DeadLetter || reason != want.Reason {
		a.problem = fmt.Sprintf("dead letter %s, but it must be %s", reason, want)
	}
}

// complete reports whether every outcome is there. For a conflict it also compares the two
// outcomes, because neither is wrong by itself.
//
// With faults, a repeated message may join the first: an engine may have reported the first
// and not finished it. Then the repeated message has no report of its own.
func (a *openPayment) complete(faults bool) bool {
	if a.problem != "" {
		return true
	}

	if a.acked < a.sent {
		return false
	}

	if a.payment.Case.Expectation().Fate == mix.DeadLetter {
		return a.letters[0] != pix.ReasonNone
	}

	switch a.payment.Case {
	case mix.Again:
		return a.sent == 2 && (a.ends[0].reports >= 2 || faults)
	case mix.Conflict, mix.ConflictAgain:
		if a.sent < 2 || a.ends[0].reports == 0 {
			return false
		}

		winner, loser := 0, 1
		if a.ends[0].first.amountCentavos == a.payment.Second.AmountCentavos {
			winner, loser = 1, 0
		}

		if a.letters[winner] != pix.ReasonNone {
			a.problem = fmt.Sprintf("the message with %d centavos has a report and a dead letter",
				a.ends[0].first.amountCentavos)
			return true
		}

		return a.letters[loser] != pix.ReasonNone
	}

	return a.ends[0].reports > 0 && (!a.ends[0].first.settled || a.returnsComplete())
}

// missing says what is not there.
func (a *openPayment) missing() string {
	return fmt.Sprintf("it must be %s: %d of its %d messages were acknowledged, %d reports came",
		a.payment.Case.Expectation(), a.acked, a.sent, a.ends[0].reports)
}

func names(got *pixv1.Account, want pix.Account) bool {
	return got.GetIspb() == string(want.ISPB) && got.GetBranch() == want.Branch && got.GetNumber() == want.Number
}
