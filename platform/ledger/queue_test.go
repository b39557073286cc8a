package ledger

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"
)

// mark is an event that says where it belongs.
type mark struct{ putter, job, place, of int }

// Many put while some take. Nothing is lost or doubled, no chain is divided, no request is
// too long, and the jobs of one putter leave in their order.
func TestQueueKeepsChainsWholeAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eventsMax := rapid.IntRange(8, 40).Draw(t, "events max")
		putters := rapid.IntRange(1, 4).Draw(t, "putters")
		takers := rapid.IntRange(1, 3).Draw(t, "takers")
		lengths := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 60).Draw(t, "lengths")
		q := newQueue[mark, mark](eventsMax)

		var taken [][]mark // the tags of each request, in the order of leaving
		var mu sync.Mutex

		var taking, putting sync.WaitGroup
		for range takers {
			taking.Go(func() {
				for {
					mu.Lock() // so that the order of leaving is known

					b := q.next()
					if b == nil {
						mu.Unlock()
						return
					}
					taken = append(taken, slices.Clone(b.tags))
					mu.Unlock()

					if len(b.events) > eventsMax || len(b.tags) != len(b.ends) || len(b.tags) == 0 ||
						b.ends[len(b.ends)-1] != len(b.events) {
						t.Errorf("request of %d events, at most %d; %d tags, ends %v", len(b.events), eventsMax,
							len(b.tags), b.ends)
					}

					start := 0
					for i, tag := range b.tags {
						chain := b.events[start:b.ends[i]]
						if len(chain) != tag.of {
							t.Errorf("chain %+v left with %d events", tag, len(chain))
						}

						for place, event := range chain {
							if event != (mark{tag.putter, tag.job, place, tag.of}) {
								t.Errorf("chain %+v left with %+v at %d", tag, event, place)
							}
						}
						start = b.ends[i]
					}
					q.giveBack(b)
					q.done(0)
				}
			})
		}

		for putter := range putters {
			putting.Go(func() {
				chain := make([]mark, 0, 8)
				for job, length := range lengths {
					chain = chain[:0] // reused: put must copy
					for place := range length {
						chain = append(chain, mark{putter, job, place, length})
					}
					q.put(mark{putter, job, 0, length}, chain)

					if job%7 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		putting.Wait()

		for q.length() > 0 {
			runtime.Gosched()
		}
		q.close()
		taking.Wait()

		next, left := map[int]int{}, 0

		for _, tags := range taken {
			for _, tag := range tags {
				if tag.job != next[tag.putter] {
					t.Fatalf("putter %d: job %d left, %d was next", tag.putter, tag.job, next[tag.putter])
				}
				next[tag.putter]++
				left++
			}
		}

		if want := putters * len(lengths); left != want {
			t.Fatalf("%d of %d jobs left", left, want)
		}
	})
}

func TestQueueFillsItsRequests(t *testing.T) {
	for eventsMax, want := range map[int][]int{9: {9, 9, 3}, 10: {9, 9, 3}, 11: {9, 9, 3}, 12: {12, 9}} {
		q := newQueue[int, int](eventsMax)
		for i := range 7 {
			q.put(i, []int{i, i, i})
		}

		if q.length() != 7 {
			t.Errorf("%d jobs wait, want 7", q.length())
		}

		var lengths []int
		for range want {
			lengths = append(lengths, len(q.next().events))
			q.done(0)
		}

		if !slices.Equal(lengths, want) || q.length() != 0 {
			t.Errorf("at most %d: requests of %v events, want %v; %d jobs left", eventsMax, lengths, want, q.length())
		}
	}
}

// Small requests cost the ledger more than large ones, and so does a pause between large ones.
func TestOnlyAFullRequestGoesBesideAnother(t *testing.T) {
	q := newQueue[int, int](9)
	put := func(jobs int) {
		for i := range jobs {
			q.put(i, []int{i, i, i})
		}
	}
	takes := func(want int) {
		t.Helper()

		if got := len(q.next().events); got != want {
			t.Fatalf("a request of %d events left, want %d", got, want)
		}
	}
	waits := func() {
		t.Helper()
		q.mu.Lock()
		defer q.mu.Unlock()

		if q.isDue() {
			t.Fatal("a request is due")
		}
	}
	waits()
	put(1)
	takes(3)
	put(3)
	waits() // it has room for no more, which only the next job shows
	put(1)
	takes(9)
	waits()
	q.done(0)
	waits()
	q.done(0)
	takes(3)
	q.done(0)
	put(13)
	takes(9)
	takes(9)
	q.done(2 * tookMax)
	takes(9)
	waits() // the register would wait for seconds
	q.done(tookMax)
	takes(9)
}

func TestCloseEndsWaiting(t *testing.T) {
	q := newQueue[int, int](10)
	ended := make(chan bool)

	for range 3 {
		go func() { ended <- q.next() != nil }()
	}
	q.close()

	for range 3 {
		select {
		case more := <-ended:
			if more {
				t.Error("a closed queue says that there is more")
			}
		case <-time.After(10 * time.Second):
			t.Fatal("still waiting after close")
		}
	}
}

// What may not be sent any more leaves the request, which then holds exactly the other chains.
func TestKeepBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, kept, unsent []int
		b, want := &request[int, tb.Transfer]{}, &request[int, tb.Transfer]{}

		for chain := range rapid.IntRange(0, 30).Draw(t, "chains") {
			all = append(all, chain)

			admitted := rapid.Bool().Draw(t, "admitted")
			for place := range rapid.IntRange(1, 4).Draw(t, "length") {
				transfer := tb.Transfer{ID: tb.ToUint128(uint64(chain*10 + place))}

				b.events = append(b.events, transfer)
				if admitted {
					want.events = append(want.events, transfer)
				}
			}

			b.tags, b.ends = append(b.tags, chain), append(b.ends, len(b.events))
			if admitted {
				kept, want.ends = append(kept, chain), append(want.ends, len(want.events))
			} else {
				unsent = append(unsent, chain)
			}
		}
		var delivered []int
		w := &Writer[int]{
			admit: func() func(int) bool { return func(tag int) bool { return slices.Contains(kept, tag) } },
			deliver: func(tag int, result Result) {
				if !result.Unsent || result.OK() {
					t.Fatalf("chain %d is delivered as %+v", tag, result)
				}
				delivered = append(delivered, tag)
			},
		}
		w.keepBack(b)

		if !slices.Equal(b.events, want.events) || !slices.Equal(b.ends, want.ends) || !slices.Equal(b.tags, kept) ||
			!slices.Equal(delivered, unsent) {
			t.Fatalf("of %v, %v are kept back: the request holds %v, %v, %v", all, delivered, b.tags, b.ends, b.events)
		}
	})
}

// A failed chain has one real status; the others say linked_event_failed.
func TestClassify(t *testing.T) {
	statuses := []tb.CreateTransferResult{tb.TransferExists, tb.TransferExceedsCredits, tb.TransferIDAlreadyFailed,
		tb.TransferPendingTransferExpired, tb.TransferExistsWithDifferentFlags}
	rapid.Check(t, func(t *rapid.T) {
		b := &request[int, tb.Transfer]{}
		var results []tb.TransferEventResult
		var want []Result

		for chain := range rapid.IntRange(0, 30).Draw(t, "chains") {
			length := rapid.IntRange(1, 4).Draw(t, "length")
			failing := rapid.IntRange(-1, length-1).Draw(t, "failing") // -1: none
			result := Result{}

			for place := range length {
				code := uint16(rapid.IntRange(0, 7).Draw(t, "code"))
				index := uint32(len(b.events))
				b.events = append(b.events, tb.Transfer{Code: code})

				switch {
				case failing == place:
					result = Result{Status: rapid.SampledFrom(statuses).Draw(t, "status"), Code: code, Index: place}
					results = append(results, tb.TransferEventResult{Index: index, Result: result.Status})
				case failing >= 0:
					results = append(results,
						tb.TransferEventResult{Index: index, Result: tb.TransferLinkedEventFailed})
				}
			}
			b.tags, b.ends, want = append(b.tags, chain), append(b.ends, len(b.events)), append(want, result)
		}
		var got []Result
		classify(b, results, func(chain int, result Result) {
			if chain != len(got) {
				t.Fatalf("chain %d gets the result of chain %d", chain, len(got))
			}
			got = append(got, result)
		})

		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}

		for _, result := range got {
			if result.OK() != (result.Status == tb.TransferOK) {
				t.Fatalf("%v: OK is %v", result, result.OK())
			}
		}
	})
}

// Exists must know all statuses of this kind, also those of a later version of the client.
func TestExistsKnowsEveryStatus(t *testing.T) {
	known := 0

	for status := range tb.CreateTransferResult(200) {
		name := status.String()
		if want := strings.HasPrefix(name, "TransferExists"); (Result{Status: status}).Exists() != want {
			t.Errorf("%s: Exists is %v", name, !want)
		} else if want {
			known++
		}
	}

	if known < 12 {
		t.Errorf("only %d statuses begin with TransferExists: has the client renamed them?", known)
	}
}
