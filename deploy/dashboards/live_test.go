package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
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

// The situations of TestPanelsShowWhatIsTrue, in their order.
const (
	idle = iota
	loaded
	justAfter
	silentBank
	killed
	situations
)

var situationNames = [situations]string{"idle", "loaded", "12 s after a load", "a bank is silent", "all engines are dead"}

// mustShow is what panels must show in each situation: a word, a color, or what they say without data. Of a panel with
// several lines it is the worst color. Without thresholds: 0, + for more, - for no line. | separates what may be shown,
// * is anything but no data, and an empty cell anything: it depends on the machine, or on how long the situation lasts.
var mustShow = []expected{
	{[...]string{"YES", "YES", "YES", "LOOK", "NO"}, []string{"Is everything all right?"}},
	{[...]string{"-", "-", "-", "red", "red"}, []string{"If not, what is wrong?"}},
	{[...]string{"no load", "green", "no load", "*", "orange|red"}, []string{"Does every message end?"}},
	{[...]string{"no load", "green", "no load", "green", "orange|red"}, []string{"Do payments settle?"}},
	{[...]string{"green", "green", "green", "green", "orange|red"}, []string{"What was the longest standstill?", "For how long did nothing settle?"}},
	{[...]string{"no data", "green", "green", "green", "no data"}, []string{"How long from start to first settlement?"}},
	{[...]string{"green", "green", "green", "green", "green"}, []string{"How often did something restart?", "Do the clocks agree?", "How fresh is this?",
		"Did the invariant ever break?", "Whose reserve runs low?", "Which timestamps are wrong?", "Is any replica behind, or in another view?"}},
	{[...]string{"YES", "YES", "YES", "YES", "YES"}, []string{"Does the money add up?", "Do reserve + transit add up?", "Is issued money conserved?",
		"Does held money add up?", "Is every replica normal?", "Do commits succeed?"}},
	{[...]string{"YES", "YES", "YES", "YES", "red"}, []string{"Has every partition an owner?"}},
	{[...]string{"green", "green", "green", "green", "red"}, []string{"Who was up when?", "How old is the oldest order that no engine has taken?"}},
	{[...]string{"green", "green", "green", "green", "-"}, []string{"How many payments are in flight?", "Do chains wait for the writer?",
		"Does a partition stand still?", "Which sender uses up its share?"}},
	{[...]string{"-", "green", "green", "green", "-"}, []string{"Which bank keeps payments waiting?", "Which bank is silent?"}},
	{[...]string{"+", "+", "+", "+", "-"}, []string{"Which engine owns how many partitions?", "Who owned the partitions?"}},
	{[...]string{"0", "+", "0", "+", "+"}, []string{"When did payments stop, and catch up?"}},
	{[...]string{"0", "", "0", "+", ""}, []string{"How much of it is held for payments in flight?"}},
	{[...]string{"0", "0", "0", "0", "0"}, []string{"Whose orders do engines refuse, and why?", "Whom does the front door turn away?"}},
	{[...]string{"0", "+", "+", "+", ""}, []string{"What happens to the messages?", "How many messages came twice?", "How many transfers per second?",
		"What is written to the topics?", "What cannot become a payment, and why?", "What happens to the answers of banks?", "How much money is returned?",
		"What happens to returns?", "Which answers of banks were not used?", "Are payments rejected for money?",
		"How much had to be looked up?"}},
	{[...]string{"-", "+", "+", "+", ""}, []string{"Why are payments rejected, and who decides?", "Where does the time go?", "What does the ledger answer?"}},
	{[...]string{"-", "*", "*", "*", ""}, []string{"How long from acceptance to outcome?", "Which hop is slow for the slowest 1 %?", "How long do banks take to answer?",
		"How long does a request take?", "How full are the requests?", "How long do payments wait before an engine takes them?"}},
	{[...]string{"0", "+", "0", "+", ""}, []string{"Do reads wait?"}},
	{[...]string{"", "", "", "", ""}, []string{"Whose reads take the ledger's time?", "In how many days, at the rate of the last hour?"}}, // as much as they read
	{[...]string{"no load", "*", "*", "*", ""}, []string{"How long do payments wait in Kafka (p90)?"}},
	{[...]string{"no data", "*", "*", "*", ""}, []string{"How long does a write take (p99)?"}},
	{[...]string{"", "*", "*", "*", "*"}, []string{"Is the cache large enough?", "Does the disk keep up?", "How long does TigerBeetle itself take?",
		"What does it spend its time on?"}},
	{[...]string{"*", "*", "*", "*", "*"}, []string{"Does the HTTP API answer?", "What do callers of the HTTP API use up?", "How many clients are connected?", "When is the ledger's file full?",
		"How many bytes go to and from Kafka?", "What do these checks cost the ledger?", "How long does a commit take?", "How many commits succeed and fail?",
		"How large is the reserve of each bank?", "How much is in transit?", "What is left of caps on outflow?", "How many transfers arrive?",
		"How many records are not finished?", "How many records behind is each partition?", "How many seconds behind is each partition?",
		"Do clients lose their broker?", "How often do partitions change hands?", "How old is the oldest unfinished payment?"}},
}

type expected struct {
	shows  [situations]string
	titles []string
}

// TestPanelsShowWhatIsTrue asks a real Prometheus for what every panel shows of a real system: idle, under load, after
// it, with a silent bank, and without engines. Each expression of panels and rules must have shown something at its end.
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
	h.shows(idle)

	loadEnds := make(chan error, 1)
	go func() {
		loadEnds <- s.Run(ctx, t.Output(), t.Output(), "loadtest", "run", "--rate=200", "--duration=38s", "--allow=AB03")
	}()
	h.shows(loaded)
	h.await("the mix takes about 5 look-ups a message", `sum(rate(pix_ledger_request_events_sum{kind!="write"}[30s])) / pix:offered:rate30s > 2 < 10`)
	kit.Must(t, <-loadEnds)
	h.await("the settlements are long ago", `time() - max(pix_last_settled_timestamp_seconds) > 12`)
	h.shows(justAfter)
	h.everyMessageEnded()

	load, unload := context.WithCancel(ctx)
	go func() {
		loadEnds <- s.Run(load, io.Discard, io.Discard, "loadtest", "run", "--rate=200", "--duration=5m")
	}()
	const bank = "10000002"
	profile := s.SimulatorURL() + "/v1/profiles/" + bank
	act(http.MethodPut, profile, `{"silent_share": 1}`)
	h.shows(silentBank)
	looked := time.Now()
	h.await("what waits no longer grows", `max(deriv(sum by (ispb) (pix_payments_waiting_for_psp)[20s:2s])) < 1 and max(sum by (ispb) (pix_payments_waiting_for_psp)) > 100`)
	h.shows(silentBank)
	if bad := h.since(looked, "("+allRight.Expr+") == 0 and on() max(sum by (ispb) (pix_payments_stuck_at_psp)) > 100"); len(bad) > 0 {
		t.Errorf("the first panel says YES, and payments wait for bank %s: %v", bank, bad)
	}
	if named := h.since(looked, `ALERTS{alertname="BankKeepsWaiting", alertstate="firing", ispb="`+bank+`"}`); len(named) != 1 {
		t.Errorf("bank %s is silent, and the table does not name it: %v", bank, h.since(looked, "ALERTS"))
	}
	act(http.MethodDelete, profile, "")
	h.await("all is well again", "("+allRight.Expr+") == 0")

	engines := []string{stack.EngineName(0), stack.EngineName(1)}
	died := time.Now()
	for _, engine := range engines {
		kit.Must(t, s.Kill(engine))
	}
	h.shows(killed)
	dead := time.Since(died)
	for _, engine := range engines {
		kit.Must(t, s.Restart(ctx, engine))
	}
	h.await("payments settle again", `max(pix_start_to_settled_seconds) > 0`)
	h.standstillIs(dead, time.Since(died))
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

// soon is how long a condition may take on a slow machine.
const soon = 90 * time.Second

// shows waits until all panels at once show what they must.
func (h watched) shows(situation int) {
	h.Helper()
	began := time.Now()
	for {
		wrong := h.wrong(situation, time.Now())
		took := time.Since(began)
		if len(wrong) == 0 {
			h.Logf("%s: all panels after %v", situationNames[situation], took)
			return
		}
		if took > soon {
			h.Errorf("%s:\n%s\nalerts: %v", situationNames[situation], strings.Join(wrong, "\n"), h.since(began, "ALERTS"))
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (h watched) wrong(situation int, now time.Time) (wrong []string) {
	want := map[string]string{}
	for _, row := range mustShow {
		for _, title := range row.titles {
			want[title] = row.shows[situation]
		}
	}
	for _, p := range panels() {
		var values []float64
		for _, q := range p.Queries {
			values = append(values, h.at(q.Expr, now)...)
		}
		shown, want := p.shown(values), want[p.Title]
		if want != "" && !slices.Contains(strings.Split(want, "|"), shown) && (want != "*" || len(values) == 0) {
			wrong = append(wrong, fmt.Sprintf("%s: shows %s %v, must show %s", p.Title, shown, values, want))
		}
	}
	return wrong
}

// shown is what Grafana makes of the values, in a word.
func (p Panel) shown(values []float64) string {
	if len(values) == 0 {
		if p.Kind == Stat {
			return p.noData()
		}
		return "-"
	}
	if word, ok := p.Words[fmt.Sprint(values[0])]; ok && p.Kind == Stat {
		return word.Text
	}
	if len(p.Thresholds) == 0 {
		if slices.ContainsFunc(values, func(v float64) bool { return v != 0 }) {
			return "+"
		}
		return "0"
	}
	colors := []string{green, orange, red}
	worst := 0
	for _, v := range values {
		color := p.FloorColor
		for _, threshold := range p.Thresholds {
			if v >= threshold.From {
				color = threshold.Color
			}
		}
		worst = max(worst, slices.Index(colors, color))
	}
	return colors[worst]
}

// await waits until an expression has a value.
func (h watched) await(what, expr string) {
	h.Helper()
	began := time.Now()
	for len(h.at(expr, time.Now())) == 0 {
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
	if ended := h.at(sums, time.Now()); len(ended) != 1 || ended[0] != 1 {
		h.Errorf("%v of all messages ended, want all, each once: %s", ended, sums)
	}
}

// standstillIs checks the panel of the longest standstill against what the test knows.
func (h watched) standstillIs(atLeast, atMost time.Duration) {
	h.Helper()
	longest := h.at(longestStandstill.Expr, time.Now())
	if len(longest) != 1 || longest[0] < atLeast.Seconds()-4 || longest[0] > atMost.Seconds()+4 {
		h.Errorf("the longest standstill is %v s, and it was %v to %v, to within two scrapes", longest, atLeast, atMost)
	}
}

// everyExpressionShowed checks that each expression of every panel and rule, and each series that it reads, had a
// value at some time: a panel that never shows anything is worse than none.
func (h watched) everyExpressionShowed(began time.Time) {
	asked := map[string]bool{}
	ask := func(where, expr string) {
		if asked[expr] {
			return
		}
		asked[expr] = true
		if strings.HasPrefix(where, "annotation ") { // Grafana drops all other values
			expr = "(" + expr + ") > 0"
		}
		if len(h.since(began, expr)) == 0 {
			h.Errorf("%s shows nothing: %s", where, expr)
		}
	}
	all := expressions()
	for _, where := range slices.Sorted(maps.Keys(all)) {
		expr := forPrometheus(all[where])
		ask(where, expr)
		for _, selector := range selectors(h.T, expr) {
			ask("a part of "+where, selector)
		}
	}
	// An alert shows nothing while all is well, but the series that it reads must exist.
	for _, rule := range rules(h.T) {
		for _, selector := range selectors(h.T, rule.Expr) {
			ask("a part of rule "+rule.Alert+rule.Record, selector)
		}
		if rule.Record != "" {
			ask("rule "+rule.Record, rule.Record)
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
			count++
			if rule.Health != "ok" {
				h.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if want := len(rules(h.T)); count != want {
		h.Errorf("Prometheus has %d rules, want %d", count, want)
	}
}

// at returns the values of an expression at an instant.
func (h watched) at(expr string, at time.Time) (values []float64) {
	h.Helper()
	var data struct{ Result []struct{ Value [2]any } }
	h.get("/api/v1/query", url.Values{"query": {forPrometheus(expr)}, "time": {unix(at)}}, &data)
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
	h.get("/api/v1/query_range", url.Values{"query": {expr}, "step": {"1"}, "start": {unix(then)}, "end": {unix(time.Now())}}, &data)
	for _, line := range data.Result {
		if slices.ContainsFunc(line.Values, func(v [2]any) bool { _, ok := finite(v); return ok }) {
			found = append(found, line.Metric)
		}
	}
	return found
}

func unix(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }

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
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
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
