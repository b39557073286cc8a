// Package ledger knows how payments are kept in TigerBeetle: the chart of accounts, the
// ids, the chains of linked transfers, what results mean, and how to fill requests.
//
// Every id is a function of the payment alone. None is ever looked up or stored.
package ledger

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// The TigerBeetle ledgers. Amounts on all of them are centavos; no transfer joins two ledgers.
const (
	Ledger     uint32 = 986 // money: the ISO 4217 number of BRL
	Books      uint32 = 1   // the register of acts, and the mirror of each bank's money
	Allowances uint32 = 2   // what is left of the banks' caps on outflow
)

// AccountKind says what an account is for. It is the account's code in TigerBeetle and the
// highest bits of its id.
type AccountKind uint16

// The chart of accounts.
const (
	Issuance AccountKind = 1 // the central bank's source of all money; one account
	Reserve  AccountKind = 2 // a PSP's prefunded account at the central bank (PI account); never negative
	Transit  AccountKind = 3 // a PSP's suspense account between its customers and its reserve
	Customer AccountKind = 4 // a customer's account at a PSP; never negative
	Refusals AccountKind = 5 // the central bank's counterpart for receipts of unknown payer PSPs; one account

	Register        AccountKind = 6 // one side of the record of every act; one account
	BankBooks       AccountKind = 7 // a PSP's acts; their balance is what its reserve and transit must add up to
	AllowanceSource AccountKind = 8 // the counterpart of all allowances; one account
	Allowance       AccountKind = 9 // what is left of a PSP's cap on outflow; never negative
)

// Ledger returns the TigerBeetle ledger of accounts of the kind.
func (k AccountKind) Ledger() uint32 {
	switch k {
	case Register, BankBooks:
		return Books
	case AllowanceSource, Allowance:
		return Allowances
	default:
		return Ledger
	}
}

// Flags returns the TigerBeetle flags of accounts of the kind. Closing flags are never
// set: a post to a closed account would burn its id forever. The ledger keeps the history of
// reserves, for statements of days; an account that was created without it never gets it.
func (k AccountKind) Flags() uint16 {
	return tb.AccountFlags{DebitsMustNotExceedCredits: k.Limited(), History: k == Reserve}.ToUint16()
}

// Limited reports whether accounts of the kind may not be overdrawn.
func (k AccountKind) Limited() bool { return k == Reserve || k == Customer || k == Allowance }

// single reports whether there is one account of the kind, the central bank's.
func (k AccountKind) single() bool {
	return k == Issuance || k == Refusals || k == Register || k == AllowanceSource
}

// AccountID packs kind (4 bits), ISPB (42), branch (14) and account number (67). The
// packing is reversible, so an id needs no look-up and can be read.
type AccountID = tb.Uint128

const (
	numberBits = 67
	branchBits = 14
	ispbBits   = 42
)

// The central bank's own accounts.
var (
	IssuanceAccount        = packAccount(Issuance, 0, 0, uint128{})
	RefusalsAccount        = packAccount(Refusals, 0, 0, uint128{})
	RegisterAccount        = packAccount(Register, 0, 0, uint128{})
	AllowanceSourceAccount = packAccount(AllowanceSource, 0, 0, uint128{})
)

// ReserveAccount returns the id of a PSP's reserve.
func ReserveAccount(psp pix.ISPB) AccountID { return packAccount(Reserve, psp.Pack(), 0, uint128{}) }

// TransitAccount returns the id of a PSP's transit account.
func TransitAccount(psp pix.ISPB) AccountID { return packAccount(Transit, psp.Pack(), 0, uint128{}) }

// BooksAccount returns the id of a PSP's books.
func BooksAccount(psp pix.ISPB) AccountID { return packAccount(BankBooks, psp.Pack(), 0, uint128{}) }

// AllowanceAccount returns the id of a PSP's allowance for a time of the day. Its branch is the Window.
func AllowanceAccount(psp pix.ISPB, window Window) AccountID {
	return packAccount(Allowance, psp.Pack(), uint64(window), uint128{})
}

// CustomerAccount returns the id of a customer's account. The account must be valid.
func CustomerAccount(account pix.Account) AccountID {
	branch, err := strconv.ParseUint(account.Branch, 10, branchBits)
	if err != nil {
		panic(fmt.Sprintf("account %v was not validated: %v", account, err))
	}

	var number uint128
	for i := range len(account.Number) {
		number = number.timesTenPlus(uint64(account.Number[i] - '0'))
	}

	return packAccount(Customer, account.ISPB.Pack(), branch, number)
}

// NewAccount returns the account to create under an id: the id's kind decides its flags.
func NewAccount(id AccountID) tb.Account {
	kind, _ := UnpackAccount(id)
	return tb.Account{ID: id, Ledger: kind.Ledger(), Code: uint16(kind), Flags: kind.Flags()}
}

// UnpackAccount is the inverse of the functions that make account ids.
func UnpackAccount(id AccountID) (AccountKind, pix.Account) {
	v := fromTB(id)
	kind := AccountKind(v.shiftRight(ispbBits + branchBits + numberBits).low)

	account := pix.Account{}
	if !kind.single() {
		account.ISPB = pix.UnpackISPB(v.shiftRight(branchBits+numberBits).low & (1<<ispbBits - 1))
	}

	if kind == Customer || kind == Allowance {
		account.Branch = fmt.Sprintf("%04d", v.shiftRight(numberBits).low&(1<<branchBits-1))
	}

	if kind == Customer {
		account.Number = uint128{high: v.high & (1<<(numberBits-64) - 1), low: v.low}.decimal()
	}

	return kind, account
}

var kindNames = map[AccountKind]string{
	Issuance: "issuance", Reserve: "reserve", Transit: "transit", Customer: "customer", Refusals: "refusals",
	Register: "register", BankBooks: "books", AllowanceSource: "allowances", Allowance: "allowance",
}

// AccountName returns an account's name for people: its kind and its owner.
func AccountName(id AccountID) string {
	kind, account := UnpackAccount(id)

	name, known := kindNames[kind]
	switch {
	case !known:
		return fmt.Sprintf("unknown/%d", kind)
	case kind.single():
		return name
	case kind == Customer:
		return name + "/" + account.String()
	case kind == Allowance:
		return name + "/" + string(account.ISPB) + "/" + account.Branch
	}

	return name + "/" + string(account.ISPB)
}

func packAccount(kind AccountKind, ispb, branch uint64, number uint128) AccountID {
	v := uint128{low: uint64(kind)}.shiftLeft(ispbBits).or(uint128{low: ispb}).
		shiftLeft(branchBits).or(uint128{low: branch}).
		shiftLeft(numberBits).or(number)

	return v.toTB()
}

// uint128 has the 128-bit arithmetic that packing ids needs.
type uint128 struct{ high, low uint64 }

func (u uint128) shiftLeft(n uint) uint128 {
	if n >= 64 {
		return uint128{high: u.low << (n - 64)}
	}

	return uint128{high: u.high<<n | u.low>>(64-n), low: u.low << n}
}

func (u uint128) shiftRight(n uint) uint128 {
	if n >= 64 {
		return uint128{low: u.high >> (n - 64)}
	}

	return uint128{high: u.high >> n, low: u.low>>n | u.high<<(64-n)}
}

func (u uint128) or(v uint128) uint128 { return uint128{high: u.high | v.high, low: u.low | v.low} }

func (u uint128) timesTenPlus(digit uint64) uint128 {
	eight, two := u.shiftLeft(3), u.shiftLeft(1)
	return eight.plus(two).plus(uint128{low: digit})
}

func (u uint128) plus(v uint128) uint128 {
	low, carry := bits.Add64(u.low, v.low, 0)
	high, _ := bits.Add64(u.high, v.high, carry)
	return uint128{high: high, low: low}
}

func (u uint128) decimal() string {
	value := u.toTB().BigInt()
	return value.String()
}

func (u uint128) toTB() tb.Uint128 {
	var bytes [16]byte
	binary.LittleEndian.PutUint64(bytes[:8], u.low)
	binary.LittleEndian.PutUint64(bytes[8:], u.high)

	return tb.BytesToUint128(bytes)
}

func fromTB(v tb.Uint128) uint128 {
	bytes := v.Bytes()
	return uint128{high: binary.LittleEndian.Uint64(bytes[8:]), low: binary.LittleEndian.Uint64(bytes[:8])}
}

// Sum adds amounts in 128 bits. No total of a ledger comes near to 2^128.
func Sum(amounts ...tb.Uint128) tb.Uint128 {
	var sum uint128
	for _, amount := range amounts {
		sum = sum.plus(fromTB(amount))
	}

	return sum.toTB()
}

// Less returns a - b in centavos. It subtracts in 128 bits, because totals only grow: two banks that
// send a reserve to and fro bring them above 2^63-1. A result that does not fit becomes the nearest
// one that does: a bank can bring the balances of its own accounts there, with ten thousand of the
// largest deposits, and nobody else's service may end because of it.
func Less(a, b tb.Uint128) int64 {
	minuend, subtrahend := fromTB(a), fromTB(b)
	low, borrow := bits.Sub64(minuend.low, subtrahend.low, 0)

	high, below := bits.Sub64(minuend.high, subtrahend.high, borrow)
	switch result := int64(low); {
	case below == 0 && high == 0 && result >= 0, below == 1 && high == math.MaxUint64 && result < 0:
		return result
	case below == 1:
		return math.MinInt64
	}

	return math.MaxInt64
}

// Centavos returns the amount of a transfer as a signed integer count of centavos. It panics
// above 2^63-1: no single amount can reach it. Totals and balances can: see Less.
func Centavos(amount tb.Uint128) int64 {
	v := fromTB(amount)
	if v.high != 0 || v.low > 1<<63-1 {
		panic(fmt.Sprintf("amount %s does not fit 63 bits", amount))
	}

	return int64(v.low)
}
