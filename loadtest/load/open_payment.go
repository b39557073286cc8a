package load

import (
	"fmt"
	"slices"
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

	reports    int
	first      outcome
	firstBytes uint64                        // hash of the first report; a repeated report must be equal
	returns    [mix.ReturnsMax]returnOutcome // by the first index of a return in payment.Returns
	problem    string                        // what is wrong; empty: nothing
	excused    bool                          // rejected with a reason that the run allows
	finished   bool
}

// The messages of a payment: the first, the second, and its returns.
const (
	firstReturn = 2
	messagesMax = firstReturn + mix.ReturnsMax
)

// returnOutcome is how a return ended.
type returnOutcome struct {
	reports    int
	first      outcome
	firstBytes uint64
}

// outcome is what a report says.
type outcome struct {
	settled        bool
	reason         string
	amountCentavos uint64
}

func (o outcome) String() string {
	if o.settled {
		return "settled"
	}
	return "rejected " + o.reason
}

// takeReport compares a report with the one that the case must have.
func (a *openPayment) takeReport(report *pixv1.SettlementReport, hash uint64, allowed []pix.Reason) {
	a.reports++
	if a.reports > 1 {
		if hash != a.firstBytes {
			a.problem = "two reports with different bytes"
		}
		return
	}
	got := outcome{report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, report.ReasonCode, report.AmountCentavos}
	a.first, a.firstBytes = got, hash
	expected := a.payment.Case.Expectation()
	want := outcome{expected.Fate == mix.Settled, expected.Reason.String(), a.payment.First.AmountCentavos}
	if a.payment.Case == mix.Conflict && got.amountCentavos == a.payment.Second.AmountCentavos {
		want.amountCentavos = got.amountCentavos // the two messages race, and either may win
	}
	switch {
	case expected.Fate == mix.DeadLetter:
		a.problem = fmt.Sprintf("%v, but it must be a dead letter %s", got, expected.Reason)
	case got.amountCentavos != want.amountCentavos:
		a.problem = fmt.Sprintf("the report is about %d centavos, sent were %d", got.amountCentavos, want.amountCentavos)
	case !names(report.Payer, a.payment.Payer) || !names(report.Payee, a.payment.Payee):
		a.problem = fmt.Sprintf("the report is about %v to %v, sent was %v to %v", report.Payer, report.Payee, a.payment.Payer, a.payment.Payee)
	case got == want:
	case !got.settled && slices.ContainsFunc(allowed, func(r pix.Reason) bool { return r.String() == got.reason }):
		a.excused = true
	default:
		a.problem = fmt.Sprintf("%v, but it must be %s", got, expected.Ending())
	}
}

// takeReturnReport compares a report about the payment's return k with the one that it must
// have. It reports whether this is the first one.
func (a *openPayment) takeReturnReport(k int, report *pixv1.SettlementReport, hash uint64, allowed []pix.Reason) (isFirst bool) {
	r, seen := a.payment.Returns[k], &a.returns[k]
	wrong := func(format string, arguments ...any) {
		a.problem = fmt.Sprintf("its return %s: %s", r.ID, fmt.Sprintf(format, arguments...))
	}
	seen.reports++
	if seen.reports > 1 {
		if hash != seen.firstBytes {
			wrong("two reports with different bytes")
		}
		return false
	}
	got := outcome{report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, report.ReasonCode, report.AmountCentavos}
	seen.first, seen.firstBytes = got, hash
	rejected := func(reason pix.Reason) bool { return !got.settled && got.reason == reason.String() }
	switch {
	case got.amountCentavos != r.AmountCentavos || report.OriginalEndToEndId != r.Original:
		wrong("the report is about %d centavos of %s, sent were %d of %s", got.amountCentavos, report.OriginalEndToEndId, r.AmountCentavos, r.Original)
	case got.settled && (!names(report.Payer, a.payment.Payee) || !names(report.Payee, a.payment.Payer)):
		wrong("the report is about %v to %v, the payment was the other way from %v to %v", report.Payer, report.Payee, a.payment.Payer, a.payment.Payee)
	case !got.settled && (report.Payer != nil || report.Payee != nil):
		wrong("it is rejected, and the report names accounts")
	case got.settled && got.reason != "":
		wrong("settled, with the reason %s", got.reason)
	case got.settled && r.Ends.Fate == mix.Settled, r.Ends.Fate == mix.Rejected && rejected(r.Ends.Reason):
	case r.Racing && rejected(pix.ReasonReturnExceeds):
	case slices.ContainsFunc(allowed, rejected):
		a.excused = true
	default:
		wrong("%v, but it must be %s", got, r.Ends)
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
		if a.returns[k].reports == 0 {
			return false
		}
		racing = racing || r.Racing
		if a.returns[k].first.settled {
			given += r.AmountCentavos
			settled++
		}
	}
	switch {
	case given > a.first.amountCentavos:
		a.problem = fmt.Sprintf("%d centavos were paid and %d given back", a.first.amountCentavos, given)
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
		a.problem = fmt.Sprintf("its return %s: dead letter %s, but it must be %s", a.payment.Returns[i-firstReturn].ID, reason, a.payment.Returns[i-firstReturn].Ends)
		return
	}
	expected := a.payment.Case.Expectation()
	want := pix.ReasonConflict
	if expected.Fate == mix.DeadLetter {
		want = expected.Reason
	} else if !a.payment.Case.Conflicting() {
		a.problem = fmt.Sprintf("dead letter %s, but it must be %s", reason, expected.Ending())
		return
	}
	if reason != want {
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
		return a.sent == 2 && (a.reports >= 2 || faults)
	case mix.Conflict, mix.ConflictAgain:
		if a.sent < 2 || a.reports == 0 {
			return false
		}
		winner, loser := 0, 1
		if a.first.amountCentavos == a.payment.Second.AmountCentavos {
			winner, loser = 1, 0
		}
		if a.letters[winner] != pix.ReasonNone {
			a.problem = fmt.Sprintf("the message with %d centavos has a report and a dead letter", a.first.amountCentavos)
			return true
		}
		return a.letters[loser] != pix.ReasonNone
	}
	return a.reports > 0 && (!a.first.settled || a.returnsComplete())
}

// missing says which outcome is not there.
func (a *openPayment) missing() string {
	switch {
	case a.acked < a.sent:
		return fmt.Sprintf("the broker acknowledged %d of its %d messages", a.acked, a.sent)
	case a.payment.Case.Expectation().Fate == mix.DeadLetter:
		return "no dead letter, it must be a " + a.payment.Case.Expectation().Ending()
	case a.reports == 0:
		return "no report, it must be " + a.payment.Case.Expectation().Ending()
	case a.payment.Case == mix.Again:
		return "sent again after its report, and not reported again"
	}
	for k, r := range a.payment.Returns {
		if a.returns[k].reports == 0 && a.returnNamed(r.ID.String()) == k {
			return fmt.Sprintf("its return %s has no report, it must be %s", r.ID, r.Ends)
		}
	}
	return "the message that lost against the same EndToEndId with another amount has no dead letter DUPL"
}

func names(got *pixv1.Account, want pix.Account) bool {
	return got.GetIspb() == string(want.ISPB) && got.GetBranch() == want.Branch && got.GetNumber() == want.Number
}
