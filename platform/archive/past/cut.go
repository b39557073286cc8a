package past

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// cutter makes segments of the transfers of a ledger, in the ledger's order. What a segment holds follows from the
// transfers alone: it ends with its minute of the ledger's clock, or with rowsMax rows of payments and records, but for
// the rest of a chain and holds that expired. So two of them cut alike.
type cutter struct {
	rowsMax int
	last    archive.Manifest // of what is written
	chain   []tb.Transfer
	segment *archive.Segment // that is being filled; nil: it has no row yet
	since   uint64           // the time of its first row
	lastID  string           // of the last transfer that has a row and that a rebuild brings
	lastAt  uint64
	live    bool    // what comes is in no segment
	holds   []*hold // in their order, also some that have ended
	open    map[tb.Uint128]*hold
}

// minuteOf returns the first nanosecond of the minute of an instant.
func minuteOf(at uint64) uint64 { return at - at%60e9 }

// hold is money that is held, until it has ended.
type hold struct {
	legs        []tb.Transfer // nil: it has ended
	at, expires uint64
}

// newCutter goes on after a segment; the zero Manifest: from the ledger's begin.
func newCutter(after archive.Manifest, rowsMax int) *cutter {
	return &cutter{rowsMax: rowsMax, last: after, lastID: after.LastID, lastAt: after.LastAt,
		open: map[tb.Uint128]*hold{}}
}

// from is the time of the first transfer that it needs.
func (c *cutter) from() uint64 {
	if c.last.OpenSince > 0 {
		return c.last.OpenSince
	}

	return c.last.To + 1
}

// add takes the next transfer. If it says that a segment has ended, that one is returned: the caller gives it its
// accounts and stores it, and calls stored before the next add.
func (c *cutter) add(t tb.Transfer) (*archive.Segment, error) {
	var done *archive.Segment
	if len(c.chain) == 0 && c.segment != nil && minuteOf(t.Timestamp) > minuteOf(c.since) {
		done = c.end(minuteOf(c.since) + 60e9 - 1)
	}

	c.chain = append(c.chain, t)
	if t.TransferFlags().Linked {
		return done, nil
	}
	chain := c.chain

	c.chain = c.chain[:0]                               // what keeps it makes a copy
	if chain[0].Timestamp <= c.last.To && done == nil { // it is in a segment: only what it holds matters
		c.again(chain)
		return nil, nil
	}

	if err := c.take(chain); err != nil {
		return nil, err
	}

	if s := c.segment; s != nil && done == nil && len(s.PaymentRows)+len(s.RecordRows) >= c.rowsMax {
		done = c.end(chain[len(chain)-1].Timestamp)
	}

	return done, nil
}

// stored says that a segment is stored.
func (c *cutter) stored(m archive.Manifest) { c.last = m }

// end ends the segment.
func (c *cutter) end(to uint64) *archive.Segment {
	s := c.segment
	c.segment = nil
	s.From, s.To, s.LastID, s.LastAt = c.last.To, to, c.lastID, c.lastAt
	part := 0

	minute, place, _ := strings.Cut(c.last.Name, "-")
	if before, err := strconv.Atoi(place); err == nil && strings.HasPrefix(archive.NameOf(c.since, 0), minute+"-") {
		part = before + 1
	}
	s.Name = archive.NameOf(c.since, part)
	c.expire(to, func(h *hold) { s.PaymentRows = append(s.PaymentRows, expiredRow(h)) })

	if len(c.holds) > 0 {
		s.OpenSince = c.holds[0].at
	}

	return s
}

// expire calls row with each hold that the ledger has ended by a time, and forgets it.
func (c *cutter) expire(to uint64, row func(*hold)) {
	for _, h := range c.holds {
		if h.legs != nil && h.expires <= to {
			row(h)
			c.release(h)
		}
	}
	c.forget()
}

// again takes a chain that is in a segment.
func (c *cutter) again(chain []tb.Transfer) {
	if begins(chain) {
		c.hold(chain)
	} else if h := c.endedBy(chain); h != nil {
		c.release(h)
	}
}

func (c *cutter) hold(chain []tb.Transfer) {
	h := &hold{legs: slices.Clone(chain), at: chain[0].Timestamp, expires: forever}
	if timeout := chain[0].Timeout; timeout > 0 {
		h.expires = h.at + uint64(timeout)*1e9
	}

	c.open[chain[0].ID] = h
	if c.holds = append(c.holds, h); len(c.holds) > 2*len(c.open)+1000 {
		c.forget()
	}
}

func (c *cutter) release(h *hold) {
	delete(c.open, h.legs[0].ID)
	h.legs = nil
}

// forget drops the holds that have ended.
func (c *cutter) forget() {
	c.holds = slices.DeleteFunc(c.holds, func(h *hold) bool { return h.legs == nil })
}

// begins reports whether a chain holds the money of a payment or a return.
func begins(chain []tb.Transfer) bool {
	return chain[0].TransferFlags().Pending &&
		(chain[0].Code == ledger.CodeLeg1 || chain[0].Code == ledger.CodeReturnLeg1)
}

// endedBy returns the hold that a chain ends.
func (c *cutter) endedBy(chain []tb.Transfer) *hold {
	first := &chain[0]
	if first.Code == ledger.CodeReturn && len(chain) > 1 {
		first = &chain[1]
	}

	return c.open[first.PendingID]
}

// take makes rows of a chain.
func (c *cutter) take(chain []tb.Transfer) error {
	if chain[0].Code == ledger.CodeClockProbe {
		return nil
	}

	if !c.live {
		c.live = true
		c.expire(c.last.To, func(*hold) {}) // they have their row
	}

	if begins(chain) {
		c.hold(chain)
		return nil
	}

	if h := c.endedBy(chain); h != nil {
		p, err := rowOf(h.legs, chain)
		if err != nil {
			return err
		}
		c.release(h)
		c.row(chain, p)

		return nil
	}

	if p, is := refusedRow(chain); is {
		c.row(chain, p)
		return nil
	}

	s := c.segmentOf(chain)
	if brought(chain) {
		c.endWith(chain)
	}

	for i := range chain {
		r, err := recordOf(&chain[i])
		if err != nil {
			return err
		}
		s.RecordRows = append(s.RecordRows, r)
	}

	return nil
}

// row adds the row of a payment that a chain has ended.
func (c *cutter) row(chain []tb.Transfer, p archive.Payment) {
	s := c.segmentOf(chain)
	s.PaymentRows = append(s.PaymentRows, p)
	c.endWith(chain)
}

// segmentOf returns the segment that a chain belongs to.
func (c *cutter) segmentOf(chain []tb.Transfer) *archive.Segment {
	if c.segment == nil {
		// As large as the one before: growing would move half of the rows.
		c.segment, c.since = &archive.Segment{PaymentRows: make([]archive.Payment, 0, c.last.Payments)},
			chain[0].Timestamp
	}

	return c.segment
}

// endWith makes a chain the last one that a rebuild brings.
func (c *cutter) endWith(chain []tb.Transfer) {
	last := &chain[len(chain)-1]
	c.lastID, c.lastAt = last.ID.String(), last.Timestamp
}

// rowOf returns the row of a payment or a return that was held and has ended. It is an error if its transfers do not
// follow from the row: the archive could not bring them back.
func rowOf(held, end []tb.Transfer) (archive.Payment, error) {
	p, err := heldRow(held)
	if err != nil {
		return p, err
	}

	p.DecidedAt = int64(end[0].Timestamp)
	if p.Kind == archive.KindReturn {
		original, known := ledger.OriginalOf(end[0])
		if !known {
			return p, fmt.Errorf("the verdict %v of the return %s names no payment", end[0].ID, p.ID)
		}

		p.Original, p.Slot = original.String(), -1
		for slot := range ledger.ReturnSlots {
			if ledger.ReturnIDs(original, slot).Pending(1) == held[0].ID {
				p.Slot = int32(slot)
			}
		}
	}
	resolution := end[len(end)-1]

	p.Status = archive.Settled
	if resolution.TransferFlags().VoidPendingTransfer {
		p.Status, p.Reason = archive.Rejected, pix.Reason(resolution.UserData32).String()
	}

	hold, decided, err := TransfersOf(&p)
	if err == nil {
		err = errors.Join(same(hold, held), same(decided, end))
	}

	if err != nil {
		return p, fmt.Errorf("the transfers of %s do not follow from its row, so the archive could not bring them back: %w",
			p.ID, err)
	}

	return p, nil
}

// heldRow returns what a hold says about its payment or return.
func heldRow(held []tb.Transfer) (p archive.Payment, err error) {
	first := held[0]
	p.HeldAt, p.HoldSeconds = int64(first.Timestamp), int32(first.Timeout)
	var content pix.Content
	_, content.Payer = ledger.UnpackAccount(first.DebitAccountID)
	content.AmountCentavos = uint64(ledger.Centavos(first.Amount))

	for i := range held {
		switch held[i].Code {
		case ledger.CodeLeg3, ledger.CodeReturnLeg3:
			_, content.Payee = ledger.UnpackAccount(held[i].CreditAccountID)
		case ledger.CodeLeg4:
			p.CapWindow, p.CapSeconds = ledger.Day.String(), int32(held[i].Timeout)
			if _, of := ledger.UnpackAccount(held[i].DebitAccountID); held[i].DebitAccountID == ledger.AllowanceAccount(
				of.ISPB, ledger.Night) {
				p.CapWindow = ledger.Night.String()
			}
		}
	}
	setContent(&p, content)

	if first.Code == ledger.CodeReturnLeg1 {
		id, err := ledger.ReturnIDOf(first)
		p.Kind, p.ID, p.ReturnReason = archive.KindReturn, id.String(), pix.Reason(first.UserData32).String()
		return p, err
	}
	id, err := ledger.EndToEndIDOf(first)
	p.Kind, p.ID = archive.KindPayment, id.String()

	return p, err
}

func expiredRow(h *hold) archive.Payment {
	p, _ := heldRow(h.legs) // its id may be unreadable: nobody brings it back
	p.Status, p.DecidedAt = archive.Expired, int64(h.expires)
	return p
}

// refusedRow returns the row of a payment that was refused, if its sender is known.
func refusedRow(chain []tb.Transfer) (p archive.Payment, is bool) {
	t := chain[0]

	kind, payer := ledger.UnpackAccount(t.DebitAccountID)
	if len(chain) != 1 || t.Code != ledger.CodeReceipt || kind != ledger.Transit {
		return p, false
	}
	p = archive.Payment{Kind: archive.KindPayment, Status: archive.Refused, Reason: pix.Reason(t.UserData32).String(),
		ContentHash: fmt.Sprintf("%016x", t.UserData64), PayerISPB: string(payer.ISPB), DecidedAt: int64(t.Timestamp)}
	leg := t
	leg.UserData64 = binary.BigEndian.Uint64([]byte(payer.ISPB))

	id, err := ledger.EndToEndIDOf(leg)
	if err != nil {
		return p, false
	}
	p.ID = id.String()
	_, end, err := TransfersOf(&p)

	return p, err == nil && same(end, chain) == nil
}

// same compares what a row says with what the ledger has.
func same(computed, has []tb.Transfer) error {
	if len(computed) != len(has) {
		return fmt.Errorf("the ledger has %d transfers, and %d follow", len(has), len(computed))
	}

	for i := range has {
		is := has[i]
		if is.Flags = unflagged(is.Flags); is != computed[i] {
			return fmt.Errorf("the ledger has %+v, and %+v follows", is, computed[i])
		}
	}

	return nil
}

// waiting returns how many rows are in no segment yet, and the ledger's time of the first of them.
func (c *cutter) waiting() (rows int, since uint64) {
	if c.segment == nil {
		return 0, 0
	}

	return len(c.segment.PaymentRows) + len(c.segment.RecordRows), c.since
}
