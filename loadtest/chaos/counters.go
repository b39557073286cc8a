package chaos

import (
	"context"
	"time"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/host"
)

// Counters sums up what the engines counted. A killed engine loses what it counted since the
// last reading, so each is a lower bound.
type Counters struct {
	Reached       bool    `json:"reached"` // whether any engine could be read
	Redelivered   float64 `json:"redelivered"`
	Joined        float64 `json:"joined"`
	Skipped       float64 `json:"skipped"`
	AnswersUsed   float64 `json:"answers_used"`
	AnswersLate   float64 `json:"answers_late"`
	AnswersOdd    float64 `json:"answers_unknown"`
	AnswersForged float64 `json:"answers_invalid"`
}

// fields maps counters of /metrics, each with the value of its label, to counters.
func (c *Counters) fields() map[[2]string]*float64 {
	const responses = "pix_authorization_responses_total"
	return map[[2]string]*float64{
		{"pix_payments_redelivered_total"}: &c.Redelivered,
		{"pix_payments_joined_total"}:      &c.Joined,
		{"pix_payments_skipped_total"}:     &c.Skipped,
		{responses, "used"}:                &c.AnswersUsed,
		{responses, "late"}:                &c.AnswersLate,
		{responses, "unknown"}:             &c.AnswersOdd,
		{responses, "invalid"}:             &c.AnswersForged,
	}
}

// counterReader reads the engines regularly, because a killed engine forgets its counters.
type counterReader struct {
	before map[string]Counters // by engine
	total  Counters
}

const countEvery = 500 * time.Millisecond

// run reads every engine until ctx ends, and once more. It ignores what engines counted
// before.
func (c *counterReader) run(ctx context.Context, engines func() map[string]string) {
	c.before = map[string]Counters{}
	read := func() {
		for name, url := range engines() {
			c.ask(name, url)
		}
	}
	read()
	c.total = Counters{}
	for host.Sleep(ctx, countEvery) {
		read()
	}
	read()
}

func (c *counterReader) ask(name, url string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	engine, err := meter.ReadEngines(ctx, []string{url})
	if err != nil {
		return // it is down at the moment
	}
	var now Counters
	before := c.before[name]
	earlier, total := before.fields(), c.total.fields()
	for key, value := range now.fields() {
		*value = engine.Labelled(key[0], key[1])
		*total[key] += *value
		if *value >= *earlier[key] { // else it was restarted
			*total[key] -= *earlier[key]
		}
	}
	c.before[name], c.total.Reached = now, true
}
