package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// order is a record of pix.payments that is a payment.
type order struct {
	id      endToEndID
	minutes uint64
	content content
	hash    uint64         // of the content, as in receipts
	back    *returnContent // of a return, whose id begins with D; nil for a payment
	// acceptedMs is Unix time.
	acceptedMs int64
}

// content decides whether two orders are the same payment.
type content struct {
	payer, payee accountID
	centavos     uint64
}

const (
	tolerance            = 12 * time.Hour
	acceptanceAheadMax   = 5 * time.Second
	remittanceBytesMax   = 140
	amountMax            = 1<<63 - 1 // centavos
	deadLetterPayloadMax = 64 << 10
)

// readOrder judges a record by the documentation of the messages, whatever the engine did. A
// record with flaws must have a dead letter.
func readOrder(value []byte, recordTime time.Time) (order, flaws) {
	var message pixv1.PaymentOrder
	// The decoder of the services, too. It is stricter than proto.Unmarshal: a known field with
	// a wrong wire type is an error. There must be one answer to what is undecodable.
	if err := message.UnmarshalVT(value); err != nil {
		return order{}, flaws{{codeMalformed, "value", fmt.Sprint(len(value)), fmt.Errorf("undecodable: %w", err)}}
	}
	if message.ReturnOrder != nil {
		return readReturn(&message, recordTime)
	}
	var found flaws
	id, minutes, idErr := parseEndToEndID(message.EndToEndId)
	found.note(idErr, codeBadID, "end_to_end_id", message.EndToEndId)
	content, contentErr := readContent(message.Payer, message.Payee, message.AmountCentavos)
	if contentErr != nil {
		found.noteAccount("payer", message.Payer)
		found.noteAccount("payee", message.Payee)
	}
	if ispb := message.Payer.GetIspb(); idErr == nil && ispb != string(id[1:9]) {
		found.note(fmt.Errorf("the EndToEndId's PSP is %s, the payer's %.64q", id[1:9], ispb), codeBadID, "end_to_end_id", message.EndToEndId)
	}
	found.note(checkCentavos(message.AmountCentavos), codeMalformed, "amount_centavos", fmt.Sprint(message.AmountCentavos))
	if n := len(message.RemittanceInformation); n > remittanceBytesMax {
		found.note(fmt.Errorf("the remittance information has %d bytes", n), codeMalformed, "remittance_information", fmt.Sprint(n))
	}
	if !utf8.ValidString(message.RemittanceInformation) {
		found.note(fmt.Errorf("the remittance information is not UTF-8"), codeMalformed, "remittance_information", "")
	}
	found.noteAcceptance(message.AcceptedAtUnixMs, minutes, idErr == nil, recordTime, "end_to_end_id", message.EndToEndId)
	if found == nil && contentErr != nil { // never: each part was looked at
		found.note(contentErr, codeMalformed, "value", "")
	}
	if found != nil {
		return order{}, found
	}
	return order{id: id, minutes: minutes, content: content, hash: contentHash(&message), acceptedMs: message.AcceptedAtUnixMs}, nil
}

func checkCentavos(centavos uint64) error {
	if centavos > amountMax {
		return fmt.Errorf("%d centavos are more than 2^63-1", centavos)
	}
	return nil
}

// noteAcceptance notes what is wrong with an acceptance time. The minutes are those of the id, if
// it has any.
func (f *flaws) noteAcceptance(accepted int64, minutes uint64, hasMinutes bool, recordTime time.Time, idField, id string) {
	minute := epoch.UnixMilli() + int64(minutes)*time.Minute.Milliseconds()
	if hasMinutes && (accepted < minute-tolerance.Milliseconds() || accepted > minute+tolerance.Milliseconds()) {
		f.note(fmt.Errorf("accepted at %d ms, more than %v from the id's minute", accepted, tolerance), codeBadID, idField, id)
	}
	if accepted > recordTime.UnixMilli()+acceptanceAheadMax.Milliseconds() {
		f.note(fmt.Errorf("accepted at %d ms, more than %v after the record's timestamp", accepted, acceptanceAheadMax), codeBadAcceptance, "accepted_at_unix_ms", fmt.Sprint(accepted))
	}
}

func readContent(payer, payee *pixv1.Account, centavos uint64) (c content, err error) {
	read := func(role string, account *pixv1.Account) (id accountID) {
		if account == nil && err == nil {
			err = fmt.Errorf("%s: %w", role, errEmpty)
		}
		if err != nil {
			return id
		}
		if id, err = customerAccount(account.Ispb, account.Branch, account.Number); err != nil {
			err = fmt.Errorf("%s: %w", role, err)
		}
		return id
	}
	c = content{read("payer", payer), read("payee", payee), centavos}
	if err == nil {
		err = checkCentavos(centavos)
	}
	return c, err
}

// contentHash is the first 64 bits of SHA-256 over the six parts, each followed by a slash,
// and the amount in 8 bytes, big-endian.
func contentHash(m *pixv1.PaymentOrder) uint64 {
	text := fmt.Appendf(nil, "%s/%s/%s/%s/%s/%s/", m.Payer.Ispb, m.Payer.Branch, m.Payer.Number, m.Payee.Ispb, m.Payee.Branch, m.Payee.Number)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, m.AmountCentavos))
	return binary.BigEndian.Uint64(sum[:])
}
