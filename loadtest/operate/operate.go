// Package operate runs a clearing house as its people do: the central bank and the banks act on it
// while payments flow. Each step checks what docs/operating.md promises, and says what it measured.
package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// Config says what to run.
type Config struct {
	Dir        string // the stack's folder; removes what an earlier run left there
	BinDir     string // folder of the programs, those of make build
	Kafka      string
	Rate       float64 // of the load, payments per second
	Seed       uint64  // of the load
	Population sandbox.Population
	Out        io.Writer // a line for each step
}

// What is promised.
const (
	bitesWithin  = 2 * time.Second // an act, everywhere
	endsWithin   = 5 * time.Second // what a revoked key has begun
	joinedWithin = 10 * time.Second
	frozenFor    = 10 * time.Second
)

// Banks is the number of banks that are there before others join.
const Banks = 5

const (
	engines = 2
	// The order is what matters: bank < engine < ledger.
	deadline       = 20 * time.Second
	pendingTimeout = deadline + 6*time.Second
	lateDelay      = deadline + 4*time.Second

	readyWithin  = 5 * time.Minute
	stepWithin   = 5 * time.Minute
	drainTimeout = 2 * time.Minute
	loadLongest  = time.Hour
)

// operateReasons are the reasons with which acts and frozen engines may make a good payment end.
var operateReasons = []pix.Reason{pix.ReasonInactivePSP, pix.ReasonPayeePSPSilent, pix.ReasonTooLate, pix.ReasonOutflowCapped}

// step is something that people do, and what must come of it. It returns what it measured.
type step struct {
	name string
	do   func(*house, context.Context) (measured string, err error)
}

// Run runs all steps on a stack of its own, and stops at the first that fails. The error names it.
func Run(ctx context.Context, config Config) error { return run(ctx, config, operateReasons, steps) }

// run is Run for any steps. allowed are the reasons with which they may make a good payment end.
func run(ctx context.Context, config Config, allowed []pix.Reason, steps []step) (err error) {
	h := &house{config: config, allowed: allowed}
	defer func() {
		if stopped := h.stop(context.WithoutCancel(ctx)); err == nil && stopped != nil {
			err = fmt.Errorf("the stack did not stop in order: %w", stopped)
		}
		if err == nil { // gigabytes; after a failure everything stays
			err = os.RemoveAll(filepath.Join(config.Dir, "data"))
		}
	}()
	fmt.Fprintln(config.Out, "What is promised stands behind what was measured, in brackets.")
	for _, s := range steps {
		if err := h.carryOut(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// carryOut does a step and prints its line.
func (h *house) carryOut(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepWithin, fmt.Errorf("the step took longer than %v", stepWithin))
	defer cancel()
	began := time.Now()
	measured, err := s.do(h, ctx)
	if err == nil {
		err = h.unwell()
	}
	word := "ok"
	if err != nil {
		word, measured = "FAILED", "see below"
	}
	fmt.Fprintf(h.config.Out, "%-6s %5.1f s  %-50s %s\n", word, time.Since(began).Seconds(), s.name, measured)
	return err
}

// house is a running clearing house with two front doors, and the load on it.
type house struct {
	config  Config
	allowed []pix.Reason
	*stack.Stack
	ledger tigerbeetle.Client
	doors  [2]string
	apis   sync.Map // *client.Client by front door and key
	pids   map[string]int
	frozen []audit.Interval
	leaves time.Time // when the payment began that leaves its window last

	stopLoad chan struct{}
	settled  atomic.Int64
	loaded   chan struct{} // closed when load and loadErr are set
	load     *load.Result
	loadErr  error

	watching   sync.WaitGroup
	stopWatch  context.CancelFunc
	looks      atomic.Int64
	unbalanced atomic.Pointer[string]
}

// start starts the clearing house and its load, and returns when payments settle.
func (h *house) start(ctx context.Context) (string, error) {
	c := h.config
	if err := stack.Clean(c.Dir); err != nil {
		return "", err
	}
	var err error
	if h.Stack, err = stack.Start(ctx, stack.Config{
		Dir: c.Dir, BinDir: c.BinDir, Ports: stack.FreePorts, Kafka: c.Kafka, Engines: engines, CacheGrid: "256MiB", ReadyWithin: readyWithin,
		Env: map[string][]string{
			stack.Engine:    {"ENGINE_DEADLINE=" + deadline.String(), "ENGINE_PENDING_TIMEOUT=" + pendingTimeout.String()},
			stack.Simulator: {"SIMULATOR_LATE_DELAY=" + lateDelay.String()},
		},
	}); err != nil {
		return "", err
	}
	h.doors[0] = h.ProducerURL()
	if h.doors[1], err = h.AddProducer(ctx); err != nil {
		return "", err
	}
	h.pids = map[string]int{}
	for _, name := range h.Names() {
		h.pids[name] = h.PID(name)
	}
	if h.ledger, err = ledger.Connect(ledger.Config{Addresses: strings.Split(h.TigerBeetleAddresses(), ",")}); err != nil {
		return "", err
	}
	if err := h.beginLoad(); err != nil {
		return "", err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stopWatch = stop
	h.watching.Go(func() { h.watchBooks(watching) })
	if err := h.progress(ctx, 2*int64(c.Rate)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d banks, %d engines, 2 front doors, %.0f payments/s of every kind", c.Population.Banks, engines, c.Rate), nil
}

func (h *house) beginLoad() error {
	weights, err := mix.Parse("demo")
	if err != nil {
		return err
	}
	h.stopLoad, h.loaded = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(h.loaded)
		h.load, h.loadErr = load.Run(context.Background(), load.Config{
			Stream: h.Kafka(), Population: h.config.Population, Mix: weights, MixName: "demo",
			Rate: h.config.Rate, Payments: int(h.config.Rate * loadLongest.Seconds()), Seed: h.config.Seed, Stop: h.stopLoad,
			DrainTimeout: drainTimeout, OutstandingMax: 1_000_000, Allowed: h.allowed, Faults: true,
			LedgerHolds: load.LedgerHolds(func() (tigerbeetle.Client, error) { return h.ledger, nil }),
			Progress:    func(s load.Snapshot) { h.settled.Store(int64(s.Settled)) }, ProgressEvery: 100 * time.Millisecond,
		})
	}()
	return nil
}

// progress waits until so many payments more of the load have settled.
func (h *house) progress(ctx context.Context, payments int64) error {
	for goal := h.settled.Load() + payments; h.settled.Load() < goal; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.loaded:
			return errors.Join(errors.New("the load has ended"), h.loadErr)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// watchBooks reads all participants until ctx ends: at each instant reserve and transit of a bank are
// what its books say.
func (h *house) watchBooks(ctx context.Context) {
	api, err := h.api(0, keys.CentralBank)
	for err == nil && ctx.Err() == nil {
		for p, failed := range api.Participants(ctx) {
			if failed != nil {
				break // the door may be busy; what it says is judged
			}
			if p.ThreeLegs == nil || !p.ThreeLegs.Holds {
				wrong := fmt.Sprintf("the books of %s do not agree: %+v, reserve %+v, transit %+v", p.ISPB, p.ThreeLegs, p.Reserve, p.Transit)
				h.unbalanced.Store(&wrong)
				return
			}
			h.looks.Add(1)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// unwell returns what is wrong with the clearing house whatever was done to it.
func (h *house) unwell() error {
	if wrong := h.unbalanced.Load(); wrong != nil {
		return errors.New(*wrong)
	}
	for _, crash := range h.Crashes() {
		return fmt.Errorf("%s ended unasked (%s):\n%s", crash.Name, crash.How, crash.Log)
	}
	for name, pid := range h.pids {
		if pid != 0 && h.PID(name) != pid {
			return fmt.Errorf("%s was process %d, and is %d: nothing may restart", name, pid, h.PID(name))
		}
	}
	return nil
}

// endLoad ends the load, and judges it.
func (h *house) endLoad(ctx context.Context) (string, error) {
	close(h.stopLoad)
	select {
	case <-h.loaded:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	h.stopWatch()
	h.watching.Wait()
	if h.loadErr != nil {
		return "", h.loadErr
	}
	if !h.load.Passed {
		return "", fmt.Errorf("%s: %+v", h.load.Verdict(), h.load.Failures)
	}
	var refused []string
	for _, reason := range h.allowed {
		if n := h.load.GoodRejected[reason.String()]; n > 0 {
			refused = append(refused, fmt.Sprintf("%d %s", n, reason))
		}
	}
	if h.looks.Load() == 0 {
		return "", errors.New("nobody could look at the books")
	}
	return fmt.Sprintf("each of %d payments ended as it must (good ones refused by acts: %s); books agreed at each of %d looks", h.load.Sent, strings.Join(refused, ", "), h.looks.Load()), nil
}

// audits returns a step: the audit replays everything, and must have met refusals with each of these
// reasons.
func audits(reasons ...pix.Reason) func(*house, context.Context) (string, error) {
	return func(h *house, ctx context.Context) (string, error) { return h.audit(ctx, reasons) }
}

func (h *house) audit(ctx context.Context, reasons []pix.Reason) (string, error) {
	kafka, err := h.Kafka().Options()
	if err != nil {
		return "", err
	}
	secrets, err := audit.ReadSecrets(h.AnswerKeysFile())
	if err != nil {
		return "", err
	}
	verdict, err := audit.Run(ctx, audit.Config{
		Kafka: kafka, Ledger: h.ledger, Secrets: secrets, Deadline: deadline, HoldMax: pendingTimeout, Wait: pendingTimeout + 30*time.Second,
		LateRequests: h.frozen, Behind: h.Kafka().Behind, Log: func(string, ...any) {},
	})
	if err != nil {
		return "", err
	}
	if !verdict.Clean || len(verdict.Summary.Unread()) > 0 {
		var text strings.Builder
		verdict.Write(&text)
		return "", errors.New(text.String())
	}
	for _, reason := range reasons {
		if verdict.Summary.ReasonsChecked[reason.String()] == 0 {
			return "", fmt.Errorf("no payment was refused with %s: what asks for it met nothing", reason)
		}
	}
	return verdict.String(), nil
}

func (h *house) stop(ctx context.Context) error {
	if h.stopWatch != nil {
		h.stopWatch()
		h.watching.Wait()
	}
	if h.loaded != nil {
		select {
		case <-h.stopLoad:
		default:
			close(h.stopLoad)
		}
	}
	if h.ledger != nil { // before the stack stops: without a ledger Close would never return
		closed := make(chan struct{})
		go func() { defer close(closed); h.ledger.Close() }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
		}
	}
	if h.Stack == nil {
		return nil
	}
	return h.Stop(ctx)
}

// api returns a client of a front door, as a caller of the keys folder. There is one for each key: each
// keeps connections, of which a caller has a share.
func (h *house) api(door int, caller string) (*client.Client, error) {
	key, err := client.ReadKey(h.keyFile(caller))
	if err != nil {
		return nil, err
	}
	api, err := client.New(h.doors[door], key)
	if err != nil {
		return nil, err
	}
	kept, _ := h.apis.LoadOrStore(h.doors[door]+key, api)
	return kept.(*client.Client), nil
}

func (h *house) keyFile(caller string) string { return filepath.Join(h.config.Dir, "keys", caller) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
