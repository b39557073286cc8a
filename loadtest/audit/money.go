package audit

import (
	"cmp"
	"math/big"
	"math/bits"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

func centavos(amount tb.Uint128) (uint64, bool) {
	n := fromTigerBeetle(amount)
	return n.low, n.high == 0
}

func decimal(amount tb.Uint128) string { value := amount.BigInt(); return value.String() }

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

// movement is the debits and credits of an account, in centavos. The audit compares both, not
// their difference: money that went in and out by error must show.
type movement struct{ debits, credits money }

func (m movement) balance() money { return m.credits.minus(m.debits) }
