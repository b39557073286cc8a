package simulation

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// inFlight are the metrics of an engine that are 0 while nothing is in flight. What they leak is
// lost room: the engine slows down and at last fetches nothing.
var inFlight = []string{"pix_payments_in_flight", "pix_in_flight_bytes", "pix_payments_waiting_for_psp", "pix_payer_share_taken"}

// restMax bounds the time until an engine, which may just start, says what it has in flight.
const restMax = time.Minute

// judgeRest returns what engines still have in flight when every payment has ended.
func (w *world) judgeRest() []string {
	var problems []string
	for _, s := range w.all() {
		if !strings.HasPrefix(s.name, "engine-") {
			continue
		}
		var last error
		for until := time.Now().Add(restMax); time.Now().Before(until); time.Sleep(time.Second) {
			if last = w.rests(s); last == nil {
				break
			}
		}
		if last != nil {
			problems = append(problems, fmt.Sprintf("rest: %s: %v", s.name, last))
		}
	}
	return problems
}

// rests returns an error if the engine has something in flight, or does not say.
func (w *world) rests(s *service) error {
	code, text := w.get(s, "/metrics")
	if code != http.StatusOK {
		return errors.New(text)
	}
	return atRest(strings.NewReader(text))
}

// atRest returns an error if a metric of inFlight is not 0, or missing.
func atRest(metrics io.Reader) error {
	found := map[string]bool{}
	for lines := bufio.NewScanner(metrics); lines.Scan(); {
		for _, name := range inFlight {
			metric, value, _ := strings.Cut(lines.Text(), " ")
			if base, _, _ := strings.Cut(metric, "{"); base != name {
				continue
			}
			found[name] = true
			if n, err := strconv.ParseFloat(value, 64); err != nil || n != 0 {
				return fmt.Errorf("%s is %s, and every payment has ended", metric, value)
			}
		}
	}
	for _, name := range inFlight[:2] { // the others have a line for each bank
		if !found[name] {
			return fmt.Errorf("it has no metric %s", name)
		}
	}
	return nil
}
