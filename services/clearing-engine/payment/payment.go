// Package payment decides, step by step, what happens to one order: an event in, one
// command out. It does no I/O and reads no clock. The caller carries out the commands and
// brings the results back as events.
//
// The usual path is: hold the money (phase 1), ask the receiving bank, post or void
// (phase 2), report. A refused order gets a receipt instead. The ledger decides: this
// package reports the verdict that the ledger holds, even if it expected another one.
//
// The whole machine. A test compares this table with the code:
//
//	step         event                                          command     next step
//	begin        a payment                                      Reserve     reserving
//	begin        a payment that this engine refuses             Inspect     inspecting
//	begin        a return                                       Inspect     inspecting
//	reserving    Reserved: held                                 Authorize   authorizing
//	reserving    Reserved: taken                                Inspect     inspecting
//	reserving    Reserved: refused, reason known                Refuse      resolving
//	reserving    Reserved: refused, reason unknown              Diagnose    diagnosing
//	authorizing  Responded: accepted                            Post        resolving
//	authorizing  Responded: rejected                            Void        resolving
//	authorizing  Responded: past the deadline                   Void        resolving
//	authorizing  Ticked: past the deadline                      Void        resolving
//	resolving    Resolved: written                              Report      ended
//	resolving    Resolved: taken by another verdict             Inspect     judging
//	resolving    Resolved: hold expired                         Refuse      resolving
//	judging      Inspected: verdict                             Report      ended
//	judging      Inspected: other content                       DeadLetter  ended
//	judging      Inspected: another id                          DeadLetter  ended
//	inspecting   Inspected: verdict                             Report      ended
//	inspecting   Inspected: other content                       DeadLetter  ended
//	inspecting   Inspected: another id                          DeadLetter  ended
//	inspecting   Inspected: held, in time                       Authorize   authorizing
//	inspecting   Inspected: held, past the deadline             Void        resolving
//	inspecting   Inspected: nothing, and this engine refuses    Diagnose    diagnosing
//	inspecting   Inspected: nothing, a return that can be held  Reserve     reserving
//	inspecting   Inspected: nothing, a return to refuse         Refuse      resolving
//	diagnosing   Diagnosed                                      Refuse      resolving
//	reserving    Reconsidered: a payment                        Reserve     reserving
//	reserving    Reconsidered: a payment to refuse              Inspect     inspecting
//	reserving    Reconsidered: a return                         Inspect     inspecting
//	inspecting   Reconsidered: a payment                        Reserve     reserving
//	inspecting   Reconsidered: a payment to refuse              Inspect     inspecting
//	inspecting   Reconsidered: a return                         Inspect     inspecting
//	resolving    Reconsidered: a payment                        Reserve     reserving
//	resolving    Reconsidered: a payment to refuse              Inspect     inspecting
//	resolving    Reconsidered: a return                         Inspect     inspecting
//
// Responded and Ticked in any other step change nothing: Wait. Any other event in any
// other step cannot happen: Halt.
package payment

import (
	"cmp"
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Action is what to do next about an order.
type Action uint8

// The actions. Behind each stands the event that brings its result.
const (
	Wait       Action = iota // nothing: another event will come
	Reserve                  // write phase 1: Reserved
	Authorize                // ask the receiving bank: Responded, or Ticked past the deadline
	Post                     // write phase 2, accepted: Resolved
	Void                     // write phase 2, rejected for Reason: Resolved
	Refuse                   // write the receipt with Reason: Resolved
	Inspect                  // look up what the ledger holds: Inspected
	Diagnose                 // look up the accounts: Diagnosed
	Report                   // publish Outcome: the order has ended
	DeadLetter               // the order conflicts with an earlier one (Reason): it has ended
	Halt                     // the impossible happened (Detail): stop the process, write nothing
)

// Command is the next thing to do.
type Command struct {
	Action Action
	Reason pix.Reason
	Detail string
}

// step is what an order waits for.
type step uint8

const (
	reserving   step = iota // phase 1 is out
	authorizing             // the bank was asked
	resolving               // phase 2 or the receipt is out
	judging                 // another verdict is there: the ledger was asked which
	inspecting              // the ledger was asked what it holds
	diagnosing              // phase 1 was refused, or will not be tried: the accounts say why
	ended
)

// Outcome is how an order ended.
type Outcome struct {
	Settled bool
	Reason  pix.Reason // ReasonNone when settled
}

// Payment is the state of one order in flight: of a payment, or of any other kind of
// order that moves money as a payment does.
type Payment struct {
	// Order is the payment. For a return it is the payment that would do the same: see OrderOf.
	Order pix.Order
	// Outcome is set with the command Report. It is zero after DeadLetter.
	Outcome Outcome

	step step
	// lookFirst: look the order up before holding anything, because only the ledger's
	// content decides if the order, a return, can be held.
	lookFirst bool
	// refusedLeg is the leg at which phase 1 was refused for a reason yet unknown.
	refusedLeg uint8
	// refusal is why phase 1 will not be tried. It depends on clock or configuration, so
	// it counts only if the ledger knows nothing of the order.
	refusal pix.Reason
	// dueAt is the deadline by the process's monotonic clock: the earliest of acceptance,
	// first sight here and, for a redelivery, the ledger's timestamp, each plus patience.
	dueAt    time.Time
	patience time.Duration
}

// Begin starts a payment seen at now, which must carry a monotonic reading. patience is
// how long a payment may take. refusal is why this engine would not take a new payment
// (a participant is inactive, the payee's bank is busy, younger ones overtook it), or ReasonNone.
func Begin(order pix.Order, now time.Time, patience time.Duration, refusal pix.Reason) (Payment, Command) {
	p := newPayment(order, now, patience)
	command := p.Reconsider(now, refusal)
	return p, command
}

// newPayment returns a payment about which nothing is decided.
func newPayment(order pix.Order, now time.Time, patience time.Duration) Payment {
	p := Payment{Order: order, patience: patience, dueAt: now.Add(patience)}
	p.bringForward(order.AcceptedAt, now)
	return p
}

// judge notes why phase 1 will not be tried. refusal is as for Begin.
func (p *Payment) judge(now time.Time, refusal pix.Reason) {
	p.refusal = refusal
	switch {
	case p.Order.AmountCentavos == 0:
		p.refusal = pix.ReasonZeroAmount
	case refusal == pix.ReasonInactivePSP, refusal == pix.ReasonTooLate:
	case p.due(now):
		p.refusal = pix.ReasonPastDeadline
	}
}

// Reconsider decides again about an order of which this engine has written nothing: what it knew
// when it decided, refusal included, is out of date. refusal is as for Begin. A return that was one
// too many stays it.
func (p *Payment) Reconsider(now time.Time, refusal pix.Reason) Command {
	if p.step != reserving && p.step != inspecting && p.step != resolving {
		return p.halt("nothing written")
	}

	if p.refusal == pix.ReasonTooManyReturns {
		refusal = cmp.Or(refusal, p.refusal)
	}
	p.Outcome, p.refusedLeg = Outcome{}, 0
	p.judge(now, refusal)

	if p.lookFirst || p.refusal != pix.ReasonNone {
		return p.to(inspecting, Inspect)
	}

	return p.to(reserving, Reserve)
}

// bringForward moves the deadline to start plus patience if that is earlier.
func (p *Payment) bringForward(start, now time.Time) {
	if due := now.Add(start.Add(p.patience).Sub(now)); due.Before(p.dueAt) {
		p.dueAt = due
	}
}

func (p *Payment) due(now time.Time) bool { return !now.Before(p.dueAt) }

// Reservation is the ledger's result of phase 1.
type Reservation struct {
	Held  bool // the money is held now
	Taken bool // the ledger has a phase 1 under these ids already, or will never take one
	// Otherwise it was refused: at Leg, for Reason, or for a reason that only the
	// accounts can tell (ReasonNone).
	Leg    int
	Reason pix.Reason
}

// Reserved takes the result of Reserve.
func (p *Payment) Reserved(result Reservation) Command {
	switch {
	case p.step != reserving:
		return p.halt("a result of phase 1")
	case result.Held:
		return p.to(authorizing, Authorize)
	case result.Taken:
		return p.to(inspecting, Inspect)
	case result.Reason != pix.ReasonNone:
		return p.refuse(result.Reason)
	case p.lookFirst: // its accounts were there when its original settled
		return p.halt("a refusal of phase 1 without a reason")
	}
	p.refusedLeg = uint8(result.Leg)

	return p.to(diagnosing, Diagnose)
}

// Responded takes the receiving bank's response, read at now. A repeated one changes nothing.
// One past the deadline ends the wait as Ticked would: the time decides, not which comes first.
func (p *Payment) Responded(accepted bool, reason pix.Reason, now time.Time) Command {
	switch {
	case p.step != authorizing:
		return Command{Action: Wait}
	case p.due(now):
		return p.void(pix.ReasonPayeePSPSilent)
	case accepted:
		p.Outcome = Outcome{Settled: true}
		return p.to(resolving, Post)
	}

	return p.void(reason)
}

// Ticked ends the wait for the bank once the deadline has passed.
func (p *Payment) Ticked(now time.Time) Command {
	if p.step != authorizing || !p.due(now) {
		return Command{Action: Wait}
	}

	return p.void(pix.ReasonPayeePSPSilent)
}

// Resolution is the ledger's result of phase 2 or of a receipt.
type Resolution uint8

// The results.
const (
	Written Resolution = iota // it is in the ledger, now or from an earlier try of the same
	Taken                     // another verdict is there
	Expired                   // the hold was ended by its timeout
)

// Resolved takes the result of Post, Void or Refuse.
func (p *Payment) Resolved(result Resolution) Command {
	switch {
	case p.step != resolving:
		return p.halt("a result of phase 2")
	case result == Written:
		return p.report(p.Outcome)
	case result == Expired:
		return p.refuse(pix.ReasonPayeePSPSilent)
	}

	return p.to(judging, Inspect)
}

// Trace is what the ledger holds about an order.
type Trace struct {
	Held        bool      // phase 1 is there
	HeldAt      time.Time // its time, by the ledger's clock
	Decided     bool      // a verdict is there
	Verdict     Outcome
	SameContent bool // what is there is this order, not another one under its id
	OtherID     bool // what is there names another id: the ids of the transfers collide
	Capped      bool // leg 4 is there: a part of the cap on outflow
	// StrandsCap: leg 4 is there, and a receipt has decided.
	StrandsCap bool
	// Refusal is why an order that the ledger does not know yet cannot be held. Only a
	// kind that is looked up first has one: see JudgeReturn.
	Refusal pix.Reason
}

// Inspected takes the result of Inspect.
func (p *Payment) Inspected(trace Trace, now time.Time) Command {
	switch {
	case p.step != inspecting && p.step != judging:
		return p.halt("a look-up of the order")
	case trace.OtherID:
		p.step, p.Outcome = ended, Outcome{}
		return Command{Action: DeadLetter, Reason: pix.ReasonIDTaken}
	case (trace.Held || trace.Decided) && !trace.SameContent:
		p.step, p.Outcome = ended, Outcome{}
		return Command{Action: DeadLetter, Reason: pix.ReasonConflict}
	case trace.Decided:
		return p.report(trace.Verdict)
	case p.step == judging:
		return p.halt("no verdict, although the verdict id was taken")
	case trace.Held:
		p.bringForward(trace.HeldAt, now)

		if p.due(now) {
			return p.void(pix.ReasonPayeePSPSilent)
		}

		return p.to(authorizing, Authorize)
	case !p.lookFirst && p.refusal == pix.ReasonNone:
		return p.halt("nothing in the ledger, although the ids of phase 1 were taken")
	case !p.lookFirst:
		return p.to(diagnosing, Diagnose)
	}

	if refusal := cmp.Or(p.refusal, trace.Refusal); refusal != pix.ReasonNone {
		return p.refuse(refusal)
	}

	return p.to(reserving, Reserve)
}

// Accounts says which of a payment's accounts exist.
type Accounts struct {
	PayerPSP, PayeePSP, Payer, Payee bool
}

// Diagnosed takes the result of Diagnose.
func (p *Payment) Diagnosed(accounts Accounts) Command {
	switch {
	case p.step != diagnosing:
		return p.halt("a look-up of the accounts")
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

// Refuses reports whether a payment is refused unless the ledger knows it. Then the ledger need
// not say more than whether it does, and whether the payer's bank exists.
func (p *Payment) Refuses() bool {
	return (p.step == inspecting || p.step == diagnosing) && p.refusal != pix.ReasonNone && !p.lookFirst
}

// DueAt is the order's deadline by the process's monotonic clock.
func (p *Payment) DueAt() time.Time { return p.dueAt }

// WaitsForBank reports whether the order waits for the receiving bank's response.
func (p *Payment) WaitsForBank() bool { return p.step == authorizing }

// Ended reports whether the order's report or dead letter is on its way.
func (p *Payment) Ended() bool { return p.step == ended }

// to takes the next step, which begins with an action.
func (p *Payment) to(next step, action Action) Command {
	p.step = next
	return Command{Action: action}
}

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
	return Command{Action: Halt, Detail: fmt.Sprintf("order %s, %s: there was %s", p.Order.ID, p.step, what)}
}

func (s step) String() string {
	return [...]string{"reserving", "authorizing", "resolving", "judging", "inspecting", "diagnosing", "ended"}[s]
}

func (a Action) String() string {
	return [...]string{"Wait", "Reserve", "Authorize", "Post", "Void", "Refuse", "Inspect", "Diagnose", "Report",
		"DeadLetter", "Halt"}[a]
}
