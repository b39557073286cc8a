package pix

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// ReturnID (RtrId) is the identity of a return: "D", the ISPB of the PSP that gives the
// money back, then minute and suffix as in an EndToEndId.
type ReturnID [endToEndIDLength]byte

// ParseReturnID reads an RtrId. Its error says what is wrong with the text.
func ParseReturnID(text string) (ReturnID, error) {
	id, err := parseID("RtrId", 'D', text)
	return ReturnID(id), err
}

// ParsePaymentOrReturnID reads an EndToEndId or an RtrId: the messages between clearing
// house and banks have either. The result's first letter says which it is.
func ParsePaymentOrReturnID(text string) (EndToEndID, error) {
	if text != "" && text[0] == 'D' {
		id, err := ParseReturnID(text)
		return EndToEndID(id), err
	}

	return ParseEndToEndID(text)
}

// NewReturnID makes an RtrId as NewEndToEndID makes an EndToEndId.
func NewReturnID(psp ISPB, at time.Time, random *rand.Rand) ReturnID {
	return ReturnID(newID('D', psp, at, random))
}

// JoinReturnID makes an id from the parts that the ledger keeps.
func JoinReturnID(psp [ispbLength]byte, minute uint64, suffix [suffixLength]byte) (ReturnID, error) {
	id, err := joinID("RtrId", 'D', psp, minute, suffix)
	return ReturnID(id), err
}

func (id ReturnID) String() string { return string(id[:]) }

// PSP returns the ISPB inside the id: the PSP that gives the money back.
func (id ReturnID) PSP() ISPB { return EndToEndID(id).Payer() }

// Time returns the minute inside the id, in UTC.
func (id ReturnID) Time() time.Time { return EndToEndID(id).Time() }

// ReturnContent is the content of a return: two messages with one RtrId and equal content
// are the same return. It has no accounts, because the original decides them.
type ReturnContent struct {
	Original       EndToEndID
	AmountCentavos uint64
	Reason         Reason // why it is given back, one of ReturnReasons
}

// Hash returns the first 64 bits of the content's digest. The verdict of a return
// keeps it, so that the same RtrId with other content is found out.
func (c ReturnContent) Hash() uint64 { return c.Digest().Hash() }

// Digest returns the SHA-256 of the content.
func (c ReturnContent) Digest() Digest {
	text := make([]byte, 0, 64)
	text = append(append(text, c.Original[:]...), '/')
	text = append(append(text, c.Reason.String()...), '/')

	return sha256.Sum256(binary.BigEndian.AppendUint64(text, c.AmountCentavos))
}

// Return is a valid return order.
type Return struct {
	ID ReturnID
	ReturnContent
	AcceptedAt time.Time
}

// ReturnDaysMax is how many days after its settlement a payment can be returned.
const ReturnDaysMax = 90

// InTime reports whether the return was accepted within ReturnDaysMax days after its
// original settled. It is a function of the record and the ledger, never of the clock.
func (r Return) InTime(settledAt time.Time) bool {
	return r.AcceptedAt.Sub(settledAt) <= ReturnDaysMax*24*time.Hour
}

// ReturnDraft is a return order as it arrives: nothing of it is checked.
type ReturnDraft struct {
	ReturnID           string
	OriginalEndToEndID string
	AmountCentavos     uint64
	ReasonCode         string
	AcceptedAtUnixMs   int64
}

// Validate returns the draft as a return, or an *Invalid. As for payments, it is a pure
// function of the draft and the record's timestamp. A return of a return needs no rule: its
// original's id would not begin with E.
func (d ReturnDraft) Validate(recordTime time.Time) (Return, error) {
	id, err := ParseReturnID(d.ReturnID)
	if err != nil {
		return Return{}, &Invalid{ReasonBadEndToEndID, "return_id", err.Error()}
	}

	original, err := ParseEndToEndID(d.OriginalEndToEndID)
	if err != nil {
		return Return{}, &Invalid{ReasonBadEndToEndID, "original_end_to_end_id", err.Error()}
	}

	reason, err := ParseReason(d.ReasonCode)
	if err != nil {
		return Return{}, &Invalid{ReasonMalformed, "reason_code", err.Error()}
	}

	if !slices.Contains(ReturnReasons, reason) {
		return Return{}, &Invalid{ReasonMalformed, "reason_code",
			fmt.Sprintf("%s is no reason for a return: it must be one of %s", reason, ReturnReasons)}
	}

	if err := tooLarge(d.AmountCentavos); err != nil {
		return Return{}, err
	}

	accepted := time.UnixMilli(d.AcceptedAtUnixMs).UTC()
	if apart := accepted.Sub(id.Time()).Abs(); apart > ToleranceHours*time.Hour {
		return Return{}, &Invalid{ReasonBadEndToEndID, "return_id",
			fmt.Sprintf("RtrId %s is %s away from the acceptance at %s: at most %d h are allowed", id,
				apart.Round(time.Minute), accepted.Format(time.RFC3339), ToleranceHours)}
	}

	if ahead := accepted.Sub(recordTime); ahead > AcceptanceAheadSecondsMax*time.Second {
		return Return{}, &Invalid{ReasonBadAcceptance, "accepted_at_unix_ms",
			fmt.Sprintf("%d is %s after the record's timestamp: at most %d s are allowed", d.AcceptedAtUnixMs, ahead,
				AcceptanceAheadSecondsMax)}
	}

	return Return{ID: id, ReturnContent: ReturnContent{original, d.AmountCentavos, reason}, AcceptedAt: accepted}, nil
}
