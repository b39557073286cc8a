package room

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// A PSP is silent if its oldest question is over silentSeconds old. Its stuck questions are
// those, or all of them if it has answered nothing for quietSeconds: so a PSP that stops at
// once is noticed before its questions fill the room. A PSP that only lost an answer has one
// stuck question, and nobody suffers. In PIX a bank answers within 2.5 s.
const (
	silentSeconds = 5
	quietSeconds  = 2
)

// questions are the open questions to one receiving PSP, over all partitions. A sender may have no
// more of them than there is room for others, so that others always find a place. Payees that answer
// nobody are held apart, and refused apart: they do not stop the payments to those that answer.
type questions struct {
	max     int
	silence *silence

	mu       sync.Mutex
	open     int
	senders  map[uint64]int         // open questions by the sending PSP, packed
	payees   map[Payee]answerer     // with open questions
	apart    int                    // open questions to payees that are apart
	old      int                    // of these, asked over silentSeconds ago
	recent   [silentSeconds + 1]int // the others, by the second in which they were asked
	second   int64                  // the youngest of these seconds
	answered int64                  // when the last answer came
	stuck    int                    // as counted in silence
}

// answerer is a payee with open questions.
type answerer struct {
	open  int
	apart bool
	since int64 // the second in which it answered last, or began to have questions
}

// asked is an open question.
type asked struct {
	sender uint64
	payee  Payee
	second int64 // in which it was asked
}

// full reports whether a payment would find no place, and whether the PSP is silent.
func (q *questions) full(sender uint64, to Payee) (full, silent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	full = q.senders[sender] >= q.max-q.open || q.silence.isFull(max(0, q.stuck-q.apart))

	return full || q.payees[to].apart && q.apartIsFull(), q.stuck > 0
}

// apartIsFull reports whether the payees that are apart have a quarter of the room. So who pays to them
// has places left for others.
func (q *questions) apartIsFull() bool { return q.apart >= q.max/4 || q.silence.isFull(q.apart) }

// setApart finds the payees that answer nobody, as far as there is room apart.
func (q *questions) setApart() {
	for id, p := range q.payees {
		if !p.apart && q.second-p.since > quietSeconds && !q.apartIsFull() {
			q.apart += p.open
			p.apart = true
			q.payees[id] = p
		}
	}
}

// ask counts a question. It also returns whether the PSP is silent.
func (q *questions) ask(sender uint64, to Payee, second int64) (a asked, silent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(second)

	if q.open == 0 {
		q.answered = q.second // there was nothing to answer
	}
	q.open++
	q.senders[sender]++

	p := q.payees[to]
	if p.open == 0 {
		p.since = q.second
	}

	if p.open++; p.apart {
		q.apart++
	}
	q.payees[to] = p
	q.recent[q.second%int64(len(q.recent))]++
	q.settle()

	return asked{sender, to, q.second}, q.stuck > 0
}

// end ends a question, because it was answered or because its payment no longer waits.
func (q *questions) end(a asked, second int64, answered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(second)

	if q.open--; q.open < 0 {
		broken("payments that wait for a PSP are counted once")
	}

	if q.senders[a.sender]--; q.senders[a.sender] == 0 {
		delete(q.senders, a.sender)
	}
	p := q.payees[a.payee]

	p.open--
	if p.apart {
		q.apart--
	}

	if answered {
		if p.apart {
			q.apart -= p.open
		}
		p.apart, p.since, q.answered = false, q.second, q.second
	}

	if q.payees[a.payee] = p; p.open == 0 {
		delete(q.payees, a.payee)
	}

	if q.second-a.second < int64(len(q.recent)) {
		q.recent[a.second%int64(len(q.recent))]--
	} else {
		q.old--
	}
	q.settle()
}

func (q *questions) age(second int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(second)
	q.settle()
}

func (q *questions) count() (open, stuck int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open, q.stuck
}

// advance makes second the youngest. Partitions may be a little behind each other.
func (q *questions) advance(second int64) {
	if q.second >= second {
		return
	}

	for q.second < second {
		if q.second++; second-q.second >= int64(len(q.recent)) {
			q.second = second - int64(len(q.recent)) + 1 // all of recent is old
			for i := range q.recent {
				q.old += q.recent[i]
				q.recent[i] = 0
			}
		}
		oldest := &q.recent[q.second%int64(len(q.recent))]
		q.old += *oldest
		*oldest = 0
	}

	if q.waited() > 0 {
		q.setApart()
	}
}

// waited returns how many were asked over quietSeconds ago.
func (q *questions) waited() int {
	waited := q.old
	for second := max(0, q.second-silentSeconds); second < q.second-quietSeconds; second++ {
		waited += q.recent[second%int64(len(q.recent))]
	}

	return waited
}

// settle counts the stuck questions, also in the sum over all PSPs.
func (q *questions) settle() {
	stuck := q.old
	if q.waited() > 0 && q.second-q.answered > quietSeconds {
		stuck = q.open
	}
	q.silence.stuck.Add(int64(stuck - q.stuck))

	switch {
	case q.stuck == 0 && stuck > 0:
		q.silence.psps.Add(1)
	case q.stuck > 0 && stuck == 0:
		q.silence.psps.Add(-1)
	}
	q.stuck = stuck
}

// silence is what all silent PSPs hold together. It leaves half of the room to the others.
type silence struct {
	max   int64 // stuck questions of all PSPs
	stuck atomic.Int64
	psps  atomic.Int64 // with stuck questions
}

// isFull reports whether a PSP with so many stuck questions may have no more. All silent PSPs have
// equal parts: half for questions to payees that are apart, half for the others. When they hold nearly
// all that they may, those with few go on until a sixteenth of the room: a PSP that lost some answers
// must not suffer with those that give none.
func (s *silence) isFull(stuck int) bool {
	psps := s.psps.Load()
	if stuck == 0 || psps == 0 {
		return false
	}
	few := s.max / 8

	return int64(stuck) >= s.max/2/psps || s.stuck.Load() >= s.max-few && int64(stuck) >= few/psps
}

// psps are the receiving PSPs, with the open questions to each, so that a silent one cannot take the room.
type psps struct {
	questionsMax int // to one PSP; see questions
	silence      *silence

	mu        sync.RWMutex
	questions map[pix.ISPB]*questions // of those that are known to have accounts, so it is bounded
}

// newPSPs returns PSPs with room for so many payments in flight. One may have a share of it; all of it
// is no limit.
func newPSPs(inFlightMax int, share float64) *psps {
	questionsMax := max(1, int(float64(inFlightMax)*share))
	if share == 1 {
		questionsMax = math.MaxInt
	}

	return &psps{
		questionsMax: questionsMax, silence: &silence{max: int64(inFlightMax / 2)},
		questions: map[pix.ISPB]*questions{},
	}
}

// Payee is the id of a payee's account. Zero: it is not known yet.
type Payee [16]byte

// Busy reports whether a new payment would find no place at the payee's PSP.
func (r *Room) Busy(order *pix.Order, payee Payee) bool {
	q := r.psps.of(order.Payee.ISPB)
	if q == nil {
		return false
	}
	full, silent := q.full(order.ID.Payer().Pack(), payee)

	return full || silent && r.shares.usedUp(questionsOf(order))
}

// Knows reports whether a PSP is known to have accounts.
func (r *Room) Knows(psp pix.ISPB) bool { return r.psps.of(psp) != nil }

// Meet notes that a PSP has accounts: the ledger has said so.
func (r *Room) Meet(psp pix.ISPB) {
	if r.Knows(psp) {
		return
	}
	p := r.psps
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.questions[psp] == nil {
		// psp lies in a record, which it would keep alive
		p.questions[pix.ISPB(strings.Clone(string(psp)))] = &questions{max: p.questionsMax, silence: p.silence,
			senders: map[uint64]int{}, payees: map[Payee]answerer{}}
	}
}

// of returns the open questions to a PSP that was met, or nil.
func (p *psps) of(psp pix.ISPB) *questions {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.questions[psp]
}

// Age lets the open questions of all PSPs grow older.
func (r *Room) Age(now time.Time) {
	p, second := r.psps, r.second(now)
	p.mu.RLock()
	defer p.mu.RUnlock()

	for _, q := range p.questions {
		q.age(second)
	}
}

// EachPSP calls use with each PSP that was met, and how many payments wait for it, and are stuck there.
func (r *Room) EachPSP(use func(psp pix.ISPB, open, stuck int)) {
	p := r.psps
	p.mu.RLock()
	defer p.mu.RUnlock()

	for psp, q := range p.questions {
		open, stuck := q.count()
		use(psp, open, stuck)
	}
}
