package bank

import (
	"testing"

	"pgregory.net/rapid"
)

// In whatever order responses are acknowledged, committable is the first unfinished offset,
// and it never goes back.
func TestAPartitionMayBeCommittedUpToItsFirstUnansweredRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPartition()
		next := rapid.Int64Range(0, 100).Draw(t, "first offset")
		open := map[*response]int64{}
		last := int64(-1)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				next += rapid.Int64Range(0, 3).Draw(t, "gap") // as compaction and transactions leave
				for range rapid.IntRange(0, 2).Draw(t, "answers") {
					a := &response{}
					open[a] = next
					p.add(next, a)
				}
				p.add(next, nil)
				next++
			},
			"acknowledge": func(*rapid.T) {
				for a := range open { // in any order
					delete(open, a)
					p.remove(a)
					break
				}
			},
			"": func(t *rapid.T) {
				want := int64(-1)
				if p.next >= 0 {
					want = next
				}

				for _, offset := range open {
					want = min(want, offset)
				}

				if got := p.committable(); got != want || got < last {
					t.Fatalf("committable up to %d after %d, want %d", got, last, want)
				}
				last = p.committable()
			},
		})
	})
}
