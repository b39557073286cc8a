package ledgermodel

import (
	"encoding/binary"
	"math/bits"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// number is an unsigned number of 128 bits, as balances and amounts are.
type number struct{ high, low uint64 }

var numberMax = number{^uint64(0), ^uint64(0)}

func numberOf(value tb.Uint128) number {
	raw := value.Bytes()
	return number{binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[:8])}
}

func (n number) uint128() tb.Uint128 {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[8:], n.high)
	binary.LittleEndian.PutUint64(raw[:8], n.low)

	return tb.BytesToUint128(raw)
}

func (n number) less(other number) bool {
	return n.high < other.high || n.high == other.high && n.low < other.low
}

// plus returns the sum, and whether it exceeds 128 bits.
func (n number) plus(other number) (sum number, overflow bool) {
	low, carry := bits.Add64(n.low, other.low, 0)
	high, carry := bits.Add64(n.high, other.high, carry)
	return number{high, low}, carry != 0
}

// minus returns the difference. The caller knows that it is not negative.
func (n number) minus(other number) number {
	low, borrow := bits.Sub64(n.low, other.low, 0)

	high, borrow := bits.Sub64(n.high, other.high, borrow)
	if borrow != 0 {
		panic("ledgermodel: a balance below zero")
	}

	return number{high, low}
}

func add(balance *tb.Uint128, amount number) {
	sum, overflow := numberOf(*balance).plus(amount)
	if overflow {
		panic("ledgermodel: a balance above 128 bits")
	}
	*balance = sum.uint128()
}

func subtract(balance *tb.Uint128, amount number) {
	*balance = numberOf(*balance).minus(amount).uint128()
}
