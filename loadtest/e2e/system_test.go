// Package e2e runs the whole clearing house and breaks it while payments flow. The audit proves
// that no payment was lost, settled twice or half settled.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/chaos"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// Times are shorter than in production, so that deadlines pass within a test. Their order is
// what matters: bank < engine < ledger. An order that waits longer than half of the deadline is
// refused with LQ10, so a busy machine may stand still for that long.
const (
	deadline       = 30 * time.Second
	pendingTimeout = deadline + 6*time.Second // at least 5 s more
	lateDelay      = deadline + 2*time.Second // a late bank answers after the deadline
)

// stacksAtOnce is how many clearing houses run side by side, unless go test -parallel says another
// number. A test mostly waits for a restart, a deadline or a timeout. Go starts them from the last
// file to the first, more or less: the longest are in the last files, so that none is left alone.
const stacksAtOnce = 4

// binaries is the folder of the programs, built once.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()

	if testing.Short() {
		fmt.Println("end-to-end tests skipped: -short")
		return
	}
	kit.AtOnce(stacksAtOnce)
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	folder, err := os.MkdirTemp("", "liquida-e2e-bin-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)

	root, err := stack.RepoRoot()
	if err == nil {
		err = stack.Build(context.Background(), root, folder)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	binaries = folder

	return m.Run()
}

// system is a running clearing house under test.
type system struct {
	*stack.Stack
	t       *testing.T
	folder  string // of its data and logs
	servers int64  // that it takes of servers
}

// start runs a fresh clearing house until the test ends, beside those of other tests. The logs of a
// failed test stay. E2E_KAFKA chooses the broker, as stack.Config.Kafka does.
func start(t *testing.T, engines int, change ...func(*stack.Config)) *system {
	t.Helper()
	t.Parallel()
	s := begin(t, engines, change...)
	t.Cleanup(s.end)

	return s
}

// servers are permits for ledger servers: each takes more than 2 GiB of memory.
var servers = semaphore.NewWeighted(stacksAtOnce)

func begin(t *testing.T, engines int, change ...func(*stack.Config)) *system {
	t.Helper()
	folder, err := os.MkdirTemp("", "liquida-e2e-") //nolint:usetesting // the logs of a failed test must stay
	kit.Must(t, err)

	config := stack.Config{
		Dir: folder, BinDir: binaries, Ports: stack.FreePorts, Engines: engines, CacheGrid: "64MiB",
		Kafka: os.Getenv("E2E_KAFKA"), ReadyWithin: chaos.RecoveryMax,
		Env: map[string][]string{
			stack.Engine: {
				"ENGINE_DEADLINE=" + deadline.String(), "ENGINE_PENDING_TIMEOUT=" + pendingTimeout.String(),
				// A stopping engine waits half of it for silent banks, and its partitions wait,
				// too. It must be well below the deadline.
				"SHUTDOWN_TIMEOUT=4s",
			},
			stack.Simulator: {"SIMULATOR_LATE_DELAY=" + lateDelay.String()},
		},
	}
	for _, change := range change {
		change(&config)
	}
	s := &system{t: t, folder: folder, servers: int64(max(1, config.Replicas))}
	kit.Must(t, servers.Acquire(t.Context(), s.servers))

	s.Stack, err = stack.Start(t.Context(), config)
	if err != nil {
		servers.Release(s.servers)
	}

	if errors.Is(err, kafka.ErrMissing) {
		_ = os.RemoveAll(folder)
		t.Skip(err)
	}

	if err != nil {
		t.Fatalf("%v\n(logs in %s)", err, folder)
	}

	return s
}

// end stops the clearing house, and fails the test if a process ended unasked.
func (s *system) end() {
	t := s.t
	defer servers.Release(s.servers)

	if err := s.Stop(context.Background()); err != nil {
		t.Errorf("cannot stop in order: %v", err)
	}

	for _, crash := range s.Crashes() {
		t.Errorf("%s ended unasked (%s):\n%s", crash.Name, crash.How, crash.Log)
	}

	if t.Failed() {
		_ = os.RemoveAll(filepath.Join(s.folder, "data", "tigerbeetle")) // gigabytes
		t.Logf("logs and topics are in %s", s.folder)
		return
	}
	_ = os.RemoveAll(s.folder)
}

// againMax bounds how often a load that is over is started once more.
const againMax = 10

// loadRun is a running load.
type loadRun struct {
	s         *system
	arguments []string
	json      string
	output    *bytes.Buffer
	ended     chan error
	again     int         // how often the load was started once more
	result    load.Result // of the loads that have ended: counts are sums, all else is of the last
}

// load starts a load in the background.
func (s *system) load(rate, payments int, arguments ...string) *loadRun {
	r := &loadRun{s: s, json: filepath.Join(s.t.TempDir(), "run.json")}
	r.arguments = append([]string{"run", "--rate", fmt.Sprint(rate), "--payments", fmt.Sprint(payments),
		"--json", r.json, "--drain-timeout", chaos.RecoveryMax.String()}, arguments...)
	r.start()

	return r
}

func (r *loadRun) start() {
	ended, output := make(chan error, 1), new(bytes.Buffer)
	r.ended, r.output = ended, output
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- r.s.Run(ctx, output, output, "loadtest", r.arguments...)
		close(ended)
	}()
	r.s.t.Cleanup(func() { cancel(); <-ended }) // if a test fails before it waits
}

// wait returns when the load has ended. It fails the test unless every payment ended as it
// must.
func (r *loadRun) wait() load.Result {
	r.s.t.Helper()
	r.add(<-r.ended)
	return r.result
}

// add judges the load that has ended and adds its counts to those of the loads before it.
func (r *loadRun) add(err error) {
	t := r.s.t
	t.Helper()
	t.Logf("load: %s", r.output.String())
	var result load.Result

	text, readErr := os.ReadFile(r.json)
	if readErr == nil {
		readErr = json.Unmarshal(text, &result)
	}

	if err != nil || readErr != nil || !result.Passed {
		t.Errorf("the load failed: %v, %v", err, readErr)
	}
	result.Sent += r.result.Sent
	result.Settled += r.result.Settled
	result.Rejected += r.result.Rejected
	result.Returned += r.result.Returned
	result.ReturnsRejected += r.result.ReturnsRejected
	r.result = result
}

// audit fails the test unless the audit is clean.
func (s *system) audit() audit.Verdict {
	s.t.Helper()

	verdict, err := s.tryAudit("--wait", (pendingTimeout + 20*time.Second).String())
	if err != nil || !verdict.Clean {
		s.t.Errorf("the audit is not clean: %v", err)
	}

	return verdict
}

// tryAudit is audit, whatever it says. An error means that it gave no verdict.
func (s *system) tryAudit(more ...string) (v audit.Verdict, err error) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "audit.json")
	var output bytes.Buffer
	failed := s.Run(s.t.Context(), &output, &output, "loadtest", append([]string{"audit", "--json", path}, more...)...)
	s.t.Logf("audit: %s", output.String())

	text, err := os.ReadFile(path)
	if err != nil {
		return v, fmt.Errorf("%w: %s", failed, output.String())
	}

	err = json.Unmarshal(text, &v)
	if v.Clean != (failed == nil) || !strings.Contains(output.String(), v.String()) {
		s.t.Errorf("the audit ended with %v, and its verdict is %q", failed, v)
	}

	return v, err
}

// callers asks the HTTP API at a URL as banks.
func (s *system) callers(url string) *load.Callers {
	s.t.Helper()
	all, err := s.Keys()
	s.must(err)
	callers := load.NewCallers(url, all)
	s.t.Cleanup(callers.Close)

	return callers
}

// kafka returns a client of the broker, which the caller closes.
func (s *system) kafka() *kgo.Client {
	s.t.Helper()
	client, err := s.Kafka().Client()
	s.must(err)

	return client
}

// must fails the test on an error.
func (s *system) must(err error) {
	s.t.Helper()
	kit.Must(s.t, err)
}

// ready waits until these processes are ready.
func (s *system) ready(names ...string) {
	s.t.Helper()

	for _, name := range names {
		s.must(s.WaitReady(s.t.Context(), name))
	}
}

// bring starts a process that has ended, and returns when it and others are ready.
func (s *system) bring(name string, others ...string) {
	s.t.Helper()
	s.must(s.StartProcess(name))
	s.ready(append(others, name)...)
}

// proven returns when the load has ended, payments settle again, and the audit is clean.
func (r *loadRun) proven() {
	r.s.t.Helper()
	r.wait()
	r.s.settlesAgain()
	r.s.audit()
}

// settlesAgain returns once a load settles as without a fault. How much of the load during a
// fault settled depends on how fast this machine starts a program.
func (s *system) settlesAgain() {
	s.t.Helper()

	const tries = 10
	for range tries {
		if result := s.load(50, 100,
			append(slices.Clone(duringFaults), "--mix", "settling")...).wait(); float64(result.Settled) >= 0.9*float64(
			result.Sent) {
			return
		}
	}
	s.t.Errorf("%d loads after the fault did not settle", tries)
}

// progress waits until so many payments more have their reports. A slow machine may not be able to
// do all that a test does within one load. What follows must meet a load all the same, so one that
// is over is started once more.
func (r *loadRun) progress(reports int64) {
	t := r.s.t
	t.Helper()
	goal := r.s.ends(stream.Settlements) + reports
	kit.AwaitWithin(t, chaos.RecoveryMax, fmt.Sprintf("%d reports more", reports), func() (bool, string) {
		select {
		case err := <-r.ended:
			r.add(err)

			if r.again++; r.again > againMax {
				t.Fatalf("%d loads were over before the test had done all that it does to them", againMax)
			}
			t.Log("the load is over: another one follows")
			r.start()
			goal = r.s.ends(stream.Settlements) + reports
		default:
		}

		ends := r.s.ends(stream.Settlements)

		return ends >= goal, fmt.Sprintf("%d of %d", ends, goal)
	})
}

// ends returns the number of records in a topic.
func (s *system) ends(topic string) int64 {
	s.t.Helper()
	client := s.kafka()
	defer client.Close()
	ends, err := stream.Ends(s.t.Context(), kadm.NewClient(client), topic)
	s.must(err)
	records := int64(0)
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })

	return records
}

func (s *system) eventually(what string, holds func() bool) {
	s.t.Helper()
	kit.Eventually(s.t, what, holds)
}

// dies starts a process with other settings, waits for its end, and returns what it logged.
func (s *system) dies(process string, env ...string) string {
	s.t.Helper()
	before, _ := os.ReadFile(s.Log(process)) // there may be none yet
	ended, err := s.StartToDie(process, env...)
	s.must(err)

	return s.lastWords(process, ended)[len(before):]
}

// lastWords waits until a process has ended, and returns its log.
func (s *system) lastWords(process string, ended <-chan struct{}) string {
	s.t.Helper()

	select {
	case <-ended:
	case <-time.After(chaos.RecoveryMax):
		s.t.Fatalf("%s goes on", process)
	}
	log, err := os.ReadFile(s.Log(process))
	s.must(err)

	return string(log)
}
