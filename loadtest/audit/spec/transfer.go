package spec

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"encoding/binary"
	"fmt"
	"time"
)

// Codes of transfers. Legs 1 to 3 have the codes 1 to 3.
const (
	CodeCapLeg     = 4 // of leg 4 and of its void
	CodeReceipt    = 7
	CodeFunding    = 9
	CodeMarker     = 10
	CodeReturnLeg1 = 11
	CodeOrigin     = 15
	CodeGivenUp    = 16
	CodeReturn     = 17
	CodeReturned   = 18
	CodeClockProbe = 19
	CodeBurnt      = 21
	CodeRenewal    = 22
	CodeRebuilt    = 23
	CodeConfirmed  = 24
	CodeArchived   = 25
	CodeTold       = 26
	CodeAdjustment = 51 // of an allowance
)

// The roles of transfers. Legs 1 to 3 have the roles 0 to 2.
const (
	CapRole        = 3 // of leg 4
	ResolutionRole = 4 // of leg 1's post or void, or of the receipt: the verdict
	CapVoidRole    = 7
	ReturnMarkRole = 8  // of the mark of a payment that has returns
	BurntMarkRole  = 9  // of the mark of a burnt slot
	RecordRole     = 10 // of an act
	MoneyRole      = 11 // of what an act moves
)

// Flags of transfers.
var (
	LinkedFlag   = tb.TransferFlags{Linked: true}.ToUint16()
	ImportedFlag = tb.TransferFlags{Imported: true}.ToUint16()
)

// IsNote reports whether a transfer only says something: it moves nothing from issuance to refusals.
func IsNote(t tb.Transfer) bool {
	return t.Amount == (tb.Uint128{}) && t.Flags&^ImportedFlag == 0 && NumberOf(t.DebitAccountID) == Issuance &&
		NumberOf(t.CreditAccountID) == Refusals
}

// IsLeg reports whether a transfer is a leg of a payment or return: 1 to 3.
func IsLeg(t tb.Transfer) bool {
	return t.Code >= 1 && t.Code <= 3 || t.Code >= CodeReturnLeg1 && t.Code <= CodeReturnLeg1+2
}

// LegOf returns the leg that a transfer is.
func LegOf(t tb.Transfer) int {
	if t.Code >= CodeReturnLeg1 {
		return int(t.Code) - CodeReturnLeg1 + 1
	}

	return int(t.Code)
}

// Begins reports whether a transfer is the first of a payment or return, for which there must be an order.
func Begins(t tb.Transfer) bool {
	flags := t.TransferFlags()
	return !flags.PostPendingTransfer && !flags.VoidPendingTransfer
}

// Holds reports whether a transfer is a pending leg.
func Holds(t tb.Transfer) bool { return IsLeg(t) && t.TransferFlags().Pending }

// TransferName names a transfer, for people.
func TransferName(t tb.Transfer) string {
	id := NumberOf(t.ID)
	return fmt.Sprintf("transfer %016x%016x", id.High, id.Low)
}

// MovedBy says what a transfer moves, for people.
func MovedBy(t tb.Transfer) string {
	return fmt.Sprintf("%s centavos with code %d from %s to %s with the flags %#x",
		Decimal(t.Amount), t.Code, AccountName(NumberOf(t.DebitAccountID)),
		AccountName(NumberOf(t.CreditAccountID)), t.Flags)
}

// NameIn128 returns the EndToEndId or RtrId that a transfer names, or "".
func NameIn128(t tb.Transfer) string {
	letter := byte('E')

	switch {
	case IsLeg(t) && t.Code >= CodeReturnLeg1:
		letter = 'D'
	case t.Code == CodeReceipt || t.Code == CodeReturn: // user_data_64 is a hash; the accounts are of the payer's bank
		t.UserData64 = 0
		for _, c := range []byte(ISPBOf(NumberOf(t.DebitAccountID))) {
			t.UserData64 = t.UserData64<<8 | uint64(c)
		}
	}

	id, _, err := IDIn(letter, t)
	if err != nil {
		return ""
	}

	return id.String()
}

// IDIn reads the id in a transfer's user_data, and puts its letter before it.
func IDIn(letter byte, t tb.Transfer) (id ID, minutes uint64, err error) {
	n := NumberOf(t.UserData128)
	if minutes = n.High >> 24; minutes > minutesMax {
		return id, 0, fmt.Errorf("%d minutes since 2020 are too many", minutes)
	}
	text := append([]byte{letter}, binary.BigEndian.AppendUint64(nil, t.UserData64)...)
	text = Epoch.Add(time.Duration(minutes)*time.Minute).AppendFormat(text, "200601021504")
	text = append(text, byte(n.High>>16), byte(n.High>>8), byte(n.High))

	return parseIDOf(letter, string(binary.BigEndian.AppendUint64(text, n.Low)))
}

// Legs is a set of legs: bit n-1 is leg n.
type Legs uint8

// FirstLeg is the set of leg 1.
const FirstLeg Legs = 1
