package question

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

// Question is what a bank is asked: the data of an event question.
type Question struct {
	EndToEndID            string        `json:"end_to_end_id" doc:"Of a payment (E…), or the RtrId of a return (D…). The answer repeats it."`
	OriginalEndToEndID    string        `json:"original_end_to_end_id,omitempty" doc:"The payment that a return gives back."`
	Payer                 field.Account `json:"payer"`
	Payee                 field.Account `json:"payee" doc:"The account that is credited if the payment settles."`
	AmountCentavos        uint64        `json:"amount_centavos"`
	RemittanceInformation string        `json:"remittance_information,omitempty" doc:"The payer's text. A question that is asked again may come without it."`
	AskedAt               string        `json:"asked_at" format:"date-time" doc:"When the engine wrote the question."`
	Deadline              string        `json:"deadline" format:"date-time" doc:"When the engine stops waiting, by the ledger's clock."`
	LeftMilliseconds      int64         `json:"left_milliseconds" doc:"From the sending of this event to the deadline; 0: it has passed, and an answer is too late."`
}

// News is what became of a question: the data of an event over or refused.
type News struct {
	EndToEndID string `json:"end_to_end_id"`
	Status     string `json:"status" enum:"settled,rejected,expired,forged" doc:"settled, rejected: the verdict. expired: a minute after its deadline there was no report. forged: the answer had not the bank's seal, and the question is open."`
	ReasonCode string `json:"reason_code,omitempty"`
}

// The kinds of News, beside the verdicts query.Settled and query.Rejected.
const (
	expired = "expired"
	forged  = "forged"
)

// ending is how a question ended. A desk keeps thousands, so it is small.
type ending struct {
	status status
	reason pix.Reason
}

type status uint8

const (
	questionSettled status = iota
	questionRejected
	questionExpired
)

func (s status) String() string {
	return [...]string{questionSettled: query.Settled, questionRejected: query.Rejected, questionExpired: expired}[s]
}

// How much of the past a desk keeps, and for how long after its deadline it keeps a question without a verdict.
const (
	newsMax      = 20_000
	overMax      = 20_000 // ended questions in each of two generations
	expiredAfter = time.Minute
)

// told is a question as a program is told it.
type told struct {
	Question
	at, deadline time.Time
}

// asked is an open question.
type asked struct {
	told
	id        pix.EndToEndID
	partition int32  // where its answer belongs
	place     uint64 // in the line; 0: it is not told
	again     bool   // it was told before
	over      bool   // it is not open any more, or was asked again
	answer    *answer
}

// date dates a question. It is written once: encoding/json needs longer for a time than for all other fields.
func (q *told) date(at, deadline time.Time) {
	q.at, q.deadline = at.UTC(), deadline.UTC()
	q.AskedAt, q.Deadline = q.at.Format(time.RFC3339Nano), q.deadline.Format(time.RFC3339Nano)
}

// answer is a bank's word, and where it is.
type answer struct {
	accepted bool
	code     string
	sending  bool // Kafka has not said that it has it
	stored   bool
	since    time.Time // when it was stored
	at       recordAt
}

// unstored is the word alone. The bank may repeat it, and say nothing else.
func (a *answer) unstored() *answer {
	if a == nil {
		return nil
	}

	return &answer{accepted: a.accepted, code: a.code}
}

type recordAt struct {
	partition int32
	offset    int64
}

// desk has the open questions of one bank, and tells each program of the bank. Each question has one place in a line
// that its programs walk along. One that nobody has answered for a while gets a new place, at the end.
type desk struct {
	again time.Duration
	most  int

	users  int         // requests that it serves; guarded by the board's lock, as is used
	used   time.Time   // when the last one ended
	read   bool        // what is read is for it, too; guarded by the reading's lock
	filled atomic.Bool // it has all open questions

	mu      sync.Mutex
	open    map[pix.EndToEndID]*asked
	seed    maphash.Seed
	over    [2]map[uint64]ending // by a hash that nobody can aim at; the younger generation first
	line    tape[*asked]
	news    tape[News]
	checks  []check // in their order
	shares  map[string]*share
	readers int           // streams of their own
	changed chan struct{} // closes when there is more to tell
}

// check is when an open question is looked at again.
type check struct {
	id  pix.EndToEndID
	due time.Time
}

// share is programs of a bank of which each question goes to one.
type share struct {
	at      uint64 // the next place in the line
	members int
	used    time.Time
}

func newDesk(again time.Duration, most int) *desk {
	return &desk{again: again, most: most, open: map[pix.EndToEndID]*asked{}, seed: maphash.MakeSeed(),
		over: [2]map[uint64]ending{{}, {}}, line: tape[*asked]{first: 1},
		news: tape[News]{first: 1}, shares: map[string]*share{}, changed: make(chan struct{})}
}

// tape is a list whose entries have numbers. Old ones go.
type tape[T any] struct {
	first   uint64 // the number of entries[0]
	entries []T
}

func (t *tape[T]) end() uint64 { return t.first + uint64(len(t.entries)) }

func (t *tape[T]) add(entry T) uint64 {
	t.entries = append(t.entries, entry)
	return t.end() - 1
}

func (t *tape[T]) drop(n int) {
	clear(t.entries[:n])
	t.entries, t.first = t.entries[n:], t.first+uint64(n) //nolint:gosec // positive
}

// ask opens a question, or one that is asked again: by another engine, or because its topic was made anew. It
// is false if the desk is full.
func (d *desk) ask(now time.Time, q *asked) bool {
	d.mu.Lock()
	defer d.mu.Unlock()

	if _, ended := d.ended(q.id); ended {
		return true
	}

	before := d.open[q.id]
	switch {
	case before == nil && len(d.open) >= d.most:
		return false
	case before == nil:
		d.checks = append(d.checks, check{q.id, now.Add(d.again)})
	default:
		before.place, before.over, q.again, q.answer = 0, true, true, before.answer.unstored()
		if q.RemittanceInformation == "" {
			q.RemittanceInformation = before.RemittanceInformation
		}
	}
	d.open[q.id] = q
	d.tell(q)

	return true
}

// tell gives a question the last place. The caller holds the lock, and calls wake.
func (d *desk) tell(q *asked) {
	q.again = q.again || q.place > 0
	q.place = d.line.add(q)
}

// wake tells all programs that there is more. The caller holds the lock.
func (d *desk) wake() {
	for len(d.line.entries) > 0 && d.line.entries[0].place != d.line.first { // answered, over, or told again
		d.line.drop(1)
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *desk) wakeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wake()
}

// end ends a question.
func (d *desk) end(id pix.EndToEndID, how ending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends(id, how)
}

func (d *desk) ends(id pix.EndToEndID, how ending) {
	if len(d.over[0]) >= overMax {
		clear(d.over[1])
		d.over[0], d.over[1] = d.over[1], d.over[0]
	}

	d.over[0][maphash.Comparable(d.seed, id)] = how
	if q := d.open[id]; q != nil {
		q.place, q.over = 0, true
		delete(d.open, id)
		d.inform(News{EndToEndID: q.EndToEndID, Status: how.status.String(), ReasonCode: how.reason.String()})
	}
}

// inform tells all programs what became of a question. The caller holds the lock, and calls wake.
func (d *desk) inform(news News) {
	d.news.add(news)

	if len(d.news.entries) > newsMax {
		d.news.drop(newsMax / 10)
	}
}

// ended returns how a question ended, if it did not long ago. The caller holds the lock.
func (d *desk) ended(id pix.EndToEndID) (ending, bool) {
	hash := maphash.Comparable(d.seed, id)
	for _, generation := range d.over {
		if how, known := generation[hash]; known {
			return how, true
		}
	}

	return ending{}, false
}

// tick tells again what is open and was not answered in time, or was answered without a verdict: the answer may have
// been forged or lost. ledgerNow is the ledger's time.
func (d *desk) tick(now, ledgerNow time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()

	for len(d.checks) > 0 && !d.checks[0].due.After(now) {
		id := d.checks[0].id
		d.checks = d.checks[1:]

		q := d.open[id]
		switch {
		case q == nil:
			continue
		case ledgerNow.After(q.deadline.Add(expiredAfter)):
			d.ends(id, ending{status: questionExpired})
			continue
		case !ledgerNow.Before(q.deadline):
			q.place = 0 // no answer counts any more
		case q.answer == nil || !q.answer.sending && now.Sub(q.answer.since) >= d.again:
			q.answer = q.answer.unstored()
			d.tell(q)
		}
		d.checks = append(d.checks, check{id, now.Add(d.again)})
	}

	for name, s := range d.shares {
		if s.members == 0 && now.Sub(s.used) > d.again {
			delete(d.shares, name)
		}
	}
	d.wake()
}

// Fates of an answer.
type fate int

const (
	unknownQuestion fate = iota
	overQuestion
	otherAnswer
	sameAnswer // it is stored already
	toBeStored
)

// take takes a bank's word. If it is toBeStored, the caller stores it in the question's partition, and says keep or
// lose.
func (d *desk) take(id pix.EndToEndID, word answer) (fate, ending, *asked) {
	d.mu.Lock()
	defer d.mu.Unlock()

	q := d.open[id]
	if q == nil {
		if how, known := d.ended(id); known {
			return overQuestion, how, nil
		}

		return unknownQuestion, ending{}, nil
	}

	if known := q.answer; known != nil {
		if known.accepted != word.accepted || known.code != word.code {
			return otherAnswer, ending{}, nil
		}

		if known.stored {
			return sameAnswer, ending{}, nil
		}
	}
	word.sending = true
	q.answer = &word

	return toBeStored, ending{}, q
}

// keep says that Kafka has stored a bank's word: the question is told no more.
func (d *desk) keep(now time.Time, q *asked, at recordAt) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if !q.over && q.answer != nil {
		q.answer.sending, q.answer.stored, q.answer.since, q.answer.at, q.place = false, true, now, at, 0
	}
}

// lose says that nobody knows whether Kafka has a bank's word.
func (d *desk) lose(q *asked) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if q.answer != nil {
		q.answer.sending = false
	}
}

// forged says that an engine has called a bank's word forged. It matters only if it was stored here: others
// may write what they like.
func (d *desk) forged(id pix.EndToEndID, at recordAt) {
	d.mu.Lock()
	defer d.mu.Unlock()

	q := d.open[id]
	if q == nil || q.answer == nil || !q.answer.stored || q.answer.at != at {
		return
	}
	q.answer, q.again = nil, true
	d.tell(q)
	d.inform(News{EndToEndID: q.EndToEndID, Status: forged})
}
