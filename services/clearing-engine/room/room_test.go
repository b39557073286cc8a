package room

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// With slow banks nearly all payments in flight wait for them: the room for the others must
// not shrink, and not grow when the banks are quick.
func TestPaymentsThatWaitForTheirBankLeaveTheRoomForTheOthers(t *testing.T) {
	r := New(Limits{Payments: 100, Working: 10, Bytes: 1 << 20}, time.Now())
	for waiting := 0; waiting <= 90; waiting += 10 {
		if left := r.Wait(t.Context()); left != 10 {
			t.Fatalf("room for %d while %d wait for their bank, want 10", left, waiting)
		}
		r.take(10, 1)

		if r.left() != 0 {
			t.Fatalf("room for %d beside 10 that do not wait", r.left())
		}
		r.awaitBank(10)
	}

	if r.left() != 0 {
		t.Errorf("room for %d beside 100 in flight", r.left())
	}
	r.awaitBank(-50) // answered
	r.free(10, 1)

	if r.left() != -30 {
		t.Errorf("room for %d with 40 that do not wait", r.left())
	}
}

// A bank's share ends with what holds it, and one bank's share leaves the others theirs.
func TestSharesAreBounded(t *testing.T) {
	s := newShares(2, 3)

	one, two, three := holder(1), holder(2), holder(3)
	for place := range 3 {
		if took := s.take(one); took != (place < 2) {
			t.Errorf("a bank may take two places: place %d, %t", place+1, took)
		}
	}

	if !s.usedUp(one) {
		t.Error("its share is used up")
	}

	if !s.take(two) || s.take(three) || !s.usedUp(three) {
		t.Error("all banks may take three places")
	}
	s.add(one, 1) // a dead letter must be sent
	s.add(one, -3)

	if !s.take(three) || len(s.taken) != 2 || s.all != 2 {
		t.Errorf("after all, %d places of %v are taken", s.all, s.taken)
	}
}

// A place that comes free wakes the intake, whoever else waits.
func TestAPlaceWakesTheIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Limits{Payments: 100, Working: 16, Bytes: 1 << 20}, time.Now())
		r.take(16, 16)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.WaitOvertaken(ctx) // half of the queue is used
		synctest.Wait()
		most := make(chan int, 1)
		go func() { most <- r.Wait(ctx) }()
		synctest.Wait()
		r.awaitBank(1)
		synctest.Wait()

		select {
		case n := <-most:
			if n != 1 {
				t.Errorf("room for %d", n)
			}
		default:
			t.Error("the intake does not know of the place")
		}
	})
}

// Each law about what is taken.
func TestBrokenRoomIsNoticed(t *testing.T) {
	mustBreak := func(law string, f func()) {
		t.Helper()
		defer func() {
			t.Helper()

			if said, _ := recover().(string); !strings.HasPrefix(said, "broken law: "+law) {
				t.Errorf("%q is not noticed, but %q", law, said)
			}
		}()
		f()
	}
	part := func() *Part { return New(Limits{Payments: 4, Working: 4, Bytes: 20, PayerShare: 1}, time.Now()).Part() }
	p := part()
	p.Take(1, 10)
	mustBreak("room is freed once", func() { p.Free(2, 10) })
	p = part()
	p.Take(1, 10)
	mustBreak("room is freed once", func() { p.Free(1, 11) })
	p = part()
	p.Take(1, 10)
	p.room.awaitBank(1)
	mustBreak("what waits for a bank has room", func() { p.Free(1, 10) })
	mustBreak("payments that wait for a PSP are counted once", func() {
		(&Question{part: p, to: new(questions)}).Free(time.Now(), false)
	})
	s := p.AddToShare("10000001")
	mustBreak("what has ended holds no share", p.Rest)
	again := s
	s.Free()
	p.Rest()
	mustBreak("a share is freed once", again.Free)
}
