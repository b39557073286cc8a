package ledger

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/kit"
)

// Those who always read get equal parts by cost, however much each of their reads costs, and all together no more
// than the share while payments wait. Who reads less than its part never waits.
func TestReadsAreDividedFairlyByCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.Bool().Draw(t, "all time is the readers'")
		share := rapid.Float64Range(0.01, 1).Draw(t, "share")
		greedy := rapid.SliceOfN(rapid.Float64Range(0.0005, 0.05), 1, 6).Draw(t, "costs") // seconds
		const modestCost = 0.0005
		now, number := time.Unix(0, 0), 0
		f := fair{at: now, holders: map[string]*holder{}}
		ask := func(name string) {
			number++
			f.of(name).waiting = append(f.of(name).waiting, &question{number: number})
		}
		costs, spent, total, most := map[string]float64{"modest": modestCost}, map[string]float64{}, 0.0, modestCost

		for i, cost := range greedy {
			name := string(rune('a' + i))
			costs[name], most = cost, max(most, cost)
			ask(name)
		}
		// At most half of its part, and once in two rounds of the others.
		period := 2 * max(modestCost/share, most) * float64(len(greedy)+1)
		lasts := 40 * most * float64(len(greedy)+1) / share
		seconds := func() float64 { return now.Sub(time.Unix(0, 0)).Seconds() }
		pass := func(s float64) { now = now.Add(time.Duration(math.Ceil(s * 1e9))) }

		for modest, asked := 0.0, 0.0; seconds() < lasts; {
			f.grow(now, share)

			if seconds() >= modest {
				asked = modest
				modest += period
				ask("modest")
			}

			h, _ := f.next(func(*question) bool { return true })
			if !f.affords(h, all) {
				if len(f.of("modest").waiting) > 0 && f.of("modest").credit <= 0 {
					t.Fatal("who reads less than its part has no credit")
				}
				pass(min(f.wait(h, share).Seconds(), max(0, modest-seconds())))

				continue
			}

			if waited := seconds() - asked; h.name == "modest" && waited > most*float64(len(greedy)+1) {
				t.Fatalf("who reads less than its part waits for %.3f s, a read takes at most %.3f s", waited, most)
			}
			h.waiting = h.waiting[1:]
			cost := costs[h.name]
			h.credit -= cost
			spent[h.name] += cost
			total += cost
			pass(cost)

			if h.name != "modest" {
				ask(h.name)
			}
		}

		if slack := float64(len(costs)) * (creditMax + most); !all && total > share*seconds()+slack {
			t.Errorf("all together took %.3f s of %.3f s, the share is %.3f", total, seconds(), share)
		}

		for name := range costs {
			if difference := spent[name] - spent["a"]; name != "modest" && math.Abs(difference) > 2*(creditMax+most) {
				t.Errorf("%s took %.3f s, a %.3f s, a read costs at most %.3f s", name, spent[name], spent["a"], most)
			}
		}
	})
}

// A query is not kept waiting by look-ups, which share requests with those of others.
func TestAQueryHasItsTurnAmongLookUps(t *testing.T) {
	for _, busy := range []bool{false, true} {
		r := &Reads{config: ReadsConfig{ReadShare: ReadShare{Share: 1, Readers: 1}}, eventsMax: 8189,
			payments: func() bool {
				return busy
			}, label: func(string) string { return "" },
			fair: fair{at: time.Now(), holders: map[string]*holder{}},
			cost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cost"}, []string{"participant"}),
			wake: make(chan struct{}, 1)}
		for kind, name := range []string{"transfers", "accounts", "query"} {
			r.metrics[kind] = newRequestMetrics(prometheus.NewRegistry(), name)
		}

		asked, last := &question{kind: query, objects: 1}, &question{}
		for round := 0; last != asked; round++ {
			if round > 20 {
				t.Fatalf("busy %v: the query does not come", busy)
			}

			for range 3 {
				r.put("10000001", &question{kind: transferLookUp, objects: 4, ids: make([]tb.Uint128, 4)})
			}
			r.put("10000001", &question{kind: turn, answer: make(chan []struct{}, 1)}) // stays behind all of these

			if round == 0 {
				r.put("10000001", asked)
			}
			r.put("10000002", &question{kind: transferLookUp, objects: 1, ids: make([]tb.Uint128, 1)})

			batch, by, wait := r.next()
			if len(batch) == 0 {
				time.Sleep(wait)
				continue
			}
			last = batch[0]
			r.charge(batch, by, time.Millisecond)
		}
	}
}

// While payments wait, answers that ask the ledger nothing have a share, too, however many ask. Another holder has its
// turn at once, and so has everybody while no payment waits.
func TestAnswersHaveAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		busy.Store(true)
		r := NewReads(struct{ tigerbeetle.Client }{}, ReadsConfig{ReadShare{Share: 0.1, Readers: 2}, time.Second},
			BatchConfig{EventsMax: 8189}, busy.Load, func(string) string { return "" },
			prometheus.NewRegistry(), nil)
		defer r.Close()
		began := time.Now()
		var taken, refused atomic.Int64
		var asking sync.WaitGroup

		for range 200 {
			asking.Go(func() {
				for time.Since(began) < 10*time.Second {
					if crowded := (*Crowded)(nil); errors.As(r.Turn(t.Context(), "much"), &crowded) {
						refused.Add(1)
					} else {
						taken.Add(1)
					}
				}
			})
		}
		time.Sleep(5 * time.Second)
		at := time.Now()
		kit.Must(t, r.Turn(t.Context(), "little"))

		if took := time.Since(at); took > 0 {
			t.Errorf("another holder waits %v", took)
		}
		asking.Wait()

		most := int64((creditMax + 0.05*time.Since(began).Seconds()) / answerCost.Seconds())
		if n := taken.Load(); n > most+1 || n < most/2 || refused.Load() > 200*20 {
			t.Errorf("%d turns, at most %d have a share; %d refused", n, most, refused.Load())
		}

		for range 1 + int(creditMax/wrongCost.Seconds()) {
			r.Wrong("little")
		}
		at = time.Now()
		kit.Must(t, r.Turn(t.Context(), "little"))

		if time.Since(at) == 0 {
			t.Error("who asks for nothing but what is wrong does not wait")
		}
		busy.Store(false)

		for range 2 * most {
			kit.Must(t, r.Turn(t.Context(), "other"))
		}
	})
}
