package spec

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

// Order is a record of pix.payments that is a payment.
type Order struct {
	ID      ID
	Minutes uint64
	Content Content        // of a return: from its original's payee to its payer, once the original is known
	Hash    uint64         // of the content, as in receipts
	Back    *ReturnContent // of a return, whose id begins with D; nil for a payment
	// Original is that of a return, once it was looked for.
	Original *Original
	// AcceptedMs is Unix time.
	AcceptedMs int64
}

// Amount returns what an order moves, in centavos.
func (o *Order) Amount() uint64 {
	if o.Back != nil {
		return o.Back.Centavos
	}

	return o.Content.Centavos
}

// Content decides whether two orders are the same payment.
type Content struct {
	Payer, Payee AccountID
	Centavos     uint64
}

const (
	tolerance          = 12 * time.Hour
	acceptanceAheadMax = 5 * time.Second
	remittanceBytesMax = 140
	amountMax          = 1<<63 - 1 // centavos
)

// ReadOrder judges a record by the documentation of the messages, whatever the engine did. A
// record with flaws must have a dead letter.
func ReadOrder(value []byte, recordTime time.Time) (Order, Flaws) {
	var message pixv1.PaymentOrder
	// The decoder of the services, too. It is stricter than proto.Unmarshal: a known field with
	// a wrong wire type is an error. There must be one answer to what is undecodable.
	if message.UnmarshalVT(value) != nil {
		return Order{}, Flaws{{CodeMalformed, "value", fmt.Sprint(len(value))}}
	}

	if message.ReturnOrder != nil {
		return readReturn(&message, recordTime)
	}
	var found Flaws
	id, minutes, err := parseIDOf('E', message.EndToEndId)
	found.note(err != nil || message.Payer.GetIspb() != string(id[1:9]), CodeBadID, "end_to_end_id", message.EndToEndId)
	content, _ := ReadContent(message.Payer, message.Payee, message.AmountCentavos)
	found.noteAccount("payer", message.Payer)
	found.noteAccount("payee", message.Payee)
	found.note(message.AmountCentavos > amountMax, CodeMalformed, "amount_centavos", fmt.Sprint(message.AmountCentavos))
	text := message.RemittanceInformation
	found.note(len(text) > remittanceBytesMax, CodeMalformed, "remittance_information", fmt.Sprint(len(text)))
	found.note(!utf8.ValidString(text), CodeMalformed, "remittance_information", "")
	found.noteAcceptance(message.AcceptedAtUnixMs, minutes, err == nil, recordTime, "end_to_end_id", message.EndToEndId)

	if found != nil {
		return Order{}, found
	}

	return Order{ID: id, Minutes: minutes, Content: content, Hash: ContentHash(&message),
		AcceptedMs: message.AcceptedAtUnixMs}, nil
}

// noteAcceptance notes what is wrong with an acceptance time. The minutes are those of the id, if
// it has any.
func (f *Flaws) noteAcceptance(accepted int64, minutes uint64, hasMinutes bool, recordTime time.Time, idField,
	id string) {
	minute := Epoch.UnixMilli() + int64(minutes)*time.Minute.Milliseconds()
	far := accepted < minute-tolerance.Milliseconds() || accepted > minute+tolerance.Milliseconds()
	f.note(hasMinutes && far, CodeBadID, idField, id)
	f.note(accepted > recordTime.UnixMilli()+acceptanceAheadMax.Milliseconds(), CodeBadAcceptance,
		"accepted_at_unix_ms", fmt.Sprint(accepted))
}

// ReadContent reads what a message says that moves.
func ReadContent(payer, payee *pixv1.Account, centavos uint64) (c Content, err error) {
	from, err := CustomerAccount(payer.GetIspb(), payer.GetBranch(), payer.GetNumber())
	to, wrong := CustomerAccount(payee.GetIspb(), payee.GetBranch(), payee.GetNumber())

	if centavos > amountMax {
		err = fmt.Errorf("%d centavos are more than 2^63-1", centavos)
	}

	return Content{from, to, centavos}, cmp.Or(err, wrong)
}

// ContentHash is the first 64 bits of SHA-256 over the six parts, each followed by a slash,
// and the amount in 8 bytes, big-endian.
func ContentHash(m *pixv1.PaymentOrder) uint64 {
	text := fmt.Appendf(nil, "%s/%s/%s/%s/%s/%s/", m.Payer.Ispb, m.Payer.Branch, m.Payer.Number, m.Payee.Ispb,
		m.Payee.Branch, m.Payee.Number)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, m.AmountCentavos))

	return binary.BigEndian.Uint64(sum[:])
}

// The codes of records that are no orders.
const (
	CodeMalformed     = "FF01"
	CodeBadID         = "FF08"
	CodeBadAcceptance = "DT02"
)

// flaw is one thing for which a record is no order. Its dead letter may name any of them: by
// the code, and by a text that names the field and the value.
type flaw struct{ Code, Field, Value string }

// Flaws is all for which a record is no order.
type Flaws []flaw

func (f Flaws) String() string {
	if len(f) == 0 {
		return "nothing"
	}

	return fmt.Sprintf("its %s is wrong (%s): %.64q", f[0].Field, f[0].Code, f[0].Value)
}

// note adds a flaw, if something is wrong.
func (f *Flaws) note(wrong bool, code, field, value string) {
	if wrong {
		*f = append(*f, flaw{code, field, value})
	}
}

// noteAccount adds each part of an account that is wrong.
func (f *Flaws) noteAccount(field string, account *pixv1.Account) {
	for i, part := range [...]string{account.GetIspb(), account.GetBranch(), account.GetNumber()} {
		tried := [...]string{"10000001", "0001", "1"} // of an account that is right
		tried[i] = part
		_, err := CustomerAccount(tried[0], tried[1], tried[2])
		f.note(err != nil, CodeMalformed, field, part)
	}
}

// textValueMax bounds the value that a text must hold: hostile input must not flood a log.
const textValueMax = 64

// Told reports whether a text names a flaw with this code: the field, and the value as Go quotes it.
func (f Flaws) Told(code, text string) bool {
	return slices.ContainsFunc(f, func(flaw flaw) bool {
		return flaw.Code == code && Names(text, flaw.Field, flaw.Value)
	})
}

// Names reports whether a text is about a field and holds a value.
func Names(text, field, value string) bool {
	quoted := strconv.Quote(value[:min(len(value), textValueMax)])
	rest, ofField := strings.CutPrefix(text, field+": ")
	return ofField && rest != "" && strings.Contains(rest, quoted[1:len(quoted)-1])
}

// Same reports whether two orders ask for the same.
func (o *Order) Same(other *Order) bool {
	if o.ID != other.ID || (o.Back == nil) != (other.Back == nil) {
		return false
	}

	if o.Back != nil {
		return *o.Back == *other.Back
	}

	return o.Content == other.Content
}

// SameBank reports whether money stays within a bank.
func (c Content) SameBank() bool { return TransitOf(c.Payer) == TransitOf(c.Payee) }

// Legs returns the legs of what moves by a content. Inside one bank there is no leg 2.
func (c Content) Legs() Legs {
	if c.SameBank() {
		return 0b101
	}

	return 0b111
}

// Leg returns the accounts of a leg.
func (c Content) Leg(leg int) (debit, credit AccountID) {
	switch leg {
	case 1:
		return c.Payer, TransitOf(c.Payer)
	case 2:
		return ReserveOf(c.Payer), ReserveOf(c.Payee)
	}

	return TransitOf(c.Payee), c.Payee
}

// Asks reports whether an order asks for a leg.
func (o *Order) Asks(t tb.Transfer) bool {
	amount, ok := Centavos(t.Amount)
	if !ok || amount != o.Amount() || (o.Back != nil) != (t.Code >= CodeReturnLeg1) {
		return false
	}

	if o.Back != nil { // its accounts are those of its original, which the ledger may have to be asked for
		key, _ := Split(NumberOf(t.ID))
		_, isSlot := o.Back.Slot(key)
		return isSlot && (!t.TransferFlags().Pending || t.UserData32 == o.Back.reason)
	}
	debit, credit := o.Content.Leg(LegOf(t))

	return NumberOf(t.DebitAccountID) == debit && NumberOf(t.CreditAccountID) == credit
}

// Refused reports whether a receipt, or the verdict of a return, is about an order.
func (o *Order) Refused(t tb.Transfer) bool {
	return (t.Code == CodeReturn) == (o.Back != nil) && t.UserData64 == o.Hash &&
		NumberOf(t.UserData128) == o.nameOfVerdict()
}

// nameOfVerdict returns what a receipt, or the verdict of a return, carries in user_data_128.
func (o *Order) nameOfVerdict() Number {
	id, minutes := o.ID, o.Minutes
	if o.Back != nil {
		id, minutes = o.Back.Original, o.Back.Minutes
	}
	names, _ := UserData(id, minutes)

	return names
}

func (c Content) String() string {
	return fmt.Sprintf("%d centavos from %s to %s", c.Centavos, AccountName(c.Payer), AccountName(c.Payee))
}

// Original is what the original of a return moved.
type Original struct {
	Content   Content       // zero: there is no such payment
	SettledAt func() uint64 // by the ledger's clock, which is read after the orders; 0: it did not settle
}

// Returns takes note of an order's original. It gives the money back: its content is the original's backwards.
func (o *Order) Returns(of Original) {
	o.Original = &of
	if of.Content != (Content{}) {
		o.Content = Content{Payer: of.Content.Payee, Payee: of.Content.Payer, Centavos: o.Back.Centavos}
	}
}

// Never is the SettledAt of a payment that does not exist, or did not settle.
func Never() uint64 { return 0 }

// ContentOf returns the content of legs 1 and 3 of a payment; zero: they are none.
func ContentOf(first, last tb.Transfer) Content {
	centavos, ok := Centavos(first.Amount)
	if !ok || first.Code != 1 || last.Code != 3 {
		return Content{}
	}

	return Content{NumberOf(first.DebitAccountID), NumberOf(last.CreditAccountID), centavos}
}
