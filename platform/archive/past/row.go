// Package past makes the rows of an archive of what a ledger holds, and computes a ledger's transfers of them again.
package past

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// unflagged leaves out what an import adds to a transfer.
func unflagged(flags uint16) uint16 { return flags &^ tb.TransferFlags{Imported: true}.ToUint16() }

// written returns transfers as the ledger keeps them that were written in one chain: each a nanosecond after the one
// before, and what ends a hold with the fields of that hold.
func written(chain, holds []tb.Transfer, at int64) []tb.Transfer {
	for i := range chain {
		t := &chain[i]

		t.Timestamp = uint64(at) + uint64(i)
		for k := range holds {
			if hold := &holds[k]; hold.ID == t.PendingID {
				t.DebitAccountID, t.CreditAccountID, t.Ledger, t.Code, t.Amount = hold.DebitAccountID,
					hold.CreditAccountID, hold.Ledger, hold.Code, hold.Amount

				t.UserData128, t.UserData64 = hold.UserData128, hold.UserData64
				if t.UserData32 == 0 {
					t.UserData32 = hold.UserData32
				}
			}
		}
	}

	return chain
}

// contentOf returns what the row moves.
func contentOf(p *archive.Payment) pix.Content {
	return pix.Content{
		Payer:          pix.Account{ISPB: pix.ISPB(p.PayerISPB), Branch: p.PayerBranch, Number: p.PayerNumber},
		Payee:          pix.Account{ISPB: pix.ISPB(p.PayeeISPB), Branch: p.PayeeBranch, Number: p.PayeeNumber},
		AmountCentavos: uint64(p.AmountCentavos),
	}
}

func setContent(p *archive.Payment, content pix.Content) {
	p.PayerISPB, p.PayerBranch, p.PayerNumber = string(content.Payer.ISPB), content.Payer.Branch, content.Payer.Number
	p.PayeeISPB, p.PayeeBranch, p.PayeeNumber = string(content.Payee.ISPB), content.Payee.Branch, content.Payee.Number
	p.AmountCentavos = int64(content.AmountCentavos)
}

// legsMax is how many transfers hold or decide a payment at most, and a return.
const legsMax = 4

// TransfersOf computes the transfers of a row as the ledger keeps them: the chain that held the money, and the chain
// that decided. An expired hold has no second one, and a refused payment no first one.
func TransfersOf(p *archive.Payment) (hold, end []tb.Transfer, err error) {
	id, wrong := pix.ParsePaymentOrReturnID(p.ID)
	reason := pix.ReasonNone

	var wrongReason error
	if p.Reason != "" {
		reason, wrongReason = pix.ParseReason(p.Reason)
	}

	if err := errors.Join(wrong, wrongReason); err != nil {
		return nil, nil, err
	}

	if p.Status == archive.Refused {
		hash, err := strconv.ParseUint(p.ContentHash, 16, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("content_hash is %q: it must be 16 hexadecimal digits", p.ContentHash)
		}
		end = ledger.AppendReceipt(nil, id, pix.Content{Payer: pix.Account{ISPB: id.Payer()}}, reason, true)
		end[0].UserData64 = hash

		return nil, written(end, nil, p.DecidedAt), nil
	}

	content := contentOf(p)
	if err := errors.Join(content.Payer.Validate(), content.Payee.Validate()); err != nil {
		return nil, nil, err
	}

	if p.Kind == archive.KindReturn {
		return ofReturn(p, pix.ReturnID(id), content, reason)
	}

	hold = ledger.AppendReserve(make([]tb.Transfer, 0, legsMax), id, content, uint32(p.HoldSeconds))
	if p.CapWindow != "" {
		window := ledger.Day
		if p.CapWindow == ledger.Night.String() {
			window = ledger.Night
		}
		hold = ledger.AppendCap(hold, id, content, window, uint32(p.CapSeconds))
	}

	switch hold = written(hold, nil, p.HeldAt); p.Status {
	case archive.Settled:
		end = ledger.AppendPost(make([]tb.Transfer, 0, legsMax), id, content.SameBank())
	case archive.Rejected:
		if end = ledger.AppendVoid(nil, id, content.SameBank(), reason); p.CapWindow != "" {
			end = ledger.AppendCapVoid(end, id, reason)
		}
	}

	return hold, written(end, hold, p.DecidedAt), nil
}

func ofReturn(p *archive.Payment, id pix.ReturnID, content pix.Content,
	reason pix.Reason) (hold, end []tb.Transfer, err error) {
	if p.Status == archive.Expired { // its verdict would say which payment it gives back
		return nil, nil, nil
	}
	of := pix.ReturnContent{AmountCentavos: content.AmountCentavos}
	var wrong, wrongReason error
	of.Original, wrong = pix.ParseEndToEndID(p.Original)

	of.Reason, wrongReason = pix.ParseReason(p.ReturnReason)
	if err := errors.Join(wrong, wrongReason); err != nil {
		return nil, nil, err
	}

	if p.Slot < 0 || p.Slot >= ledger.ReturnSlots {
		return nil, nil, fmt.Errorf("slot is %d: it must be 0 to %d", p.Slot, ledger.ReturnSlots-1)
	}

	hold = written(ledger.AppendReturnReserve(nil, id, of, int(p.Slot),
		ledger.Backwards(content, content.AmountCentavos), uint32(p.HoldSeconds)), nil, p.HeldAt)
	if p.Status == archive.Settled {
		end = ledger.AppendReturnPost(nil, id, of, int(p.Slot), content.SameBank())
	} else {
		end = ledger.AppendReturnVoid(nil, id, of, int(p.Slot), content.SameBank(), reason)
	}

	return hold, written(end, hold, p.DecidedAt), nil
}

// whats are the transfers that become records, by code, but for acts.
var whats = map[uint16]string{
	ledger.CodeLeg4: "allowance", ledger.CodeReceipt: "refused payment of an unknown sender",
	ledger.CodeFunding: "funding", ledger.CodeMarker: "marker",
	ledger.CodeOrigin: "name of a log", ledger.CodeGivenUp: "a log given up", ledger.CodeReturn: "refused return",
	ledger.CodeReturned: "mark of returns",
	ledger.CodeBurnt:    "mark of a burnt slot", ledger.CodeIdentity: "identity",
	ledger.CodeRebuilt:   "end of a rebuild",
	ledger.CodeConfirmed: "confirmation of acts",
	ledger.CodeArchived:  "end of an archived day", ledger.CodeTold: "begin or end of what was told",
	ledger.CodeAdjustment: "adjustment of an allowance",
}

// recordOf returns the row of a transfer, or an error if this version does not know its kind.
func recordOf(t *tb.Transfer) (archive.Record, error) {
	what, known := whats[t.Code]
	if kind := ledger.ActKind(t.Code); kind >= ledger.Joined && kind <= ledger.Opening {
		what, known = kind.String(), true
	}

	amount := t.Amount.BigInt()
	if !known || !amount.IsInt64() {
		return archive.Record{},
			fmt.Errorf("the transfer %v of %v has code %d and amount %v: this archiver does not know such a kind; a newer version may",
				t.ID, archive.Time(int64(t.Timestamp)), t.Code, amount.String())
	}

	r := archive.Record{
		What: what, Debit: ledger.AccountName(t.DebitAccountID), Credit: ledger.AccountName(t.CreditAccountID),
		At: int64(t.Timestamp), ID: t.ID.String(), DebitID: t.DebitAccountID.String(),
		CreditID: t.CreditAccountID.String(), AmountCentavos: amount.Int64(),
		PendingID: t.PendingID.String(), UserData128: t.UserData128.String(),
		UserData64: strconv.FormatUint(t.UserData64, 16), UserData32: int64(t.UserData32),
		TimeoutSeconds: int64(t.Timeout), Ledger: int64(t.Ledger), Code: int32(t.Code),
		Flags: int32(unflagged(t.Flags)),
	}
	if t.Code == ledger.CodeReceipt || t.Code == ledger.CodeReturn {
		r.Reason = pix.Reason(t.UserData32).String()
	}

	return r, nil
}

// transferOf is the inverse of recordOf.
func transferOf(r *archive.Record) (t tb.Transfer, err error) {
	t = tb.Transfer{Amount: tb.ToUint128(uint64(r.AmountCentavos)), UserData32: uint32(r.UserData32),
		Timeout: uint32(r.TimeoutSeconds), Ledger: uint32(r.Ledger), Code: uint16(r.Code), Flags: uint16(r.Flags),
		Timestamp: uint64(r.At)}
	var wrong [6]error
	t.ID, wrong[0] = tb.HexStringToUint128(r.ID)
	t.DebitAccountID, wrong[1] = tb.HexStringToUint128(r.DebitID)
	t.CreditAccountID, wrong[2] = tb.HexStringToUint128(r.CreditID)
	t.PendingID, wrong[3] = tb.HexStringToUint128(r.PendingID)
	t.UserData128, wrong[4] = tb.HexStringToUint128(r.UserData128)
	t.UserData64, wrong[5] = strconv.ParseUint(r.UserData64, 16, 64)

	return t, errors.Join(wrong[:]...)
}

func accountOf(a *tb.Account) archive.Account {
	flags := a.AccountFlags()
	flags.Imported = false

	return archive.Account{
		Name: ledger.AccountName(a.ID), CreatedAt: int64(a.Timestamp), ID: a.ID.String(),
		UserData128: a.UserData128.String(), UserData64: strconv.FormatUint(a.UserData64, 16),
		UserData32: int64(a.UserData32), Ledger: int64(a.Ledger), Code: int32(a.Code), Flags: int32(flags.ToUint16()),
	}
}

// ledgerAccountOf is the inverse of accountOf.
func ledgerAccountOf(r *archive.Account) (a tb.Account, err error) {
	a = tb.Account{UserData32: uint32(r.UserData32), Ledger: uint32(r.Ledger), Code: uint16(r.Code),
		Flags: uint16(r.Flags), Timestamp: uint64(r.CreatedAt)}
	var wrong [3]error
	a.ID, wrong[0] = tb.HexStringToUint128(r.ID)
	a.UserData128, wrong[1] = tb.HexStringToUint128(r.UserData128)
	a.UserData64, wrong[2] = strconv.ParseUint(r.UserData64, 16, 64)

	return a, errors.Join(wrong[:]...)
}

// forever is how long a hold without a timeout lasts.
const forever = math.MaxInt64
