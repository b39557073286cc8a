package simulation

import (
	"fmt"
	"strings"
	"time"
)

// inFlight are the metrics of an engine that are 0 while nothing is in flight. What they leak is
// lost room: the engine slows down and at last fetches nothing. The others have a line for each bank.
var inFlight = []string{"pix_payments_in_flight", "pix_in_flight_bytes", "pix_payments_waiting_for_psp", "pix_payer_share_taken"}

// restMax bounds the time until an engine, which may just start, says what it has in flight.
const restMax = time.Minute

// judgeRest returns what engines still have in flight when every payment has ended.
func (w *world) judgeRest() (problems []string) {
	for _, s := range w.all() {
		last := ""
		for until := time.Now().Add(restMax); strings.HasPrefix(s.name, "engine-") && time.Now().Before(until); time.Sleep(time.Second) {
			_, metrics := w.get(s, "/metrics")
			if last = leaks(metrics); last == "" {
				break
			}
		}
		if last != "" {
			problems = append(problems, fmt.Sprintf("rest: %s: every payment has ended, and its metrics say %s", s.name, last))
		}
	}
	return problems
}

// leaks returns the first metric of inFlight that is not 0, or all of them if one is missing.
func leaks(metrics string) string {
	for _, name := range inFlight[:2] {
		if !strings.Contains(metrics, "\n"+name+" ") {
			return metrics
		}
	}
	for line := range strings.Lines(metrics) {
		for _, name := range inFlight {
			if rest, is := strings.CutPrefix(line, name); is && strings.ContainsAny(rest[:1], " {") && !strings.HasSuffix(line, " 0\n") {
				return line
			}
		}
	}
	return ""
}
