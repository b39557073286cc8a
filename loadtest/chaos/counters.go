package chaos

import (
	"context"
	"time"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/host"
)

// Counters sums up what the engines counted, by the names below; nil: no engine could be read. A killed engine
// loses what it counted since the last reading, so each is a lower bound.
type Counters map[string]float64

// counted are counters of /metrics, each with the value of its label.
var counted = map[string][2]string{
	"redelivered":       {"pix_payments_redelivered_total"},
	"joined":            {"pix_payments_joined_total"},
	"skipped":           {"pix_payments_skipped_total"},
	"responses_late":    {"pix_authorization_responses_total", "late"},
	"responses_unknown": {"pix_authorization_responses_total", "unknown"},
}

const countEvery = 500 * time.Millisecond

// readCounters reads every engine until ctx ends, and once more: often, because a killed engine forgets. It ignores
// what engines counted before.
func readCounters(ctx context.Context, engines func() []string) (total Counters) {
	before := map[string]Counters{} // by engine
	read := func() {
		for _, url := range engines() {
			now := countersOf(url)
			if now != nil && total == nil {
				total = Counters{}
			}

			for name, value := range now {
				total[name] += value
				if earlier := before[url][name]; value >= earlier { // else it was restarted
					total[name] -= earlier
				}
			}

			if now != nil {
				before[url] = now
			}
		}
	}
	read()
	total = nil

	for host.Sleep(ctx, countEvery) {
		read()
	}
	read()

	return total
}

// countersOf returns nothing of an engine that is down at the moment.
func countersOf(url string) Counters {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	engine, err := meter.ReadEngines(ctx, []string{url})
	if err != nil {
		return nil
	}

	now := Counters{}
	for name, at := range counted {
		now[name] = engine.Labelled(at[0], at[1])
	}

	return now
}
