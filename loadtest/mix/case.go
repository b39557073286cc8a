// Package mix defines the cases of a load: the messages of each, and the outcome that each
// must have. It judges the clearing house, so it uses nothing of the clearing house's
// decisions.
package mix

import (
	"github.com/liquida/liquida/platform/pix"
)

// Case is a kind of test payment, or of message that is not a payment.
type Case uint8

// The cases, in the order of the outcome table.
const (
	Accepted Case = iota
	SameBank
	Blocked
	Closed
	PayerShort
	ReserveShort
	PayeeMissing
	PayerMissing
	UnknownPayeePSP
	UnknownPayerPSP
	ZeroAmount
	Silent
	Late
	TooOld
	Twice
	Again
	Conflict
	ConflictAgain
	Undecodable
	BadEndToEndID
	Future
	Oversized
	Hottest
	Returned
	ReturnedInParts
	ReturnsRace
	ReturnTooMuch
	ReturnByStranger
	ReturnOfNothing
	ReturnOfReturn
	caseCount
)

// Fate is how a message must end.
type Fate uint8

// The fates.
const (
	Settled    Fate = iota // a report ACSC
	Rejected               // a report RJCT with the reason
	DeadLetter             // a dead letter with the reason and no report
)

// End is how a payment, a return or a message must end.
type End struct {
	Fate   Fate
	Reason pix.Reason
}

// Expectation says how every payment of a case must end.
type Expectation struct {
	Name    string
	Meaning string
	End
	// weight is the case's share of the mix "demo", in 1/10000.
	weight int
}

var expectations = [caseCount]Expectation{
	Accepted: {"accepted", "between two banks, the receiving bank accepts", End{Settled, pix.ReasonNone}, 8200},
	SameBank: {"same-bank", "inside one bank, never reaches the reserves", End{Settled, pix.ReasonNone}, 700},
	Hottest:  {"hottest", "all to the same payee, at another bank", End{Settled, pix.ReasonNone}, 0},
	Blocked: {"blocked", "the bank rejects: the payee's account is blocked",
		End{Rejected, pix.ReasonPayeeBlocked}, 120},
	Closed: {"closed", "the bank rejects: the payee's account is closed",
		End{Rejected, pix.ReasonPayeeClosed}, 80},
	PayerShort: {"payer-short", "the amount is more than the payer can own",
		End{Rejected, pix.ReasonPayerShort}, 100},
	ReserveShort: {"reserve-short", "the amount is more than the payer bank's reserve",
		End{Rejected, pix.ReasonReserveShort}, 40},
	PayeeMissing: {"payee-missing", "the payee's account does not exist", End{Rejected, pix.ReasonPayeeMissing}, 60},
	PayerMissing: {"payer-missing", "the payer's account does not exist", End{Rejected, pix.ReasonPayerMissing}, 60},
	UnknownPayeePSP: {"unknown-payee-psp", "no participant has the payee's ISPB",
		End{Rejected, pix.ReasonUnknownPayeePSP}, 40},
	UnknownPayerPSP: {"unknown-payer-psp", "no participant has the payer's ISPB",
		End{Rejected, pix.ReasonUnknownPayerPSP}, 40},
	ZeroAmount: {"zero-amount", "the amount is zero", End{Rejected, pix.ReasonZeroAmount}, 20},
	Silent:     {"silent", "the bank never answers", End{Rejected, pix.ReasonPayeePSPSilent}, 20},
	Late:       {"late", "the bank accepts, but after the deadline", End{Rejected, pix.ReasonPayeePSPSilent}, 20},
	TooOld: {"too-old", "accepted 11 hours ago: the deadline has passed on arrival",
		End{Rejected, pix.ReasonPastDeadline}, 30},
	Twice: {"twice", "the same message twice at once: one outcome", End{Settled, pix.ReasonNone}, 80},
	Again: {"again", "the same message again after it settled: the same report again",
		End{Settled, pix.ReasonNone}, 40},
	Conflict: {"conflict", "two amounts at once: one wins, the other is a dead letter",
		End{Settled, pix.ReasonNone}, 40},
	ConflictAgain: {"conflict-again", "another amount after it settled: a dead letter",
		End{Settled, pix.ReasonNone}, 30},
	Undecodable: {"undecodable", "bytes that are not a message", End{DeadLetter, pix.ReasonMalformed}, 20},
	BadEndToEndID: {"bad-end-to-end-id", "the EndToEndId is malformed or does not fit the order",
		End{DeadLetter, pix.ReasonBadEndToEndID}, 20},
	Future: {"future", "its acceptance time is an hour after the send",
		End{DeadLetter, pix.ReasonBadAcceptance}, 20},
	Oversized: {"oversized", "a text or an account part is too long", End{DeadLetter, pix.ReasonMalformed}, 20},

	// Returns follow a good payment once it has settled.
	Returned: {"returned", "settled, then given back whole; the return is sent twice",
		End{Settled, pix.ReasonNone}, 60},
	ReturnedInParts: {"returned-in-parts", "settled, then given back in two parts, both at once",
		End{Settled, pix.ReasonNone}, 60},
	ReturnsRace: {"returns-race", "settled, then two returns at once, together too much: one settles",
		End{Settled, pix.ReasonNone}, 30},
	ReturnTooMuch: {"return-too-much", "settled, then a return of more than was paid: AM09",
		End{Settled, pix.ReasonNone}, 20},
	ReturnByStranger: {"return-by-stranger", "settled, then a return by a bank that did not receive it: LQ05",
		End{Settled, pix.ReasonNone}, 10},
	ReturnOfNothing: {"return-of-nothing", "a return of a payment that nobody made",
		End{Rejected, pix.ReasonNothingSettled}, 10},
	ReturnOfReturn: {"return-of-return", "a return that names a return as its original",
		End{DeadLetter, pix.ReasonBadEndToEndID}, 10},
}

// Cases returns all cases in the order of the outcome table.
func Cases() []Case {
	cases := make([]Case, caseCount)
	for i := range cases {
		cases[i] = Case(i)
	}

	return cases
}

// Expectation returns how payments of the case must end.
func (c Case) Expectation() Expectation { return expectations[c] }

func (c Case) String() string { return expectations[c].Name }

// Conflicting reports whether the case sends two contents under one EndToEndId.
func (c Case) Conflicting() bool { return c == Conflict || c == ConflictAgain }

// Waits reports whether payments of the case wait for the engine's deadline, because their bank
// does not respond before it.
func (c Case) Waits() bool { return c == Silent || c == Late }

func (e End) String() string {
	switch e.Fate {
	case Settled:
		return "settled"
	case Rejected:
		return "rejected " + e.Reason.String()
	}

	return "dead letter " + e.Reason.String()
}
