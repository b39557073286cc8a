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

// life is from when to when a process runs, in seconds. The times are no round numbers: the grid of a query must not
// fit them.
type life struct{ from, to int }

const (
	allEnds = 21_263
	away    = 16
)

// TestAnnotations checks that a mark appears for every start and every absence, and for nothing else, however far apart
// Grafana asks: every 5 s of an hour on a large screen, every 15 minutes on a phone. It takes values above 0. So each
// expression must look at all that was recorded since the previous value, or a restart between two leaves no mark.
func TestAnnotations(t *testing.T) {
	// One engine restarts at its address. Another is replaced: its container goes with its address, and one with a new
	// address comes.
	lives := map[string][]life{
		"0": {{1, 4_380}, {4_396, 11_003}, {11_019, 19_043}, {19_059, allEnds + 1}},
		"1": {{1, 18_803}}, "2": {{18_819, allEnds + 1}},
	}
	recorded := "load 2s\n"

	for engine, its := range lives {
		var up, started []string

		for at := 0; at <= allEnds; at += 2 {
			isUp, since := "stale", "stale"
			if now := slices.IndexFunc(its, func(l life) bool { return at < l.to }); now >= 0 && at+1 >= its[now].from {
				isUp, since = "1", fmt.Sprint(its[now].from)
			} else if now > 0 { // its address is still scraped
				isUp = "0"
			}
			up, started = append(up, isUp), append(started, since)
		}
		recorded += fmt.Sprintf("up{instance=%q} %s\nprocess_start_time_seconds{instance=%[1]q} %[3]s\n", engine,
			strings.Join(up, " "), strings.Join(started, " "))
	}
	storage := promqltest.LoadedStorage(t, recorded)

	for _, step := range []int{5, 120, 900} {
		ask := func(expr string) map[string][]promql.FPoint {
			engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50e6, Timeout: time.Minute})
			defer func() { _ = engine.Close() }()
			every := time.Duration(step) * time.Second
			query, err := engine.NewRangeQuery(t.Context(), storage, nil,
				strings.ReplaceAll(expr, "$__interval", every.String()), time.Unix(0, 0),
				time.Unix(allEnds, 0).Truncate(every), every)
			kit.Must(t, err)
			matrix, err := query.Exec(t.Context()).Matrix()
			kit.Must(t, err)
			above := map[string][]promql.FPoint{}

			for _, line := range matrix {
				above[line.Metric.Get("instance")] = slices.DeleteFunc(line.Floats,
					func(p promql.FPoint) bool { return p.F <= 0 })
			}

			return above
		}
		starts, absences := ask(annotations(t)["Started"]), ask(annotations(t)["Away"])

		for engine, its := range lives {
			for _, one := range its {
				began := func(p promql.FPoint) bool { return int(p.F) == 1000*one.from }
				gone := func(p promql.FPoint) bool {
					return p.T/1000 >= int64(one.to) && p.T/1000 <= int64(one.to+away+2+step)
				}

				if one.from <= allEnds-step && !slices.ContainsFunc(starts[engine], began) ||
					one.to <= allEnds-away-step && !slices.ContainsFunc(absences[engine], gone) {
					t.Errorf("step %d s: no mark for the start or the end of engine %s, %v", step, engine, one)
				}
				starts[engine] = slices.DeleteFunc(starts[engine], began)
				absences[engine] = slices.DeleteFunc(absences[engine], gone)
			}

			if len(starts[engine]) > 0 || len(absences[engine]) > 0 {
				t.Errorf("step %d s: engine %s has marks for nothing: %v, %v", step, engine, starts[engine],
					absences[engine])
			}
		}
	}
}
