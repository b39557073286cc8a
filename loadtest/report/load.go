package report

import (
	"fmt"

	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/plot"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
)

// OfLoad is the page of a load, with what broke the system meanwhile. repeat is the command that
// sends it again.
func OfLoad(r *load.Result, faults []Fault, repeat string) Page {
	p := Page{
		Title: "Liquida load", StartedAt: r.StartedAt, Passed: r.Passed, Verdict: r.Verdict(), Repeat: repeat,
		Facts: []Fact{
			{"load", fmt.Sprintf("%s payments of the mix %s at %g/s, seed %d", pix.Thousands(r.Payments), r.Mix,
				r.Rate, r.Seed)},
			{"machine", meter.Hardware() + ", with the load generator"},
			{"versions", fmt.Sprintf("Liquida %s; TigerBeetle %s", settings.Version(), tigerbeetle.Version)},
		},
		Figures: []Fact{
			{"payments sent", pix.Thousands(r.Sent)},
			{"settled per second", plot.Amount(r.SettledPerSecond)},
			{"median latency of what settled", "none"},
			{"99th percentile", "none"},
			{"the slowest", "none"},
			{fmt.Sprintf("longest time without a settlement, %.1f s after the start", r.StandstillAt),
				fmt.Sprintf("%.2f s", r.StandstillSeconds)},
		},
		Story: []string{
			fmt.Sprintf("At 0 s the sending begins: %s payments, %g a second, whatever the system does.",
				pix.Thousands(r.Payments), r.Rate),
		},
		Checks: []Check{{"load", r.Passed, r.Verdict()}},
		Tables: []Table{OutcomesTable(r), LatenciesTable(r)},
	}
	if l := r.Latency("settled"); l != nil && l.Count > 0 {
		for i, ms := range []float64{l.P50, l.P99, l.Max} {
			p.Figures[2+i].Value = plot.Amount(ms) + " ms"
			if ms >= 1000 {
				p.Figures[2+i].Value = fmt.Sprintf("%.2f s", ms/1000)
			}
		}
	}

	for _, f := range faults {
		p.Story = append(p.Story, f.Story)
	}

	end := fmt.Sprintf("At %.1f s the run ended: %s settled, %s rejected, %s dead letters.", r.Seconds,
		pix.Thousands(r.Settled), pix.Thousands(r.Rejected), pix.Thousands(r.DeadLetters))
	if r.Rejected+r.DeadLetters > 0 {
		end += " Most cases of the mix that must not settle end at once; a few wait for a bank that never answers."
	}

	p.Story = append(p.Story, end)
	for _, t := range r.Thresholds {
		p.Checks = append(p.Checks, Check{"threshold " + t.Threshold, !t.Broken, t.Measured})
		if t.Broken {
			p.Passed, p.Verdict = false, p.Verdict+". Broken: "+t.Threshold
		}
	}

	for _, f := range r.Failures {
		p.Problems = append(p.Problems, fmt.Sprintf("%s (%s): %s", f.EndToEndID, f.Case, f.Problem))
	}
	p.Drawing = drawRun(r, faults)

	return p
}
