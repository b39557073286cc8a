package dashboards

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
)

// TestPanelsShowWhatIsTrue asks a real Prometheus for what panels show of a real system: under load, with a silent bank,
// and without engines. Each query of panels and rules, and each series that it reads, must have shown something at its
// end: so all names and labels exist.
func TestPanelsShowWhatIsTrue(t *testing.T) {
	if os.Getenv("LIQUIDA_NEEDS_PROMETHEUS") == "" {
		t.Skip("make test-dashboards runs a whole system for two minutes")
	}
	watchers := stack.InstalledObservers()
	if watchers.Prometheus == "" || watchers.StatsdBridge == "" {
		t.Fatalf("Prometheus is %q and the bridge %q: make test-dashboards puts both on PATH", watchers.Prometheus, watchers.StatsdBridge)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	root, err := stack.RepoRoot()
	kit.Must(t, err)
	bin := t.TempDir()
	kit.Must(t, stack.Build(ctx, root, bin))
	s, err := stack.Start(ctx, stack.Config{
		Dir: t.TempDir(), BinDir: bin, Ports: stack.FreePorts, CacheGrid: "256MiB", Engines: 2, Archive: true, Observers: watchers,
		// Short, so that what a silent bank holds soon stops growing.
		Env: map[string][]string{stack.Engine: {"ENGINE_DEADLINE=8s"}, stack.Simulator: {"SIMULATOR_LATE_DELAY=10s"}},
	})
	kit.Must(t, err)
	t.Cleanup(func() { kit.Must(t, s.Stop(context.WithoutCancel(ctx))) })
	known, err := s.Keys()
	kit.Must(t, err)
	h := watched{t, "http://" + s.PrometheusAddress()}
	began := time.Now()

	act := func(method, url, body string) { // of the central bank
		request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		kit.Must(t, err)
		request.Header.Set("Authorization", "Bearer "+known[keys.CentralBank])
		response, err := http.DefaultClient.Do(request)
		kit.Must(t, err)
		if kit.Must(t, response.Body.Close()); response.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %s", method, url, response.Status)
		}
	}
	act(http.MethodPut, s.ProducerURL()+"/v1/participants/10000003/acts/cap", `{"act": "day-cap", "cap_centavos": 100000000000, "window_seconds": 3600}`)
	act(http.MethodGet, s.ProducerURL()+"/v1/participants", "") // somebody reads
	kit.Must(t, s.Run(ctx, t.Output(), t.Output(), "loadtest", "run", "--rate=200", "--duration=38s", "--allow=AB03"))
	h.await("all is well after a load", "("+allRight.Expr+") == 0")
	h.await("the settlements are long ago", `time() - max(pix_last_settled_timestamp_seconds) > 12`)
	h.everyMessageEnded()

	load, unload := context.WithCancel(ctx)
	loadEnds := make(chan error, 1)
	go func() {
		loadEnds <- s.Run(load, io.Discard, io.Discard, "loadtest", "run", "--rate=200", "--duration=5m")
	}()
	const bank = "10000002"
	profile := s.SimulatorURL() + "/v1/profiles/" + bank
	act(http.MethodPut, profile, `{"silent_share": 1}`)
	h.await("the table names the silent bank", `ALERTS{alertname="BankKeepsWaiting", alertstate="firing", ispb="`+bank+`"}`)
	h.await("the first panel says LOOK", "("+allRight.Expr+") == 1")
	act(http.MethodDelete, profile, "")
	h.await("all is well again", "("+allRight.Expr+") == 0")

	engines := []string{stack.EngineName(0), stack.EngineName(1)}
	died := time.Now()
	for _, engine := range engines {
		kit.Must(t, s.Kill(engine))
	}
	h.await("the first panel says NO", "("+allRight.Expr+") == 3")
	dead := time.Since(died)
	for _, engine := range engines {
		kit.Must(t, s.Restart(ctx, engine))
	}
	h.await("payments settle again", `max(pix_start_to_settled_seconds) > 0`)
	longest, most := h.at(longestStandstill.Expr), time.Since(died)
	if len(longest) != 1 || longest[0] < dead.Seconds()-4 || longest[0] > most.Seconds()+4 {
		t.Errorf("the longest standstill is %v s, and it was %v to %v, to within two scrapes", longest, dead, most)
	}
	h.await("both restarts are counted, and partitions changed hands", "("+restarted.Expr+") == 2 and on() "+Annotations[2].Expr)
	unload()
	<-loadEnds

	h.everyExpressionShowed(began)
	h.checkRules()
}

// watched is a system that Prometheus watches.
type watched struct {
	*testing.T
	prometheus string
}

// await waits until an expression has a value.
func (h watched) await(what, expr string) {
	h.Helper()
	const soon = 90 * time.Second // on a slow machine
	began := time.Now()
	for len(h.at(expr)) == 0 {
		if time.Since(began) > soon {
			h.Fatalf("not within %v: %s: %s; alerts: %v", soon, what, expr, h.since(began, "ALERTS"))
		}
		time.Sleep(500 * time.Millisecond)
	}
	h.Logf("%s after %v", what, time.Since(began))
}

// growth finds what the panel of all messages divides.
var growth = regexp.MustCompile(`(?:increase|delta)\((\w+(?:\{[^}]*\})?)\[\w+\]\)`)

// everyMessageEnded checks, once nothing is in flight, that the panel counts each message exactly once.
func (h watched) everyMessageEnded() {
	h.Helper()
	ratio, _, _ := strings.Cut(everyEnds.Expr, "and on()")
	sums := growth.ReplaceAllString(ratio, "$1")
	if ended := h.at(sums); len(ended) != 1 || ended[0] != 1 {
		h.Errorf("%v of all messages ended, want all, each once: %s", ended, sums)
	}
}

// everyExpressionShowed checks that each expression of every panel and rule, and each series that it reads, had a
// value at some time: a panel that never shows anything is worse than none.
func (h watched) everyExpressionShowed(began time.Time) {
	asked := map[string]string{}
	for where, expr := range expressions() {
		for _, selector := range selectors(h.T, expr) {
			asked[selector] = "a part of " + where
		}
		if strings.HasPrefix(where, "annotation ") { // Grafana drops all other values
			expr = "(" + expr + ") > 0"
		}
		asked[expr] = where
	}
	// An alert shows nothing while all is well, but the series that it reads must exist.
	for _, rule := range rules(h.T) {
		for _, selector := range selectors(h.T, rule.Expr) {
			asked[selector] = "a part of rule " + rule.Alert + rule.Record
		}
		if rule.Record != "" {
			asked[rule.Record] = "rule " + rule.Record
		}
	}
	for _, expr := range slices.Sorted(maps.Keys(asked)) {
		if len(h.since(began, expr)) == 0 {
			h.Errorf("%s shows nothing: %s", asked[expr], expr)
		}
	}
	h.Logf("%d expressions and selectors were asked", len(asked))
}

// checkRules checks that Prometheus could evaluate each rule.
func (h watched) checkRules() {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	h.get("/api/v1/rules", nil, &data)
	count := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			if count++; rule.Health != "ok" {
				h.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if want := len(rules(h.T)); count != want {
		h.Errorf("Prometheus has %d rules, want %d", count, want)
	}
}

// at returns the values of an expression now.
func (h watched) at(expr string) (values []float64) {
	h.Helper()
	var data struct{ Result []struct{ Value [2]any } }
	h.get("/api/v1/query", url.Values{"query": {forPrometheus(expr)}}, &data)
	for _, line := range data.Result {
		if v, ok := finite(line.Value); ok {
			values = append(values, v)
		}
	}
	return values
}

// since returns the series that have a value since then.
func (h watched) since(then time.Time, expr string) (found []map[string]string) {
	h.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	unix := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	h.get("/api/v1/query_range", url.Values{"query": {forPrometheus(expr)}, "step": {"1"}, "start": {unix(then)}, "end": {unix(time.Now())}}, &data)
	for _, line := range data.Result {
		if slices.ContainsFunc(line.Values, func(v [2]any) bool { _, ok := finite(v); return ok }) {
			found = append(found, line.Metric)
		}
	}
	return found
}

// finite returns a value of Prometheus: its time, and a number as text.
func finite(pair [2]any) (float64, bool) {
	v, err := strconv.ParseFloat(pair[1].(string), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

func (h watched) get(path string, parameters url.Values, result any) {
	h.Helper()
	response, err := http.Get(h.prometheus + path + "?" + parameters.Encode())
	kit.Must(h.T, err)
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	kit.Must(h.T, json.NewDecoder(response.Body).Decode(&answer))
	if answer.Status != "success" {
		h.Fatalf("Prometheus refuses %s: %s", parameters, answer.Error)
	}
	kit.Must(h.T, json.Unmarshal(answer.Data, result))
}

// selectors returns the series that an expression reads.
func selectors(t *testing.T, expr string) (all []string) {
	tree, err := parser.ParseExpr(forPrometheus(expr))
	kit.Must(t, err)
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			bare := *selector
			bare.OriginalOffset, bare.Offset, bare.Timestamp = 0, 0, nil
			all = append(all, bare.String())
		}
		return nil
	})
	return all
}
