// Package payment decides, step by step, what happens to one payment: events in, one
// command out. It knows neither Kafka nor TigerBeetle and no clock; whoever drives it
// carries the commands out and brings the answers back.
//
// The order is always the same: reserve the money (phase 1), ask the receiving bank,
// resolve (phase 2), report. What was refused leaves a receipt instead of phase 2. The
// ledger decides: whatever was believed here, the verdict found there is what is reported.
package payment

import (
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Action is what to do next about a payment.
type Action uint8

// The actions. Each has one event that answers it, named behind it.
const (
	Wait       Action = iota // nothing: another event will come
	Inspect                  // look up what the ledger holds: Inspected
	Diagnose                 // look up the accounts: Diagnosed
	Reserve                  // phase 1: Reserved
	Authorize                // ask the receiving bank: Answered, or Tick past the deadline
	Post                     // phase 2, accepted: Resolved
	Void                     // phase 2, rejected with Reason: Resolved
	Refuse                   // write the receipt with Reason: Resolved
	Report                   // report Outcome to everybody: the payment has ended
	DeadLetter               // the order conflicts with an earlier one (Reason): the payment has ended
	Halt                     // the impossible happened (Detail): stop the process, touch nothing
)

// Command is the next thing to do.
type Command struct {
	Action Action
	Reason pix.Reason
	Detail string
}

// step is what a payment waits for.
type step uint8

const (
	inspecting  step = iota // before anything was written
	diagnosing              // phase 1 was refused, or will not be tried
	reserving               // phase 1 is out
	authorizing             // the bank was asked
	resolving               // phase 2 or the receipt is out
	judging                 // somebody else's verdict is there: look what it says
	ended
)

// Outcome is how a payment ended.
type Outcome struct {
	Settled bool
	Reason  pix.Reason // ReasonNone when settled
}

// Payment is the state of one payment in flight, or of one return.
type Payment struct {
	// Order is the payment. Of a return it is the payment that would do the same: the RtrId,
	// and the original backwards; its accounts are known from Inspected on.
	Order  pix.Order
	Return *pix.Return // nil for a payment
	// Outcome is what was reported, from the command Report on; it is zero when the
	// payment ended as a dead letter.
	Outcome Outcome

	step step
	// dueAt is the deadline by the process's monotonic clock: the earliest of acceptance,
	// first sight here and, for a redelivery, the ledger's timestamp, each plus patience.
	dueAt    time.Time
	patience time.Duration
	// refusal is why phase 1 will not be tried. It depends on clock or configuration, so
	// it counts only if the ledger knows nothing of the payment.
	refusal pix.Reason
	// refusedLeg is the leg at which phase 1 was refused for a reason yet unknown.
	refusedLeg int
}

// Begin starts a payment seen at now, which must carry a monotonic reading. patience is
// how long a payment may take. refusal is why this engine would not take a new payment
// (a participant is inactive, the payee's bank is busy), or ReasonNone.
func Begin(order pix.Order, now time.Time, patience time.Duration, refusal pix.Reason) (Payment, Command) {
	p := newPayment(order, now, patience, refusal)
	if p.refusal != pix.ReasonNone {
		p.step = inspecting
		return p, Command{Action: Inspect}
	}
	p.step = reserving
	return p, Command{Action: Reserve}
}

func newPayment(order pix.Order, now time.Time, patience time.Duration, refusal pix.Reason) Payment {
	p := Payment{Order: order, patience: patience, dueAt: now.Add(patience), refusal: refusal}
	p.bringForward(order.AcceptedAt, now)
	switch {
	case order.AmountCentavos == 0:
		p.refusal = pix.ReasonZeroAmount
	case refusal == pix.ReasonInactivePSP:
	case p.due(now):
		p.refusal = pix.ReasonPayeePSPSilent
	}
	return p
}

// bringForward moves the deadline to start plus patience if that is earlier.
func (p *Payment) bringForward(start, now time.Time) {
	if due := now.Add(start.Add(p.patience).Sub(now)); due.Before(p.dueAt) {
		p.dueAt = due
	}
}

func (p *Payment) due(now time.Time) bool { return !now.Before(p.dueAt) }

// Reservation is the ledger's answer to phase 1.
type Reservation struct {
	Held  bool // the money is held now
	Taken bool // phase 1 is in the ledger already, of this payment or of another; of a return: its slot cannot be had
	// Otherwise it was refused: at Leg, for Reason, or for a reason that only the
	// accounts can tell (ReasonNone).
	Leg    int
	Reason pix.Reason
}

// Reserved takes the answer to Reserve.
func (p *Payment) Reserved(answer Reservation) Command {
	if p.step != reserving {
		return p.halt("an answer to phase 1")
	}
	switch {
	case answer.Held:
		p.step = authorizing
		return Command{Action: Authorize}
	case answer.Taken:
		p.step = inspecting
		return Command{Action: Inspect}
	case answer.Reason != pix.ReasonNone:
		return p.refuse(answer.Reason)
	case p.Return != nil:
		return p.halt("a refusal of phase 1 without a reason")
	}
	p.step, p.refusedLeg = diagnosing, answer.Leg
	return Command{Action: Diagnose}
}

// Trace is what the ledger holds about a payment.
type Trace struct {
	Held        bool      // phase 1 is there
	HeldAt      time.Time // its time, by the ledger's clock
	Decided     bool      // a verdict is there
	Verdict     Outcome
	SameContent bool // what is there is this payment, not another under its EndToEndId
}

// Inspected takes the answer to Inspect.
func (p *Payment) Inspected(trace Trace, now time.Time) Command {
	if p.step != inspecting && p.step != judging {
		return p.halt("a look-up of the payment")
	}
	if (trace.Held || trace.Decided) && !trace.SameContent {
		p.step, p.Outcome = ended, Outcome{}
		return Command{Action: DeadLetter, Reason: pix.ReasonConflict}
	}
	if trace.Decided {
		return p.report(trace.Verdict)
	}
	if p.step == judging {
		return p.halt("no verdict, although the ledger had said that there is one")
	}
	if trace.Held {
		p.bringForward(trace.HeldAt, now)
		if p.due(now) {
			return p.void(pix.ReasonPayeePSPSilent)
		}
		p.step = authorizing
		return Command{Action: Authorize}
	}
	if p.refusal == pix.ReasonNone {
		return p.halt("nothing in the ledger, although phase 1 had found something")
	}
	p.step = diagnosing
	return Command{Action: Diagnose}
}

// Accounts tells which of a payment's accounts exist.
type Accounts struct {
	PayerPSP, PayeePSP, Payer, Payee bool
}

// Diagnosed takes the answer to Diagnose.
func (p *Payment) Diagnosed(accounts Accounts) Command {
	if p.step != diagnosing {
		return p.halt("a look-up of the accounts")
	}
	switch {
	case !accounts.PayerPSP:
		return p.refuse(pix.ReasonUnknownPayerPSP)
	case p.refusal != pix.ReasonNone:
		return p.refuse(p.refusal)
	case p.refusedLeg == 1 && !accounts.Payer:
		return p.refuse(pix.ReasonPayerMissing)
	case p.refusedLeg == 1:
		return p.refuse(pix.ReasonPayerShort)
	case !accounts.PayeePSP:
		return p.refuse(pix.ReasonUnknownPayeePSP)
	case p.refusedLeg == 2:
		return p.refuse(pix.ReasonReserveShort)
	}
	return p.refuse(pix.ReasonPayeeMissing)
}

// Answered takes the receiving bank's answer. One that comes late, or twice, changes
// nothing: Wait.
func (p *Payment) Answered(accepted bool, reason pix.Reason) Command {
	if p.step != authorizing {
		return Command{Action: Wait}
	}
	if accepted {
		p.step, p.Outcome = resolving, Outcome{Settled: true}
		return Command{Action: Post}
	}
	return p.void(reason)
}

// Tick ends the wait for the bank when the deadline has passed.
func (p *Payment) Tick(now time.Time) Command {
	if p.step != authorizing || !p.due(now) {
		return Command{Action: Wait}
	}
	return p.void(pix.ReasonPayeePSPSilent)
}

// Resolution is the ledger's answer to phase 2 or to a receipt.
type Resolution uint8

// The answers.
const (
	Written Resolution = iota // it is in the ledger, now or from an earlier try of the same
	Taken                     // another verdict is there
	Expired                   // the held money was released by its timeout
)

// Resolved takes the answer to Post, Void or Refuse.
func (p *Payment) Resolved(answer Resolution) Command {
	if p.step != resolving {
		return p.halt("an answer to phase 2")
	}
	switch answer {
	case Written:
		return p.report(p.Outcome)
	case Expired:
		return p.refuse(pix.ReasonPayeePSPSilent)
	}
	p.step = judging
	return Command{Action: Inspect}
}

// DueAt is the payment's deadline by the process's monotonic clock.
func (p *Payment) DueAt() time.Time { return p.dueAt }

// WaitsForBank tells whether the payment waits for the receiving bank's answer.
func (p *Payment) WaitsForBank() bool { return p.step == authorizing }

// Ended tells whether the payment's report or dead letter is on its way.
func (p *Payment) Ended() bool { return p.step == ended }

func (p *Payment) void(reason pix.Reason) Command {
	p.step, p.Outcome = resolving, Outcome{Reason: reason}
	return Command{Action: Void, Reason: reason}
}

func (p *Payment) refuse(reason pix.Reason) Command {
	p.step, p.Outcome = resolving, Outcome{Reason: reason}
	return Command{Action: Refuse, Reason: reason}
}

func (p *Payment) report(outcome Outcome) Command {
	p.step, p.Outcome = ended, outcome
	return Command{Action: Report, Reason: outcome.Reason}
}

func (p *Payment) halt(what string) Command {
	return Command{Action: Halt, Detail: fmt.Sprintf("payment %s, %s: there was %s", p.Order.ID, p.step, what)}
}

func (s step) String() string {
	return [...]string{"inspecting", "diagnosing", "reserving", "authorizing", "resolving", "judging", "ended"}[s]
}
