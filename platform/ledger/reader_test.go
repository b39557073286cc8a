package ledger

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// held is a client whose look-ups wait for free. It tells began of each.
type held struct {
	tigerbeetle.Client
	name  int
	began chan<- int
	free  <-chan struct{}
}

func (h *held) LookupTransfers(ids []tb.Uint128) ([]tb.Transfer, error) {
	h.began <- h.name
	<-h.free
	var found []tb.Transfer
	for _, id := range ids {
		found = append(found, tb.Transfer{ID: id})
	}
	return found, nil
}

func await[T any](t *testing.T, values <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-values:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing after 30 s")
	}
	return value
}

// A look-up does not wait for the one before it, each has a session of its own, and each asker is told what
// it has asked for.
func TestLookUpsShareTheSessions(t *testing.T) {
	t.Parallel()
	began, free := make(chan int), make(chan struct{})
	s := &sessions{}
	for name := range 3 {
		s.sessions = append(s.sessions, session{client: &held{name: name, began: began, free: free}})
	}
	type answer struct {
		to    int
		found []tb.Transfer
	}
	answers := make(chan answer, 6)
	r := NewTransferReader(s, BatchConfig{EventsMax: 8, InFlightMax: 3}, prometheus.NewRegistry(), func(to int, found []tb.Transfer) { answers <- answer{to, found} }, func(err error) { t.Error(err) })
	defer r.Close()
	for range 2 {
		var in []int
		for to := range 3 {
			r.Read(to, []tb.Uint128{tb.ToUint128(uint64(to))})
			in = append(in, await(t, began)) // none has its answer
		}
		if slices.Sort(in); !slices.Equal(in, []int{0, 1, 2}) {
			t.Errorf("asked in the sessions %v", in)
		}
		var told []int
		for range 3 {
			free <- struct{}{}
			got := await(t, answers)
			if len(got.found) != 1 || got.found[0].ID != tb.ToUint128(uint64(got.to)) {
				t.Errorf("%d is told %v", got.to, got.found)
			}
			told = append(told, got.to)
		}
		if slices.Sort(told); !slices.Equal(told, []int{0, 1, 2}) {
			t.Errorf("told are %v", told)
		}
	}
}

// The pause is between any two look-ups: with more sessions the ledger has no more requests to write.
func TestLookUpsOfAllSessionsKeepThePause(t *testing.T) {
	t.Parallel()
	const pause = 20 * time.Millisecond
	began, free := make(chan int), make(chan struct{})
	close(free)
	delivered := make(chan int, 100)
	r := NewTransferReader(&held{began: began, free: free}, BatchConfig{EventsMax: 1, InFlightMax: 4, Pause: pause}, prometheus.NewRegistry(), func(to int, _ []tb.Transfer) { delivered <- to }, func(err error) { t.Error(err) })
	defer r.Close()
	start := time.Now()
	var reading sync.WaitGroup
	for to := range 8 {
		reading.Go(func() { r.Read(to, []tb.Uint128{tb.ToUint128(uint64(to))}) })
	}
	reading.Wait()
	for range 8 {
		await(t, began)
	}
	if took := time.Since(start); took < 7*pause {
		t.Errorf("8 look-ups began within %v, with a pause of %v", took, pause)
	}
	for range 8 {
		await(t, delivered)
	}
}
