package overload

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liquida/liquida/platform/settings"
)

// queue is an engine that takes so many orders a second, in their order.
type queue struct {
	perSecond float64
	arrived   []time.Time
	taken     float64
	accepted  map[string]int
	refused   map[string]int
	oldest    time.Duration // ever
}

// offer sends orders at rates (a second) by participant, in virtual time. The gate sees the queue
// five times a second, a little late.
func (q *queue) offer(g *Gate, rates map[string]int, lasts time.Duration) {
	const step = 10 * time.Millisecond
	q.accepted, q.refused = map[string]int{}, map[string]int{}
	due := map[string]float64{}

	for i := range int(lasts / step) {
		for who, rate := range rates {
			for due[who] += float64(rate) * step.Seconds(); due[who] >= 1; due[who]-- {
				if g.Admit(who) != nil {
					q.refused[who]++
					continue
				}
				g.Accepted(who)
				q.accepted[who]++
				q.arrived = append(q.arrived, time.Now())
			}
		}
		q.taken = min(q.taken+q.perSecond*step.Seconds(), float64(len(q.arrived)))

		age := time.Duration(0)
		if n := int(q.taken); n < len(q.arrived) {
			age = time.Since(q.arrived[n])
		}

		q.oldest = max(q.oldest, age)
		if i%20 == 0 {
			r := Reading{Age: age, Taken: int64(q.taken), Ends: int64(len(q.arrived))}
			time.AfterFunc(200*time.Millisecond, func() { r.At = time.Now(); g.Observe(r) })
		}
		time.Sleep(step)
	}
}

func (q *queue) total() (n int) {
	for _, accepted := range q.accepted {
		n += accepted
	}

	return n
}

func inQueue(t *testing.T, test func(*Gate, *queue)) {
	synctest.Test(t, func(*testing.T) {
		g := NewGate(Config{Age: time.Second, RetryAfter: time.Second}, prometheus.NewRegistry())
		test(g, &queue{perSecond: 1000})
		time.Sleep(time.Second) // the last readings
	})
}

// What engines can take is taken, and no more: without a limit the queue would grow forever, and
// with one that is too low engines would stand idle.
func TestOverloadIsRefusedAndTheRestIsTaken(t *testing.T) {
	inQueue(t, func(g *Gate, q *queue) {
		if q.offer(g, map[string]int{"a": 300, "b": 300, "c": 300}, 20*time.Second); len(q.refused) > 0 {
			t.Errorf("without overload %v are refused", q.refused)
		}

		for _, times := range []int{2, 3, 10} {
			q.oldest = 0
			q.offer(g, map[string]int{"a": times * 500, "b": times * 500}, 30*time.Second)

			if n := q.total(); n < 27_000 || n > 34_000 || q.oldest > 4*time.Second {
				t.Errorf("offered %d times: %d of 30,000 are accepted, the oldest waited %v", times, n, q.oldest)
			}

			if a, b := q.accepted["a"], q.accepted["b"]; a < b*8/10 || b < a*8/10 {
				t.Errorf("two equal participants: %v", q.accepted)
			}
		}
		q.offer(g, map[string]int{"a": 300, "b": 300}, 5*time.Second)

		if q.offer(g, map[string]int{"a": 300, "b": 300}, 20*time.Second); len(q.refused) > 0 {
			t.Errorf("after the overload %v are refused", q.refused)
		}
	})
}

// When engines take fewer orders than of late, what waits is bounded all the same.
func TestFewerAreTakenOnceEnginesSlowDown(t *testing.T) {
	inQueue(t, func(g *Gate, q *queue) {
		rates := map[string]int{"a": 600, "b": 600, "c": 600, "d": 600, "e": 600}
		q.offer(g, rates, 20*time.Second)

		for _, perSecond := range []float64{700, 500, 300} {
			q.perSecond, q.oldest = perSecond, 0
			q.offer(g, rates, 10*time.Second)

			if q.oldest > 9*time.Second/2 {
				t.Errorf("%v a second: the oldest waited %v", perSecond, q.oldest)
			}
		}
	})
}

// One participant that floods hurts only itself.
func TestWhoSendsLessThanItsShareGetsIn(t *testing.T) {
	inQueue(t, func(g *Gate, q *queue) {
		rates := map[string]int{"flood": 5000}
		for i := range 4 {
			rates[fmt.Sprint(i)] = 150
		}
		q.offer(g, rates, 10*time.Second)
		q.offer(g, rates, 60*time.Second)

		others := maps.Clone(q.refused)
		if delete(others, "flood"); len(others) > 0 {
			t.Errorf("refused: %v, accepted: %v", q.refused, q.accepted)
		}

		if n := q.total(); n < 54_000 || n > 66_000 {
			t.Errorf("%d of 60,000 are accepted", n)
		}
	})
}

// Nobody has a share of nothing.
func TestWithoutEnginesAllAreRefused(t *testing.T) {
	inQueue(t, func(g *Gate, q *queue) {
		q.offer(g, map[string]int{"a": 500, "b": 100}, 10*time.Second)
		q.perSecond = 0
		q.offer(g, map[string]int{"a": 500, "b": 100}, 20*time.Second)

		if q.offer(g, map[string]int{"a": 500, "b": 100}, 10*time.Second); q.total() > 0 {
			t.Errorf("accepted: %v", q.accepted)
		}

		problem := g.Admit("a")
		if problem == nil || problem.Status != 429 || problem.RetryAfter != time.Second {
			t.Errorf("%+v", problem)
		}
	})
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for _, c := range []Config{{Age: time.Millisecond, RetryAfter: time.Second}, {Age: time.Second},
		{Age: time.Second, RetryAfter: 1500 * time.Millisecond}} {
		if settings.Check(&c) == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}

// Reads have all of the ledger only while it is known that no order is on its way.
func TestPaymentsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Config{Age: time.Second, RetryAfter: time.Second}, prometheus.NewRegistry())
		is := func(want bool, what string) {
			t.Helper()

			if g.PaymentsWait() != want {
				t.Errorf("%s: payments wait is %v", what, !want)
			}
		}
		look := func(all, open int64) { g.Observe(Reading{At: time.Now(), All: all, Open: open}) }
		is(true, "nobody has looked")
		look(0, 0)
		is(false, "no order ever")
		g.Accepted("10000001")
		is(true, "an order was accepted here")
		time.Sleep(waitFor)
		is(false, "a second later")
		look(5, 0)
		is(true, "orders came elsewhere")
		time.Sleep(waitFor)
		look(5, 0)
		is(false, "all are finished, and no more came")
		look(5, 1)
		is(true, "one is not finished")
		time.Sleep(waitFor)
		look(5, 0)
		is(false, "it is finished")
		time.Sleep(lookMax + time.Millisecond)
		is(true, "nobody has looked for long")
	})
}
