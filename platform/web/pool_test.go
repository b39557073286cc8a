package web

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"
)

func newPool(size int, share float64) *Pool {
	return NewPools(PoolsConfig{ShareMax: share}, prometheus.NewRegistry()).Pool("batches", "BATCHES_MAX", size)
}

// Whatever holders do: the size is kept, nobody has more than a share of what the others leave
// had when it took, and who has nothing gets something while there is something.
func TestNoHolderOfAPoolKeepsTheOthersOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, share := rapid.IntRange(1, 100).Draw(t, "size"), rapid.Float64Range(0.01, 1).Draw(t, "share")
		p, has := newPool(size, share), map[string]int{}

		holders := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			holder, taken := holders.Draw(t, "holder"), 0
			for _, n := range has {
				taken += n
			}

			if p.Taken() != taken {
				t.Fatalf("%d are taken, and it says %d", taken, p.Taken())
			}

			if rapid.Bool().Draw(t, "frees") {
				if has[holder] > 0 {
					p.Free(holder)
					has[holder]--
				}

				continue
			}
			given := p.Take(holder) == nil

			left := size - taken + has[holder]
			if may := taken < size &&
				(has[holder] == 0 || has[holder]+1 <= int(math.Floor(share*float64(left)))); given != may {
				t.Fatalf("a holder of %d, where others leave %d of %d: given %v", has[holder], left, size, given)
			}

			if given {
				has[holder]++
			}
		}
	})
}

// However many permits one holder asks for, each of the others gets its share of the rest.
func TestOneHolderOfAPoolGetsItsShare(t *testing.T) {
	p, got := newPool(16, 0.25), []int(nil)

	for _, holder := range []string{"a", "b", "c"} {
		n := 0
		for p.Take(holder) == nil {
			n++
		}
		got = append(got, n)
	}

	if fmt.Sprint(got) != "[4 3 2]" {
		t.Errorf("one after another they get %v", got)
	}

	problem := p.Take("a")
	if problem.Status != http.StatusTooManyRequests || problem.RetryAfter == 0 || problem.Type != Kind("busy") ||
		!strings.Contains(problem.Detail, "a has 4 batches") || !strings.Contains(problem.Rule, "16 (BATCHES_MAX)") {
		t.Errorf("%+v does not say which pool and whose share", problem)
	}

	for i := range 7 {
		if p.Take(fmt.Sprint("new-", i)) != nil {
			t.Fatalf("newcomer %d gets nothing with %d of 16 taken", i, p.Taken())
		}
	}

	if problem := p.Take("one more"); problem == nil || problem.Title != "Everything is taken" {
		t.Errorf("%+v", problem)
	}
	freed := p.Freed()
	p.Free("a")
	<-freed

	if p.Take("one more") != nil {
		t.Error("what was freed is not given")
	}

	whole := newPool(3, 1)
	for range 3 {
		if whole.Take("a") != nil {
			t.Error("with a share of 1 a holder may not take all")
		}
	}
}

// A permit that moves is neither lost nor doubled, and does not move past a share.
func TestAPermitMoves(t *testing.T) {
	p := newPool(8, 0.5)
	for range 4 {
		if problem := p.Take("address"); problem != nil {
			t.Fatal(problem)
		}
	}

	for i := range 4 {
		if problem := p.Move("address", "bank"); problem != nil {
			t.Fatalf("%d: %+v", i, problem)
		}
	}

	if p.Take("address") != nil || p.Move("address", "bank") == nil || p.Taken() != 5 || p.by["bank"] != 4 ||
		p.by["address"] != 1 {
		t.Errorf("%d are taken: %v", p.Taken(), p.by)
	}
}
