package spec

import (
	"cmp"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// The kinds of accounts: the highest 4 of 127 bits of an account's id, before ISPB (42),
// branch (14) and number (67). The kind is also the account's code.
const (
	KindIssuance = 1
	KindReserve  = 2
	KindTransit  = 3
	KindCustomer = 4
	KindRefusals = 5
	kindRegister = 6
	KindBooks    = 7
	// An allowance is what a bank may still send to others in a window, by day or by night.
	KindAllowanceSource = 8
	KindAllowance       = 9
)

// The TigerBeetle ledgers: money (the ISO 4217 number of BRL), the books of banks with the register,
// and allowances.
const (
	LedgerNumber    = 986
	BooksLedger     = 1
	AllowanceLedger = 2
)

// Chart says for each kind of account its ledger, whether it may not be overdrawn, and its name.
var Chart = map[int]struct {
	Ledger  uint32
	Guarded bool
	name    string
}{
	KindIssuance: {LedgerNumber, false, "issuance"}, KindReserve: {LedgerNumber, true, "reserve of "},
	KindTransit:  {LedgerNumber, false, "transit of "},
	KindCustomer: {LedgerNumber, true, ""}, KindRefusals: {LedgerNumber, false, "refusals"},
	kindRegister: {BooksLedger, false, "register"}, KindBooks: {BooksLedger, false, "books of "},
	KindAllowanceSource: {AllowanceLedger, false, "source of allowances"},
	KindAllowance:       {AllowanceLedger, true, "allowance of "},
}

// The places of the parts in the high half of an account's id.
const (
	kindShift   = 59
	ispbShift   = 17
	BranchShift = 3
	ispbMask    = (1<<42 - 1) << ispbShift
)

// AccountID is the id of an account.
type AccountID = Number

// The accounts that are of no bank.
var (
	Issuance        = AccountID{High: KindIssuance << kindShift}
	Refusals        = AccountID{High: KindRefusals << kindShift}
	Register        = AccountID{High: kindRegister << kindShift}
	AllowanceSource = AccountID{High: KindAllowanceSource << kindShift}
)

// KindOf returns the kind of an account.
func KindOf(id AccountID) int { return int(id.High >> kindShift) }

// ReserveOf returns the reserve of a customer's bank.
func ReserveOf(customer AccountID) AccountID {
	return AccountID{High: KindReserve<<kindShift | customer.High&ispbMask}
}

// TransitOf returns the transit account of a customer's bank.
func TransitOf(customer AccountID) AccountID {
	return AccountID{High: KindTransit<<kindShift | customer.High&ispbMask}
}

// BooksOf returns the books account of an account's bank: the mirror of its reserve and its transit.
func BooksOf(id AccountID) AccountID {
	return AccountID{High: KindBooks<<kindShift | id.High&ispbMask}
}

// AllowanceOf returns the allowance of an account's bank: 0 by day, 1 by night.
func AllowanceOf(id AccountID, night int) AccountID {
	return AccountID{High: KindAllowance<<kindShift | id.High&ispbMask | uint64(night)<<BranchShift}
}

// CustomerAccount checks the parts of an account's name and returns its id.
func CustomerAccount(ispb, branch, number string) (AccountID, error) {
	bank, err := packISPB(ispb)
	if err != nil {
		return AccountID{}, err
	}

	const digits = "0123456789"
	if len(branch) != 4 || strings.Trim(branch, digits) != "" {
		return AccountID{}, fmt.Errorf("branch %.64q is not 4 digits", branch)
	}

	if len(number) < 1 || len(number) > 20 || number[0] == '0' || strings.Trim(number, digits) != "" {
		return AccountID{}, fmt.Errorf("account number %.64q is not 1 to 20 digits without leading zeros", number)
	}
	last := max(0, len(number)-10) // below 10^20, which fits 67 bits
	high, low := bits.Mul64(packed(number[:last], digits), 1e10)
	low, carry := bits.Add64(low, packed(number[last:], digits), 0)

	return AccountID{High: KindCustomer<<kindShift | bank<<ispbShift | packed(branch, digits)<<BranchShift | high +
		carry, Low: low}, nil
}

// BankNamed returns an account of the bank that an id names. The id was parsed.
func BankNamed(id ID) AccountID {
	return AccountID{High: KindCustomer<<kindShift | packed(string(id[1:9]), Base36)<<ispbShift}
}

// ISPBOf returns the ISPB in an account's id.
func ISPBOf(id AccountID) string {
	text := "0000000" + strings.ToUpper(strconv.FormatUint(id.High&ispbMask>>ispbShift, 36))
	return text[len(text)-8:]
}

// branchOf returns the branch in a customer account's id.
func branchOf(id AccountID) string { return fmt.Sprintf("%04d", id.High>>BranchShift&(1<<14-1)) }

// WindowNames are the windows of caps on outflow.
var WindowNames = [...]string{"day", "night"}

// AccountName names an account, for people.
func AccountName(id AccountID) string {
	ispb, known := ISPBOf(id), Chart[KindOf(id)]
	switch KindOf(id) {
	case KindAllowance:
		return known.name + ispb + ", " + WindowNames[id.High>>BranchShift&1]
	case KindCustomer:
		upper, lower := bits.Div64(id.High&7, id.Low, 1e10) // below 10^20, so two halves of 10 digits

		number := fmt.Sprint(lower)
		if upper > 0 {
			number = fmt.Sprintf("%d%010d", upper, lower)
		}

		return fmt.Sprintf("%s/%s/%s", ispb, branchOf(id), number)
	}

	if strings.HasSuffix(known.name, " of ") {
		return known.name + ispb
	}

	return cmp.Or(known.name, fmt.Sprintf("account %016x%016x", id.High, id.Low))
}
