package engine

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// arrival is a valid order and the record that brought it.
type arrival struct {
	order  pix.Order
	kind   kind
	record *kgo.Record
}

// flight is an order in this engine, from its arrival to its finished offset.
type flight struct {
	payment   payment.Payment
	kind      kind
	record    *kgo.Record
	waiting   []waiter      // records that came later and wait for this one
	judgement judgement     // of the look-up that made the order a dead letter
	question  room.Question // to the PSP, while this order waits for its response
	slim      bool          // record has only its offset: see partition.slim
	share     room.Share    // of the payer's bank: a return has one, and who becomes a dead letter
	hopAt     time.Time     // when the present hop began

	rules   uint64          // of the register, by which the order was decided
	capped  bool            // leg 4 is held, or in the chain of phase 1 under way
	glimpse bool            // the look-up under way asks only whether the ledger knows the order
	taken   bool            // see offsets.take
	writing chainPurpose    // of the chain under way, or chainNone
	decided bool            // the ledger has confirmed verdict
	verdict payment.Outcome // the last one written or read
}

// waiter is a record that waits for an order in flight: a copy (a record with the same id), or
// a return of the payment. It keeps what judges it, not the record: the record's bytes and
// its place in the room are free for others. A waiter that needs its record is fetched again.
type waiter struct {
	offset int64
	digest pix.Digest // of its content
	share  room.Share
	late   bool // it came when the order's report or dead letter was on its way
	isCopy bool
}

// judgement is the look-up that made an order a dead letter. It also judges the copies that
// wait: one look-up for all.
type judgement struct {
	reason  pix.Reason
	decided bool // a verdict stands, so it judges later copies, too. A hold alone may still lose to a receipt
	// holds reports whether the ledger holds a content under the order's id. It is nil if
	// the look-up does not say that about other contents.
	holds func(pix.Digest) bool
}

// returning is a waiter whose record is fetched again.
type returning struct {
	share  room.Share
	reason pix.Reason // of its dead letter; none: it arrives again
}
