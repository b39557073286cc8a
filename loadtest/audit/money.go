package audit

import (
	"math/big"
	"math/bits"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

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
