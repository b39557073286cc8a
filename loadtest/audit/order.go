package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// order is a record of pix.payments that is a payment.
type order struct {
	id      endToEndID
	minutes uint64
	content content        // of a return: from its original's payee to its payer, once the original is known
	hash    uint64         // of the content, as in receipts
	back    *returnContent // of a return, whose id begins with D; nil for a payment
	// original is that of a return, once it was looked for.
	original *original
	// acceptedMs is Unix time.
	acceptedMs int64
}

// amount returns what an order moves, in centavos.
func (o *order) amount() uint64 {
	if o.back != nil {
		return o.back.centavos
	}

	return o.content.centavos
}

// content decides whether two orders are the same payment.
type content struct {
	payer, payee accountID
	centavos     uint64
}

const (
	tolerance          = 12 * time.Hour
	acceptanceAheadMax = 5 * time.Second
	remittanceBytesMax = 140
	amountMax          = 1<<63 - 1 // centavos
)

// readOrder judges a record by the documentation of the messages, whatever the engine did. A
// record with flaws must have a dead letter.
func readOrder(value []byte, recordTime time.Time) (order, flaws) {
	var message pixv1.PaymentOrder
	// The decoder of the services, too. It is stricter than proto.Unmarshal: a known field with
	// a wrong wire type is an error. There must be one answer to what is undecodable.
	if message.UnmarshalVT(value) != nil {
		return order{}, flaws{{codeMalformed, "value", fmt.Sprint(len(value))}}
	}

	if message.ReturnOrder != nil {
		return readReturn(&message, recordTime)
	}
	var found flaws
	id, minutes, err := parseIDOf('E', message.EndToEndId)
	found.note(err != nil || message.Payer.GetIspb() != string(id[1:9]), codeBadID, "end_to_end_id", message.EndToEndId)
	content, _ := readContent(message.Payer, message.Payee, message.AmountCentavos)
	found.noteAccount("payer", message.Payer)
	found.noteAccount("payee", message.Payee)
	found.note(message.AmountCentavos > amountMax, codeMalformed, "amount_centavos", fmt.Sprint(message.AmountCentavos))
	text := message.RemittanceInformation
	found.note(len(text) > remittanceBytesMax, codeMalformed, "remittance_information", fmt.Sprint(len(text)))
	found.note(!utf8.ValidString(text), codeMalformed, "remittance_information", "")
	found.noteAcceptance(message.AcceptedAtUnixMs, minutes, err == nil, recordTime, "end_to_end_id", message.EndToEndId)

	if found != nil {
		return order{}, found
	}

	return order{id: id, minutes: minutes, content: content, hash: contentHash(&message),
		acceptedMs: message.AcceptedAtUnixMs}, nil
}

// noteAcceptance notes what is wrong with an acceptance time. The minutes are those of the id, if
// it has any.
func (f *flaws) noteAcceptance(accepted int64, minutes uint64, hasMinutes bool, recordTime time.Time, idField,
	id string) {
	minute := epoch.UnixMilli() + int64(minutes)*time.Minute.Milliseconds()
	far := accepted < minute-tolerance.Milliseconds() || accepted > minute+tolerance.Milliseconds()
	f.note(hasMinutes && far, codeBadID, idField, id)
	f.note(accepted > recordTime.UnixMilli()+acceptanceAheadMax.Milliseconds(), codeBadAcceptance,
		"accepted_at_unix_ms", fmt.Sprint(accepted))
}

func readContent(payer, payee *pixv1.Account, centavos uint64) (c content, err error) {
	from, err := customerAccount(payer.GetIspb(), payer.GetBranch(), payer.GetNumber())
	to, wrong := customerAccount(payee.GetIspb(), payee.GetBranch(), payee.GetNumber())

	if centavos > amountMax {
		err = fmt.Errorf("%d centavos are more than 2^63-1", centavos)
	}

	return content{from, to, centavos}, cmp.Or(err, wrong)
}

// contentHash is the first 64 bits of SHA-256 over the six parts, each followed by a slash,
// and the amount in 8 bytes, big-endian.
func contentHash(m *pixv1.PaymentOrder) uint64 {
	text := fmt.Appendf(nil, "%s/%s/%s/%s/%s/%s/", m.Payer.Ispb, m.Payer.Branch, m.Payer.Number, m.Payee.Ispb,
		m.Payee.Branch, m.Payee.Number)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, m.AmountCentavos))

	return binary.BigEndian.Uint64(sum[:])
}

// The codes of records that are no orders.
const (
	codeMalformed     = "FF01"
	codeBadID         = "FF08"
	codeBadAcceptance = "DT02"
)

// flaw is one thing for which a record is no order. Its dead letter may name any of them: by
// the code, and by a text that names the field and the value.
type flaw struct{ code, field, value string }

type flaws []flaw

func (f flaws) String() string {
	if len(f) == 0 {
		return "nothing"
	}

	return fmt.Sprintf("its %s is wrong (%s): %.64q", f[0].field, f[0].code, f[0].value)
}

// codes returns the codes that the dead letter may have.
func (f flaws) codes() string {
	var codes []string
	for _, flaw := range f {
		if !slices.Contains(codes, flaw.code) {
			codes = append(codes, flaw.code)
		}
	}

	return strings.Join(codes, " or ")
}

func (f flaws) has(code string) bool {
	return slices.ContainsFunc(f, func(flaw flaw) bool { return flaw.code == code })
}

// note adds a flaw, if something is wrong.
func (f *flaws) note(wrong bool, code, field, value string) {
	if wrong {
		*f = append(*f, flaw{code, field, value})
	}
}

// noteAccount adds each part of an account that is wrong.
func (f *flaws) noteAccount(field string, account *pixv1.Account) {
	for i, part := range [...]string{account.GetIspb(), account.GetBranch(), account.GetNumber()} {
		tried := [...]string{"10000001", "0001", "1"} // of an account that is right
		tried[i] = part
		_, err := customerAccount(tried[0], tried[1], tried[2])
		f.note(err != nil, codeMalformed, field, part)
	}
}

// textValueMax bounds the value that a text must hold: hostile input must not flood a log.
const textValueMax = 64

// told reports whether a text names a flaw with this code: the field, and the value as Go quotes it.
func (f flaws) told(code, text string) bool {
	return slices.ContainsFunc(f, func(flaw flaw) bool {
		return flaw.code == code && names(text, flaw.field, flaw.value)
	})
}

// names reports whether a text is about a field and holds a value.
func names(text, field, value string) bool {
	quoted := strconv.Quote(value[:min(len(value), textValueMax)])
	rest, ofField := strings.CutPrefix(text, field+": ")
	return ofField && rest != "" && strings.Contains(rest, quoted[1:len(quoted)-1])
}

// same reports whether two orders ask for the same.
func (o *order) same(other *order) bool {
	if o.id != other.id || (o.back == nil) != (other.back == nil) {
		return false
	}

	if o.back != nil {
		return *o.back == *other.back
	}

	return o.content == other.content
}

func (c content) sameBank() bool { return transitOf(c.payer) == transitOf(c.payee) }

// legs returns the legs of what moves by a content. Inside one bank there is no leg 2.
func (c content) legs() legs {
	if c.sameBank() {
		return 0b101
	}

	return 0b111
}

// leg returns the accounts of a leg.
func (c content) leg(leg int) (debit, credit accountID) {
	switch leg {
	case 1:
		return c.payer, transitOf(c.payer)
	case 2:
		return reserveOf(c.payer), reserveOf(c.payee)
	}

	return transitOf(c.payee), c.payee
}

// asks reports whether an order asks for a leg.
func (o *order) asks(t tb.Transfer) bool {
	amount, ok := centavos(t.Amount)
	if !ok || amount != o.amount() || (o.back != nil) != (t.Code >= codeReturnLeg1) {
		return false
	}

	if o.back != nil { // its accounts are those of its original, which the ledger may have to be asked for
		key, _ := split(fromTigerBeetle(t.ID))
		_, isSlot := o.back.slot(key)
		return isSlot && (!t.TransferFlags().Pending || t.UserData32 == o.back.reason)
	}
	debit, credit := o.content.leg(legOf(t))

	return fromTigerBeetle(t.DebitAccountID) == debit && fromTigerBeetle(t.CreditAccountID) == credit
}

// refused reports whether a receipt, or the verdict of a return, is about an order.
func (o *order) refused(t tb.Transfer) bool {
	return (t.Code == codeReturn) == (o.back != nil) && t.UserData64 == o.hash &&
		fromTigerBeetle(t.UserData128) == o.nameOfVerdict()
}

// nameOfVerdict returns what a receipt, or the verdict of a return, carries in user_data_128.
func (o *order) nameOfVerdict() number128 {
	id, minutes := o.id, o.minutes
	if o.back != nil {
		id, minutes = o.back.original, o.back.minutes
	}
	names, _ := userData(id, minutes)

	return names
}

func (c content) String() string {
	return fmt.Sprintf("%d centavos from %s to %s", c.centavos, nameOf(c.payer), nameOf(c.payee))
}

// original is what the original of a return moved.
type original struct {
	content   content       // zero: there is no such payment
	settledAt func() uint64 // by the ledger's clock; 0: it did not settle
}

// returns takes note of an order's original. It gives the money back: its content is the original's backwards.
func (o *order) returns(of original) {
	o.original = &of
	if of.content != (content{}) {
		o.content = content{payer: of.content.payee, payee: of.content.payer, centavos: o.back.centavos}
	}
}

func never() uint64 { return 0 }
