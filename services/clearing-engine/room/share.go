package room

import (
	"maps"
	"sync"

	"github.com/liquida/liquida/platform/pix"
)

// holder is who holds places of the room: a sending bank, by its questions to silent banks or
// by all else that waits because of it (copies, returns, dead letters on their way). These are
// two shares, so that silent banks do not stop the returns of those who pay them.
type holder uint64

// waiting is who holds what waits because of a bank.
func waiting(bank pix.ISPB) holder { return holder(bank.Pack() << 1) }

// questionsOf is who holds the question about an order to a silent bank.
func questionsOf(order *pix.Order) holder { return waiting(order.ID.Payer()) | 1 }

// shares bounds what each holder has, over all partitions. A bank's ordinary payments take
// nothing of its shares. One lock will do: payments that go their usual way never come here.
type shares struct {
	ofOneMax, max int // of one holder; of all, because anybody can invent names of banks

	mu    sync.Mutex
	all   int
	taken map[holder]int // above 0
}

func newShares(ofOneMax, most int) *shares {
	return &shares{ofOneMax: ofOneMax, max: most, taken: map[holder]int{}}
}

// take takes a place of a share, unless the share is used up.
func (s *shares) take(h holder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.isFull(h) {
		return false
	}
	s.all++
	s.taken[h]++

	return true
}

// usedUp reports whether a share is used up.
func (s *shares) usedUp(h holder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isFull(h)
}

func (s *shares) isFull(h holder) bool { return s.taken[h] >= s.ofOneMax || s.all >= s.max }

// add adds n places to a share, or frees them if n is negative.
func (s *shares) add(h holder, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.all += n
	if s.taken[h] += n; s.taken[h] == 0 {
		delete(s.taken, h)
	}
}

// EachShare calls use with each sending bank that has places, and how many because of questions to silent
// banks, or of all else.
func (r *Room) EachShare(use func(bank pix.ISPB, questions bool, places int)) {
	r.shares.mu.Lock()
	taken := maps.Clone(r.shares.taken)
	r.shares.mu.Unlock()

	for h, places := range taken {
		use(pix.UnpackISPB(uint64(h>>1)), h&1 == 1, places)
	}
}

// ShareMax is how many places each bank may have, of each kind.
func (r *Room) ShareMax() int { return r.shares.ofOneMax }
