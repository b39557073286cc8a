package question

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

// In every order of questions, answers, verdicts and programs that come and go, each program that reads all is told
// each open question, and of a share one program is. What is answered or over is not told.
func TestEveryOpenQuestionIsToldUntilItIsAnswered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const again = 10 * time.Second
		start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
		now, d := start, newDesk(again, 5)
		type state struct{ open, answered bool }
		states := map[pix.EndToEndID]*state{}

		ids := make([]pix.EndToEndID, 8)
		for i := range ids {
			id, err := pix.ParseEndToEndID(fmt.Sprintf("E100000012026010212000000000000%d", i))
			if err != nil {
				t.Fatal(err)
			}
			ids[i], states[id] = id, &state{}
		}
		type program struct {
			*reader
			knows map[string]bool
		}
		var programs []*program
		drain := func() {
			for more := true; more; {
				more = false

				for _, p := range programs {
					questions, _, _ := p.next(3)
					for _, q := range questions {
						id, _ := pix.ParseEndToEndID(q.EndToEndID)
						if !states[id].open || states[id].answered {
							t.Fatalf("%s is told and is %+v", q.EndToEndID, *states[id])
						}
						p.knows[q.EndToEndID] = true
						more = true
					}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				q := &asked{id: id, told: told{Question: Question{EndToEndID: id.String()}}}
				q.date(now, now.Add(40*time.Second))
				_, ended := d.ended(id)
				full := !states[id].open && len(d.open) >= d.most && !ended

				taken := d.ask(now, q)
				if taken == full {
					t.Fatalf("taken %t with %d open", taken, len(d.open))
				}

				if taken && !ended {
					*states[id] = state{open: true}
					for _, p := range programs {
						delete(p.knows, id.String())
					}
				}
				d.wakeAll()
			},
			"answer": func(t *rapid.T) {
				id, stored := rapid.SampledFrom(ids).Draw(t, "id"), rapid.Bool().Draw(t, "stored")
				word := answer{accepted: rapid.Bool().Draw(t, "accepted")}

				fate, _, q := d.take(id, word)
				switch s := states[id]; {
				case (fate == toBeStored || fate == otherAnswer || fate == sameAnswer) != s.open:
					t.Fatalf("fate %d of a question that is %+v", fate, *s)
				case fate == toBeStored && stored:
					d.keep(now, q, recordAt{q.partition, 7})
					s.answered = true
				case fate == toBeStored:
					d.lose(q)
				}
			},
			"forge": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				d.forged(id, recordAt{0, 8}) // not what was stored

				if rapid.Bool().Draw(t, "ours") {
					if d.forged(id, recordAt{0, 7}); states[id].answered {
						states[id].answered = false
						for _, p := range programs {
							delete(p.knows, id.String())
						}
					}
				}
				d.wakeAll()
			},
			"end": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				d.end(id, ending{})
				*states[id] = state{}
				d.wakeAll()
			},
			"join": func(t *rapid.T) {
				if r := d.join(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "share"), time.Time{}, now); r != nil {
					programs = append(programs, &program{r, map[string]bool{}})
				}
			},
			"leave": func(t *rapid.T) {
				if len(programs) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(programs)-1).Draw(t, "program")
				programs[i].leave(false)
				programs = append(programs[:i], programs[i+1:]...)
			},
			"time": func(*rapid.T) {
				now = now.Add(again + time.Second)
				d.tick(now, start) // no deadline passes

				for id, s := range states {
					if s.open {
						s.answered = false // an answer without a verdict may have been lost

						for _, p := range programs {
							delete(p.knows, id.String())
						}
					}
				}
			},
			"": func(t *rapid.T) {
				drain()

				for id, s := range states {
					if !s.open || s.answered {
						continue
					}
					of := map[*share]int{}

					for _, p := range programs {
						if p.knows[id.String()] {
							of[p.share]++
						} else if p.share == nil {
							t.Fatalf("%s is open, and a program that reads all was not told", id)
						}
					}

					for name, share := range d.shares {
						if share.members > 0 && of[share] == 0 {
							t.Fatalf("%s is open, and no program of share %s was told", id, name)
						}
					}
				}

				if d.wakeAll(); len(d.line.entries) > 0 && d.line.entries[0].place != d.line.first {
					t.Fatalf("the line keeps %d entries", len(d.line.entries))
				}
			},
		})
	})
}

// After its deadline a question is told no more, and a minute later it is over.
func TestAQuestionExpires(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	d := newDesk(10*time.Second, 5)

	id, err := pix.ParseEndToEndID("E1000000120260102120000000000001")
	if err != nil {
		t.Fatal(err)
	}
	q := &asked{id: id, told: told{Question: Question{EndToEndID: id.String()}}}
	q.date(now, now.Add(40*time.Second))
	d.ask(now, q)
	r := d.join("", time.Time{}, now)
	told := 0
	var last []News

	for i := range 20 {
		if i == 6 {
			d.tick(now, now)

			if questions, _, _ := d.join("", time.Time{}, now).next(10); len(questions) > 0 {
				t.Errorf("after its deadline %+v is told", questions)
			}
		}
		questions, news, _ := r.next(10)
		told, last = told+len(questions), append(last, news...)
		now = now.Add(10 * time.Second)
		d.tick(now, now)
	}

	if told != 4 || len(last) != 1 || last[0].Status != expired {
		t.Errorf("told %d times, then %+v", told, last)
	}

	if fate, how, _ := d.take(id, answer{accepted: true}); fate != overQuestion || how.status != questionExpired {
		t.Errorf("an answer then is %v %v", fate, how)
	}
}

// A desk stays while its bank asks, and for a while after.
func TestADeskGoesWithItsBank(t *testing.T) {
	stays, goes := newDesk(time.Second, 5), newDesk(time.Second, 5)
	stays.users, goes.users = 1, 1
	b := &Board{desks: map[pix.ISPB]*desk{"10000001": stays, "10000002": goes}}
	b.leave(goes)

	left := time.Now()
	if b.dropIdle(left.Add(idleMax / 2)); len(b.desks) != 2 {
		t.Fatalf("%d desks soon after", len(b.desks))
	}

	if some := b.dropIdle(left.Add(2 * idleMax)); !some || len(b.desks) != 1 || b.desks["10000001"] == nil {
		t.Fatalf("%v long after", b.desks)
	}
	b.leave(stays)

	if some := b.dropIdle(left.Add(2 * idleMax)); some {
		t.Fatalf("%v are left", b.desks)
	}
}
