package audit

import (
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"encoding/binary"
	"fmt"
	"time"
)

// Codes of transfers. Legs 1 to 3 have the codes 1 to 3.
const (
	codeCapLeg     = 4 // of leg 4 and of its void
	codeReceipt    = 7
	codeFunding    = 9
	codeMarker     = 10
	codeReturnLeg1 = 11
	codeOrigin     = 15
	codeGivenUp    = 16
	codeReturn     = 17
	codeReturned   = 18
	codeClockProbe = 19
	codeBurnt      = 21
	codeRenewal    = 22
	codeRebuilt    = 23
	codeConfirmed  = 24
	codeArchived   = 25
	codeTold       = 26
	codeAdjustment = 51 // of an allowance
)

// The roles of transfers. Legs 1 to 3 have the roles 0 to 2.
const (
	capRole        = 3 // of leg 4
	resolutionRole = 4 // of leg 1's post or void, or of the receipt: the verdict
	capVoidRole    = 7
	returnMarkRole = 8  // of the mark of a payment that has returns
	burntMarkRole  = 9  // of the mark of a burnt slot
	recordRole     = 10 // of an act
	moneyRole      = 11 // of what an act moves
)

var (
	linkedFlag   = tb.TransferFlags{Linked: true}.ToUint16()
	importedFlag = tb.TransferFlags{Imported: true}.ToUint16()
)

// isNote reports whether a transfer only says something: it moves nothing from issuance to refusals.
func isNote(t tb.Transfer) bool {
	return t.Amount == (tb.Uint128{}) && t.Flags&^importedFlag == 0 && fromTigerBeetle(t.DebitAccountID) == issuance &&
		fromTigerBeetle(t.CreditAccountID) == refusals
}

// isLeg reports whether a transfer is a leg of a payment or return: 1 to 3.
func isLeg(t tb.Transfer) bool {
	return t.Code >= 1 && t.Code <= 3 || t.Code >= codeReturnLeg1 && t.Code <= codeReturnLeg1+2
}

// legOf returns the leg that a transfer is.
func legOf(t tb.Transfer) int {
	if t.Code >= codeReturnLeg1 {
		return int(t.Code) - codeReturnLeg1 + 1
	}

	return int(t.Code)
}

// begins reports whether a transfer is the first of a payment or return, for which there must be an order.
func begins(t tb.Transfer) bool {
	flags := t.TransferFlags()
	return !flags.PostPendingTransfer && !flags.VoidPendingTransfer
}

// holds reports whether a transfer is a pending leg.
func holds(t tb.Transfer) bool { return isLeg(t) && t.TransferFlags().Pending }

func whatIs(t tb.Transfer) string {
	switch {
	case t.Code == codeReceipt:
		return "a receipt of a payment"
	case t.Code == codeReturn:
		return "the verdict of a return"
	case t.Code >= codeReturnLeg1:
		return fmt.Sprintf("leg %d of a return", legOf(t))
	}

	return fmt.Sprintf("leg %d of a payment", t.Code)
}

func transferName(t tb.Transfer) string {
	id := fromTigerBeetle(t.ID)
	return fmt.Sprintf("transfer %016x%016x", id.high, id.low)
}

// movedBy says what a transfer moves, for people.
func movedBy(t tb.Transfer) string {
	return fmt.Sprintf("%s centavos with code %d from %s to %s with the flags %#x",
		decimal(t.Amount), t.Code, nameOf(fromTigerBeetle(t.DebitAccountID)),
		nameOf(fromTigerBeetle(t.CreditAccountID)), t.Flags)
}

// nameIn128 returns the EndToEndId or RtrId that a transfer names, or "".
func nameIn128(t tb.Transfer) string {
	letter := byte('E')

	switch {
	case isLeg(t) && t.Code >= codeReturnLeg1:
		letter = 'D'
	case t.Code == codeReceipt || t.Code == codeReturn: // user_data_64 is a hash; the accounts are of the payer's bank
		t.UserData64 = 0
		for _, c := range []byte(ispbOf(fromTigerBeetle(t.DebitAccountID))) {
			t.UserData64 = t.UserData64<<8 | uint64(c)
		}
	}

	id, _, err := idIn(letter, t)
	if err != nil {
		return ""
	}

	return id.String()
}

// idIn reads the id in a transfer's user_data, and puts its letter before it.
func idIn(letter byte, t tb.Transfer) (id endToEndID, minutes uint64, err error) {
	n := fromTigerBeetle(t.UserData128)
	if minutes = n.high >> 24; minutes > minutesMax {
		return id, 0, fmt.Errorf("%d minutes since 2020 are too many", minutes)
	}
	text := append([]byte{letter}, binary.BigEndian.AppendUint64(nil, t.UserData64)...)
	text = epoch.Add(time.Duration(minutes)*time.Minute).AppendFormat(text, "200601021504")
	text = append(text, byte(n.high>>16), byte(n.high>>8), byte(n.high))

	return parseIDOf(letter, string(binary.BigEndian.AppendUint64(text, n.low)))
}

// legs is a set of legs: bit n-1 is leg n.
type legs uint8

const firstLeg legs = 1

func (l legs) String() string {
	text := ""

	for leg := range 4 {
		if l&(1<<leg) != 0 {
			text += fmt.Sprint(leg + 1)
		}
	}

	if text == "" {
		return "none"
	}

	return text
}
