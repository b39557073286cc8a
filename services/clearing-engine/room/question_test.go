package room

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

// A PSP is silent once its oldest question is over 5 s old, or once it has given no answer for
// over 2 s: then all of its questions are stuck.
func TestWhoIsSilent(t *testing.T) {
	q := questionsOfOne(100)
	s := q.silence
	ask := func(second int64) asked { a, _ := q.ask(1, Payee{1}, second); return a }
	expect := func(what string, open, stuck int) {
		t.Helper()

		if o, k := q.count(); o != open || k != stuck || s.stuck.Load() != int64(stuck) {
			t.Errorf("%s: %d open, %d stuck (%d in all); want %d and %d", what, o, k, s.stuck.Load(), open, stuck)
		}
	}
	lost := ask(100)
	expect("just asked", 1, 0)

	for second := int64(100); second < 110; second++ {
		q.end(ask(second), second, true)
	}
	expect("one lost answer of eleven", 1, 1)
	q.end(lost, 110, false)
	expect("nothing is open", 0, 0)
	var all []asked

	for second := int64(110); second < 113; second++ {
		for range 10 {
			all = append(all, ask(second))
		}
	}
	expect("no answer for 2 s", 30, 0)
	q.age(113)
	expect("no answer for 3 s", 30, 30)
	q.end(all[29], 113, true)
	expect("it answers again", 29, 0)
	q.age(1000)
	expect("all are old", 29, 29)

	for _, a := range all[:29] {
		q.end(a, 1000, false)
	}
	expect("all have ended", 0, 0)

	if s.psps.Load() != 0 {
		t.Errorf("%d PSPs are silent, want 0", s.psps.Load())
	}

	for second := int64(2000); second < 2004; second++ {
		ask(second)
		q.end(ask(second), second, false) // a timeout is no answer
	}
	expect("no answer for 3 s, but timeouts", 4, 4)
}

// questionsOfOne returns the questions to the only PSP, of which so many may be open.
func questionsOfOne(most int) *questions {
	r := New(Limits{Payments: 4 * most, PSPShare: 0.25}, time.Now())
	r.Meet("10000002")
	return r.psps.of("10000002")
}

// However questions come and go, each is counted once, and old ones are those over 5 s old. Whoever begins
// finds a place, whatever others have, and so does who pays to an account that answers.
func TestQuestionsAreCountedOnceAndLeavePlaces(t *testing.T) {
	const most, senders, payees = 60, 3, 4
	rapid.Check(t, func(t *rapid.T) {
		q := questionsOfOne(most)
		var open []asked

		second := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			second += rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 0, 1, 1, 2, 7, 30}).Draw(t, "passed")

			behind := max(0, second-rapid.Int64Range(0, 1).Draw(t, "behind"))
			if len(open) > 0 && rapid.IntRange(0, 3).Draw(t, "end") == 0 {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				silent := open[i].payee == Payee{}
				q.end(open[i], behind, !silent && rapid.Bool().Draw(t, "answered"))
				open = slices.Delete(open, i, i+1)
			}

			sender, to := rapid.Uint64Range(1, senders).Draw(t, "sender"),
				Payee{byte(rapid.IntRange(0, payees-1).Draw(t, "payee"))}
			for range rapid.SampledFrom([]int{0, 1, 1, 40}).Draw(t, "asks") {
				if full, _ := q.full(sender, to); !full {
					a, _ := q.ask(sender, to, behind)
					open = append(open, a)
				}
			}
			q.age(second)

			old, by, at := 0, map[uint64]int{}, map[Payee]int{}
			for _, a := range open {
				by[a.sender]++

				at[a.payee]++
				if second-a.second > silentSeconds {
					old++
				}
			}

			if n, stuck := q.count(); n != len(open) || q.old != old || stuck != old && stuck != n ||
				q.silence.stuck.Load() != int64(stuck) {
				t.Fatalf("%d open, %d old, %d stuck, %d in all; want %d open and %d old", n, q.old, stuck,
					q.silence.stuck.Load(), len(open), old)
			}
			apart := 0

			for id, p := range q.payees {
				if p.open != at[id] {
					t.Fatalf("payee %v has %d open, want %d", id, p.open, at[id])
				}

				if p.apart {
					apart += p.open
				}
			}

			if !maps.Equal(q.senders, by) || len(q.payees) != len(at) || q.apart != apart {
				t.Fatalf("senders %v, %d payees, %d apart; want %v, %d, %d", q.senders, len(q.payees), q.apart, by,
					len(at), apart)
			}

			for sender, n := range by {
				if n > most/2 {
					t.Fatalf("of %d places sender %d has %d", most, sender, n)
				}
			}

			if full, _ := q.full(senders+1, Payee{payees}); full {
				t.Fatalf("%d of %d places are taken, and a sender that has none finds no place", len(open), most)
			}
		}
	})
}

// A payee that answers nobody is held apart, until it answers.
func TestASilentPayeeIsApart(t *testing.T) {
	q := questionsOfOne(100)
	silent, answers := Payee{1}, Payee{2}
	var all []asked

	second := int64(0)
	for ; second < 10; second++ {
		for i := range 20 {
			q.age(second)

			if full, _ := q.full(uint64(i), silent); !full {
				a, _ := q.ask(uint64(i), silent, second)
				all = append(all, a)
			}
		}

		if full, _ := q.full(0, answers); full {
			t.Errorf("second %d: beside %d questions to the silent payee there is no place for the other one",
				second, len(all))
		}
		a, _ := q.ask(0, answers, second)
		q.end(a, second, true)
	}

	if len(all) != 60 || q.apart != 60 {
		t.Errorf("%d were asked, %d of them are apart; want those of 3 s: then a quarter of the room is used",
			len(all), q.apart)
	}
	q.end(all[0], second, true)

	if full, _ := q.full(0, silent); full || q.apart != 0 {
		t.Errorf("it has answered; full is %t, with %d apart", full, q.apart)
	}
}

// A payment that waits for its bank costs no memory beyond its own.
func TestAQuestionAllocatesNothing(t *testing.T) {
	r := New(Limits{Payments: 1000, Working: 1000, Bytes: 1 << 20, PSPShare: 0.25, PayerShare: 0.25}, time.Now())
	p, now := r.Part(), time.Now()
	order := pix.Order{ID: pix.EndToEndID([]byte("E10000001202611211200abcdefghijk")), Content: pix.Content{
		Payer: pix.Account{ISPB: "10000001"}, Payee: pix.Account{ISPB: "10000002"}}}

	if n := testing.AllocsPerRun(1000, func() {
		p.Take(1, 200)

		if !r.Busy(&order, Payee{1}) {
			q := p.Ask(&order, Payee{1}, now)
			q.Free(now, true)
		}
		p.Free(1, 200)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
