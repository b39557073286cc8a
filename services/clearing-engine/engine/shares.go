package engine

import (
	"sync"

	"github.com/liquida/liquida/platform/pix"
)

// shares bounds what waits because of one sending bank, over all partitions: copies, returns,
// questions to silent banks, and dead letters on their way. A bank's ordinary payments take
// nothing of its share. One lock will do: payments that go their usual way never come here.
type shares struct {
	ofBankMax, max int // of one bank; of all banks, because anybody can invent names of banks

	mu    sync.Mutex
	all   int
	taken map[pix.ISPB]int // above 0
}

func newShares(ofBankMax, most int) *shares {
	return &shares{ofBankMax: ofBankMax, max: most, taken: map[pix.ISPB]int{}}
}

// take takes a place of a bank's share, unless the share is used up.
func (s *shares) take(bank pix.ISPB) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[bank] >= s.ofBankMax || s.all >= s.max {
		return false
	}
	s.all++
	s.taken[bank]++
	return true
}

// add adds n places to a bank's share, or frees them if n is negative.
func (s *shares) add(bank pix.ISPB, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all += n
	if s.taken[bank] += n; s.taken[bank] == 0 {
		delete(s.taken, bank)
	}
}
