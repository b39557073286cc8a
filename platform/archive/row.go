// Package archive keeps payments for ten years, outside of the ledger: one row each, in files that anybody can read, of
// which hashes say that nothing is left out, added, changed or moved. Every id in the ledger is a function of the
// payment, so a row is enough to compute its transfers again.
package archive

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Payment is a row: a payment or a return, as it ended.
type Payment struct {
	Kind           string `parquet:"kind,dict"`   // payment, return
	ID             string `parquet:"id,delta"`    // EndToEndId or RtrId
	Status         string `parquet:"status,dict"` // see the constants
	Reason         string `parquet:"reason,dict"` // why it was rejected
	PayerISPB      string `parquet:"payer_ispb,dict"`
	PayerBranch    string `parquet:"payer_branch,dict"`
	PayerNumber    string `parquet:"payer_number,dict"`
	PayeeISPB      string `parquet:"payee_ispb,dict"`
	PayeeBranch    string `parquet:"payee_branch,dict"`
	PayeeNumber    string `parquet:"payee_number,dict"`
	AmountCentavos int64  `parquet:"amount_centavos"`
	// the ledger's time; 0: nothing was held
	HeldAt int64 `parquet:"held_at,optional,timestamp(nanosecond),delta"`
	// the ledger's time; of an expired hold its end
	DecidedAt    int64  `parquet:"decided_at,timestamp(nanosecond),delta"`
	HoldSeconds  int32  `parquet:"hold_seconds,dict"`
	CapWindow    string `parquet:"cap_window,dict"` // day, night: it counted against this cap; empty: against none
	CapSeconds   int32  `parquet:"cap_seconds,dict"`
	Original     string `parquet:"original,dict"` // of a return: the EndToEndId of the payment
	Slot         int32  `parquet:"slot,dict"`     // of a return: its place among those of the payment
	ReturnReason string `parquet:"return_reason,dict"`
	// of a refused payment, which has no other content: 16 hexadecimal digits
	ContentHash string `parquet:"content_hash,dict"`
}

// How payments end.
const (
	Settled  = "settled"
	Rejected = "rejected" // its hold was voided
	Refused  = "refused"  // without a hold that its verdict ended: only id, reason and hash are known
	Expired  = "expired"  // no verdict has ended its hold. A refusal may follow, as a row of its own
)

// Kinds of payments.
const (
	KindPayment = "payment"
	KindReturn  = "return"
)

// Record is a row: a transfer that belongs to no row of a payment, such as an act.
type Record struct {
	What           string `parquet:"what,dict"`   // for people, as are Reason, Debit and Credit
	Reason         string `parquet:"reason,dict"` // of a refused return, or of a payment whose sender is unknown
	Debit          string `parquet:"debit,dict"`
	Credit         string `parquet:"credit,dict"`
	At             int64  `parquet:"at,timestamp(nanosecond),delta"`
	ID             string `parquet:"id"` // hexadecimal, as are all ids and user data
	DebitID        string `parquet:"debit_id,dict"`
	CreditID       string `parquet:"credit_id,dict"`
	AmountCentavos int64  `parquet:"amount_centavos"`
	PendingID      string `parquet:"pending_id"`
	UserData128    string `parquet:"user_data_128"`
	UserData64     string `parquet:"user_data_64"`
	UserData32     int64  `parquet:"user_data_32"`
	TimeoutSeconds int64  `parquet:"timeout_seconds"`
	Ledger         int64  `parquet:"ledger,dict"`
	Code           int32  `parquet:"code,dict"`
	Flags          int32  `parquet:"flags,dict"`
}

// Account is a row: an account of the ledger, as it was created.
type Account struct {
	Name        string `parquet:"name"` // for people
	CreatedAt   int64  `parquet:"created_at,timestamp(nanosecond),delta"`
	ID          string `parquet:"id"`
	UserData128 string `parquet:"user_data_128,dict"`
	UserData64  string `parquet:"user_data_64,dict"`
	UserData32  int64  `parquet:"user_data_32"`
	Ledger      int64  `parquet:"ledger,dict"`
	Code        int32  `parquet:"code,dict"`
	Flags       int32  `parquet:"flags,dict"`
}

// canonical returns the text of a row that is hashed: the kind of the row, and name=value for each column in its order,
// with a tab before it. No value holds a tab or the end of a line.
func canonical[R Payment | Record | Account](row *R) []byte {
	v := reflect.ValueOf(row).Elem()
	text := make([]byte, 0, 768)

	text = append(text, v.Type().Name()...)
	for i, name := range columnsOf(v.Type()) {
		text = append(append(append(text, '\t'), name...), '=')
		if f := v.Field(i); f.Kind() == reflect.String {
			text = append(text, f.String()...)
		} else {
			text = strconv.AppendInt(text, f.Int(), 10)
		}
	}

	return text
}

// columnsOf returns the names of the columns of a row.
func columnsOf(row reflect.Type) []string {
	if known, is := columns.Load(row); is {
		return known.([]string)
	}

	names := make([]string, row.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(row.Field(i).Tag.Get("parquet"), ",")
	}
	columns.Store(row, names)

	return names
}

var columns sync.Map

// Fields returns a row by the names of its columns.
func (p *Payment) Fields() map[string]any {
	v, fields := reflect.ValueOf(p).Elem(), map[string]any{}
	for i, name := range columnsOf(v.Type()) {
		fields[name] = v.Field(i).Interface()
	}

	return fields
}

// Time is the time of a row.
func Time(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
