package load

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/liquida/liquida/loadtest/mix"
)

// Result is the outcome of a load.
type Result struct {
	Passed      bool      `json:"passed"`
	Interrupted bool      `json:"interrupted"`
	StartedAt   time.Time `json:"started_at"`
	Seconds     float64   `json:"seconds"`
	Seed        uint64    `json:"seed"`
	Mix         string    `json:"mix"`
	Rate        float64   `json:"rate_per_second"`
	Payments    int       `json:"payments"`
	Sent        int       `json:"sent"`
	UnderWay    int       `json:"under_way"` // without outcome when the run was interrupted
	Dropped     int       `json:"dropped"`
	Late        int       `json:"late_sends"`
	LateMaxMs   float64   `json:"late_sends_ms_max"`
	Settled     int       `json:"settled"`
	Rejected    int       `json:"rejected"`
	DeadLetters int       `json:"dead_letters"`
	// Returned and ReturnsRejected count returns; the other counts leave returns out.
	Returned        int `json:"returned"`
	ReturnsRejected int `json:"returns_rejected"`
	// GoodRejected counts rejected payments that should have settled, by reason.
	GoodRejected map[string]int `json:"good_rejected"`
	// SettledPerSecond counts from the first intended send to the last settled report.
	SettledPerSecond float64 `json:"settled_per_second"`
	// StandstillSeconds is the longest time in which nothing settled, from StandstillAt seconds on.
	StandstillSeconds float64 `json:"standstill_seconds"`
	StandstillAt      float64 `json:"standstill_at"`
	// SteadyPerSecond leaves out the first and last tenth of the sending time; 0 for a run of
	// less than 10 s.
	SteadyPerSecond float64   `json:"settled_per_second_steady"`
	Outcomes        []Outcome `json:"outcomes"`
	PerSecond       []Second  `json:"per_second"`
	// PerQuarter counts what settled in each quarter of a second.
	PerQuarter []int `json:"settled_per_quarter_second"`
	// Histogram is that of what settled, in microseconds, as HdrHistogram's V2 (compressed, base64).
	Histogram    string    `json:"settled_histogram"`
	Latencies    []Latency `json:"latencies"`
	FailureCount int       `json:"failure_count"`
	Failures     []Failure `json:"failures"` // the first of each form, at most 50
	Thresholds   []Reading `json:"thresholds,omitempty"`
}

// Count counts the payments of one case by how they ended.
type Count struct {
	Sent       int `json:"sent"`
	AsExpected int `json:"as_expected"`
	Excused    int `json:"excused"`
	Wrong      int `json:"wrong"`
	Missing    int `json:"missing"`
}

// Outcome is how the payments of one case ended.
type Outcome struct {
	Case     string `json:"case"`
	Expected string `json:"expected"`
	Count
}

// settledKind is the kind of the latency of payments that settled.
const settledKind = "settled"

// Latency sums up a latency in ms, from the intended send.
type Latency struct {
	Kind  string  `json:"kind"`
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
	Mean  float64 `json:"mean_ms"`
}

// Second is one second of a run: the payments that settled in it, and their latencies.
type Second struct {
	Settled int     `json:"settled"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

// Failure is a payment whose outcome is wrong or missing, with all of its case that fail in the
// same way.
type Failure struct {
	EndToEndID string `json:"end_to_end_id"`
	Case       string `json:"case"`
	Record     string `json:"record,omitempty"` // partition/offset in pix.payments, once acknowledged
	Problem    string `json:"problem"`
	// Sent is when it should have been sent, Ended when its outcome showed to be wrong or
	// was given up.
	Sent  time.Time `json:"sent"`
	Ended time.Time `json:"ended"`
	Count int       `json:"count"`          // that fail in this way
	Also  []string  `json:"also,omitempty"` // some of the others
}

func (l *loader) result(sentAll time.Time, interrupted bool) *Result {
	t := l.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeSecond()
	r := t.result
	// a late acknowledgement may add to them
	r.Failures, r.GoodRejected = slices.Clone(r.Failures), maps.Clone(r.GoodRejected)
	r.Interrupted, r.StartedAt, r.Seconds = interrupted, t.start.UTC(), time.Since(t.start).Seconds()
	r.Seed, r.Mix, r.Rate, r.Payments = l.config.Seed, l.config.MixName, l.config.Rate, l.config.Payments
	r.UnderWay, r.Dropped, r.Late, r.LateMaxMs = t.open, l.dropped, l.late, float64(l.lateMax.Microseconds())/1e3

	r.Latencies = []Latency{t.ack.Latency("producer acknowledgement"), t.settling.Latency(settledKind),
		t.overall.Latency("every outcome")}
	if r.Settled > 0 {
		r.SettledPerSecond = float64(r.Settled) / t.lastSettled.Sub(t.start).Seconds()
	}

	// only a foreign version fails
	if encoded, err := t.settling.histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		r.Histogram = string(encoded)
	}

	r.SteadyPerSecond = steady(r.PerSecond, int(sentAll.Sub(t.start)/time.Second))
	for _, c := range mix.Cases() {
		if count := t.counts[c]; count.Sent > 0 {
			r.Outcomes = append(r.Outcomes, Outcome{c.String(), c.Expectation().String(), count})
		}
	}

	r.Passed = r.FailureCount == 0 && l.dropped == 0 && !interrupted && r.Sent == l.config.Payments

	return &r
}

// steady returns the mean rate in the middle eight tenths of the sending time.
func steady(perSecond []Second, seconds int) float64 {
	if seconds < 10 {
		return 0
	}
	from, to := seconds/10, seconds-seconds/10

	sum := 0
	for _, second := range perSecond[min(from, len(perSecond)):min(to, len(perSecond))] {
		sum += second.Settled
	}

	return float64(sum) / float64(to-from)
}

// Latency returns the latency of a kind, or nil.
func (r *Result) Latency(kind string) *Latency {
	if i := slices.IndexFunc(r.Latencies, func(l Latency) bool { return l.Kind == kind }); i >= 0 {
		return &r.Latencies[i]
	}

	return nil
}

// Verdict is the result in one line.
func (r *Result) Verdict() string {
	switch {
	case r.Passed:
		return fmt.Sprintf("LOAD PASSED: %d payments sent, every one ended as it must", r.Sent)
	case r.Interrupted:
		return fmt.Sprintf("INTERRUPTED: %d sent, %d ended, %d under way; audit not run", r.Sent,
			r.Sent-r.UnderWay, r.UnderWay)
	}

	return fmt.Sprintf("LOAD FAILED: %d of %d payments have a wrong outcome or none, %d were dropped", r.FailureCount,
		r.Sent, r.Dropped)
}
