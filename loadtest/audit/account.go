package audit

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
	kindIssuance = 1
	kindReserve  = 2
	kindTransit  = 3
	kindCustomer = 4
	kindRefusals = 5
	kindRegister = 6
	kindBooks    = 7
	// An allowance is what a bank may still send to others in a window, by day or by night.
	kindAllowanceSource = 8
	kindAllowance       = 9
)

// The TigerBeetle ledgers: money (the ISO 4217 number of BRL), the books of banks with the register,
// and allowances.
const (
	ledgerNumber    = 986
	booksLedger     = 1
	allowanceLedger = 2
)

// chart says for each kind of account its ledger, whether it may not be overdrawn, and its name.
var chart = map[int]struct {
	ledger  uint32
	guarded bool
	name    string
}{
	kindIssuance: {ledgerNumber, false, "issuance"}, kindReserve: {ledgerNumber, true, "reserve of "},
	kindTransit:  {ledgerNumber, false, "transit of "},
	kindCustomer: {ledgerNumber, true, ""}, kindRefusals: {ledgerNumber, false, "refusals"},
	kindRegister: {booksLedger, false, "register"}, kindBooks: {booksLedger, false, "books of "},
	kindAllowanceSource: {allowanceLedger, false, "source of allowances"},
	kindAllowance:       {allowanceLedger, true, "allowance of "},
}

const (
	kindShift   = 59
	ispbShift   = 17
	branchShift = 3
	ispbMask    = (1<<42 - 1) << ispbShift
)

type accountID = number128

var (
	issuance        = accountID{high: kindIssuance << kindShift}
	refusals        = accountID{high: kindRefusals << kindShift}
	register        = accountID{high: kindRegister << kindShift}
	allowanceSource = accountID{high: kindAllowanceSource << kindShift}
)

func kindOf(id accountID) int { return int(id.high >> kindShift) }

// reserveOf and transitOf return the accounts of a customer's PSP.
func reserveOf(customer accountID) accountID {
	return accountID{high: kindReserve<<kindShift | customer.high&ispbMask}
}

func transitOf(customer accountID) accountID {
	return accountID{high: kindTransit<<kindShift | customer.high&ispbMask}
}

// booksOf returns the books account of an account's bank: the mirror of its reserve and its transit.
func booksOf(id accountID) accountID {
	return accountID{high: kindBooks<<kindShift | id.high&ispbMask}
}

// allowanceOf returns the allowance of an account's bank: 0 by day, 1 by night.
func allowanceOf(id accountID, night int) accountID {
	return accountID{high: kindAllowance<<kindShift | id.high&ispbMask | uint64(night)<<branchShift}
}

// customerAccount checks the parts of an account's name and returns its id.
func customerAccount(ispb, branch, number string) (accountID, error) {
	bank, err := packISPB(ispb)
	if err != nil {
		return accountID{}, err
	}

	const digits = "0123456789"
	if len(branch) != 4 || strings.Trim(branch, digits) != "" {
		return accountID{}, fmt.Errorf("branch %.64q is not 4 digits", branch)
	}

	if len(number) < 1 || len(number) > 20 || number[0] == '0' || strings.Trim(number, digits) != "" {
		return accountID{}, fmt.Errorf("account number %.64q is not 1 to 20 digits without leading zeros", number)
	}
	last := max(0, len(number)-10) // below 10^20, which fits 67 bits
	high, low := bits.Mul64(packed(number[:last], digits), 1e10)
	low, carry := bits.Add64(low, packed(number[last:], digits), 0)

	return accountID{high: kindCustomer<<kindShift | bank<<ispbShift | packed(branch, digits)<<branchShift | high +
		carry, low: low}, nil
}

// bankNamed returns an account of the bank that an id names. The id was parsed.
func bankNamed(id endToEndID) accountID {
	return accountID{high: kindCustomer<<kindShift | packed(string(id[1:9]), base36)<<ispbShift}
}

// ispbOf returns the ISPB in an account's id.
func ispbOf(id accountID) string {
	text := "0000000" + strings.ToUpper(strconv.FormatUint(id.high&ispbMask>>ispbShift, 36))
	return text[len(text)-8:]
}

// branchOf returns the branch in a customer account's id.
func branchOf(id accountID) string { return fmt.Sprintf("%04d", id.high>>branchShift&(1<<14-1)) }

var windowNames = [...]string{"day", "night"}

// nameOf names an account, for people.
func nameOf(id accountID) string {
	ispb, known := ispbOf(id), chart[kindOf(id)]
	switch kindOf(id) {
	case kindAllowance:
		return known.name + ispb + ", " + windowNames[id.high>>branchShift&1]
	case kindCustomer:
		upper, lower := bits.Div64(id.high&7, id.low, 1e10) // below 10^20, so two halves of 10 digits

		number := fmt.Sprint(lower)
		if upper > 0 {
			number = fmt.Sprintf("%d%010d", upper, lower)
		}

		return fmt.Sprintf("%s/%s/%s", ispb, branchOf(id), number)
	}

	if strings.HasSuffix(known.name, " of ") {
		return known.name + ispb
	}

	return cmp.Or(known.name, fmt.Sprintf("account %016x%016x", id.high, id.low))
}
