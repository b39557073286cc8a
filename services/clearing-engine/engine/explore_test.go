package engine

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

var deep = flag.Bool("deep", false, "explore larger plots, too")

// search is an exploration under way.
type search struct {
	t      *testing.T
	first  func() *state
	number map[[sha256.Size]byte]int32 // of a state, by its key
	from   []int32                     // the state before, of each
	by     []move
	ends   []bool
	edges  [][2]int32 // of certain moves
	buffer []byte
}

// explore tries every order of everything that may happen in a plot.
func explore(t *testing.T, p *plot) (states int) {
	s := &search{t: t, first: func() *state { return p.begin(t) }, number: map[[sha256.Size]byte]int32{}}
	began := time.Now()
	first := s.first()
	s.add(first, 0, move{})
	s.visit(first, 0)
	s.checkEnds()
	s.checkCopies()
	t.Logf("%s: %d states, %d steps, %d ends, in %s", p.name, len(s.from), len(s.edges), count(s.ends),
		time.Since(began).Round(time.Millisecond))

	return len(s.from)
}

func count(set []bool) (n int) {
	for _, is := range set {
		if is {
			n++
		}
	}

	return n
}

// add numbers a state. It returns whether it is new.
func (s *search) add(n *state, before int32, by move) (number int32, isNew bool) {
	s.buffer = n.key(s.buffer[:0])

	key := sha256.Sum256(s.buffer)
	if number, known := s.number[key]; known {
		return number, false
	}
	number = int32(len(s.from))
	s.number[key] = number

	s.from, s.by, s.ends = append(s.from, before), append(s.by, by), append(s.ends, n.hasEnded())
	if s.ends[number] {
		n.checkEnd()
	}

	if n.broken != "" {
		s.t.Fatalf("%s\n%s", n.broken, s.course(number))
	}

	return number, true
}

func (s *search) visit(at *state, number int32) {
	moves := at.moves()
	for i, m := range moves {
		next := at.after(m, i == len(moves)-1)
		if next.broken != "" {
			s.t.Fatalf("%s\n%s", next.broken, s.course(number, m))
		}

		n, isNew := s.add(next, number, m)
		if m.certain() {
			s.edges = append(s.edges, [2]int32{number, n})
		}

		if isNew {
			s.visit(next, n)
		}
	}
}

// path returns the moves from the first state to another.
func (s *search) path(number int32) (moves []move) {
	for ; number != 0; number = s.from[number] {
		moves = append([]move{s.by[number]}, moves...)
	}

	return moves
}

// course says in words how a state came about, and what happened then.
func (s *search) course(number int32, then ...move) string {
	var text strings.Builder

	at := s.first()
	for _, m := range append(s.path(number), then...) {
		fmt.Fprintln(&text, at.tell(m))
		at = at.after(m, true)
	}

	return text.String()
}

// checkEnds checks that from every state, without any luck, an end can be reached.
func (s *search) checkEnds() {
	into := make([][]int32, len(s.from))
	for _, edge := range s.edges {
		into[edge[1]] = append(into[edge[1]], edge[0])
	}
	canEnd := make([]bool, len(s.from))
	var work []int32

	for number, ends := range s.ends {
		if ends {
			canEnd[number] = true
			work = append(work, int32(number))
		}
	}

	for len(work) > 0 {
		last := work[len(work)-1]
		work = work[:len(work)-1]

		for _, before := range into[last] {
			if !canEnd[before] {
				canEnd[before] = true
				work = append(work, before)
			}
		}
	}

	for number, can := range canEnd {
		if !can {
			s.t.Fatalf("after this, nothing leads to an end:\n%s", s.course(int32(number)))
		}
	}
}

// checkCopies checks the copier: a state that came about by copies is the one that comes about
// without any.
func (s *search) checkCopies() {
	const samples = 200
	for number := 0; number < len(s.from); number += max(1, len(s.from)/samples) {
		at := s.first()
		for _, m := range s.path(int32(number)) {
			at = at.after(m, true)
		}

		s.buffer = at.key(s.buffer[:0])
		if found, known := s.number[sha256.Sum256(s.buffer)]; !known || found != int32(number) {
			s.t.Fatalf("a copy is not what it was copied from:\n%s", s.course(int32(number)))
		}
	}
}

// TestEveryOrderOfEvents drives the code of partitions, chains and payments against the ledger's
// model, in every order in which results, answers, deaths and time can come. So each plot is small;
// with -deep there are more of them, and they are larger.
func TestEveryOrderOfEvents(t *testing.T) {
	// Nearly all that it allocates is garbage soon, so its heap stays small all the same.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	const deadline, expiry = 45 * time.Second, 65 * time.Second // past them
	within := []time.Duration{0, deadline, expiry}
	soon := []time.Duration{0, time.Second, deadline, expiry}
	one, two := fixedID(1), fixedID(2)
	first, second := fixedReturnID(3), fixedReturnID(4)
	original := pays(two, payee, 100, -time.Hour)
	order, conflict := pays(one, payee, 100, 0), pays(one, payee, 101, 0)
	// Accepted again after the deadline of the first: a hold of it may come after a receipt.
	later, laterConflict := pays(one, payee, 100, 50*time.Second), pays(one, payee, 101, 50*time.Second)
	long := []time.Duration{0, deadline, expiry, expiry + deadline, 2 * expiry}

	plots := []plot{
		{name: "order, engine dies", messages: []*message{order}, times: within, answers: 2, crashes: 1},
		{name: "order, two engines", messages: []*message{order}, times: within, answers: 2, takeovers: 1},
		{name: "order within one bank, engine dies", messages: []*message{pays(one, neighbour, 100, 0)}, times: within,
			answers: 2, crashes: 1},
		{name: "order, copy, conflict", messages: []*message{order, order.again(), conflict}, times: within,
			answers: 2},
		{name: "order, later ones", messages: []*message{order, later, laterConflict}, times: long, answers: 1},
		{name: "payer short, conflict, engine dies", messages: []*message{pays(one, payee, 501, 0), order},
			times: within, answers: 1, crashes: 1},
		{name: "payee missing, two engines", messages: []*message{order}, times: within, noPayee: true, takeovers: 1},
		{name: "payee's bank missing, two engines", messages: []*message{order}, times: within, noPayeePSP: true,
			takeovers: 1},
		{name: "suspended bank, copy, engine dies", messages: []*message{order, order.again()}, times: within,
			suspended: payee.ISPB, crashes: 1},
		{name: "bank suspended once the engine has died", messages: []*message{order}, times: within, answers: 1,
			suspendedLater: payee.ISPB, crashes: 1},
		{name: "bank suspended meanwhile, copy, engine dies", messages: []*message{order, order.again()}, times: soon,
			answers: 1, suspendedAt: 1, suspendedThen: payee.ISPB, crashes: 1},
		{name: "bank resumed meanwhile, two engines", messages: []*message{order}, times: soon, answers: 1,
			suspended: payee.ISPB, resumedAt: 1, takeovers: 1},
		{name: "register not read for a while, conflict, engine dies", messages: []*message{order, conflict},
			times: soon, answers: 1, staleAt: 1, crashes: 1},
		{name: "register not read, then a bank suspended", messages: []*message{order},
			times: []time.Duration{0, time.Second, 2 * time.Second, deadline, expiry}, answers: 1, staleAt: 1,
			suspendedAt: 2, suspendedThen: payer.ISPB, takeovers: 1},
		{name: "return by a bank suspended meanwhile, engine dies",
			messages: []*message{givesBack(first, original, 60, 0)}, settled: original, times: soon, answers: 1,
			suspendedAt: 1, suspendedThen: payee.ISPB, crashes: 1},
		{name: "return to a suspended bank", messages: []*message{givesBack(first, original, 60, 0)}, settled: original,
			times: within, answers: 1, suspended: payer.ISPB},
		{name: "return, engine dies", messages: []*message{givesBack(first, original, 60, 0)}, settled: original,
			times: within, answers: 2, crashes: 1},
		{name: "two returns of too much",
			messages: []*message{givesBack(first, original, 60, 0), givesBack(second, original, 61, 0)},
			settled:  original, times: within[:2], answers: 2},
		{name: "return that conflicts",
			messages: []*message{givesBack(first, original, 60, 0), givesBack(first, original, 61, 0)},
			settled:  original, times: within[:2], answers: 1},
		{name: "order and its return", messages: []*message{order, givesBack(first, order, 100, 0)}, times: within[:2],
			answers: 1},
		{name: "capped order, engine dies", messages: []*message{order}, times: within, answers: 2, crashes: 1,
			outflowCap: 150},
		{name: "capped order, two engines", messages: []*message{order}, times: within, answers: 2, takeovers: 1,
			outflowCap: 150},
		{name: "capped order, later ones", messages: []*message{order, later, laterConflict}, times: long, answers: 1,
			outflowCap: 150},
		{name: "cap for one of two orders, engine dies", messages: []*message{order, pays(two, payee, 100, 0)},
			times: within[:2], answers: 1, crashes: 1, outflowCap: 150},
		{name: "order above the cap on outflow, conflict, two engines",
			messages: []*message{pays(one, payee, 151, 0), order}, times: within[:2], answers: 1, takeovers: 1,
			outflowCap: 150},
		{name: "cap comes meanwhile, engine dies", messages: []*message{order}, times: soon, answers: 1, crashes: 1,
			outflowCap: 50, cappedAt: 1},
		{name: "capped order, bank suspended meanwhile, two engines", messages: []*message{order}, times: soon,
			answers: 1, takeovers: 1, outflowCap: 150, suspendedAt: 1, suspendedThen: payee.ISPB},
		{name: "order above the cap on a payment, conflict, engine dies",
			messages: []*message{order, pays(one, payee, 99, 0)}, times: within, answers: 1, crashes: 1,
			paymentCap: 99},
	}
	if *deep {
		plots = append(plots,
			plot{name: "order, two engines, one dies", messages: []*message{order}, times: within, answers: 2,
				takeovers: 1, crashes: 1},
			plot{name: "return, two engines", messages: []*message{givesBack(first, original, 60, 0)},
				settled: original, times: within, answers: 1, takeovers: 1},
			plot{name: "order, conflict, two engines", messages: []*message{order, conflict}, times: within, answers: 1,
				takeovers: 1},
			plot{name: "order, copy, conflict, engine dies", messages: []*message{order, order.again(), conflict},
				times: within, answers: 2, crashes: 1},
			plot{name: "order, later conflict, two engines", messages: []*message{order, laterConflict}, times: long,
				answers: 1, takeovers: 1},
			plot{name: "suspended bank, conflict, two engines", messages: []*message{order, conflict}, times: within,
				suspended: payee.ISPB, takeovers: 1},
			plot{name: "two returns of too much, two engines",
				messages: []*message{givesBack(first, original, 60, 0), givesBack(second, original, 61, 0)},
				settled:  original, times: within[:2], answers: 1, takeovers: 1},
			plot{name: "order and its return, engine dies",
				messages: []*message{order, givesBack(first, order, 100, 0)}, times: within, answers: 1, crashes: 1},
		)
	}
	states := 0

	for _, p := range plots {
		p.fundCentavos = 500
		t.Run(p.name, func(t *testing.T) { states += explore(t, &p) })
	}
	t.Logf("%d states of %d plots", states, len(plots))
}
