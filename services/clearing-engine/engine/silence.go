package engine

import (
	"sync"
	"sync/atomic"
)

// A PSP is silent if its oldest question is over silentSeconds old. Its stuck questions are
// those, or all of them if it has answered nothing for quietSeconds: so a PSP that stops at
// once is noticed before its questions fill the room. A PSP that only lost an answer has one
// stuck question, and nobody suffers. In PIX a bank answers within 2.5 s.
const (
	silentSeconds = 5
	quietSeconds  = 2
)

// questions counts the open questions to one receiving PSP, over all partitions.
type questions struct {
	silence *silence

	mu       sync.Mutex
	open     int
	old      int                    // of these, asked over silentSeconds ago
	recent   [silentSeconds + 1]int // the others, by the second in which they were asked
	second   int64                  // the youngest of these seconds
	answered int64                  // when the last answer came
	stuck    int                    // as counted in silence
}

// ask counts a question. It returns the second in which it was asked, and whether the PSP is silent.
func (q *questions) ask(second int64) (asked int64, silent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(second)
	if q.open == 0 {
		q.answered = q.second // there was nothing to answer
	}
	q.open++
	q.recent[q.second%int64(len(q.recent))]++
	q.settle()
	return q.second, q.stuck > 0
}

// end ends a question, because it was answered or because its payment no longer waits.
func (q *questions) end(asked, second int64, answered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(second)
	if answered {
		q.answered = q.second
	}
	if q.open--; q.open < 0 {
		broken("payments that wait for a PSP are counted once")
	}
	if q.second-asked < int64(len(q.recent)) {
		q.recent[asked%int64(len(q.recent))]--
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
}

// settle counts the stuck questions, also in the sum over all PSPs.
func (q *questions) settle() {
	stuck, waited := q.old, q.old
	for second := q.second - silentSeconds; second < q.second-quietSeconds; second++ {
		if second >= 0 {
			waited += q.recent[second%int64(len(q.recent))]
		}
	}
	if waited > 0 && q.second-q.answered > quietSeconds {
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

// isFull reports whether a PSP with so many stuck questions may have no more. All silent PSPs
// have equal parts. When they hold nearly all that they may, those with few go on until a
// sixteenth of the room: a PSP that lost some answers must not suffer with those that give none.
func (s *silence) isFull(stuck int) bool {
	psps := s.psps.Load()
	if stuck == 0 || psps == 0 {
		return false
	}
	few := s.max / 8
	return int64(stuck) >= s.max/psps || s.stuck.Load() >= s.max-few && int64(stuck) >= few/psps
}
