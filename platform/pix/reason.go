package pix

import "fmt"

// Reason says why a payment or return was rejected, or a message became a dead letter:
// 4 characters, as in ISO 20022, kept as the number that the ledger stores. The zero Reason
// means none.
type Reason uint32

// Definition is one reason code: who decides it, where it may stand, and what it means.
type Definition struct {
	Reason  Reason
	By      Decider
	Where   Where
	Meaning string // for people, without a capital and a full stop
}

// Decider is whose word a reason is.
type Decider string

// The deciders. The ledger's word is what it says about money and accounts.
const (
	ByBank   Decider = "bank"
	ByLedger Decider = "ledger"
	ByEngine Decider = "engine"
)

// Where a reason may stand.
type Where uint8

// The places, to be added up.
const (
	OfPayment    Where = 1 << iota // a rejected payment
	OfReturn                       // a rejected return
	OfDeadLetter                   // a message that cannot become either
	ofBoth       = OfPayment | OfReturn
)

// Definitions lists all reasons that the clearing house gives, in the order of this file. A bank
// may reject with any other code. The command liquida takes its texts from here. Tests compare
// docs/outcomes.md and the rules of Prometheus with it.
var Definitions []Definition

func define(code string, by Decider, where Where, meaning string) Reason {
	reason := MustReason(code)
	Definitions = append(Definitions, Definition{reason, by, where, meaning})
	return reason
}

// The reasons. LQ.. are Liquida's own: PIX has no code for them, because there they never
// reach the central bank.
var (
	ReasonPayeePSPSilent = define("AB03", ByEngine, ofBoth, "the payee's bank did not answer in time")
	ReasonZeroAmount     = define("AM01", ByEngine, ofBoth, "the amount is zero")
	ReasonReserveShort   = define("AM04", ByLedger, ofBoth, "the reserve of the payer's bank is short")
	ReasonPayerMissing   = define("AC02", ByLedger, OfPayment, "the payer's account does not exist")
	ReasonPayeeMissing   = define("AC03", ByLedger, OfPayment, "the payee's account does not exist")
	ReasonPayeeBlocked   = define("AC06", ByBank, ofBoth, "the payee's account is blocked")
	ReasonPayeeClosed    = define("AC07", ByBank, ofBoth, "the payee's account is closed")
	ReasonAboveCap       = define("AM13", ByEngine, OfPayment,
		"the amount is above the cap on a single payment of the payer's bank")
	ReasonInactivePSP  = define("DS27", ByEngine, ofBoth, "a participant is suspended")
	ReasonPayerShort   = define("LQ01", ByLedger, ofBoth, "the payer's account is short of money")
	ReasonPayeePSPBusy = define("LQ02", ByEngine, ofBoth,
		"too many payments wait for the payee's bank: pay again later, with a new id")
	ReasonBankUnspecified = define("LQ03", ByBank, ofBoth,
		"the payee's bank gave no reason that can be read, or one that is not a bank's to give")
	ReasonTooLate = define("LQ10", ByEngine, ofBoth,
		"under overload it was too old to settle in time: pay again later, with a new id")
	ReasonPastDeadline = define("LQ13", ByEngine, ofBoth,
		"its deadline had passed before an engine saw it: pay again, with a new id")
	ReasonOutflowCapped = define("LQ12", ByLedger, OfPayment,
		"what is left of the cap on outflow of the payer's bank is less: pay again later, with a new id")
	ReasonUnknownPayerPSP = define("RC09", ByLedger, OfPayment, "the payer's bank is not known")
	ReasonUnknownPayeePSP = define("RC10", ByLedger, OfPayment, "the payee's bank is not known")

	ReasonReturnExceeds  = define("AM09", ByEngine, OfReturn, "it is more than what is left of the payment")
	ReasonReturnTooLate  = define("DT05", ByEngine, OfReturn, "the payment settled more than 90 days before")
	ReasonNothingSettled = define("LQ04", ByEngine, OfReturn, "there is no such settled payment")
	ReasonNotThePayee    = define("LQ05", ByEngine, OfReturn, "another bank received the payment")
	ReasonReturnsUsedUp  = define("LQ06", ByEngine, OfReturn, "the payment has no room for another return")
	ReasonTooManyReturns = define("LQ11", ByEngine, OfReturn,
		"too many returns of the payment, or of your bank, at once: return it again later, with a new id")

	ReasonMalformed = define("FF01", ByEngine, OfDeadLetter,
		"the message cannot be decoded, or a field is malformed")
	ReasonBadEndToEndID = define("FF08", ByEngine, OfDeadLetter,
		"the EndToEndId is malformed, or does not fit the order")
	ReasonBadAcceptance = define("DT02", ByEngine, OfDeadLetter, "the order was accepted in the future")
	ReasonConflict      = define("DUPL", ByEngine, OfDeadLetter,
		"an earlier payment or return has the same id and other content")
	ReasonIDTaken = define("LQ07", ByEngine, OfDeadLetter,
		"in the ledger, its place belongs to a payment with another id")
	ReasonUnreadable = define("LQ08", ByEngine, OfDeadLetter,
		"a batch of records that cannot be read, or that unpacks to too much")
	ReasonTooManyCopies = define("LQ09", ByEngine, OfDeadLetter,
		"too many messages with the same id, or of your bank, wait already")

	ReasonNone Reason
)

// ReturnReasons are the reasons that a return may be made for.
var ReturnReasons = []Reason{
	MustReason("MD06"), // the payee gives it back
	MustReason("BE08"), // the bank's own error
	MustReason("FR01"), // fraud
	MustReason("SL02"), // the payee's withdrawal or change service
}

// ReasonsOf returns the reasons that may stand in a place.
func ReasonsOf(where Where) []Reason {
	var reasons []Reason

	for _, d := range Definitions {
		if d.Where&where != 0 {
			reasons = append(reasons, d.Reason)
		}
	}

	return reasons
}

// Meaning returns what a reason means, or nothing for one that only a bank gives.
func (r Reason) Meaning() string { return r.definition().Meaning }

// definition is empty for a reason that only a bank gives.
func (r Reason) definition() Definition {
	for _, d := range Definitions {
		if d.Reason == r {
			return d
		}
	}

	return Definition{By: ByBank}
}

// FromBank returns the reason to keep if a bank rejects with r: LQ03 for a code of the ledger
// or the engine, and for all of LQ.., because the report would blame another than the bank.
func (r Reason) FromBank() Reason {
	if r>>16 == 'L'<<8|'Q' || r.definition().By != ByBank {
		return ReasonBankUnspecified
	}

	return r
}

// ParseReason reads 4 characters of [0-9A-Z].
func ParseReason(text string) (Reason, error) {
	if len(text) != 4 {
		return 0, fmt.Errorf("reason code %s has %d characters: it must have 4", quote(text), len(text))
	}
	var reason Reason

	for i := range len(text) {
		if _, ok := base36(text[i]); !ok {
			return 0, fmt.Errorf("reason code %s has %s at position %d: only 0-9 and A-Z are allowed", quote(text),
				quote(text[i:i+1]), i+1)
		}
		reason = reason<<8 | Reason(text[i])
	}

	return reason, nil
}

// MustReason is ParseReason for constants.
func MustReason(text string) Reason {
	reason, err := ParseReason(text)
	if err != nil {
		panic(err)
	}

	return reason
}

// String returns the 4 characters, or nothing for ReasonNone.
func (r Reason) String() string {
	if r == ReasonNone {
		return ""
	}

	return string([]byte{byte(r >> 24), byte(r >> 16), byte(r >> 8), byte(r)})
}
