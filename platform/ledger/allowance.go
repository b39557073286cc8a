package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// Windows are all of them.
var Windows = [...]Window{Day, Night}

// WindowAt returns the window in force at a time.
func WindowAt(at time.Time) Window {
	if hour := at.In(pix.SaoPaulo).Hour(); 6 <= hour && hour < 20 {
		return Day
	}

	return Night
}

// String returns the window's name for people and metrics.
func (w Window) String() string { return [...]string{Day: "day", Night: "night"}[w] }

// AppendCap appends leg 4 to phase 1 of a payment to another bank: it takes the amount from what is
// left of the cap on outflow of the payer's bank. It is never posted: its timeout gives the allowance
// back when the window has passed. It comes last, so that a redelivery gets the result of leg 1.
//
// The timeout must be longer than that of the other legs. Then leg 4 can be voided with them
// in one chain as long as they are pending.
func AppendCap(chain []tb.Transfer, id pix.EndToEndID, content pix.Content, window Window,
	timeoutSeconds uint32) []tb.Transfer {
	link(chain)

	return append(chain, tb.Transfer{
		ID: IDsOf(id).Pending(capLeg), DebitAccountID: AllowanceAccount(content.Payer.ISPB, window),
		CreditAccountID: AllowanceSourceAccount,
		Amount:          tb.ToUint128(content.AmountCentavos), UserData128: userData128(id), UserData64: userData64(id),
		Timeout: timeoutSeconds, Ledger: Allowances, Code: CodeLeg4, Flags: tb.TransferFlags{Pending: true}.ToUint16(),
	})
}

// AppendCapVoid appends the void of leg 4 as the last of a void's chain. In one chain, a void that loses
// against a post gives no allowance back.
func AppendCapVoid(chain []tb.Transfer, id pix.EndToEndID, reason pix.Reason) []tb.Transfer {
	link(chain)
	return AppendCapRelease(chain, id, reason)
}

// AppendCapRelease appends the void of leg 4 behind a receipt or alone, outside of any chain:
// the window may have passed long ago, and that must not stop the receipt. Leg 4 must be in the
// ledger, and a receipt must be the payment's verdict, or its hold must have expired.
func AppendCapRelease(chain []tb.Transfer, id pix.EndToEndID, reason pix.Reason) []tb.Transfer {
	ids := IDsOf(id)

	return append(chain, tb.Transfer{
		ID: ids.Resolution(capLeg), PendingID: ids.Pending(capLeg), UserData32: uint32(reason), Code: CodeLeg4,
		Flags: tb.TransferFlags{VoidPendingTransfer: true}.ToUint16(),
	})
}

// IsCapRelease reports whether the transfer at index is a void of leg 4 outside of a chain.
func IsCapRelease(chain []tb.Transfer, index int) bool {
	return chain[index].Code == CodeLeg4 && chain[index].TransferFlags().VoidPendingTransfer &&
		(index == 0 || !chain[index-1].TransferFlags().Linked)
}

// link links the last transfer of a chain with what is appended next.
func link(chain []tb.Transfer) {
	if len(chain) > 0 {
		chain[len(chain)-1].Flags |= tb.TransferFlags{Linked: true}.ToUint16()
	}
}

// Grant is what an allowance account says: how much its bank may send to other banks in a window
// of time, and how much of it payments hold.
type Grant struct{ account tb.Account }

// GrantOf reads an allowance account.
func GrantOf(account tb.Account) Grant { return Grant{account} }

// Centavos returns what payments may hold in all. It is the cap, but for a cap that was lowered below
// what payments hold: then it comes down as they end.
func (g Grant) Centavos() int64 { return Less(g.account.CreditsPosted, g.account.DebitsPosted) }

// Left returns how much may still be sent under a cap.
func (g Grant) Left(capCentavos int64) int64 {
	return max(0, min(g.Centavos(), capCentavos)-Centavos(g.account.DebitsPending))
}

// Fits reports whether the account needs no adjustment to a cap now: it says the cap, or it says
// more and payments hold all of it.
func (g Grant) Fits(capCentavos int64) bool {
	has := g.Centavos()
	return has == capCentavos || has > capCentavos && has == Centavos(g.account.DebitsPending)
}

// AppendAdjustment appends the change of the account to a cap, linked to what stands before it. A cap
// that is lower than what payments hold takes what is free.
//
// The account's posted totals are a version: nothing else posts to it, every adjustment raises one
// of them, and the ids are a function of them. So of all adjustments that were computed from one
// version one is taken, however late the others come, and a chain that begins with an act is taken
// wholly or not at all. Whoever comes too late looks the account up again.
//
// To lower it, one centavo is granted first. So the version changes even if nothing is free.
func (g Grant) AppendAdjustment(chain []tb.Transfer, capCentavos int64) []tb.Transfer {
	link(chain)
	ids := g.versionIDs()
	raise := tb.Transfer{
		ID: ids.role(roleRecord), DebitAccountID: AllowanceSourceAccount, CreditAccountID: g.account.ID,
		UserData64: uint64(capCentavos), Ledger: Allowances, Code: CodeAdjustment,
	}

	excess := g.Centavos() - capCentavos
	if excess < 0 {
		raise.Amount = tb.ToUint128(uint64(-excess))
		return append(chain, raise)
	}
	raise.Amount, raise.Flags = tb.ToUint128(1), tb.TransferFlags{Linked: true}.ToUint16()
	lower := raise
	lower.ID, lower.DebitAccountID, lower.CreditAccountID = ids.role(roleMoney), raise.CreditAccountID,
		raise.DebitAccountID
	lower.Amount, lower.Flags = tb.ToUint128(uint64(excess)+1), tb.TransferFlags{BalancingDebit: true}.ToUint16()

	return append(chain, raise, lower)
}

// versionIDs returns the ids of the adjustment of the account as it is.
func (g Grant) versionIDs() PaymentIDs {
	text := []byte("liquida allowance\x00")

	for _, part := range []tb.Uint128{g.account.ID, g.account.CreditsPosted, g.account.DebitsPosted} {
		v := fromTB(part)
		text = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(text, v.high), v.low)
	}
	sum := sha256.Sum256(text)

	return PaymentIDs{uint128{high: binary.BigEndian.Uint64(sum[:8]),
		low: binary.BigEndian.Uint64(sum[8:16]) &^ (1<<roleBits - 1)}}
}
