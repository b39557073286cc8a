package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// A payment is a small object that moves by itself: unsent → unknown → reserved → ended.
// Clients cannot make it move but by sending it; what they see tells how far it must be.
// A history is good if its operations can be put in one order, each at an instant between
// its call and its return, in which the payment never goes back (linearizability).

// state of a payment: how far it is and, once it has ended, how.
type state struct {
	status  Status
	outcome Outcome
}

// input of an operation.
type input uint8

const (
	sending   input = iota // a try to submit
	reading                // a status read; the output is what it said
	reporting              // a report exists; the output is what it says
)

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, in, out any) (bool, any) { return step(before.(state), in.(input), out.(state)) },
}

// step tells whether an operation can happen in a state, and the state after it.
func step(now state, in input, seen state) (bool, state) {
	switch {
	case in == sending:
		return true, state{max(now.status, Unknown), now.outcome}
	case seen.status < now.status: // it would have gone back
		return false, now
	case now.status == Ended && seen.outcome != now.outcome:
		return false, now
	case now.status == Unsent: // nobody can have seen more than nothing
		return seen.status == Unknown, now
	}
	return true, seen
}

// open is the return of an operation that never returned.
const open = math.MaxInt64

// operations puts a story into the model's words. Times are nanoseconds since origin.
func (s *story) operations(origin time.Time, tolerance time.Duration) []porcupine.Operation {
	var all []porcupine.Operation
	since := func(at time.Time) int64 { return int64(at.Sub(origin)) }
	for _, x := range s.submissions {
		returned := since(x.span.To)
		if !x.acknowledged {
			returned = open // it may still arrive
		}
		all = append(all, porcupine.Operation{Input: sending, Output: state{}, Call: since(x.span.From), Return: returned})
	}
	for _, x := range s.reads {
		all = append(all, porcupine.Operation{Input: reading, Output: state{x.Status, x.Outcome}, Call: since(x.span.From), Return: since(x.span.To)})
	}
	for _, x := range s.reports {
		// The ledger had decided when the report was written. Kafka keeps milliseconds.
		all = append(all, porcupine.Operation{Input: reporting, Output: state{Ended, x.Outcome}, Call: since(x.At.Add(-tolerance)), Return: since(x.At.Add(time.Millisecond + tolerance))})
	}
	for i := range all {
		all[i].ClientId = i
	}
	return all
}

// tell is the story in words, for people.
func (s *story) tell(origin time.Time) string {
	text := ""
	at := func(t time.Time) string { return fmt.Sprintf("%.3fs", t.Sub(origin).Seconds()) }
	for _, x := range s.submissions {
		text += fmt.Sprintf("; sent %s to %s (acknowledged: %v)", at(x.span.From), at(x.span.To), x.acknowledged)
	}
	for _, x := range s.reads {
		text += fmt.Sprintf("; read %s to %s: %v", at(x.span.From), at(x.span.To), x.Status)
		if x.Status == Ended {
			text += ", " + x.Outcome.String()
			if x.ReturnedCentavos > 0 {
				text += fmt.Sprintf(", %d centavos returned", x.ReturnedCentavos)
			}
		}
	}
	for _, x := range s.reports {
		text += fmt.Sprintf("; report of %s: %v", at(x.At), x.Outcome)
	}
	if len(text) > storyBytesMax {
		text = text[:storyBytesMax] + "…"
	}
	return text[min(2, len(text)):]
}

const storyBytesMax = 2000
