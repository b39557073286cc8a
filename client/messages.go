package client

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Payment is a payment to send.
type Payment struct {
	EndToEndID            string  `json:"end_to_end_id,omitempty"` // its identity; created if empty
	Payer                 Account `json:"payer"`
	Payee                 Account `json:"payee"`
	AmountCentavos        int64   `json:"amount_centavos"`
	AcceptedAt            string  `json:"accepted_at,omitempty"` // RFC 3339; now if empty
	RemittanceInformation string  `json:"remittance_information,omitempty"`
}

// Account is a customer's account.
type Account struct {
	ISPB   string `json:"ispb"`
	Branch string `json:"branch"`
	Number string `json:"number"`
}

func (a Account) String() string { return a.ISPB + "/" + a.Branch + "/" + a.Number }

var anISPB, aBranch, aNumber = regexp.MustCompile(`^[0-9A-Z]{8}$`), regexp.MustCompile(`^[0-9]{4}$`),
	regexp.MustCompile(`^[1-9][0-9]{0,19}$`)

// ParseAccount reads ISPB/BRANCH/NUMBER.
func ParseAccount(text string) (Account, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Account{}, fmt.Errorf("account %q: it must be ISPB/BRANCH/NUMBER, like 10000001/0001/1", text)
	}

	a := Account{parts[0], parts[1], parts[2]}
	for _, part := range []struct {
		name, text, rule string
		is               *regexp.Regexp
	}{
		{"ISPB", a.ISPB, "8 characters of 0-9 A-Z", anISPB}, {"BRANCH", a.Branch, "4 digits", aBranch},
		{"NUMBER", a.Number, "1 to 20 digits without leading zeros", aNumber},
	} {
		if !part.is.MatchString(part.text) {
			return Account{}, fmt.Errorf("account %q: %s is %.32q: it must be %s", text, part.name,
				part.text, part.rule)
		}
	}

	return a, nil
}

// The statuses of a payment. Accepted means that it is stored, and nothing more: nobody waited for
// the outcome. Unknown means that the ledger does not know it (yet).
const (
	Accepted = "accepted"
	Unknown  = "unknown"
	Reserved = "reserved"
	Settled  = "settled"
	Rejected = "rejected"
)

// PaymentState is the state of a payment in the ledger.
type PaymentState struct {
	EndToEndID     string     `json:"end_to_end_id"`
	Status         string     `json:"status"`
	ReasonCode     string     `json:"reason_code,omitempty"` // why it was rejected
	ReservedAt     *time.Time `json:"reserved_at,omitempty"`
	ExpiresAt      *time.Time `json:"expires_at,omitempty"`
	DecidedAt      *time.Time `json:"decided_at,omitempty"`
	AmountCentavos int64      `json:"amount_centavos,omitempty"`
	Payer          *Account   `json:"payer,omitempty"`
	Payee          *Account   `json:"payee,omitempty"`
	Legs           []Leg      `json:"legs,omitempty"`
	// The amount given back, and every return for which money is or was held.
	ReturnedCentavos int64           `json:"returned_centavos,omitempty"`
	Returns          []PaymentReturn `json:"returns,omitempty"`
	DeadLetter       *DeadLetter     `json:"dead_letter,omitempty"`
}

// DeadLetter is a message with the id that became a dead letter. The rest of a state is of another
// message.
type DeadLetter struct {
	ReasonCode     string    `json:"reason_code"`
	AmountCentavos int64     `json:"amount_centavos"`
	At             time.Time `json:"at"`
}

// Is reports whether a state shows the content of the payment. A refusal shows none.
func (p Payment) Is(s PaymentState) bool {
	return s.Payer != nil && s.Payee != nil && *s.Payer == p.Payer && *s.Payee == p.Payee &&
		s.AmountCentavos == p.AmountCentavos
}

func (s PaymentState) reached() string { return s.Status }

// Final reports whether the state is final.
func (s PaymentState) Final() bool { return s.Status == Settled || s.Status == Rejected }

// PaymentReturn is a return of a payment in the ledger.
type PaymentReturn struct {
	ReturnID         string     `json:"return_id"`
	AmountCentavos   int64      `json:"amount_centavos"`
	ReturnReasonCode string     `json:"return_reason_code"` // why it is given back
	Status           string     `json:"status"`
	ReasonCode       string     `json:"reason_code,omitempty"` // why it was rejected
	ReservedAt       time.Time  `json:"reserved_at"`
	DecidedAt        *time.Time `json:"decided_at,omitempty"`
}

// ReturnOrder asks to give back a payment, all of it or a part.
type ReturnOrder struct {
	ReturnID           string `json:"return_id,omitempty"` // its identity; created if empty
	OriginalEndToEndID string `json:"original_end_to_end_id"`
	AmountCentavos     int64  `json:"amount_centavos"`
	ReasonCode         string `json:"reason_code"`           // MD06, BE08, FR01 or SL02
	AcceptedAt         string `json:"accepted_at,omitempty"` // RFC 3339; now if empty
}

// ReturnState is the state of a return in the ledger. Its statuses are those of a payment.
type ReturnState struct {
	ReturnID           string      `json:"return_id"`
	OriginalEndToEndID string      `json:"original_end_to_end_id,omitempty"`
	Status             string      `json:"status"`
	ReasonCode         string      `json:"reason_code,omitempty"` // why it was rejected
	ReservedAt         *time.Time  `json:"reserved_at,omitempty"`
	ExpiresAt          *time.Time  `json:"expires_at,omitempty"`
	DecidedAt          *time.Time  `json:"decided_at,omitempty"`
	ReturnReasonCode   string      `json:"return_reason_code,omitempty"` // why it is given back
	AmountCentavos     int64       `json:"amount_centavos,omitempty"`
	Payer              *Account    `json:"payer,omitempty"` // the account that gives back
	Payee              *Account    `json:"payee,omitempty"`
	DeadLetter         *DeadLetter `json:"dead_letter,omitempty"`
}

// Is reports whether a state shows the content of the return. A refusal shows none.
func (o ReturnOrder) Is(s ReturnState) bool {
	return s.OriginalEndToEndID == o.OriginalEndToEndID && s.AmountCentavos == o.AmountCentavos &&
		s.ReturnReasonCode == o.ReasonCode
}

func (s ReturnState) reached() string { return s.Status }

// Final reports whether the state is final.
func (s ReturnState) Final() bool { return s.Status == Settled || s.Status == Rejected }

// Leg is one movement of a payment.
type Leg struct {
	Leg            int    `json:"leg"`
	Debit          string `json:"debit"`
	Credit         string `json:"credit"`
	AmountCentavos int64  `json:"amount_centavos"`
	State          string `json:"state"` // held, posted or released
}

// Balance is the balance of an account. Available is posted less what is held.
type Balance struct {
	PostedCentavos     int64 `json:"posted_centavos"`
	PendingOutCentavos int64 `json:"pending_out_centavos"`
	PendingInCentavos  int64 `json:"pending_in_centavos"`
	AvailableCentavos  int64 `json:"available_centavos"`
}

// AccountBalance is a customer's account.
type AccountBalance struct {
	Account
	State string `json:"state"` // open, blocked or closed
	Balance
}

// Statement is a page of the movements of an account, newest first.
type Statement struct {
	Lines      []StatementLine `json:"lines"`
	NextCursor string          `json:"next_cursor,omitempty"` // for older lines; empty at the end
}

// StatementLine is one movement. Only a posted line changes the balance.
type StatementLine struct {
	At             time.Time `json:"at"`
	Kind           string    `json:"kind"`      // held, posted or released
	Direction      string    `json:"direction"` // debit or credit
	AmountCentavos int64     `json:"amount_centavos"`
	Code           int       `json:"code"` // kind and leg: 1 a payment out, 3 a payment in, 9 funding
	EndToEndID     string    `json:"end_to_end_id,omitempty"`
	ReasonCode     string    `json:"reason_code,omitempty"`
	ReturnID       string    `json:"return_id,omitempty"` // of a return
}

// Participant is a bank: its reserve at the central bank, its transit and what is left of its caps,
// at one instant.
type Participant struct {
	ISPB               string       `json:"ispb"`
	State              string       `json:"state"` // active, suspended, or unregistered
	PaymentCapCentavos int64        `json:"payment_cap_centavos,omitempty"`
	OutflowCaps        []OutflowCap `json:"outflow_caps,omitempty"`
	Keys               []string     `json:"keys,omitempty"` // digests of the keys in use
	Seals              []Seal       `json:"seals,omitempty"`
	Reserve            Balance      `json:"reserve"`
	Transit            Balance      `json:"transit"`
	ThreeLegs          *ThreeLegs   `json:"three_leg_invariant,omitempty"` // nil if the bank has no books account
}

// Seal is the fingerprint of a secret with which a bank seals its responses.
type Seal struct {
	Digest  string `json:"digest"`
	Revoked bool   `json:"revoked"`
}

// OutflowCap is a cap on what a bank may pay to other banks within a window.
type OutflowCap struct {
	When          string `json:"when"` // day or night
	CapCentavos   int64  `json:"cap_centavos"`
	WindowSeconds int    `json:"window_seconds"`
	LeftCentavos  int64  `json:"left_centavos"`
}

// ThreeLegs compares a bank's reserve and transit with its books.
type ThreeLegs struct {
	BooksCentavos      int64 `json:"books_centavos"`
	DifferenceCentavos int64 `json:"difference_centavos"`
	Holds              bool  `json:"holds"`
}

// ParticipantPage is a page of all participants.
type ParticipantPage struct {
	Participants []Participant `json:"participants"`
	NextCursor   string        `json:"next_cursor,omitempty"`
	Issuance     Issuance      `json:"issuance"`
}

// Issuance compares what issuance has paid to all reserves with what bootstrap and acts brought in.
type Issuance struct {
	IssuedCentavos     int64 `json:"issued_centavos"`
	DifferenceCentavos int64 `json:"difference_centavos"`
	Holds              bool  `json:"holds"`
}

// Settlement is how a payment ended.
type Settlement struct {
	EndToEndID     string   `json:"end_to_end_id"`
	Status         string   `json:"status"` // settled or rejected
	ReasonCode     string   `json:"reason_code,omitempty"`
	Payer          *Account `json:"payer,omitempty"` // nil if no money was held for a return
	Payee          *Account `json:"payee,omitempty"`
	AmountCentavos int64    `json:"amount_centavos"`
	// OriginalEndToEndID is the payment that a return gives back.
	OriginalEndToEndID string    `json:"original_end_to_end_id,omitempty"`
	ReportedAt         time.Time `json:"reported_at"`
}
