package spec

import (
	"fmt"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// The acts, by the code of their record.
const (
	CodeJoined          = 32
	CodeSuspended       = 33
	CodeResumed         = 34
	CodePaymentCap      = 35
	CodeDayCap          = 36
	CodeNightCap        = 37
	CodeLiquidityIn     = 38
	CodeLiquidityOut    = 39
	codeAccountOpened   = 40
	CodeAccountBlocked  = 41
	codeAccountClosed   = 42
	codeAccountReopened = 43
	CodeDeposit         = 44
	CodeWithdrawal      = 45
	codeKeyNamed        = 46
	codeKeyRevoked      = 47
	codeSealNamed       = 48
	codeSealRevoked     = 49
	CodeOpening         = 50
)

// Bounds of acts.
const (
	ActCentavosMax   = 1_000_000_000_000_000
	windowSecondsMin = 120
	WindowSecondsMax = 86_400
)

// MoneyOfAct returns the accounts between which the money of an act moves. customer is user_data_128.
func MoneyOfAct(code uint16, books, customer AccountID) (debit, credit AccountID, moves bool) {
	switch code {
	case CodeLiquidityIn:
		return Issuance, ReserveOf(books), true
	case CodeLiquidityOut:
		return ReserveOf(books), Issuance, true
	case CodeDeposit:
		return TransitOf(books), customer, true
	case CodeWithdrawal:
		return customer, TransitOf(books), true
	}

	return debit, credit, false
}

// FromBooks reports whether the record of an act debits the books: it takes from reserve and transit.
func FromBooks(code uint16) bool { return code == CodeLiquidityOut || code == CodeDeposit }

// SaysWhatItMay reports whether the record of an act has data that it can have. 0 is the bank, 1 the central bank,
// who alone may do what is not about accounts, keys and seals.
func SaysWhatItMay(t tb.Transfer, books AccountID) bool {
	about, more, data := NumberOf(t.UserData128), t.UserData64, t.UserData32

	byOne, nothing := data == 1 || data == 0 && t.Code > CodeLiquidityOut, about == Number{}
	switch t.Code {
	case CodePaymentCap:
		return byOne && nothing && more <= ActCentavosMax
	case CodeDayCap, CodeNightCap:
		return nothing && more <= ActCentavosMax && data >= windowSecondsMin && data <= WindowSecondsMax
	case codeAccountOpened, CodeAccountBlocked, codeAccountClosed, codeAccountReopened, CodeDeposit, CodeWithdrawal:
		return byOne && KindOf(about) == KindCustomer && BooksOf(about) == books && more == 0
	case codeKeyNamed, codeKeyRevoked, codeSealNamed, codeSealRevoked:
		return byOne && !nothing
	}

	return byOne && nothing && more == 0
}

// ActName names an act, for people.
func ActName(code uint16) string {
	names := [...]string{"join", "suspension", "resumption", "cap on a payment", "cap by day", "cap by night",
		"liquidity in", "liquidity out",
		"account opened", "account blocked", "account closed", "account reopened", "deposit", "withdrawal", "key named",
		"key revoked", "seal named", "seal revoked", "opening"}

	if code < CodeJoined || code > CodeOpening {
		return fmt.Sprintf("code %d", code)
	}

	return names[code-CodeJoined]
}
