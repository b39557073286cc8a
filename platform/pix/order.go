package pix

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"
)

// Content is the content of a payment: two messages with one EndToEndId and equal content
// are the same payment. Nothing else counts.
type Content struct {
	Payer          Account
	Payee          Account
	AmountCentavos uint64
}

// SameBank reports whether payer and payee have the same PSP. Such a payment does not move
// reserves.
func (c Content) SameBank() bool { return c.Payer.ISPB == c.Payee.ISPB }

// Hash returns the first 64 bits of the content's digest. A receipt keeps it, so that
// the same EndToEndId with other content is found out.
func (c Content) Hash() uint64 { return c.Digest().Hash() }

// Digest returns the SHA-256 of the content.
func (c Content) Digest() Digest {
	text := make([]byte, 0, 128)
	for _, field := range [...]string{string(c.Payer.ISPB), c.Payer.Branch, c.Payer.Number, string(c.Payee.ISPB),
		c.Payee.Branch, c.Payee.Number} {
		text = append(append(text, field...), '/')
	}

	return sha256.Sum256(binary.BigEndian.AppendUint64(text, c.AmountCentavos))
}

// Digest is the SHA-256 of a content.
type Digest [sha256.Size]byte

// Hash returns the first 64 bits.
func (d Digest) Hash() uint64 { return binary.BigEndian.Uint64(d[:8]) }

// Order is a valid payment order.
type Order struct {
	ID EndToEndID
	Content
	AcceptedAt time.Time
}

// Limits of a payment order.
const (
	// ToleranceHours bounds the time between the EndToEndId's minute and the acceptance.
	ToleranceHours = 12
	// AcceptanceAheadSecondsMax bounds the time from the record's timestamp to a later acceptance.
	AcceptanceAheadSecondsMax = 5
	// AmountCentavosMax bounds the amount of a payment and of a return. No client has to read an
	// integer beyond int64, and the ledger's sums stay far below 128 bits. A lower limit would
	// turn payments of existing logs into dead letters.
	AmountCentavosMax = 1<<63 - 1
	// RemittanceInformationBytesMax bounds the free text.
	RemittanceInformationBytesMax = 140
)

// Invalid is why a message cannot become a payment: the field, its value, and the reason
// code of the dead letter.
type Invalid struct {
	Reason Reason
	Field  string
	Detail string
}

func (e *Invalid) Error() string { return e.Field + ": " + e.Detail }

// tooLarge is why an amount above AmountCentavosMax is malformed, else nil.
func tooLarge(amountCentavos uint64) error {
	if amountCentavos <= AmountCentavosMax {
		return nil
	}

	return &Invalid{ReasonMalformed, "amount_centavos",
		fmt.Sprintf("%d is more than %d centavos (2^63-1)", amountCentavos, uint64(AmountCentavosMax))}
}

// Draft is a payment order as it arrives: nothing of it is checked.
type Draft struct {
	EndToEndID            string
	Payer, Payee          Account
	AmountCentavos        uint64
	AcceptedAtUnixMs      int64
	RemittanceInformation string
}

// Validate returns the draft as an order, or an *Invalid. It is a pure function of the
// draft and the record's timestamp, never of the clock: a redelivery must be judged like
// the first delivery.
func (d Draft) Validate(recordTime time.Time) (Order, error) {
	id, err := ParseEndToEndID(d.EndToEndID)
	if err != nil {
		return Order{}, &Invalid{ReasonBadEndToEndID, "end_to_end_id", err.Error()}
	}

	if err := d.Payer.Validate(); err != nil {
		return Order{}, &Invalid{ReasonMalformed, "payer", err.Error()}
	}

	if err := d.Payee.Validate(); err != nil {
		return Order{}, &Invalid{ReasonMalformed, "payee", err.Error()}
	}

	if id.Payer() != d.Payer.ISPB {
		return Order{}, &Invalid{ReasonBadEndToEndID, "end_to_end_id",
			fmt.Sprintf("EndToEndId %s names the PSP %s: the payer's is %s", id, id.Payer(), d.Payer.ISPB)}
	}

	if err := tooLarge(d.AmountCentavos); err != nil {
		return Order{}, err
	}

	if len(d.RemittanceInformation) > RemittanceInformationBytesMax {
		return Order{}, &Invalid{ReasonMalformed, "remittance_information",
			fmt.Sprintf("it has %d bytes: at most %d are allowed", len(d.RemittanceInformation),
				RemittanceInformationBytesMax)}
	}

	if !utf8.ValidString(d.RemittanceInformation) {
		return Order{}, &Invalid{ReasonMalformed, "remittance_information", "it is not UTF-8"}
	}

	accepted := time.UnixMilli(d.AcceptedAtUnixMs).UTC()
	if apart := accepted.Sub(id.Time()).Abs(); apart > ToleranceHours*time.Hour {
		return Order{}, &Invalid{ReasonBadEndToEndID, "end_to_end_id",
			fmt.Sprintf("EndToEndId %s is %s away from the acceptance at %s: at most %d h are allowed", id,
				apart.Round(time.Minute), accepted.Format(time.RFC3339), ToleranceHours)}
	}

	if ahead := accepted.Sub(recordTime); ahead > AcceptanceAheadSecondsMax*time.Second {
		return Order{}, &Invalid{ReasonBadAcceptance, "accepted_at_unix_ms",
			fmt.Sprintf("%d is %s after the record's timestamp: at most %d s are allowed", d.AcceptedAtUnixMs, ahead,
				AcceptanceAheadSecondsMax)}
	}

	return Order{ID: id, Content: Content{Payer: d.Payer, Payee: d.Payee, AmountCentavos: d.AmountCentavos},
		AcceptedAt: accepted}, nil
}
