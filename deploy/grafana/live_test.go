package grafana

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/child"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ports"
)

// TestPanelsShowWhatIsTrue asks a real Prometheus for what panels show of a real system: under load, with a silent
// bank, and without engines. Each query of panels and rules, and each series that it reads, must have shown something
// at its end: so all names and labels exist.
func TestPanelsShowWhatIsTrue(t *testing.T) {
	if os.Getenv("LIQUIDA_NEEDS_PROMETHEUS") == "" {
		t.Skip("make test-dashboards runs a whole system for two minutes")
	}

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	root, err := stack.RepoRoot()
	kit.Must(t, err)
	bin := t.TempDir()
	kit.Must(t, stack.Build(ctx, root, bin))
	statsd := ports.Free()
	s, err := stack.Start(ctx, stack.Config{
		Dir: t.TempDir(), BinDir: bin, Ports: stack.FreePorts, CacheGrid: "256MiB", Engines: 2, Archive: true,
		Statsd: statsd,
		// Short, so that what a silent bank holds soon stops growing.
		Env: map[string][]string{stack.Engine: {"ENGINE_DEADLINE=8s"}, stack.Simulator: {"SIMULATOR_LATE_DELAY=10s"}},
	})
	kit.Must(t, err)
	t.Cleanup(func() { kit.Must(t, s.Stop(context.WithoutCancel(ctx))) })
	known, err := s.Keys()
	kit.Must(t, err)
	h := watched{t, watch(t, s, statsd)}
	allRight := query(t, "Is everything all right?")
	restarted := query(t, "How often did something restart?")
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
	act(http.MethodPut, s.ProducerURL()+"/v1/participants/10000003/acts/cap",
		`{"act": "day-cap", "cap_centavos": 100000000000, "window_seconds": 3600}`)
	act(http.MethodGet, s.ProducerURL()+"/v1/participants", "") // somebody reads
	kit.Must(t, s.Run(ctx, t.Output(), t.Output(), "loadtest", "run", "--rate=200", "--duration=38s", "--allow=AB03"))
	h.await("all is well after a load", "("+allRight+") == 0")
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
	h.await("the table names the silent bank",
		`ALERTS{alertname="BankKeepsWaiting", alertstate="firing", ispb="`+bank+`"}`)
	h.await("the first panel says LOOK", "("+allRight+") == 1")
	act(http.MethodDelete, profile, "")
	h.await("all is well again", "("+allRight+") == 0")

	engines := []string{stack.EngineName(0), stack.EngineName(1)}
	died := time.Now()

	for _, engine := range engines {
		kit.Must(t, s.Kill(engine))
	}
	h.await("the first panel says NO", "("+allRight+") == 3")
	dead := time.Since(died)

	for i, engine := range engines {
		kit.Must(t, errors.Join(s.StartProcess(engine), s.WaitReady(ctx, engine)))
		// Seen with no partition lost before it loses some to the next: else an increase may show for no whole second.
		h.await("its metrics are there", fmt.Sprintf(`sum(up{job="clearing-engine"}) == %d`, i+1))
	}
	h.await("payments settle again", `max(pix_start_to_settled_seconds) > 0`)

	longest, most := h.at(query(t, "What was the longest standstill?")), time.Since(died)
	if len(longest) != 1 || longest[0] < dead.Seconds()-4 || longest[0] > most.Seconds()+4 {
		t.Errorf("the longest standstill is %v s, and it was %v to %v, to within two scrapes", longest, dead, most)
	}
	h.await("both restarts are counted, and partitions changed hands",
		"("+restarted+") == 2 and on() "+ever(annotations(t)["Rebalance"], began))
	unload()
	<-loadEnds

	h.everyExpressionShowed(began)
}

// watched is a system that Prometheus watches.
type watched struct {
	*testing.T
	prometheus string
}

// watch starts Prometheus and the bridge from TigerBeetle's statsd, and returns the URL of Prometheus.
func watch(t *testing.T, s *stack.Stack, statsd string) string {
	folder, address, bridge := t.TempDir(), ports.Free(), ports.Free()
	prometheus, err := filepath.Abs("../prometheus")
	kit.Must(t, err)

	jobs := map[string][]string{"prometheus": {address}, stack.TigerBeetle: {bridge}}

	for _, name := range s.Names() {
		job := name
		if strings.HasPrefix(name, "engine-") {
			job = stack.Engine
		}

		if telemetry, served := strings.CutPrefix(s.TelemetryURL(name), "http://"); served {
			jobs[job] = append(jobs[job], telemetry)
		}
	}
	config, shipped, _ := strings.Cut(read(t, "../prometheus/prometheus.yml"), "scrape_configs:")
	config = strings.Replace(config, "rules.yml", prometheus+"/rules.yml", 1) + "scrape_configs:\n"

	for job, targets := range jobs {
		if !strings.Contains(shipped, "job_name: "+job) {
			t.Errorf("prometheus.yml has no job %s, by which rules and dashboards select", job)
		}

		config += fmt.Sprintf("  - {job_name: %s, static_configs: [{targets: [%s]}]}\n", job,
			strings.Join(targets, ", "))
	}
	kit.Must(t, os.WriteFile(folder+"/prometheus.yml", []byte(config), 0o600))

	for _, command := range [][]string{
		{"statsd_exporter", "--statsd.mapping-config=" + prometheus + "/statsd.yml", "--statsd.listen-udp=" + statsd,
			"--statsd.listen-tcp=", "--web.listen-address=" + bridge},
		{"prometheus", "--config.file=" + folder + "/prometheus.yml", "--storage.tsdb.path=" + folder + "/tsdb",
			"--web.listen-address=" + address},
	} {
		program, err := child.Start(exec.Command(command[0], command[1:]...), os.Stderr)
		kit.Must(t, err)
		t.Cleanup(program.Stop)
	}
	kit.Eventually(t, "Prometheus answers", func() bool {
		response, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			response.Body.Close()
		}

		return err == nil && response.StatusCode == http.StatusOK
	})

	return "http://" + address
}

// await waits until an expression has a value.
func (h watched) await(what, expr string) {
	h.Helper()
	const soon = 90 * time.Second // on a slow machine

	began := time.Now()
	for len(h.at(expr)) == 0 {
		if time.Since(began) > soon {
			h.Fatalf("not within %v: %s: %s; %v alerts", soon, what, expr, h.at("ALERTS"))
		}
		time.Sleep(500 * time.Millisecond)
	}
	h.Logf("%s after %v", what, time.Since(began))
}

// growth finds what the panel of all messages divides.
var growth = regexp.MustCompile(`(?:increase|delta)\((\w+(?:\{[^}]*\})?)\[\w+\]\)`)

// query returns the first expression of a panel.
func query(t *testing.T, title string) string {
	p, ok := panels(t)[title]
	if !ok {
		t.Fatalf("no dashboard asks %q", title)
	}

	return p.Targets[0].Expr
}

// everyMessageEnded checks, once nothing is in flight, that the panel counts each message exactly once.
func (h watched) everyMessageEnded() {
	h.Helper()
	ratio, _, _ := strings.Cut(query(h.T, "Does every message end?"), "and on()")

	sums := growth.ReplaceAllString(ratio, "$1")
	if ended := h.at(sums); len(ended) != 1 || ended[0] != 1 {
		h.Errorf("%v of all messages ended, want all, each once: %s", ended, sums)
	}
}

// everyExpressionShowed checks that each expression of every panel and rule, and each series that it reads, had a
// value at some time: a panel that never shows anything is worse than none.
func (h watched) everyExpressionShowed(began time.Time) {
	asked := map[string]string{}

	for where, expr := range expressions(h.T) {
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
		if len(h.at(ever(expr, began))) == 0 {
			h.Errorf("%s shows nothing: %s", asked[expr], expr)
		}
	}
	h.Logf("%d expressions and selectors were asked", len(asked))
}

// ever returns what an expression becomes to ask whether it had a value, a finite one, since then.
func ever(expr string, then time.Time) string {
	return fmt.Sprintf("count_over_time(((%s) > -Inf < Inf)[%ds:1s])", expr, 1+int(time.Since(then).Seconds()))
}

// at returns the values of an expression now.
func (h watched) at(expr string) (values []float64) {
	h.Helper()
	response, err := http.Get(h.prometheus + "/api/v1/query?" + url.Values{"query": {forPrometheus(expr)}}.Encode())
	kit.Must(h.T, err)
	defer response.Body.Close()
	var answer struct {
		Error           string
		Warnings, Infos []string // Grafana shows them as an icon on the panel: rate of what is no counter
		Data            struct{ Result []struct{ Value [2]any } }
	}
	kit.Must(h.T, json.NewDecoder(response.Body).Decode(&answer))

	if said := append(answer.Warnings, answer.Infos...); answer.Error != "" || len(said) > 0 {
		h.Fatalf("Prometheus says of %s: %s %q", expr, answer.Error, said)
	}

	for _, line := range answer.Data.Result {
		v, err := strconv.ParseFloat(line.Value[1].(string), 64)
		if kit.Must(h.T, err); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}

	return values
}
