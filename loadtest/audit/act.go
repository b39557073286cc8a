package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// The acts, by the code of their record.
const (
	codeJoined          = 32
	codeSuspended       = 33
	codeResumed         = 34
	codePaymentCap      = 35
	codeDayCap          = 36
	codeNightCap        = 37
	codeLiquidityIn     = 38
	codeLiquidityOut    = 39
	codeAccountOpened   = 40
	codeAccountBlocked  = 41
	codeAccountClosed   = 42
	codeAccountReopened = 43
	codeDeposit         = 44
	codeWithdrawal      = 45
	codeKeyNamed        = 46
	codeKeyRevoked      = 47
	codeSealNamed       = 48
	codeSealRevoked     = 49
	codeOpening         = 50
)

const (
	actCentavosMax   = 1_000_000_000_000_000
	windowSecondsMin = 120
	windowSecondsMax = 86_400
)

// moneyOfAct returns the accounts between which the money of an act moves. customer is user_data_128.
func moneyOfAct(code uint16, books, customer accountID) (debit, credit accountID, moves bool) {
	switch code {
	case codeLiquidityIn:
		return issuance, reserveOf(books), true
	case codeLiquidityOut:
		return reserveOf(books), issuance, true
	case codeDeposit:
		return transitOf(books), customer, true
	case codeWithdrawal:
		return customer, transitOf(books), true
	}

	return debit, credit, false
}

// fromBooks reports whether the record of an act debits the books: it takes from reserve and transit.
func fromBooks(code uint16) bool { return code == codeLiquidityOut || code == codeDeposit }

// saysWhatItMay reports whether the record of an act has data that it can have. 0 is the bank, 1 the central bank,
// who alone may do what is not about accounts, keys and seals.
func saysWhatItMay(t tb.Transfer, books accountID) bool {
	about, more, data := fromTigerBeetle(t.UserData128), t.UserData64, t.UserData32

	byOne, nothing := data == 1 || data == 0 && t.Code > codeLiquidityOut, about == number128{}
	switch t.Code {
	case codePaymentCap:
		return byOne && nothing && more <= actCentavosMax
	case codeDayCap, codeNightCap:
		return nothing && more <= actCentavosMax && data >= windowSecondsMin && data <= windowSecondsMax
	case codeAccountOpened, codeAccountBlocked, codeAccountClosed, codeAccountReopened, codeDeposit, codeWithdrawal:
		return byOne && kindOf(about) == kindCustomer && booksOf(about) == books && more == 0
	case codeKeyNamed, codeKeyRevoked, codeSealNamed, codeSealRevoked:
		return byOne && !nothing
	}

	return byOne && nothing && more == 0
}

// actName names an act, for people.
func actName(code uint16) string {
	names := [...]string{"join", "suspension", "resumption", "cap on a payment", "cap by day", "cap by night",
		"liquidity in", "liquidity out",
		"account opened", "account blocked", "account closed", "account reopened", "deposit", "withdrawal", "key named",
		"key revoked", "seal named", "seal revoked", "opening"}

	if code < codeJoined || code > codeOpening {
		return fmt.Sprintf("code %d", code)
	}

	return names[code-codeJoined]
}

// adjustmentKey returns the id of the next adjustment of an allowance, with role 0.
func adjustmentKey(id accountID, posted movement) number128 {
	text := []byte("liquida allowance\x00")
	for _, part := range [...]number128{id, number128(posted.credits), number128(posted.debits)} {
		text = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(text, part.high), part.low)
	}
	sum := sha256.Sum256(text)

	return number128{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]) &^ 15}
}
