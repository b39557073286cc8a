package spec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

var returnReasons = []string{"MD06", "BE08", "FR01", "SL02"}

// ReturnSlots is how many returns of a payment may be held.
const ReturnSlots = 64

// ReturnContent decides whether two orders are the same return.
type ReturnContent struct {
	Original ID
	Minutes  uint64 // in the original's id
	Centavos uint64
	reason   uint32
}

// Key returns the key of the original.
func (c *ReturnContent) Key() Number { return PaymentKey(c.Original, c.Minutes) }

// Slot returns the slot of the original whose transfers have this key.
func (c *ReturnContent) Slot(key Number) (int, bool) {
	for slot := range ReturnSlots {
		if ReturnKey(c.Original, c.Minutes, slot) == key {
			return slot, true
		}
	}

	return 0, false
}

// ReturnKey is the id of the transfers in a slot of a payment, with role 0. It is made as the
// payment's own, but the hash is over "R", the EndToEndId and the slot.
func ReturnKey(original ID, minutes uint64, slot int) Number {
	return keyWith(original, minutes, sha256.Sum256(append(append([]byte{'R'}, original[:]...), byte(slot))))
}

// readReturn judges a return. One with flaws must have a dead letter.
func readReturn(message *pixv1.PaymentOrder, recordTime time.Time) (Order, Flaws) {
	m := message.ReturnOrder
	var found Flaws
	ofPayment := message.EndToEndId != "" || message.Payer.SizeVT()+message.Payee.SizeVT() > 0 ||
		message.AmountCentavos != 0 || message.AcceptedAtUnixMs != 0 || message.RemittanceInformation != ""
	found.note(ofPayment, CodeMalformed, "return_order", "")
	id, minutes, err := parseIDOf('D', m.ReturnId)
	found.note(err != nil, CodeBadID, "return_id", m.ReturnId)
	found.noteAcceptance(m.AcceptedAtUnixMs, minutes, err == nil, recordTime, "return_id", m.ReturnId)
	original, originalMinutes, err := parseIDOf('E', m.OriginalEndToEndId)
	found.note(err != nil, CodeBadID, "original_end_to_end_id", m.OriginalEndToEndId)
	found.note(!slices.Contains(returnReasons, m.ReasonCode), CodeMalformed, "reason_code", m.ReasonCode)
	found.note(m.AmountCentavos > amountMax, CodeMalformed, "amount_centavos", fmt.Sprint(m.AmountCentavos))

	if found != nil {
		return Order{}, found
	}
	text := append(append(original[:], '/'), m.ReasonCode+"/"...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, m.AmountCentavos))
	reason, _ := ReasonNumber(m.ReasonCode) // it is one of returnReasons

	return Order{ID: id, Minutes: minutes, Hash: binary.BigEndian.Uint64(sum[:]), AcceptedMs: m.AcceptedAtUnixMs,
		Back: &ReturnContent{
			Original: original, Minutes: originalMinutes, Centavos: m.AmountCentavos, reason: reason,
		}}, nil
}
