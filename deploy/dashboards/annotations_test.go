package dashboards

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	promannotations "github.com/prometheus/prometheus/util/annotations"

	"github.com/liquida/liquida/platform/kit"
)

// steps are how far apart Grafana asks for the values of an annotation, in seconds: about one for each point of the
// window, so from the shortest for an hour on a large screen to that of a day on a phone.
var steps = []float64{5, 15, 60, 120, 600, 900}

// A day of scrapes ends here. It is no round number: the grid of a query must not fit the faults.
var scenarioEnd = time.Date(2026, 3, 4, 15, 47, 43, 0, time.UTC)

func before(age time.Duration) float64 { return float64(scenarioEnd.Add(-age).Unix()) }

// An engine restarts four times at one address. Each time it is away for 16 s and says so, since
// Prometheus still scrapes the address.
var restarts = []time.Duration{19*time.Hour + 23*time.Minute, 4*time.Hour + 11*time.Minute, 37 * time.Minute, 130 * time.Second}

const (
	scrapeEvery = 2
	away        = 16
	firstScrape = 3 // seconds from the start of a process to its first scrape

	stays   = "clearing-engine 172.28.86.130:9100"
	leaves  = "clearing-engine 172.28.86.131:9100"
	arrives = "clearing-engine 172.28.86.132:9100"
	watcher = "prometheus localhost:9090"
)

// Another engine is replaced: its container goes, and with it its address; one with a new address comes.
var replaced = 41 * time.Minute

// Prometheus itself is away for a minute. Nobody is scraped, which says nothing about the engines.
var blind = 3 * time.Hour

// TestAnnotations checks that a mark appears for every start and every absence, however far apart Grafana asks, and no
// mark for anything else.
func TestAnnotations(t *testing.T) {
	type mark struct {
		process  string
		from, to float64 // when it begins, and when it ends at the latest, but for the step
	}
	started, gone := []mark{{watcher, before(blind) + 57, before(blind) + 57}}, []mark{}
	for _, ago := range restarts {
		gone = append(gone, mark{stays, before(ago), before(ago) + away + firstScrape})
		started = append(started, mark{stays, before(ago) + away, before(ago) + away})
	}
	gone = append(gone, mark{leaves, before(replaced), before(replaced) + scrapeEvery})
	started = append(started, mark{arrives, before(replaced) + away, before(replaced) + away})

	day := scrapes()
	for _, a := range Annotations[:2] {
		want := map[string][]mark{"Started": started, "Away": gone}[a.Name]
		for _, step := range steps {
			late := step // the mark may stand up to a step later than what it marks
			if a.AtValue {
				late = 0
			}
			events := day.annotate(t, a, step)
			fits := func(e event, m mark) bool {
				return e.process == m.process && e.from >= math.Floor(m.from) && e.to <= m.to+late
			}
			for _, m := range want {
				// The grid ends up to a step ago, and a mark needs a scrape.
				if m.to > before(0)-step-firstScrape {
					continue
				}
				if !slices.ContainsFunc(events, func(e event) bool { return fits(e, m) }) {
					t.Errorf("%s of %s at %s is not shown with a step of %v s: %v", a.Name, m.process, clock(m.from), step, events)
				}
			}
			for _, e := range events {
				// Processes that started before the day are shown, too, outside of the picture.
				if e.to >= before(24*time.Hour) && !slices.ContainsFunc(want, func(m mark) bool { return fits(e, m) }) {
					t.Errorf("%s of %s is shown from %s to %s with a step of %v s, and nothing happened then", a.Name, e.process, clock(e.from), clock(e.to), step)
				}
			}
		}
	}
}

// TestFormerAnnotations checks that the test above can fail. These were the expressions once.
func TestFormerAnnotations(t *testing.T) {
	day := scrapes()
	for _, step := range steps {
		if events := day.annotate(t, Annotation{Expr: `up == 0`}, step); len(events) > 0 {
			t.Errorf("up == 0 shows %v: Grafana drops values of 0", events)
		}
	}
	if events := day.annotate(t, Annotation{Expr: `time() - process_start_time_seconds < 4`}, 120); len(events) >= len(restarts) {
		t.Errorf("a fixed window of 4 s shows all starts with a step of 120 s: %v", events)
	}
}

func clock(at float64) string { return time.Unix(int64(at), 0).UTC().Format(time.TimeOnly) }

// event is what Grafana draws: a mark, or a band, in Unix seconds.
type event struct {
	process  string
	from, to float64
}

// annotate returns the events that an annotation becomes over the day. Grafana takes values above 0 only: each is the
// time of a mark in milliseconds, or those of neighbouring steps are a band (annotations.ts of @grafana/prometheus).
func (all recorded) annotate(t *testing.T, a Annotation, step float64) (events []event) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50e6, Timeout: time.Minute})
	defer func() { _ = engine.Close() }()
	interval := time.Duration(step) * time.Second
	start, end := scenarioEnd.Add(-24*time.Hour).Truncate(interval), scenarioEnd.Truncate(interval)
	query, err := engine.NewRangeQuery(t.Context(), all, nil, strings.ReplaceAll(a.Expr, "$__interval", interval.String()), start, end, interval)
	kit.Must(t, err)
	defer query.Close()
	matrix, err := query.Exec(t.Context()).Matrix()
	kit.Must(t, err)
	for _, line := range matrix {
		process := line.Metric.Get("job") + " " + line.Metric.Get("instance")
		var last *event
		for _, point := range line.Floats {
			at := float64(point.T) / 1000
			switch {
			case point.F <= 0:
				continue
			case a.AtValue:
				events = append(events, event{process, point.F / 1000, point.F / 1000})
			case last != nil && at-last.to <= step:
				last.to = at
			default:
				events = append(events, event{process, at, at})
				last = &events[len(events)-1]
			}
		}
	}
	return events
}

// recorded is what Prometheus would have stored.
type recorded []promql.Series

// scrapes records the day.
func scrapes() recorded {
	var up, start = map[string][]promql.FPoint{}, map[string][]promql.FPoint{}
	isBlind := func(at float64) bool { return at >= before(blind) && at < before(blind)+60 }
	for at := before(25 * time.Hour); at <= before(0); at += scrapeEvery {
		note := func(into map[string][]promql.FPoint, process string, number float64) {
			into[process] = append(into[process], promql.FPoint{T: int64(at * 1000), F: number})
		}
		alive := func(process string, since float64) {
			note(up, process, 1)
			note(start, process, since)
		}
		stale := math.Float64frombits(value.StaleNaN)
		if isBlind(at) {
			continue
		}
		watcherSince := before(30 * time.Hour)
		if at > before(blind) {
			watcherSince = before(blind) + 57
		}
		alive(watcher, watcherSince)

		since := before(26 * time.Hour)
		dead := false
		for _, ago := range restarts {
			if died := before(ago); at >= died {
				since = died + away
				dead = at < since+firstScrape
			}
		}
		if dead {
			note(up, stays, 0)
			if last := start[stays]; len(last) > 0 && !value.IsStaleNaN(last[len(last)-1].F) {
				note(start, stays, stale)
			}
		} else {
			alive(stays, since)
		}

		switch died := before(replaced); {
		case at < died:
			alive(leaves, before(26*time.Hour))
		case !value.IsStaleNaN(up[leaves][len(up[leaves])-1].F):
			note(up, leaves, stale)
			note(start, leaves, stale)
		case at >= died+away+firstScrape:
			alive(arrives, died+away)
		}
	}
	var all recorded
	for name, series := range map[string]map[string][]promql.FPoint{"up": up, "process_start_time_seconds": start} {
		for process, points := range series {
			job, instance, _ := strings.Cut(process, " ")
			all = append(all, promql.Series{Metric: labels.FromStrings(labels.MetricName, name, "instance", instance, "job", job), Floats: points})
		}
	}
	return all
}

// Querier returns all that was recorded: the engine cuts out the time itself.
func (all recorded) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &chosen{next: -1}
		for _, series := range all {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Metric.Get(m.Name)) }) {
				found.series = append(found.series, series)
			}
		}
		return found
	}}, nil
}

type chosen struct {
	series recorded
	next   int
}

func (c *chosen) Next() bool                            { c.next++; return c.next < len(c.series) }
func (c *chosen) At() storage.Series                    { return promql.NewStorageSeries(c.series[c.next]) }
func (c *chosen) Err() error                            { return nil }
func (c *chosen) Warnings() promannotations.Annotations { return nil }
