package room

import (
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Part is what the records of one partition have of the room. The intake takes; all else is of the
// partition's goroutine.
type Part struct {
	room            *Room
	payments, bytes atomic.Int64
	shares          map[holder]int
}

// Part returns a part, which has nothing yet.
func (r *Room) Part() *Part { return &Part{room: r, shares: map[holder]int{}} }

// Take takes room for fetched records.
func (p *Part) Take(payments int, bytes int64) {
	p.payments.Add(int64(payments))
	p.bytes.Add(bytes)
	p.room.take(payments, bytes)
}

// Free frees room: of records with which the engine is done, or only bytes.
func (p *Part) Free(payments int, bytes int64) {
	p.payments.Add(int64(-payments))
	p.bytes.Add(-bytes)
	p.room.free(payments, bytes)
}

// FreeAll frees what the part still has, but questions.
func (p *Part) FreeAll() {
	for h, n := range p.shares {
		p.room.shares.add(h, -n)
	}
	p.room.free(int(p.payments.Swap(0)), p.bytes.Swap(0))
}

// Rest checks that nothing holds a place of a share: nothing is in flight.
func (p *Part) Rest() {
	if len(p.shares) > 0 {
		broken("what has ended holds no share: %+v", p.shares)
	}
}

// Share is a place of a bank's share, or of none.
type Share struct {
	of   *Part
	held holder
}

// TakeShare takes a place of a sending bank's share, unless the share is used up.
func (p *Part) TakeShare(bank pix.ISPB) (s Share, taken bool) {
	h := waiting(bank)
	if !p.room.shares.take(h) {
		return Share{}, false
	}
	p.shares[h]++

	return Share{p, h}, true
}

// AddToShare takes a place even if the share is used up: a dead letter must be sent.
func (p *Part) AddToShare(bank pix.ISPB) Share { return p.add(waiting(bank)) }

func (p *Part) add(h holder) Share {
	p.room.shares.add(h, 1)
	p.shares[h]++
	return Share{p, h}
}

// Free frees the place, if there is one.
func (s *Share) Free() {
	p, h := s.of, s.held
	if p == nil {
		return
	}
	*s = Share{}

	if p.shares[h]--; p.shares[h] < 0 {
		broken("a share is freed once: %+v", h)
	} else if p.shares[h] == 0 {
		delete(p.shares, h)
	}
	p.room.shares.add(h, -1)
}

// Question is an open question to a receiving PSP, or none.
type Question struct {
	part   *Part
	to     *questions
	asked  asked
	charge Share // of the payer's share, if the PSP was silent
}

// Ask takes a place for the question about an order whose money is held: so both PSPs have accounts.
func (p *Part) Ask(order *pix.Order, payee Payee, now time.Time) Question {
	r := p.room
	r.Meet(order.Payer.ISPB)
	r.Meet(order.Payee.ISPB)
	q := Question{part: p, to: r.psps.of(order.Payee.ISPB)}

	var silent bool
	if q.asked, silent = q.to.ask(order.ID.Payer().Pack(), payee, r.second(now)); silent {
		q.charge = p.add(questionsOf(order))
	}
	r.awaitBank(1)

	return q
}

// Free ends the question, if there is one: it was answered, or its payment no longer waits.
func (q *Question) Free(now time.Time, answered bool) {
	if q.to == nil {
		return
	}
	q.to.end(q.asked, q.part.room.second(now), answered)
	q.charge.Free()
	q.part.room.awaitBank(-1)
	*q = Question{}
}
