package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// In the model a payment moves by itself: unsent → unknown → reserved → ended. Clients only
// send it, and see how far it is. A history is good if its operations fit one order in which
// the payment never goes back, each at an instant between its call and its return
// (linearizability).

// state is the status of a payment and, if it ended, its outcome.
type state struct {
	status  Status
	outcome Outcome
}

// input is the kind of an operation.
type input uint8

const (
	submitInput input = iota // a try to submit
	readInput                // a read; the output is what it said
	reportInput              // a report exists; the output is what it says
)

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, in, out any) (bool, any) { return step(before.(state), in.(input), out.(state)) },
}

// step reports whether an operation can happen in a state, and returns the next state.
func step(now state, in input, seen state) (bool, state) {
	switch {
	case in == submitInput:
		return true, state{max(now.status, Unknown), now.outcome}
	case seen.status < now.status: // the payment would go back
		return false, now
	case now.status == Ended && seen.outcome != now.outcome:
		return false, now
	case now.status == Unsent: // an unsent payment has nothing to see
		return seen.status == Unknown, now
	}
	return true, seen
}

// open is the return time of an operation that never returned.
const open = math.MaxInt64

// operations translates a story for the model. Times are nanoseconds since origin.
func (s *story) operations(origin time.Time, tolerance time.Duration) []porcupine.Operation {
	var all []porcupine.Operation
	since := func(at time.Time) int64 { return int64(at.Sub(origin)) }
	for _, x := range s.submissions {
		returned := since(x.span.To)
		if !x.acknowledged {
			returned = open // it may still arrive
		}
		all = append(all, porcupine.Operation{Input: submitInput, Output: state{}, Call: since(x.span.From), Return: returned})
	}
	for _, x := range s.reads {
		all = append(all, porcupine.Operation{Input: readInput, Output: state{x.Status, x.Outcome}, Call: since(x.span.From), Return: since(x.span.To)})
	}
	for _, x := range s.reports {
		// The ledger decided before the report was written. Kafka keeps milliseconds.
		all = append(all, porcupine.Operation{Input: reportInput, Output: state{Ended, x.Outcome}, Call: since(x.At.Add(-tolerance)), Return: since(x.At.Add(time.Millisecond + tolerance))})
	}
	for i := range all {
		all[i].ClientId = i
	}
	return all
}

// text is the story for people.
func (s *story) text(origin time.Time) string {
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
