package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/report"
)

// Result is the outcome of a run.
type Result struct {
	Passed   bool            `json:"passed"`
	Problems []string        `json:"problems"`
	Seed     uint64          `json:"seed"`
	Repeat   string          `json:"repeat"` // the command that repeats the run
	System   string          `json:"system"`
	Events   []Event         `json:"faults"`
	Clients  int64           `json:"payments_by_http"`
	Load     *load.Result    `json:"load"`
	Audit    audit.Verdict   `json:"audit"`
	Answers  answers.Verdict `json:"answers"`
	Budget   *Budget         `json:"budget,omitempty"` // of evidence
	Light    *Light          `json:"light,omitempty"`  // without a control room: none
}

// Event is an injected fault. Times are seconds since the first payment.
type Event struct {
	Kind   string  `json:"kind"`
	Target string  `json:"target"`
	Detail string  `json:"detail,omitempty"`
	Began  float64 `json:"began"`
	Ended  float64 `json:"ended"` // its cause ended: started again, resumed, healed
	// Partitions are those that it hit; empty: all.
	Partitions []int32 `json:"partitions,omitempty"`
	// FirstSettled is the time from its beginning to the first payment settled in any of the
	// partitions; negative: none.
	FirstSettled float64 `json:"first_settled_seconds"`
	// Standstill is the longest time in which a partition settled nothing.
	Standstill float64 `json:"standstill_seconds"`
	Problem    string  `json:"problem,omitempty"`
}

func (r *Result) problem(format string, arguments ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, arguments...))
}

// judge decides whether the run passed.
func (r *Result) judge() {
	for _, event := range r.Events {
		if event.Problem != "" {
			r.problem("%s %s: %s", event.Kind, event.Target, event.Problem)
		}
	}
	r.Passed = r.Load.Passed && r.Audit.Clean && r.Answers.Clean && len(r.Problems) == 0
}

// Write prints the result for people; its last line is the verdict.
func (r *Result) Write(w io.Writer) {
	report.WriteLoad(w, r.Load)
	fmt.Fprintln(w)
	r.Audit.Write(w)

	for _, contradiction := range r.Answers.Contradictions {
		fmt.Fprintf(w, "WRONG %v\n", contradiction)
	}
	fmt.Fprintln(w, r.Answers)

	r.recoveryTable().Write(w)
	fmt.Fprintln(w)

	for _, event := range r.Events {
		fmt.Fprintln(w, event.story())
	}

	for _, problem := range r.Problems {
		fmt.Fprintf(w, "PROBLEM %s\n", problem)
	}
	fmt.Fprintln(w, r)
}

// recoveryTable says what deaths and restarts cost.
func (r *Result) recoveryTable() report.Table {
	table := report.Table{Title: "Recovery", TextColumns: 1, Head: []string{"", ""}}

	for _, kill := range [][2]string{
		{"kill to the first settled payment, the same engine restarted", r.firstSettled("kill-engine", "crash-engine")},
		{"kill to the first settled payment, another engine taking over", r.firstSettled("kill-engine-takeover")},
	} {
		if kill[1] != "" {
			table.Add(kill[0], kill[1])
		}
	}
	table.Add("repeated reports", fmt.Sprint(r.Audit.Summary.RepeatedReports))
	table.Add("good payments rejected", r.goodRejected())

	return table
}

// firstSettled sums up FirstSettled of the faults of some kinds; empty without any.
func (r *Result) firstSettled(kinds ...string) string {
	var seconds []float64

	for _, event := range r.Events {
		if slices.Contains(kinds, event.Kind) && event.Problem == "" && event.FirstSettled >= 0 {
			seconds = append(seconds, event.FirstSettled)
		}
	}

	if len(seconds) == 0 {
		return ""
	}
	slices.Sort(seconds)

	return fmt.Sprintf("median %.2f s, longest %.2f s, of %d", seconds[len(seconds)/2], seconds[len(seconds)-1],
		len(seconds))
}

// goodRejected counts rejected payments that should have settled, by reason.
func (r *Result) goodRejected() string {
	total, reasons := 0, ""

	for _, reason := range slices.Sorted(maps.Keys(r.Load.GoodRejected)) {
		total += r.Load.GoodRejected[reason]
		reasons += fmt.Sprintf(", %s %d", reason, r.Load.GoodRejected[reason])
	}

	return fmt.Sprint(total) + reasons
}

func (r *Result) String() string {
	if r.Passed {
		return fmt.Sprintf("CHAOS PASSED: seed %d, faults: %d, in %.0f s, payments: %d of the load and %d by HTTP: nothing lost, nothing twice, nothing in between",
			r.Seed, len(r.Events), r.Load.Seconds, r.Load.Sent, r.Clients)
	}
	var failed []string

	for _, part := range []struct {
		name string
		good bool
	}{{"the load", r.Load.Passed}, {"the audit", r.Audit.Clean}, {"the answers", r.Answers.Clean},
		{"the programs", len(r.Problems) == 0}} {
		if !part.good {
			failed = append(failed, part.name)
		}
	}

	return fmt.Sprintf("CHAOS FAILED: seed %d: %s. Repeat it with:\n  %s", r.Seed, strings.Join(failed, ", "), r.Repeat)
}
