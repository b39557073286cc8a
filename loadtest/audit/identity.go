package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// This file derives every id from "Identity" in docs/reference.md. It shares no code with the
// services, so that an error of theirs cannot hide in it.

// number128 is an id in the ledger.
type number128 struct{ high, low uint64 }

func fromTigerBeetle(v tb.Uint128) number128 {
	b := v.Bytes() // little-endian
	return number128{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[:8])}
}

func (n number128) toTigerBeetle() tb.Uint128 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], n.low)
	binary.LittleEndian.PutUint64(b[8:], n.high)
	return tb.BytesToUint128(b)
}

// endToEndID is "E", ISPB (8), yyyyMMddHHmm (12) and 11 characters.
type endToEndID [32]byte

func (e endToEndID) String() string { return string(e[:]) }

var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

const minutesMax = 1<<26 - 1

// parseAnyID reads the id of a payment or of a return.
func parseAnyID(text string) (id endToEndID, minutes uint64, err error) {
	if text != "" && text[0] == 'D' {
		return parseIDOf('D', text)
	}
	return parseIDOf('E', text)
}

// parseIDOf reads an id that begins with a letter: E for payments, D for returns. It returns the minutes
// since epoch in it, too.
func parseIDOf(letter byte, text string) (id endToEndID, minutes uint64, err error) {
	if len(text) != len(id) || text[0] != letter {
		return id, 0, fmt.Errorf("EndToEndId %.64q is not an %c and 31 more characters", text, letter)
	}
	if _, err := packISPB(text[1:9]); err != nil {
		return id, 0, fmt.Errorf("EndToEndId %q: %w", text, err)
	}
	at, err := time.Parse("200601021504", text[9:21])
	if err != nil || at.Before(epoch) {
		return id, 0, fmt.Errorf("EndToEndId %q holds no minute since 2020", text)
	}
	minutes = uint64(at.Sub(epoch) / time.Minute)
	if minutes > minutesMax {
		return id, 0, fmt.Errorf("EndToEndId %q is too far in the future", text)
	}
	for _, c := range []byte(text[21:]) {
		if _, ok := digitOf(c, base62); !ok {
			return id, 0, fmt.Errorf("EndToEndId %q has a character other than 0-9, A-Z, a-z", text)
		}
	}
	copy(id[:], text)
	return id, minutes, nil
}

const (
	base36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	base62 = base36 + "abcdefghijklmnopqrstuvwxyz"
)

func digitOf(c byte, alphabet string) (uint64, bool) {
	for i := range len(alphabet) {
		if alphabet[i] == c {
			return uint64(i), true
		}
	}
	return 0, false
}

func packISPB(text string) (uint64, error) {
	if len(text) != 8 {
		return 0, fmt.Errorf("ISPB %.64q has not 8 characters", text)
	}
	var packed uint64
	for _, c := range []byte(text) {
		digit, ok := digitOf(c, base36)
		if !ok {
			return 0, fmt.Errorf("ISPB %q has a character other than 0-9, A-Z", text)
		}
		packed = packed*36 + digit
	}
	return packed, nil
}

// paymentKey is the id of a payment's transfers with role 0: minutes (26 bits), the first 5
// characters of the suffix in base 62 (30), 68 bits of SHA-256, role (4).
func paymentKey(id endToEndID, minutes uint64) number128 {
	return keyWith(id, minutes, sha256.Sum256(id[:]))
}

func keyWith(id endToEndID, minutes uint64, hash [sha256.Size]byte) number128 {
	var suffix uint64
	for _, c := range id[21:26] {
		digit, _ := digitOf(c, base62)
		suffix = suffix*62 + digit
	}
	return number128{
		high: minutes<<38 | suffix<<8 | uint64(hash[0]),
		low:  binary.BigEndian.Uint64(hash[1:9]) &^ 15,
	}
}

// split splits the id of a transfer into the payment's key and the role.
func split(id number128) (key number128, role int) {
	return number128{id.high, id.low &^ 15}, int(id.low & 15)
}

func (n number128) role(role int) number128 { return number128{n.high, n.low | uint64(role)} }

// userData returns what the legs of a payment carry in user_data_128 and user_data_64.
func userData(id endToEndID, minutes uint64) (number128, uint64) {
	return number128{
		high: minutes<<24 | uint64(id[21])<<16 | uint64(id[22])<<8 | uint64(id[23]),
		low:  binary.BigEndian.Uint64(id[24:32]),
	}, binary.BigEndian.Uint64(id[1:9])
}

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

// chart says for each kind of account its ledger, and whether it may not be overdrawn.
var chart = map[int]struct {
	ledger  uint32
	guarded bool
}{
	kindIssuance: {ledgerNumber, false}, kindReserve: {ledgerNumber, true}, kindTransit: {ledgerNumber, false},
	kindCustomer: {ledgerNumber, true}, kindRefusals: {ledgerNumber, false},
	kindRegister: {booksLedger, false}, kindBooks: {booksLedger, false},
	kindAllowanceSource: {allowanceLedger, false}, kindAllowance: {allowanceLedger, true},
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
	packed, err := packISPB(ispb)
	if err != nil {
		return accountID{}, err
	}
	if len(branch) != 4 {
		return accountID{}, fmt.Errorf("branch %.64q has not 4 digits", branch)
	}
	var branchNumber uint64
	for _, c := range []byte(branch) {
		if c < '0' || c > '9' {
			return accountID{}, fmt.Errorf("branch %q has a character that is not a digit", branch)
		}
		branchNumber = branchNumber*10 + uint64(c-'0')
	}
	if len(number) < 1 || len(number) > 20 || number[0] == '0' {
		return accountID{}, fmt.Errorf("account number %.64q has not 1 to 20 digits without leading zeros", number)
	}
	var high, low uint64 // below 10^20, which fits 67 bits
	for _, c := range []byte(number) {
		if c < '0' || c > '9' {
			return accountID{}, fmt.Errorf("account number %q has a character that is not a digit", number)
		}
		carry, product := bits.Mul64(low, 10)
		sum, overflow := bits.Add64(product, uint64(c-'0'), 0)
		high, low = high*10+carry+overflow, sum
	}
	return accountID{high: kindCustomer<<kindShift | packed<<ispbShift | branchNumber<<branchShift | high, low: low}, nil
}

// bankNamed returns an account of the bank that an id names. The id was parsed.
func bankNamed(id endToEndID) accountID {
	packed, err := packISPB(string(id[1:9]))
	if err != nil {
		panic(err)
	}
	return accountID{high: kindCustomer<<kindShift | packed<<ispbShift}
}

// ispbOf returns the ISPB in an account's id.
func ispbOf(id accountID) string {
	packed := id.high & ispbMask >> ispbShift
	var ispb [8]byte
	for i := len(ispb) - 1; i >= 0; i-- {
		ispb[i] = base36[packed%36]
		packed /= 36
	}
	return string(ispb[:])
}

// branchOf returns the branch in a customer account's id.
func branchOf(id accountID) string { return fmt.Sprintf("%04d", id.high>>branchShift&(1<<14-1)) }

var windowNames = [...]string{"day", "night"}

// nameOf names an account, for people.
func nameOf(id accountID) string {
	ispb := ispbOf(id)
	switch kindOf(id) {
	case kindIssuance:
		return "issuance"
	case kindRefusals:
		return "refusals"
	case kindRegister:
		return "register"
	case kindAllowanceSource:
		return "source of allowances"
	case kindBooks:
		return "books of " + ispb
	case kindAllowance:
		return fmt.Sprintf("allowance of %s, %s", ispb, windowNames[id.high>>branchShift&1])
	case kindReserve:
		return "reserve of " + ispb
	case kindTransit:
		return "transit of " + ispb
	case kindCustomer:
		upper, lower := bits.Div64(id.high&7, id.low, 1e10) // below 10^20, so two halves of 10 digits
		number := fmt.Sprint(lower)
		if upper > 0 {
			number = fmt.Sprintf("%d%010d", upper, lower)
		}
		return fmt.Sprintf("%s/%s/%s", ispb, branchOf(id), number)
	}
	return fmt.Sprintf("account %016x%016x", id.high, id.low)
}

var errEmpty = errors.New("it is missing")

func centavos(amount tb.Uint128) (uint64, bool) {
	n := fromTigerBeetle(amount)
	return n.low, n.high == 0
}

func decimal(amount tb.Uint128) string { value := amount.BigInt(); return value.String() }

// reasonNumber packs a reason code as the ledger does: 4 bytes, or 0 for none.
func reasonNumber(code string) (uint32, error) {
	if code == "" {
		return 0, nil
	}
	if len(code) != 4 {
		return 0, fmt.Errorf("reason code %.64q has not 4 characters", code)
	}
	return binary.BigEndian.Uint32([]byte(code)), nil
}

func reasonText(reason uint32) string {
	if reason == 0 {
		return "none"
	}
	return string(binary.BigEndian.AppendUint32(nil, reason))
}

// money is an amount, a total or a balance in centavos: 128 bits, as the ledger counts. A total only
// grows, so two banks that send a reserve to and fro bring it above 64 bits. A balance may be
// negative: two's complement.
type money struct{ high, low uint64 }

func moneyOf(centavos uint64) money { return money{low: centavos} }

func moneyIn(amount tb.Uint128) money { return money(fromTigerBeetle(amount)) }

func (m money) plus(n money) money {
	low, carry := bits.Add64(m.low, n.low, 0)
	high, _ := bits.Add64(m.high, n.high, carry)
	return money{high, low}
}

func (m money) minus(n money) money {
	low, borrow := bits.Sub64(m.low, n.low, 0)
	high, _ := bits.Sub64(m.high, n.high, borrow)
	return money{high, low}
}

// times returns m, which is not negative, n times.
func (m money) times(n uint64) money {
	high, low := bits.Mul64(m.low, n)
	return money{high + m.high*n, low}
}

func (m money) negative() bool { return int64(m.high) < 0 }

// less reports whether a balance is below another one.
func (m money) less(n money) bool {
	if m.high != n.high {
		return int64(m.high) < int64(n.high)
	}
	return m.low < n.low
}

// size returns a balance without its sign.
func (m money) size() money {
	if m.negative() {
		return money{}.minus(m)
	}
	return m
}

func (m money) String() string {
	value := new(big.Int).SetUint64(m.size().high)
	value.Add(value.Lsh(value, 64), new(big.Int).SetUint64(m.size().low))
	if m.negative() {
		value.Neg(value)
	}
	return value.String()
}

// MarshalJSON writes a number.
func (m money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a number: reports of runs are read back.
func (m *money) UnmarshalJSON(text []byte) error {
	var value big.Int
	if err := value.UnmarshalJSON(text); err != nil {
		return err
	}
	size := new(big.Int).Abs(&value)
	*m = money{new(big.Int).Rsh(size, 64).Uint64(), new(big.Int).And(size, new(big.Int).SetUint64(1<<64-1)).Uint64()}
	if value.Sign() < 0 {
		*m = money{}.minus(*m)
	}
	return nil
}
