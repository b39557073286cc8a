package grafana

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/liquida/liquida/platform/kit"
)

// The hours of TestAnnotations, in seconds. The times are no round numbers: the grid of a query must not fit them.
const (
	allEnds = 21_263
	away    = 16
)

// One engine restarts, and Prometheus still scrapes its address. Another is replaced: its container goes with its
// address, and one with a new address comes.
var (
	restarts = []int{4_380, 11_003, 19_043, 21_133}
	replaced = 18_803
)

// TestAnnotations checks that a mark appears for every start and every absence, and for nothing else, however far apart
// Grafana asks: every 5 s of an hour on a large screen, every 15 minutes on a phone. It takes values above 0. So each
// expression must look at all that was recorded since the previous value, or a restart between two leaves no mark.
func TestAnnotations(t *testing.T) {
	var up, started [3][]string

	for at := 0; at <= allEnds; at += 2 {
		since, isUp := 1, "1"

		for _, died := range restarts {
			if at >= died {
				since, isUp = died+away, "1"
			}
		}

		if since > 1 && at < since {
			isUp = "0"
		}
		note := func(engine int, isUp string, since int) {
			if up[engine] = append(up[engine], isUp); isUp == "1" {
				started[engine] = append(started[engine], fmt.Sprint(since))
			} else {
				started[engine] = append(started[engine], strings.Replace(isUp, "0", "stale", 1))
			}
		}
		note(0, isUp, since)

		if at < replaced {
			note(1, "1", 1)
			note(2, "stale", 0) // the storage takes no series that begins so much later than others
		} else {
			note(1, "stale", 0)
			note(2, map[bool]string{true: "1", false: "stale"}[at >= replaced+away], replaced+away)
		}
	}

	text := "load 2s\n"
	for engine := range up {
		text += fmt.Sprintf("up{instance=\"%d\"} %s\n", engine, strings.Join(up[engine], " "))
		text += fmt.Sprintf("process_start_time_seconds{instance=\"%d\"} %s\n", engine,
			strings.Join(started[engine], " "))
	}
	recorded := promqltest.LoadedStorage(t, text)
	gone := map[string][]int{"0": restarts, "1": {replaced}}

	starts := map[string][]int{"0": {1}, "1": {1}, "2": {replaced + away}}
	for _, died := range restarts {
		starts["0"] = append(starts["0"], died+away)
	}

	for _, step := range []int{5, 120, 900} {
		ask := func(expr string) promql.Matrix {
			engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50e6, Timeout: time.Minute})
			defer func() { _ = engine.Close() }()
			every := time.Duration(step) * time.Second
			query, err := engine.NewRangeQuery(t.Context(), recorded, nil,
				strings.ReplaceAll(expr, "$__interval", every.String()), time.Unix(0, 0),
				time.Unix(allEnds, 0).Truncate(every), every)
			kit.Must(t, err)
			matrix, err := query.Exec(t.Context()).Matrix()
			kit.Must(t, err)

			return matrix
		}
		for _, line := range ask(annotations(t)["Started"]) {
			var marks []int
			for _, point := range line.Floats {
				marks = append(marks, int(point.F)/1000)
			}
			engine := line.Metric.Get("instance")

			want := slices.DeleteFunc(slices.Clone(starts[engine]), func(at int) bool { return at > allEnds-step })
			if marks = slices.Compact(marks); !slices.Equal(marks[:len(want)], want) ||
				len(marks) > len(starts[engine]) {
				t.Errorf("starts of engine %s with a step of %d s: %v, want %v", engine, step, marks, want)
			}
		}

		for _, line := range ask(annotations(t)["Away"]) {
			left := slices.Clone(gone[line.Metric.Get("instance")])
			for _, point := range line.Floats {
				if at := int(point.T / 1000); point.F > 0 {
					fits := func(died int) bool { return died <= at && at <= died+away+2+step }
					if !slices.ContainsFunc(gone[line.Metric.Get("instance")], fits) {
						t.Errorf("engine %s was not away at %d (step %d s)", line.Metric.Get("instance"), at, step)
					}
					left = slices.DeleteFunc(left, fits)
				}
			}

			if left = slices.DeleteFunc(left, func(died int) bool { return died > allEnds-away-step }); len(left) > 0 {
				t.Errorf("engine %s was away at %v, and no mark says so (step %d s)",
					line.Metric.Get("instance"), left, step)
			}
		}
	}
}
