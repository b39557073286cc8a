package chaos

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
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

// fields maps lines of /metrics to counters.
func (c *Counters) fields() map[string]*float64 {
	return map[string]*float64{
		"pix_payments_redelivered_total":                    &c.Redelivered,
		"pix_payments_joined_total":                         &c.Joined,
		"pix_payments_skipped_total":                        &c.Skipped,
		`pix_authorization_responses_total{fate="used"}`:    &c.AnswersUsed,
		`pix_authorization_responses_total{fate="late"}`:    &c.AnswersLate,
		`pix_authorization_responses_total{fate="unknown"}`: &c.AnswersOdd,
		`pix_authorization_responses_total{fate="invalid"}`: &c.AnswersForged,
	}
}

// counterReader reads the engines regularly, because a killed engine forgets its counters.
type counterReader struct {
	client http.Client
	mu     sync.Mutex
	before map[string]map[string]float64 // by engine and line
	total  map[string]float64
	asked  bool
}

const countEvery = 500 * time.Millisecond

func newCounterReader() *counterReader {
	return &counterReader{client: http.Client{Timeout: time.Second}, before: map[string]map[string]float64{}, total: map[string]float64{}}
}

// run reads every engine until ctx ends, and once more. It ignores what engines counted
// before.
func (c *counterReader) run(ctx context.Context, engines func() map[string]string) {
	for name, url := range engines() {
		c.ask(name, url)
	}
	c.mu.Lock()
	clear(c.total)
	c.mu.Unlock()
	for last := false; !last; {
		select {
		case <-ctx.Done():
			last = true
		case <-time.After(countEvery):
		}
		for name, url := range engines() {
			c.ask(name, url)
		}
	}
}

func (c *counterReader) ask(name, url string) {
	response, err := c.client.Get(url + "/metrics")
	if err != nil {
		return // it is down at the moment
	}
	defer response.Body.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	var counters Counters
	known := counters.fields()
	now := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		i := strings.LastIndexByte(lines.Text(), ' ')
		if i < 0 || known[lines.Text()[:i]] == nil {
			continue
		}
		line := lines.Text()[:i]
		value, err := strconv.ParseFloat(lines.Text()[i+1:], 64)
		if err != nil {
			continue
		}
		now[line] = value
		if before := c.before[name][line]; value >= before {
			c.total[line] += value - before
		} else { // it was restarted
			c.total[line] += value
		}
	}
	c.before[name] = now
	c.asked = true
}

func (c *counterReader) counters() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	counters := Counters{Reached: c.asked}
	for line, field := range counters.fields() {
		*field = c.total[line]
	}
	return counters
}
