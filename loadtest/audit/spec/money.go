package spec

import (
	"fmt"

	"cmp"
	"math/big"
	"math/bits"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Centavos returns an amount, and false if it does not fit.
func Centavos(amount tb.Uint128) (uint64, bool) {
	n := NumberOf(amount)
	return n.Low, n.High == 0
}

// Decimal writes an amount.
func Decimal(amount tb.Uint128) string { value := amount.BigInt(); return value.String() }

// Money is an amount, a total or a balance in centavos: 128 bits, as the ledger counts. A total only
// grows, so two banks that send a reserve to and fro bring it above 64 bits. A balance may be
// negative: two's complement.
type Money struct{ High, Low uint64 }

// MoneyOf returns so many centavos.
func MoneyOf(centavos uint64) Money { return Money{Low: centavos} }

// MoneyIn reads an amount of the ledger.
func MoneyIn(amount tb.Uint128) Money { return Money(NumberOf(amount)) }

// Plus adds.
func (m Money) Plus(n Money) Money {
	low, carry := bits.Add64(m.Low, n.Low, 0)
	high, _ := bits.Add64(m.High, n.High, carry)
	return Money{high, low}
}

// Minus subtracts.
func (m Money) Minus(n Money) Money {
	low, borrow := bits.Sub64(m.Low, n.Low, 0)
	high, _ := bits.Sub64(m.High, n.High, borrow)
	return Money{high, low}
}

// times returns m, which is not negative, n times.
func (m Money) times(n uint64) Money {
	high, low := bits.Mul64(m.Low, n)
	return Money{high + m.High*n, low}
}

// Less reports whether a balance is below another one.
func (m Money) Less(n Money) bool {
	return cmp.Or(cmp.Compare(int64(m.High), int64(n.High)), cmp.Compare(m.Low, n.Low)) < 0
}

func (m Money) String() string {
	value := big.NewInt(int64(m.High))
	return value.Lsh(value, 64).Add(value, new(big.Int).SetUint64(m.Low)).String()
}

// MarshalJSON writes a number.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a number: reports of runs are read back.
func (m *Money) UnmarshalJSON(text []byte) error {
	var value big.Int
	if err := value.UnmarshalJSON(text); err != nil {
		return err
	}
	low := new(big.Int).And(&value, new(big.Int).SetUint64(1<<64-1))
	*m = Money{uint64(value.Rsh(&value, 64).Int64()), low.Uint64()}

	return nil
}

// Movement is the debits and credits of an account, in centavos. The audit compares both, not
// their difference: money that went in and out by error must show.
type Movement struct{ Debits, Credits Money }

// Balance returns credits less debits.
func (m Movement) Balance() Money { return m.Credits.Minus(m.Debits) }

// MovementIn returns what an account says.
func MovementIn(debits, credits tb.Uint128) Movement {
	return Movement{MoneyIn(debits), MoneyIn(credits)}
}

func (m Movement) String() string {
	return fmt.Sprintf("debits of %v and credits of %v centavos", m.Debits, m.Credits)
}
