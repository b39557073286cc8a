package ledger

import (
	"encoding/binary"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// Origin names the log of one partition of pix.payments: a hash of the batch with which it
// begins. Ledger and log belong together. An engine on another log would find no record
// where its commit stands, and would skip payments in silence.
type Origin struct {
	Log       uint32 // 1, and one more after each log that was given up
	Partition int32
	Offset    int64 // of the batch
	Hash      [16]byte
}

// OriginID returns the id of the transfer that names a partition's log: log number (32
// bits), partition + 1 (32), 15 (4), so it is not the marker's. No payment can have it:
// role 15 is reserved.
func OriginID(log uint32, partition int32) tb.Uint128 {
	return uint128{low: uint64(log)}.shiftLeft(32).or(uint128{low: uint64(partition + 1)}).shiftLeft(roleBits).or(
		fromTB(MarkerID)).toTB()
}

// GivenUpID returns the id of the transfer that says that a log is given up: that of an
// origin with 0 in the place of the partition.
func GivenUpID(log uint32) tb.Uint128 { return OriginID(log, -1) }

// Transfer returns the transfer that keeps the origin. It moves nothing.
func (o Origin) Transfer() tb.Transfer {
	transfer := nothing(OriginID(o.Log, o.Partition), CodeOrigin)
	transfer.UserData128 = uint128{high: binary.BigEndian.Uint64(o.Hash[:8]),
		low: binary.BigEndian.Uint64(o.Hash[8:])}.toTB()
	transfer.UserData64 = uint64(o.Offset)

	return transfer
}

// OriginOf is the inverse of Transfer.
func OriginOf(t tb.Transfer) Origin {
	id, hash := fromTB(t.ID).shiftRight(roleBits), fromTB(t.UserData128)
	o := Origin{Log: uint32(id.shiftRight(32).low), Partition: int32(uint32(id.low) - 1), Offset: int64(t.UserData64)}
	binary.BigEndian.PutUint64(o.Hash[:8], hash.high)
	binary.BigEndian.PutUint64(o.Hash[8:], hash.low)

	return o
}

// GivenUp returns the transfer that says that a log is given up. It moves nothing.
func GivenUp(log uint32) tb.Transfer { return nothing(GivenUpID(log), CodeGivenUp) }

func nothing(id tb.Uint128, code uint16) tb.Transfer {
	return tb.Transfer{ID: id, DebitAccountID: IssuanceAccount, CreditAccountID: RefusalsAccount,
		Ledger: Ledger, Code: code}
}
