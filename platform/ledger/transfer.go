package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// Transfer codes say what a transfer is: its kind, and its leg. Every query filters on them.
// Acts have codes of their own: see ActKind.
const (
	CodeLeg1       uint16 = 1 // payer → transit of the payer's PSP: the payer's money is held
	CodeLeg2       uint16 = 2 // reserve → reserve: central-bank money moves between the PSPs
	CodeLeg3       uint16 = 3 // transit of the payee's PSP → payee: the payee is credited
	CodeLeg4       uint16 = 4 // allowance of the payer's PSP: a cap on outflow
	CodeReceipt    uint16 = 7
	CodeFunding    uint16 = 9
	CodeMarker     uint16 = 10 // bootstrap has finished
	CodeReturnLeg1 uint16 = 11 // a return: the legs of a payment, from its payee to its payer
	CodeReturnLeg2 uint16 = 12
	CodeReturnLeg3 uint16 = 13
	CodeOrigin     uint16 = 15 // names the log of a partition of pix.payments
	CodeGivenUp    uint16 = 16 // a log that was given up
	CodeReturn     uint16 = 17 // the verdict of a return
	CodeReturned   uint16 = 18 // the mark of a payment for which returns were held
	CodeClockProbe uint16 = 19 // an engine reads the ledger's clock
	CodeBurnt      uint16 = 21 // the mark of a burnt slot
	CodeIdentity   uint16 = 22 // begins an identity of the ledger, after one that was given up
	CodeRebuilt    uint16 = 23 // the end of a rebuild: what was imported is older
	CodeConfirmed  uint16 = 24 // people have done again the acts that a rebuild lost
	CodeArchived   uint16 = 25 // how the archive of a day ends
	CodeTold       uint16 = 26 // begins or ends what a rebuild wrote again because it was reported
	CodeAdjustment uint16 = 51 // an allowance is raised or lowered to its cap
)

// Roles are the low 4 bits of a transfer id: 0-3 the holds of legs 1-4, 4-7 their
// resolutions, 8 the mark of returns, 9 the mark of a burnt slot, 10 the record of an act, 11 its
// money, 12 a clock probe, 13 rebuilds' and archives', 14 free, 15 bootstrap's and the logs'.
const (
	roleBits       = 4
	roleResolution = 4
	roleReturned   = 8
	roleBurnt      = 9
	roleRecord     = 10
	roleMoney      = 11
	roleProbe      = 12
	legsMax        = 4
	capLeg         = 4
	hashBits       = 68
)

// PaymentIDs makes the transfer ids of one payment. All of them are a function of the
// EndToEndId: minute (26 bits), first 5 suffix characters (30), 68 bits of its SHA-256,
// role (4). Time comes first because the ledger is much faster on ordered ids. 68 bits of
// hash make a collision unlikely in a century of a billion payments a day.
type PaymentIDs struct{ base uint128 }

// IDsOf returns the ids of a payment's transfers.
func IDsOf(id pix.EndToEndID) PaymentIDs {
	return idsAt(id, sha256.Sum256(id[:]))
}

// idsAt makes ids with a hash of something else, at the place of a payment in the ledger's order.
func idsAt(id pix.EndToEndID, sum [sha256.Size]byte) PaymentIDs {
	hash := uint128{high: uint64(sum[0] >> 4), low: uint64(sum[0]&0xf)<<60 | binary.BigEndian.Uint64(sum[1:9])>>4}
	v := uint128{low: id.Minute()<<30 | id.OrderedSuffix()}.shiftLeft(hashBits).or(hash).shiftLeft(roleBits)
	return PaymentIDs{base: v}
}

// Pending returns the id of the pending transfer of a leg, 1 to 4.
func (p PaymentIDs) Pending(leg int) tb.Uint128 { return p.role(legRole(leg)) }

// Resolution returns the id of the post or void of a leg, 1 to 4.
func (p PaymentIDs) Resolution(leg int) tb.Uint128 { return p.role(roleResolution + legRole(leg)) }

// legRole panics if the leg would have the role of another transfer: the resolution of leg 1
// is the verdict.
func legRole(leg int) int {
	if leg < 1 || leg > legsMax {
		panic(fmt.Sprintf("broken law: a leg is 1 to %d: %d", legsMax, leg))
	}

	return leg - 1
}

// EndOf returns the id of what ends a hold of a payment or a return, given the hold's id.
func EndOf(hold tb.Uint128) tb.Uint128 { return fromTB(hold).or(uint128{low: roleResolution}).toTB() }

// VerdictOf returns the verdict id of a payment, given the id of one of its transfers.
func VerdictOf(id tb.Uint128) tb.Uint128 {
	v := fromTB(id)
	v.low = v.low&^(1<<roleBits-1) | roleResolution
	return v.toTB()
}

// Verdict returns the one id that decides the payment. Post, void and receipt all use it,
// so a payment can have one verdict only, in any race.
func (p PaymentIDs) Verdict() tb.Uint128 { return p.Resolution(1) }

func (p PaymentIDs) role(role int) tb.Uint128 {
	return p.base.or(uint128{low: uint64(role)}).toTB()
}

// userData128 holds minute and suffix of an EndToEndId, userData64 its ISPB.
func userData128(id pix.EndToEndID) tb.Uint128 {
	suffix := id.Suffix()
	var low [8]byte
	copy(low[:], suffix[3:])
	high := id.Minute()<<24 | uint64(suffix[0])<<16 | uint64(suffix[1])<<8 | uint64(suffix[2])

	return uint128{high: high, low: binary.BigEndian.Uint64(low[:])}.toTB()
}

func userData64(id pix.EndToEndID) uint64 { return binary.BigEndian.Uint64([]byte(id.Payer())) }

// EndToEndIDOf reads the EndToEndId back from a leg of a payment.
func EndToEndIDOf(leg tb.Transfer) (pix.EndToEndID, error) { return pix.JoinEndToEndID(partsOf(leg)) }

// partsOf returns the parts of an id that userData128 and userData64 hold.
func partsOf(leg tb.Transfer) (ispb [8]byte, minute uint64, suffix [11]byte) {
	v := fromTB(leg.UserData128)
	binary.BigEndian.PutUint64(ispb[:], leg.UserData64)
	suffix[0], suffix[1], suffix[2] = byte(v.high>>16), byte(v.high>>8), byte(v.high)
	binary.BigEndian.PutUint64(suffix[3:], v.low)

	return ispb, v.high >> 24, suffix
}

// AppendReserve appends phase 1 of a payment: its legs as linked pending transfers. The
// timeout must be the same at every try: otherwise the ledger takes the retry for another
// transfer.
func AppendReserve(chain []tb.Transfer, id pix.EndToEndID, content pix.Content, timeoutSeconds uint32) []tb.Transfer {
	return appendHold(chain, IDsOf(id), content, CodeLeg1, tb.Transfer{
		UserData128: userData128(id), UserData64: userData64(id), Timeout: timeoutSeconds,
	})
}

// appendHold appends the legs that move a content. hold has the fields that all legs share.
func appendHold(chain []tb.Transfer, ids PaymentIDs, content pix.Content, codeOfLeg1 uint16,
	hold tb.Transfer) []tb.Transfer {
	payerTransit := TransitAccount(content.Payer.ISPB)
	payeeTransit := payerTransit
	hold.Amount, hold.Ledger = tb.ToUint128(content.AmountCentavos), Ledger
	leg := func(leg int, debit, credit AccountID) {
		hold.ID, hold.Code, hold.DebitAccountID, hold.CreditAccountID = ids.Pending(leg), codeOfLeg1+uint16(leg-1),
			debit, credit
		hold.Flags = tb.TransferFlags{Pending: true, Linked: leg != 3}.ToUint16()
		chain = append(chain, hold)
	}
	leg(1, CustomerAccount(content.Payer), payerTransit)

	if !content.SameBank() {
		payeeTransit = TransitAccount(content.Payee.ISPB)
		leg(2, ReserveAccount(content.Payer.ISPB), ReserveAccount(content.Payee.ISPB))
	}
	leg(3, payeeTransit, CustomerAccount(content.Payee))

	return chain
}

// wholeAmount posts all that is pending. An amount of 0 would post zero.
var wholeAmount = uint128{high: 1<<64 - 1, low: 1<<64 - 1}.toTB()

// AppendPost appends phase 2 of an accepted payment: every leg posted in full.
func AppendPost(chain []tb.Transfer, id pix.EndToEndID, sameBank bool) []tb.Transfer {
	return appendResolution(chain, IDsOf(id), sameBank, tb.TransferFlags{PostPendingTransfer: true}, wholeAmount,
		pix.ReasonNone)
}

// AppendVoid appends phase 2 of a rejected payment: every leg voided, with the reason.
func AppendVoid(chain []tb.Transfer, id pix.EndToEndID, sameBank bool, reason pix.Reason) []tb.Transfer {
	return appendResolution(chain, IDsOf(id), sameBank, tb.TransferFlags{VoidPendingTransfer: true},
		tb.Uint128{}, reason)
}

func appendResolution(chain []tb.Transfer, ids PaymentIDs, sameBank bool, flags tb.TransferFlags, amount tb.Uint128,
	reason pix.Reason) []tb.Transfer {
	for leg := 1; leg <= 3; leg++ {
		if leg == 2 && sameBank {
			continue
		}
		flags.Linked = leg != 3
		chain = append(chain, tb.Transfer{
			ID: ids.Resolution(leg), PendingID: ids.Pending(leg),
			Amount: amount, UserData32: uint32(reason), Flags: flags.ToUint16(),
		})
	}

	return chain
}

// AppendReceipt appends the receipt of a refused payment: one transfer of zero under the
// verdict id, with the reason and the hash of the content. With payerKnown its accounts
// are the payer PSP's transit and reserve, which must exist.
func AppendReceipt(chain []tb.Transfer, id pix.EndToEndID, content pix.Content, reason pix.Reason,
	payerKnown bool) []tb.Transfer {
	debit, credit := IssuanceAccount, RefusalsAccount
	if payerKnown {
		debit, credit = TransitAccount(content.Payer.ISPB), ReserveAccount(content.Payer.ISPB)
	}

	return append(chain, tb.Transfer{
		ID: IDsOf(id).Verdict(), DebitAccountID: debit, CreditAccountID: credit,
		UserData128: userData128(id), UserData64: content.Hash(), UserData32: uint32(reason),
		Ledger: Ledger, Code: CodeReceipt,
	})
}
