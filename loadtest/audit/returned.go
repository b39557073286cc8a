package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

var returnReasons = []string{"MD06", "BE08", "FR01", "SL02"}

const returnSlots = 64

// returnContent decides whether two orders are the same return.
type returnContent struct {
	original endToEndID
	minutes  uint64 // in the original's id
	centavos uint64
	reason   uint32
}

// key returns the key of the original.
func (c *returnContent) key() number128 { return paymentKey(c.original, c.minutes) }

// slot returns the slot of the original whose transfers have this key.
func (c *returnContent) slot(key number128) (int, bool) {
	for slot := range returnSlots {
		if returnKey(c.original, c.minutes, slot) == key {
			return slot, true
		}
	}

	return 0, false
}

// returnKey is the id of the transfers in a slot of a payment, with role 0. It is made as the
// payment's own, but the hash is over "R", the EndToEndId and the slot.
func returnKey(original endToEndID, minutes uint64, slot int) number128 {
	return keyWith(original, minutes, sha256.Sum256(append(append([]byte{'R'}, original[:]...), byte(slot))))
}

// readReturn judges a return. One with flaws must have a dead letter.
func readReturn(message *pixv1.PaymentOrder, recordTime time.Time) (order, flaws) {
	m := message.ReturnOrder
	var found flaws
	ofPayment := message.EndToEndId != "" || message.Payer.SizeVT()+message.Payee.SizeVT() > 0 ||
		message.AmountCentavos != 0 || message.AcceptedAtUnixMs != 0 || message.RemittanceInformation != ""
	found.note(ofPayment, codeMalformed, "return_order", "")
	id, minutes, err := parseIDOf('D', m.ReturnId)
	found.note(err != nil, codeBadID, "return_id", m.ReturnId)
	found.noteAcceptance(m.AcceptedAtUnixMs, minutes, err == nil, recordTime, "return_id", m.ReturnId)
	original, originalMinutes, err := parseIDOf('E', m.OriginalEndToEndId)
	found.note(err != nil, codeBadID, "original_end_to_end_id", m.OriginalEndToEndId)
	found.note(!slices.Contains(returnReasons, m.ReasonCode), codeMalformed, "reason_code", m.ReasonCode)
	found.note(m.AmountCentavos > amountMax, codeMalformed, "amount_centavos", fmt.Sprint(m.AmountCentavos))

	if found != nil {
		return order{}, found
	}
	text := append(append(original[:], '/'), m.ReasonCode+"/"...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, m.AmountCentavos))
	reason, _ := reasonNumber(m.ReasonCode) // it is one of returnReasons

	return order{id: id, minutes: minutes, hash: binary.BigEndian.Uint64(sum[:]), acceptedMs: m.AcceptedAtUnixMs,
		back: &returnContent{
			original: original, minutes: originalMinutes, centavos: m.AmountCentavos, reason: reason,
		}}, nil
}
