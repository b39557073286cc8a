package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
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

func (n number128) compare(m number128) int {
	return cmp.Or(cmp.Compare(n.high, m.high), cmp.Compare(n.low, m.low))
}

// endToEndID is "E", ISPB (8), yyyyMMddHHmm (12) and 11 characters.
type endToEndID [32]byte

func (e endToEndID) String() string { return string(e[:]) }

var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

const minutesMax = 1<<26 - 1

// parseAnyID reads the id of a payment or of a return.
func parseAnyID(text string) (id endToEndID, minutes uint64, err error) {
	if strings.HasPrefix(text, "D") {
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

	if strings.Trim(text[21:], base62) != "" {
		return id, 0, fmt.Errorf("EndToEndId %q has a character other than 0-9, A-Z, a-z", text)
	}
	copy(id[:], text)

	return id, minutes, nil
}

const (
	base36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	base62 = base36 + "abcdefghijklmnopqrstuvwxyz"
)

// packISPB reads 8 digits to the base of 36.
func packISPB(text string) (uint64, error) {
	if len(text) != 8 {
		return 0, fmt.Errorf("ISPB %.64q has not 8 characters", text)
	}

	if strings.Trim(text, base36) != "" {
		return 0, fmt.Errorf("ISPB %q has a character other than 0-9, A-Z", text)
	}

	return packed(text, base36), nil
}

// packed reads digits of an alphabet.
func packed(text, alphabet string) (number uint64) {
	for _, c := range []byte(text) {
		number = number*uint64(len(alphabet)) + uint64(strings.IndexByte(alphabet, c))
	}

	return number
}

// paymentKey is the id of a payment's transfers with role 0: minutes (26 bits), the first 5
// characters of the suffix in base 62 (30), 68 bits of SHA-256, role (4).
func paymentKey(id endToEndID, minutes uint64) number128 {
	return keyWith(id, minutes, sha256.Sum256(id[:]))
}

func keyWith(id endToEndID, minutes uint64, hash [sha256.Size]byte) number128 {
	suffix := packed(string(id[21:26]), base62)

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

// less reports whether a balance is below another one.
func (m money) less(n money) bool {
	return cmp.Or(cmp.Compare(int64(m.high), int64(n.high)), cmp.Compare(m.low, n.low)) < 0
}

func (m money) String() string {
	value := big.NewInt(int64(m.high))
	return value.Lsh(value, 64).Add(value, new(big.Int).SetUint64(m.low)).String()
}

// MarshalJSON writes a number.
func (m money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a number: reports of runs are read back.
func (m *money) UnmarshalJSON(text []byte) error {
	var value big.Int
	if err := value.UnmarshalJSON(text); err != nil {
		return err
	}
	low := new(big.Int).And(&value, new(big.Int).SetUint64(1<<64-1))
	*m = money{uint64(value.Rsh(&value, 64).Int64()), low.Uint64()}

	return nil
}
