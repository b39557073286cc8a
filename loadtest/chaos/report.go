package chaos

import (
	"fmt"
	"slices"

	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
)

// Page tells the run, with a drawing of it.
func (r *Result) Page() report.Page {
	var faults []report.Fault
	var standstill float64

	for _, e := range r.Events {
		faults = append(faults, report.Fault{Name: e.Kind + " " + e.Target, Began: e.Began, Ended: e.Ended,
			Failed: e.Problem != "", Story: e.story()})
		standstill = max(standstill, e.Standstill)
	}
	p := report.OfLoad(r.Load, faults, r.Repeat)

	p.Title = fmt.Sprintf("Liquida: %d faults at %g payments a second", len(r.Events), r.Load.Rate)
	if len(r.Events) == 1 {
		p.Title = fmt.Sprintf("Liquida: %s at %g payments a second", r.Events[0].Kind, r.Load.Rate)
	}
	p.Passed, p.Verdict = r.Passed, "Nothing lost, nothing twice, nothing in between."
	p.Facts = append(p.Facts, report.Fact{Name: "system", Value: r.System})
	p.Figures = append(p.Figures[:len(p.Figures)-1],
		report.Fact{Name: "longest standstill after a fault", Value: fmt.Sprintf("%.2f s", standstill)},
		report.Fact{Name: "payments over HTTP, watched all along", Value: pix.Thousands(r.Clients)},
		report.Fact{Name: "good payments rejected because of a fault", Value: r.goodRejected()})
	p.Checks = append(p.Checks,
		report.Check{Name: "audit", Passed: r.Audit.Clean, Text: r.Audit.String()},
		report.Check{Name: "answers", Passed: r.Answers.Clean, Text: r.Answers.String()})
	p.Tables[0].Note = "Excused: rejected because of a fault, with a code that the run allows (AB03: no response in time; LQ02: too many payments wait for the bank; LQ10: too old to end in time; LQ13: past its deadline; AG01: a bank that was made to reject)."

	p.Tables = append([]report.Table{r.recoveryTable()}, p.Tables...)
	if r.Budget != nil {
		p.Tables = append(p.Tables, r.Budget.table())
	}

	if r.Light != nil {
		p.Checks = append(p.Checks,
			report.Check{Name: "live audit", Passed: r.Light.Seconds[live.Red] == 0, Text: r.Light.String()})
	}

	if !r.Passed {
		p.Verdict, p.Problems = "", append(slices.Clone(r.Problems), append(p.Problems, r.problems()...)...)
	}

	return p
}

// story says what a fault did.
func (e Event) story() string {
	text := fmt.Sprintf("At %.1f s, for %.1f s, %s %s (%s)", e.Began, max(e.Ended-e.Began, 0), e.Kind, e.Target,
		kindNamed(e.Kind).meaning)
	if e.Detail != "" {
		text += ": " + e.Detail
	}

	if e.Problem != "" {
		return text + ". PROBLEM: " + e.Problem
	}

	if e.FirstSettled < 0 {
		return text + ". Nothing settled after it."
	}

	where := "A partition"
	if len(e.Partitions) > 0 {
		where = "One of its partitions"
	}

	return text + fmt.Sprintf(". %s settled nothing for %.2f s.", where, e.Standstill)
}

// problems are those that neither the load nor the faults have.
func (r *Result) problems() (all []string) {
	for _, f := range r.Audit.Findings {
		all = append(all, fmt.Sprintf("%s: %s: %s", f.Subject, f.Kind, f.Detail))
	}

	for _, c := range r.Answers.Contradictions {
		all = append(all, fmt.Sprint(c))
	}

	return all
}
