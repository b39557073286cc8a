package dashboards

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	promannotations "github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
)

// widths are windows in points: a phone, a laptop, a large screen. The last is what Grafana before
// 11.6.2 took for every window.
var widths = []int{400, 1280, 3840, 100}

var ranges = []time.Duration{5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

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

// TestAnnotationsInGrafana checks that a mark appears for every start and every absence, whatever the range
// and the window, and no mark for anything else. Grafana's own code decides what a mark is.
func TestAnnotationsInGrafana(t *testing.T) {
	ask := func(annotation any) []annotated { return askGrafana(t, scenario(t), annotation, scenarioEnd) }
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

	for _, c := range []struct {
		name string
		want []mark
		// late says that the mark may stand up to a step later than what it marks.
		late bool
	}{
		{"Started", started, false},
		{"Away", gone, true},
	} {
		for _, answer := range ask(annotationNamed(t, c.name)) {
			from, to := before(answer.Range), before(0)
			late := 0.0
			if c.late {
				late = answer.Step
			}
			fits := func(e event, m mark) bool {
				return e.Text == wording(c.name, m.process) && e.Time >= math.Floor(m.from) && e.TimeEnd <= m.to+late
			}
			for _, m := range c.want {
				// The grid ends up to a step ago, and a mark needs a scrape.
				if m.from < from+answer.Step || m.to > to-answer.Step-firstScrape {
					continue
				}
				if !slices.ContainsFunc(answer.Events, func(e event) bool { return fits(e, m) }) {
					t.Errorf("%s of %s at %s is not shown over %v in %d points (step %v s): %v",
						c.name, m.process, clock(m.from), answer.Range, answer.Width, answer.Step, answer.Events)
				}
			}
			for _, e := range answer.Events {
				if e.TimeEnd < from || e.Time > to {
					continue // outside of the picture
				}
				if !slices.ContainsFunc(c.want, func(m mark) bool { return fits(e, m) }) {
					t.Errorf("%s is shown from %s to %s over %v in %d points, and nothing happened then: %s",
						c.name, clock(e.Time), clock(e.TimeEnd), answer.Range, answer.Width, e.Text)
				}
			}
		}
	}
}

// TestFormerAnnotationsInGrafana checks that the test above can fail. These were the expressions once.
func TestFormerAnnotationsInGrafana(t *testing.T) {
	former := func(expr string) []annotated {
		return askGrafana(t, scenario(t), object{"expr": expr, "step": "5s", "textFormat": "{{instance}}"}, scenarioEnd)
	}
	for _, answer := range former(`up == 0`) {
		if len(answer.Events) > 0 {
			t.Errorf("up == 0 shows %v over %v: Grafana drops values of 0", answer.Events, answer.Range)
		}
	}
	for _, answer := range former(`time() - process_start_time_seconds < 4`) {
		if answer.Range == 24*time.Hour && len(answer.Events) >= len(restarts) {
			t.Errorf("a fixed window of 4 s shows all starts in %d points, with a step of %v s", answer.Width, answer.Step)
		}
	}
}

func wording(name, process string) string {
	if name == "Started" {
		return process + " started"
	}
	return process + " does not answer"
}

func clock(at float64) string { return time.Unix(int64(at), 0).UTC().Format(time.TimeOnly) }

// event is what Grafana draws: a mark, or a band from Time to TimeEnd, in Unix seconds.
type event struct {
	Time, TimeEnd float64
	Title, Text   string
}

type annotated struct {
	Range  time.Duration
	Width  int
	Step   float64 // in seconds
	Events []event
}

// askGrafana has Grafana's code ask a Prometheus for the events of an annotation, for every range and width.
func askGrafana(t *testing.T, prometheus string, annotation any, end time.Time) (answers []annotated) {
	t.Helper()
	var cases []object
	for _, shown := range ranges {
		for _, width := range widths {
			answers = append(answers, annotated{Range: shown, Width: width})
			cases = append(cases, object{"prometheus": prometheus, "scrape": scrapeInterval(t), "annotation": annotation,
				"from": end.Add(-shown).Unix(), "to": end.Unix(), "width": width})
		}
	}
	inGrafana(t, "annotations", cases, &answers)
	return answers
}

// annotationNamed is the annotation as it stands in a dashboard's file.
func annotationNamed(t *testing.T, name string) any {
	t.Helper()
	var file struct {
		Annotations struct{ List []object }
	}
	if err := json.Unmarshal([]byte(read(t, "../grafana/dashboards/payments.json")), &file); err != nil {
		t.Fatal(err)
	}
	for _, annotation := range file.Annotations.List {
		if annotation["name"] == name {
			return annotation
		}
	}
	t.Fatalf("payments.json has no annotation %q", name)
	return nil
}

// scrapeInterval is what Grafana is told of the interval of scrapes.
func scrapeInterval(t *testing.T) string {
	t.Helper()
	var file struct {
		Datasources []struct {
			JSONData struct {
				TimeInterval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../grafana/provisioning/datasources/prometheus.yml")), &file); err != nil {
		t.Fatal(err)
	}
	return file.Datasources[0].JSONData.TimeInterval
}

// scenario is the address of a server that answers range queries over the day as Prometheus does, with its engine.
func scenario(t *testing.T) string {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50e6, Timeout: time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	day := scrapes()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := day.ask(r.Context(), engine, r.FormValue("query"), seconds(r, "start"), seconds(r, "end"), seconds(r, "step"))
		reply := object{"status": "success", "data": object{"resultType": "matrix", "result": answer}}
		if err != nil {
			reply = object{"status": "error", "error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(reply) // the reader notices
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func seconds(r *http.Request, name string) float64 {
	number, _ := strconv.ParseFloat(r.FormValue(name), 64)
	return number
}

// recorded is what Prometheus would have stored.
type recorded []promql.Series

func (all recorded) ask(ctx context.Context, engine *promql.Engine, expr string, start, end, step float64) ([]object, error) {
	at := func(second float64) time.Time { return time.UnixMilli(int64(second * 1000)) }
	query, err := engine.NewRangeQuery(ctx, all, nil, expr, at(start), at(end), time.Duration(step*float64(time.Second)))
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	matrix, err := result.Matrix()
	if err != nil {
		return nil, err
	}
	answer := []object{}
	for _, line := range matrix {
		values := [][2]any{}
		for _, point := range line.Floats {
			values = append(values, [2]any{float64(point.T) / 1000, strconv.FormatFloat(point.F, 'f', -1, 64)})
		}
		answer = append(answer, object{"metric": line.Metric.Map(), "values": values})
	}
	return answer, nil
}

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
