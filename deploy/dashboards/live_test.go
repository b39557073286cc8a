package dashboards

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/liquida/liquida/deploy/stack"
)

// mayBeEmpty lists expressions and selectors that show nothing in TestEveryExpressionShowsData,
// with the reason. The test fails for one that does show something.
var mayBeEmpty = map[string]string{}

// statsdExporter is the bridge's version, as in docker-compose.yml.
const statsdExporter = "github.com/prometheus/statsd_exporter@v0.31.0"

// TestEveryExpressionShowsData runs a real system under a real Prometheus, with rejections and a
// crash, and then queries every expression of every dashboard and rule over that time: a panel that
// never shows anything is worse than none.
func TestEveryExpressionShowsData(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a whole system for three minutes")
	}
	watchers := stack.InstalledObservers()
	if watchers.Prometheus == "" {
		missing(t, "prometheus")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	root, err := stack.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := stack.Build(ctx, root, bin); err != nil {
		t.Fatal(err)
	}
	if watchers.StatsdBridge == "" {
		install := exec.CommandContext(ctx, "go", "install", statsdExporter)
		install.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0")
		if output, err := install.CombinedOutput(); err != nil {
			t.Fatalf("cannot install the bridge from TigerBeetle to Prometheus: %v\n%s", err, output)
		}
		watchers.StatsdBridge = filepath.Join(bin, "statsd_exporter")
	}
	s, err := stack.Start(ctx, stack.Config{
		Dir: t.TempDir(), BinDir: bin, Ports: stack.FreePorts, CacheGrid: "256MiB", Engines: 2, Observers: watchers,
		// Short deadlines, so that silent and late banks show within the run.
		Env: map[string][]string{stack.Engine: {"ENGINE_DEADLINE=10s"}, stack.Simulator: {"SIMULATOR_LATE_DELAY=12s"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	prometheus := client{base: "http://" + s.PrometheusAddress()}
	began := time.Now()

	loaded := make(chan error, 1)
	var output bytes.Buffer
	go func() {
		loaded <- s.Run(ctx, &output, &output, "loadtest", "run", "--rate=200", "--duration=100s", "--allow=AB03", "--drain-timeout=30s")
	}()
	keys, err := s.Keys()
	if err != nil {
		t.Fatal(err)
	}
	go knock(ctx, s.ProducerURL(), keys["10000001"])
	time.Sleep(15 * time.Second) // Prometheus has seen everybody
	firstScreenIsGreen(t, prometheus)
	if err := s.Kill(stack.EngineName(0)); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	time.Sleep(16 * time.Second) // long enough for an alert
	firing := prometheus.query(t, `ALERTS{alertname="ServiceDown", alertstate="firing"}`, began)
	if len(firing) == 0 {
		t.Error("an engine was dead for 16 s and ServiceDown did not fire")
	}
	if err := s.Restart(ctx, stack.EngineName(0)); err != nil {
		t.Fatal(err)
	}
	if err := <-loaded; err != nil {
		t.Fatalf("the load failed: %v\n%s", err, output.String())
	}
	time.Sleep(15 * time.Second) // TigerBeetle sends metrics every 10 s
	ended := time.Now()

	// A load of nothing but bad messages is not the mistake of one sender.
	output.Reset()
	if err := s.Run(ctx, &output, &output, "loadtest", "run", "--rate=50", "--duration=50s", "--mix=undecodable=1"); err != nil {
		t.Fatalf("the bad load failed: %v\n%s", err, output.String())
	}
	if len(prometheus.query(t, `ALERTS{alertname="ManyDeadLetters", alertstate="firing"}`, ended)) == 0 {
		t.Error("all messages were bad, and ManyDeadLetters did not fire")
	}

	seen := map[string]bool{}
	ask := func(where, expr string) {
		if seen[expr] {
			return
		}
		seen[expr] = true
		shows := len(prometheus.query(t, expr, began)) > 0
		if strings.HasPrefix(where, "annotation ") { // Grafana drops all other values
			shows = len(prometheus.query(t, "("+expr+") > 0", began)) > 0
		}
		switch reason := mayBeEmpty[expr]; {
		case !shows && reason == "":
			t.Errorf("%s shows nothing: %s", where, expr)
		case shows && reason != "":
			t.Errorf("%s shows something and is listed as empty (%s): %s", where, reason, expr)
		}
	}
	all := expressions()
	for _, where := range slices.Sorted(maps.Keys(all)) {
		expr := forPrometheus(all[where])
		ask(where, expr)
		for _, selector := range selectors(t, expr) {
			ask("a part of "+where, selector)
		}
	}
	// An alert shows nothing while all is well, but the series that it reads must exist.
	for _, rule := range rules(t) {
		for _, selector := range selectors(t, rule.Expr) {
			ask("a part of rule "+rule.Alert+rule.Record, selector)
		}
		if rule.Record != "" {
			ask("rule "+rule.Record, rule.Record)
		}
	}
	prometheus.checkRules(t)
	if os.Getenv(libraryVariable) != "" {
		marksAreShown(t, prometheus, killed)
	}
	t.Logf("%d expressions and selectors were asked", len(seen))
}

// firstScreenIsGreen watches the first panel under the load's default mix, which holds bad messages on purpose.
func firstScreenIsGreen(t *testing.T, prometheus client) {
	t.Helper()
	began := time.Now()
	time.Sleep(40 * time.Second)
	if len(prometheus.query(t, `ALERTS{alertname="DeadLetters", alertstate="firing"}`, began)) == 0 {
		t.Error("the load holds bad messages, and DeadLetters did not fire")
	}
	first := payments.Rows[0].Panels[0]
	if len(prometheus.query(t, "("+first.Queries[0].Expr+") > 0", began)) > 0 {
		t.Errorf("%s was not answered with YES: %v", first.Title, prometheus.query(t, `ALERTS{severity!="info"}`, began))
	}
}

// marksAreShown asks Grafana's code about the engine that was killed, over an hour.
func marksAreShown(t *testing.T, prometheus client, killed time.Time) {
	t.Helper()
	for _, name := range []string{"Started", "Away"} {
		for _, answer := range askGrafana(t, prometheus.base, annotationNamed(t, name), time.Now()) {
			shown := slices.ContainsFunc(answer.Events, func(e event) bool {
				return strings.HasPrefix(e.Text, stack.Engine+" ") && e.Time >= float64(killed.Unix()) && e.Time < float64(killed.Unix())+30+answer.Step
			})
			if !shown && answer.Step <= 10 {
				t.Errorf("the engine was killed, and %q shows nothing over %v in %d points: %v", name, answer.Range, answer.Width, answer.Events)
			}
		}
	}
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

// knock sends payments and some bad ones over HTTP, which the load does not use.
func knock(ctx context.Context, producer, key string) {
	for i := 0; ctx.Err() == nil; i++ {
		amount := 100
		if i%10 == 9 {
			amount = -1
		}
		body := fmt.Sprintf(`{"payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "1"}, "amount_centavos": %d}`, amount)
		if request, err := http.NewRequestWithContext(ctx, http.MethodPost, producer+"/v1/payments", strings.NewReader(body)); err == nil {
			request.Header.Set("Authorization", "Bearer "+key)
			if response, err := http.DefaultClient.Do(request); err == nil {
				response.Body.Close()
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

type client struct{ base string }

// series is one line of an answer.
type series struct {
	Metric map[string]string
	Values [][2]any // time, value as text
}

func (c client) get(t *testing.T, path string, parameters url.Values, result any) {
	t.Helper()
	response, err := http.Get(c.base + path + "?" + parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != "success" {
		t.Fatalf("Prometheus refuses %s: %s", parameters, answer.Error)
	}
	if err := json.Unmarshal(answer.Data, result); err != nil {
		t.Fatal(err)
	}
}

// query returns the series that have at least one finite value since then.
func (c client) query(t *testing.T, expr string, since time.Time) (found []series) {
	t.Helper()
	var data struct{ Result []series }
	c.get(t, "/api/v1/query_range", url.Values{
		"query": {expr}, "step": {"1"},
		"start": {strconv.FormatInt(since.Unix(), 10)}, "end": {strconv.FormatInt(time.Now().Unix(), 10)},
	}, &data)
	for _, line := range data.Result {
		if slices.ContainsFunc(line.Values, func(v [2]any) bool {
			number, err := strconv.ParseFloat(v[1].(string), 64)
			return err == nil && !math.IsNaN(number) && !math.IsInf(number, 0)
		}) {
			found = append(found, line)
		}
	}
	return found
}

// checkRules checks that Prometheus could evaluate each rule.
func (c client) checkRules(t *testing.T) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	c.get(t, "/api/v1/rules", nil, &data)
	count := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			count++
			if rule.Health != "ok" {
				t.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if want := len(rules(t)); count != want {
		t.Errorf("Prometheus has %d rules, want %d", count, want)
	}
}
