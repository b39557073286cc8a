package ledger

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// fair divides the ledger's time for reads among those who read, by cost. Each holder has credit, which grows by an
// equal part of what all may take: up to a burst, unless it waits. What it reads is taken from it. Only who has credit
// reads. So who reads little never waits for those who read much, and nobody can save up time.
type fair struct {
	at      time.Time // until when credit was given
	holders map[string]*holder
}

// holder is who reads, or has read a moment ago.
type holder struct {
	name    string
	credit  float64 // seconds of the ledger's time; below 0 after a read that cost more
	waiting []*question
}

// creditMax is a burst, in seconds of the ledger's time.
const creditMax = 0.005

// room is how much credit a holder may still get.
func (h *holder) room() float64 {
	if len(h.waiting) > 0 {
		return math.Inf(1)
	}

	return max(0, creditMax-h.credit)
}

// of returns a holder. One that is not known has read nothing of late.
func (f *fair) of(name string) *holder {
	h := f.holders[name]
	if h == nil {
		h = &holder{name: name, credit: creditMax}
		f.holders[name] = h
	}

	return h
}

// grow gives the holders a share of the time since it was last called. Who has all its credit back and waits for
// nothing is forgotten.
func (f *fair) grow(now time.Time, share float64) {
	f.give(share * now.Sub(f.at).Seconds())

	f.at = now
	for name, h := range f.holders {
		if len(h.waiting) == 0 && h.credit >= creditMax {
			delete(f.holders, name)
		}
	}
}

// give divides seconds in equal parts. What one has no room for goes to the others.
func (f *fair) give(seconds float64) {
	open := make([]*holder, 0, len(f.holders))
	for _, h := range f.holders {
		open = append(open, h)
	}
	slices.SortFunc(open, func(a, b *holder) int { return cmp.Compare(a.room(), b.room()) })

	for i, h := range open {
		part := min(seconds/float64(len(open)-i), h.room())
		h.credit += part
		seconds -= part
	}
}

// next returns the holder that reads next: of those whose first question fits, the one with the most credit, and of
// equal ones the one that has waited longest. It returns nil without any. A holder's questions keep their order: those
// that share requests with others would take the credit of one that does not, again and again.
func (f *fair) next(fits func(*question) bool) (best *holder, first *question) {
	for _, h := range f.holders {
		if len(h.waiting) == 0 || !fits(h.waiting[0]) {
			continue
		}

		if q := h.waiting[0]; best == nil || h.credit > best.credit || h.credit == best.credit &&
			q.number < first.number {
			best, first = h, q
		}
	}

	return best, first
}

// affords reports whether a holder may read. If all time is the readers', it always may: what the ledger has time for
// is not saved for later, so credit is given to all until it suffices.
func (f *fair) affords(h *holder, all bool) bool {
	for all && h.credit <= 0 {
		f.give((1e-6 - h.credit) * float64(len(f.holders)))
	}

	return h.credit > 0
}

// wait is how long it takes until a holder has credit, if all others want their part.
func (f *fair) wait(h *holder, share float64) time.Duration {
	return time.Duration(max(0, 1e-6-h.credit) * float64(len(f.holders)) / share * float64(time.Second))
}
