package pix

import "fmt"

// Reason says why a payment was rejected or a message was refused: 4 characters, as in
// ISO 20022, kept as the number that the ledger stores. The zero Reason means none.
type Reason uint32

// The reasons that the clearing house gives. LQ.. are Liquida's own: PIX has no code
// for them, because there they never reach the central bank.
var (
	ReasonPayeePSPSilent  = MustReason("AB03") // the receiving PSP gave no answer before the deadline
	ReasonReserveShort    = MustReason("AM04") // the payer PSP's reserve is short
	ReasonZeroAmount      = MustReason("AM01") // the amount is zero
	ReasonPayerMissing    = MustReason("AC02") // the payer's account does not exist
	ReasonPayeeMissing    = MustReason("AC03") // the payee's account does not exist
	ReasonPayeeBlocked    = MustReason("AC06") // the payee's account is blocked (the bank's answer)
	ReasonPayeeClosed     = MustReason("AC07") // the payee's account is closed (the bank's answer)
	ReasonUnknownPayerPSP = MustReason("RC09") // no participant has the payer's ISPB
	ReasonUnknownPayeePSP = MustReason("RC10") // no participant has the payee's ISPB
	ReasonInactivePSP     = MustReason("DS27") // a participant is not active
	ReasonPayerShort      = MustReason("LQ01") // the payer's account is short of funds
	ReasonPayeePSPBusy    = MustReason("LQ02") // too many payments wait for the receiving PSP's answer
	ReasonBankUnspecified = MustReason("LQ03") // the receiving PSP rejected and gave no code that can be read
	ReasonMalformed       = MustReason("FF01") // dead letter: undecodable, or a malformed field
	ReasonBadEndToEndID   = MustReason("FF08") // dead letter: the EndToEndId is bad, or does not fit the order
	ReasonBadAcceptance   = MustReason("DT02") // dead letter: accepted in the future
	ReasonConflict        = MustReason("DUPL") // dead letter: same EndToEndId, other content
	ReasonNone            Reason
)

// The reasons for which a return is refused, besides those of payments.
var (
	ReasonReturnExceeds  = MustReason("AM09") // more than what is left of the payment
	ReasonReturnTooLate  = MustReason("DT05") // more than ReturnDaysMax days after the payment settled
	ReasonNothingSettled = MustReason("LQ04") // the ledger holds no settled payment with the original's EndToEndId
	ReasonNotThePayee    = MustReason("LQ05") // the RtrId is not of the PSP that received the payment
	ReasonReturnsUsedUp  = MustReason("LQ06") // all the payment's slots for returns are used
)

// ReturnReasons are the reasons that a return may be made for.
var ReturnReasons = []Reason{
	MustReason("MD06"), // the payee gives it back
	MustReason("BE08"), // the bank's own error
	MustReason("FR01"), // fraud
	MustReason("SL02"), // the payee's withdrawal or change service
}

// VerdictReasons lists the reasons that a rejected payment can have, except those that a
// bank makes up.
var VerdictReasons = []Reason{
	ReasonPayeePSPSilent, ReasonReserveShort, ReasonZeroAmount, ReasonPayerMissing, ReasonPayeeMissing,
	ReasonPayeeBlocked, ReasonPayeeClosed, ReasonUnknownPayerPSP, ReasonUnknownPayeePSP, ReasonInactivePSP,
	ReasonPayerShort, ReasonPayeePSPBusy, ReasonBankUnspecified,
}

// ReturnVerdictReasons is the same of rejected returns. Whether accounts exist the original tells.
var ReturnVerdictReasons = []Reason{
	ReasonReturnExceeds, ReasonReturnTooLate, ReasonNothingSettled, ReasonNotThePayee, ReasonReturnsUsedUp,
	ReasonPayeePSPSilent, ReasonReserveShort, ReasonZeroAmount, ReasonPayeeBlocked, ReasonPayeeClosed,
	ReasonInactivePSP, ReasonPayerShort, ReasonPayeePSPBusy, ReasonBankUnspecified,
}

// ParseReason reads 4 characters of [0-9A-Z].
func ParseReason(text string) (Reason, error) {
	if len(text) != 4 {
		return 0, fmt.Errorf("reason code %s has %d characters: it must have 4", quote(text), len(text))
	}
	var reason Reason
	for i := range len(text) {
		if _, ok := base36(text[i]); !ok {
			return 0, fmt.Errorf("reason code %s has %s at position %d: only 0-9 and A-Z are allowed", quote(text), quote(text[i:i+1]), i+1)
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
