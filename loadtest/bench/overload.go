package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/plot"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// The ways to offer more than the maximum.
const (
	overBatches operation = "batches"
	overSingles operation = "single requests"
	overKafka   operation = "Kafka"
)

// Overload is what came of offering a multiple of the maximum.
type Overload struct {
	Maximum     float64 // settled a second, of the same way and stack, at c.OutstandingMax in flight
	Offered     float64 // a second
	Accepted    int
	Settled     int     // of them
	RefusedEach float64 // payments refused a second
	// SettledBesideRefusals is a second, from the first refusal to the end of the load. Straight to
	// Kafka everything settles until the queue is nearly as old as the deadline.
	SettledBesideRefusals float64
	RefusalMicros         float64 // p50 of a refusal: 429 for a whole request
	NormalAfter           float64 // seconds from the end of the load until payments settle within a second again
	// GeneratorProcessors is the CPU that the load generator takes while it offers, in processors: the
	// system has that much less.
	GeneratorProcessors float64
}

const (
	// maximumLasts is how long the maximum is measured before the overload.
	maximumLasts = 12 * time.Second
	// kafkaLasts is how long Kafka is written to at least: the queue must become as old as the
	// engine's deadline.
	kafkaLasts = 90 * time.Second
	// overloadConnections offer requests at fixed times. Each has one request at a time, and an
	// accepted batch takes up to a second.
	overloadConnections = 128
	// singlesPerSecond are offered beside batches: on their own, single requests cost this
	// machine so much that the engines are never behind.
	singlesPerSecond = 1000
	// normalWithin is how fast a payment settles in a normal system, and so often in a row.
	normalWithin, normalTimes = time.Second, 5
)

// overloaded offers a multiple of the maximum for c.RateDuration, or kafkaLasts.
func (c Config) overloaded(ctx context.Context, s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	callers := &callers{load.NewCallers(s.ProducerURL(), keys)}
	defer callers.Close()
	o, run := &Overload{}, &Run{Payments: r.payments}
	if r.over == overKafka {
		err = c.overloadKafka(ctx, s, callers, population, r, o, run)
	} else {
		err = c.overloadDoor(ctx, s, callers, population, r, o, run)
	}
	if err != nil {
		return nil, err
	}
	verdict, err := c.audit(ctx, s)
	if err != nil {
		return nil, err
	}
	run.Audit, run.Overload = verdict.String(), o
	return run, nil
}

// overloadDoor offers batches to the HTTP API, and in rows of single requests also those. A
// refused request is offered again later: it did nothing.
func (c Config) overloadDoor(ctx context.Context, s *stack.Stack, callers *callers, population sandbox.Population, r row, o *Overload, run *Run) error {
	singles := 0
	if r.over == overSingles {
		singles = int(c.RateDuration.Seconds() * singlesPerSecond)
	}
	made, err := orders(population, r.payments+singles+probesMax)
	if err != nil {
		return err
	}
	probes, err := orderRequests(made[:probesMax], 1)
	if err != nil {
		return err
	}
	batches, err := newOffers(ctx, s, callers, "/v1/payments:batch", made[probesMax+singles:], c.BatchLines)
	if err != nil {
		return err
	}
	defer batches.outcomes.close()

	began := time.Now()
	if err := batches.send(ctx, maximumLasts, func(int) time.Time { // closed loop
		for ctx.Err() == nil && batches.outcomes.open() >= c.OutstandingMax {
			time.Sleep(time.Millisecond)
		}
		return time.Time{}
	}); err != nil {
		return err
	}
	o.Maximum = float64(batches.outcomes.settledSince(began)) / time.Since(began).Seconds()
	if err := batches.outcomes.drain(ctx); err != nil {
		return err
	}

	batches.reset()
	shown, all := batches, []*offers{batches}
	if singles > 0 {
		if shown, err = newOffers(ctx, s, callers, "/v1/payments", made[probesMax:probesMax+singles], 1); err != nil {
			return err
		}
		defer shown.outcomes.close()
		all = append(all, shown)
	}
	began = time.Now()
	used := cpuUsed()
	var sending errgroup.Group
	for _, d := range all {
		each := time.Duration(float64(c.BatchLines) / (r.times * o.Maximum) * float64(time.Second))
		if d != batches {
			each = time.Second / singlesPerSecond
		}
		sending.Go(func() error {
			return d.send(ctx, c.RateDuration, func(i int) time.Time { return began.Add(time.Duration(i) * each) })
		})
	}
	if err := sending.Wait(); err != nil {
		return err
	}
	lasted := time.Since(began).Seconds()
	o.GeneratorProcessors = (cpuUsed() - used).Seconds() / lasted
	settled := 0
	for _, d := range all {
		settled += d.outcomes.settledSince(began)
	}
	run.PerSecond = float64(settled) / lasted
	if o.NormalAfter, err = normalAfter(ctx, callers, probes); err != nil {
		return err
	}
	for _, d := range all {
		if err := d.outcomes.drain(ctx); err != nil {
			return err
		}
	}
	o.Offered, o.RefusedEach = float64(shown.accepted.Load()+shown.refused.Load())/lasted, float64(shown.refused.Load())/lasted
	o.RefusalMicros = 1000 * shown.refusals.Latency("refusal").P50
	latency := shown.outcomes.latency.Latency("settled")
	o.Accepted, o.Settled, run.Latency = int(shown.accepted.Load()), int(latency.Count), &latency
	return nil
}

// overloadKafka writes orders to Kafka. What is refused there gets a receipt and a report.
func (c Config) overloadKafka(ctx context.Context, s *stack.Stack, callers *callers, population sandbox.Population, r row, o *Overload, run *Run) error {
	settling, err := mix.Parse("settling")
	if err != nil {
		return err
	}
	made, err := orders(population, probesMax)
	if err != nil {
		return err
	}
	probes, err := orderRequests(made, 1)
	if err != nil {
		return err
	}
	result, err := load.Run(ctx, load.Config{
		Stream: s.Kafka(), Population: population, Mix: settling, MixName: "settling", Seed: 2,
		Rate: 1e6, WaitForRoom: true, OutstandingMax: c.OutstandingMax, Payments: r.payments / 4, DrainTimeout: reportsMax,
	})
	if err != nil {
		return err
	}
	if o.Maximum = max(result.SteadyPerSecond, result.SettledPerSecond); !result.Passed {
		return errors.New("the run is not valid: " + result.Verdict())
	}
	kafka, err := s.Kafka().Options()
	if err != nil {
		return err
	}
	d, err := newDirect(ctx, kafka, population, settling)
	if err != nil {
		return err
	}
	lasts := max(c.RateDuration, kafkaLasts)
	used := cpuUsed()
	d.start(ctx, lasts)
	err = d.send(ctx, r.times*o.Maximum)
	sending := time.Since(d.began) // longer than planned if Kafka was slow
	o.GeneratorProcessors = (cpuUsed() - used).Seconds() / sending.Seconds()
	if err == nil {
		o.NormalAfter, err = normalAfter(ctx, callers, probes)
		o.NormalAfter += (sending - lasts).Seconds()
	}
	if err == nil {
		err = d.drain(ctx)
	}
	d.close()
	if err = errors.Join(err, d.wrong); err != nil {
		return err
	}
	settled := 0
	for _, second := range d.settled {
		settled += second.Settled
	}
	o.SettledBesideRefusals = d.settledPerSecond(d.firstRefusal)
	run.Course, run.PerSecond = d.settled, float64(settled)/lasts.Seconds()
	o.Offered, o.Accepted, o.Settled = float64(d.sent.Load())/sending.Seconds(), int(d.sent.Load()), settled+d.late
	o.RefusedEach = float64(o.Accepted-o.Settled) / max(1, d.last.Sub(d.firstRefusal).Seconds())
	fmt.Fprintf(c.Log, "refused: %v, the first %.0f s after the load began, the last %.0f s\n", d.refused, d.firstRefusal.Sub(d.began).Seconds(), d.last.Sub(d.began).Seconds())
	latency := d.latency.Latency("settled")
	run.Latency = &latency
	return nil
}

// cpuUsed is the CPU time of this process.
func cpuUsed() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// offers sends requests over HTTP.
type offers struct {
	callers  *callers
	path     string
	outcomes *outcomes
	refusals *load.Recorder

	mu                sync.Mutex
	pool              []orderRequest
	accepted, refused atomic.Int64 // payments
}

func newOffers(ctx context.Context, s *stack.Stack, callers *callers, path string, made []client.Payment, lines int) (*offers, error) {
	pool, err := orderRequests(made, lines)
	if err != nil {
		return nil, err
	}
	outcomes, err := watchOutcomes(ctx, s)
	return &offers{callers: callers, path: path, pool: pool, outcomes: outcomes, refusals: load.NewRecorder()}, err
}

// reset forgets what was counted: what is measured begins.
func (d *offers) reset() {
	d.accepted.Store(0)
	d.refused.Store(0)
	d.refusals = load.NewRecorder()
	d.outcomes.reset()
}

// send sends requests for a time, each not before an instant.
func (d *offers) send(ctx context.Context, lasts time.Duration, at func(i int) time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	until := time.Now().Add(lasts)
	var next atomic.Int64
	var all sync.WaitGroup
	for range overloadConnections {
		all.Go(func() {
			for ctx.Err() == nil {
				due := at(int(next.Add(1)) - 1)
				if due.After(until) || time.Now().After(until) {
					return
				}
				time.Sleep(time.Until(due))
				if err := d.offer(ctx); err != nil {
					cancel(fmt.Errorf("the run is not valid: %w", err))
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (d *offers) offer(ctx context.Context) error {
	d.mu.Lock()
	if len(d.pool) == 0 {
		d.mu.Unlock()
		return errors.New("there are too few payments: raise --overload-payments")
	}
	request := d.pool[0]
	d.pool = d.pool[1:]
	d.mu.Unlock()
	sent := time.Now()
	d.outcomes.sending(request.body, sent)
	answer, err := d.callers.Send(ctx, http.MethodPost, d.path, request.ispb, request.body)
	if err != nil {
		return err
	}
	accepted := bytes.Count(answer.Body, []byte(`"status":"accepted"`))
	switch {
	case answer.Status == http.StatusTooManyRequests:
		d.refusals.Record(time.Since(sent))
		d.mu.Lock()
		d.pool = append(d.pool, request)
		d.mu.Unlock()
	case answer.Status != http.StatusOK && answer.Status != http.StatusAccepted, accepted == 0:
		return fmt.Errorf("%s: the HTTP API responds %d: %.500s", d.path, answer.Status, answer.Body)
	}
	d.outcomes.accepted.Add(int64(accepted))
	d.accepted.Add(int64(accepted))
	d.refused.Add(int64(request.payments - accepted))
	return nil
}

// outcomes reads the settlement reports of payments that were sent over HTTP.
type outcomes struct {
	client             *kgo.Client
	done               chan struct{}
	latency            *load.Recorder
	accepted, reported atomic.Int64

	mu      sync.Mutex
	sent    map[pix.EndToEndID]time.Time
	settled []time.Time
}

func watchOutcomes(ctx context.Context, s *stack.Stack) (*outcomes, error) {
	options, err := s.Kafka().Options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, kgo.ClientID("bench"), kgo.ConsumeTopics(stream.Settlements), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return nil, err
	}
	o := &outcomes{client: client, done: make(chan struct{}), latency: load.NewRecorder(), sent: map[pix.EndToEndID]time.Time{}}
	go func() {
		defer close(o.done)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			if fetches.IsClientClosed() {
				return
			}
			o.take(fetches, time.Now())
		}
	}()
	return o, nil
}

func (o *outcomes) close() { o.client.Close(); <-o.done }

func (o *outcomes) take(fetches kgo.Fetches, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var report pixv1.SettlementReport
	fetches.EachRecord(func(r *kgo.Record) {
		report.Reset()
		id, err := pix.ParseEndToEndID(string(r.Key))
		sent, ours := o.sent[id]
		if err != nil || !ours || report.UnmarshalVT(r.Value) != nil {
			return // a payment without an outcome is missed in drain
		}
		delete(o.sent, id)
		o.reported.Add(1)
		if report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
			o.settled = append(o.settled, now)
			o.latency.Record(now.Sub(sent))
		}
	})
}

const idField = `"end_to_end_id":"`

// sending notes the payments of a body.
func (o *outcomes) sending(body []byte, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		_, rest, found := bytes.Cut(body, []byte(idField))
		if !found {
			return
		}
		o.sent[pix.EndToEndID(rest[:len(pix.EndToEndID{})])] = at
		body = rest
	}
}

// open is how many accepted payments have no report.
func (o *outcomes) open() int { return int(o.accepted.Load() - o.reported.Load()) }

func (o *outcomes) settledSince(began time.Time) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range o.settled {
		if at.After(began) {
			n++
		}
	}
	return n
}

// drain returns when every accepted payment has a report.
func (o *outcomes) drain(ctx context.Context) error {
	for until := time.Now().Add(reportsMax); o.open() > 0; time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(until) {
			return fmt.Errorf("the run is not valid: %d accepted payments have no report after %v", o.open(), reportsMax)
		}
	}
	return ctx.Err()
}

func (o *outcomes) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.latency = load.NewRecorder()
}

// probesMax bounds the payments that find out when the system is normal again.
const probesMax = 2000

// normalAfter returns after how many seconds payments settle fast again, from the first of a
// series that does.
func normalAfter(ctx context.Context, callers *callers, probes []orderRequest) (float64, error) {
	began := time.Now()
	var first time.Time
	fast := 0
	for _, probe := range probes {
		sent := time.Now()
		answer, err := callers.Send(ctx, http.MethodPost, "/v1/payments", probe.ispb, probe.body, "Prefer", "wait=2")
		if err != nil {
			return 0, err
		}
		if answer.Status != http.StatusOK || time.Since(sent) > normalWithin {
			fast = 0
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if fast++; fast == 1 {
			first = sent
		}
		if fast == normalTimes {
			return first.Sub(began).Seconds(), nil
		}
	}
	return 0, fmt.Errorf("the run is not valid: after %v payments still take more than %v", time.Since(began), normalWithin)
}

// overloadTable shows what comes of offering too much.
func (r *Result) overloadTable() report.Table {
	table := report.Table{Title: "Overload", Head: []string{"", "maximum", "offered/s", "settled/s", "of the maximum", "refused/s", "a refusal, µs", "accepted", "of which settled", "p50", "p99", "normal after", "generator", "settled/s beside refusals"},
		Note: "The maximum is measured just before on the same stack, in a closed loop: in batches over HTTP, also for single requests, and by the generator of part maximum for Kafka. Over HTTP, refused is 429 and nothing done, and a refusal is that of a whole request, p50. Single requests come beside batches of that many times the maximum: offered, refused, a refusal, accepted, settled, p50 and p99 are theirs, the rest is of both. Straight to Kafka, accepted is all that was written, and refused is LQ10 or AB03, from the first refusal to the last. p50 and p99 in ms, of what settled. Normal after: seconds from the end of the load until payments settle within a second again. Generator: the CPU that the load generator takes meanwhile, in processors; the system has that much less. Settled beside refusals: straight to Kafka all orders settle until the queue is nearly as old as the deadline; this is from the first refusal to the end of the load"}
	for _, row := range r.Rows {
		if row.Figures[overloadFigures] == nil {
			continue
		}
		of := func(name string) float64 { return row.spread(overloadFigures, name).median }
		settled := row.spread(runFigures, "per_second").median
		cells := []string{row.Name, thousands(int(of("maximum"))), thousands(int(of("offered"))), thousands(int(settled)), percent(settled / max(1, of("maximum"))),
			thousands(int(of("refused"))), "", thousands(int(of("accepted"))), fmt.Sprintf("%.2f %%", 100*of("settled")/max(1, of("accepted"))), p50.text(p50.spread(row).median), p99.text(p99.spread(row).median), fmt.Sprintf("%.1f", of("normal_after"))}
		if us := of("refusal_us"); us > 0 {
			cells[6] = fmt.Sprintf("%.0f", us)
		}
		generator, beside := "", ""
		if processors := of("generator_processors"); processors > 0 { // earlier results do not have it
			generator = fmt.Sprintf("%.2f", processors)
		}
		if row.way() == overKafka && row.Figures[overloadFigures]["settled_beside_refusals"] != nil {
			beside = thousands(int(of("settled_beside_refusals")))
		}
		cells = append(cells, generator, beside)
		table.Add(cells...)
	}
	return table
}

// drawOverload draws what settles of what is offered, and how long it takes, for each way. Rows
// of single requests are left out: what is offered there is a fraction of what settles.
func (r *Result) drawOverload() *plot.Drawing {
	lines := map[operation][2]plot.Series{}
	most, slowest := 0.0, 1.0
	var names []string
	ways := []operation{overBatches, overKafka}
	for i, way := range ways {
		settled, latency := plot.Series{Color: i}, plot.Series{Color: i}
		for _, row := range r.Rows {
			if row.Figures[overloadFigures] == nil || row.way() != way {
				continue
			}
			maximum, offered := row.spread(overloadFigures, "maximum").median, row.spread(overloadFigures, "offered").median
			if len(settled.Points) == 0 {
				settled.Points = append(settled.Points, [2]float64{0, 0}, [2]float64{maximum, maximum})
			}
			done, ms := row.spread(runFigures, "per_second").median, p99.spread(row).median
			settled.Points, latency.Points = append(settled.Points, [2]float64{offered, done}), append(latency.Points, [2]float64{offered, ms})
			most, slowest = max(most, offered), max(slowest, ms)
		}
		names, lines[way] = append(names, string(way)), [2]plot.Series{settled, latency}
	}
	if most == 0 {
		return nil
	}
	d := &plot.Drawing{Title: "Overload: offered, settled, and the p99 of what settled", Width: plot.FullWidth, Height: 300}
	top := d.Legend(14, 14, d.Width-28, names) + 26
	x := plot.FromZero(most, 4, func(v float64) string { return thousands(int(v)) + "/s" })
	left := plot.Panel{Title: "settled a second", X: x, Y: plot.FromZero(most/2, 4, func(v float64) string { return thousands(int(v)) })}
	right := plot.Panel{Title: "p99", X: x, Y: plot.Milliseconds(100, slowest)}
	for _, way := range ways {
		left.Series, right.Series = append(left.Series, lines[way][0]), append(right.Series, lines[way][1])
	}
	width := d.Width/2 - 90
	d.Panel(plot.Frame{X: 64, Y: top, Width: width, Height: d.Height - 36 - top}, left)
	d.Panel(plot.Frame{X: d.Width/2 + 64, Y: top, Width: width, Height: d.Height - 36 - top}, right)
	return d
}

// way is how a row of the part overload offers its payments.
func (r Row) way() operation {
	for _, way := range []operation{overBatches, overSingles, overKafka} {
		if strings.Contains(r.Name, string(way)) {
			return way
		}
	}
	return ""
}
