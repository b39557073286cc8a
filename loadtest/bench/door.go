package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
)

// operation is what a row does. Of the HTTP API it is asked for again and again: each connection sends its
// next request after the whole response to the last.
type operation string

const (
	fillLedger   operation = "the ledger alone"
	payBare      operation = "payments through a bare pipeline"
	rest         operation = "nothing"
	payOne       operation = "payments accepted"
	payBatch     operation = "payments accepted in batches"
	readStates   operation = "states of settled payments read"
	readBalances operation = "balances read while payments settle"
)

// Door is what a row asked the HTTP API for.
type Door struct {
	Operation   operation `json:"operation"` // that the figures count
	Connections int       `json:"connections"`
	Lines       int       `json:"lines_of_a_batch,omitempty"`
	Count       int       `json:"count"`
}

const (
	doorConnections = 64 // each with one request at a time
	batchLines      = 500
	// batchesAtOnce is below BATCHES_MAX.
	batchesAtOnce = 8
	// waitingMax bounds the payments that are sent at once. The API accepts them faster than
	// they settle, and more would wait past their deadline.
	waitingMax = 200_000
	// settlingRate is low, so that it leaves the machine to the reads.
	settlingRate = 1000
	reportsMax   = 5 * time.Minute
)

// callers ask the HTTP API as the banks.
type callers struct{ *load.Callers }

// call makes a request. The response must have a status, and hold a text this many times.
func (c *callers) call(ctx context.Context, method, path, ispb string, body []byte, status int, text string, times int) error {
	answer, err := c.Ask(ctx, method, path, ispb, body, status)
	if n := bytes.Count(answer, []byte(text)); err == nil && n != times {
		err = fmt.Errorf("%s %s: the response holds %s %d times, not %d: %.500s", method, path, text, n, times, answer)
	}
	return err
}

// balance reads the balance of a customer.
func (c *callers) balance(ctx context.Context, customer pix.Account) error {
	return c.call(ctx, http.MethodGet, fmt.Sprintf("/v1/accounts/%s/%s/%s", customer.ISPB, customer.Branch, customer.Number), string(customer.ISPB), nil,
		http.StatusOK, `"posted_centavos":`, 1)
}

// orderRequest is a request with orders.
type orderRequest struct {
	ispb     string
	body     []byte
	payments int
}

func (c *callers) pay(ctx context.Context, s orderRequest) error {
	return c.call(ctx, http.MethodPost, "/v1/payments", s.ispb, s.body, http.StatusAccepted, `"status":"accepted"`, 1)
}

func (c *callers) payBatch(ctx context.Context, s orderRequest) error {
	return c.call(ctx, http.MethodPost, "/v1/payments:batch", s.ispb, s.body, http.StatusOK, `"status":"accepted"`, s.payments)
}

// orders creates payments that must settle, before anything is measured.
func orders(population sandbox.Population, n int) ([]client.Payment, error) {
	random := rand.New(rand.NewPCG(1, 0))
	generator := mix.NewGenerator(population, random)
	settling, err := mix.Parse("settling")
	if err != nil {
		return nil, err
	}
	start, all := time.Now(), make([]client.Payment, 0, n)
	for i, c := range settling.Schedule(n, random) {
		payment, err := load.PaymentOf(generator.Payment(c, start.Add(time.Duration(i)*time.Microsecond)).First.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, payment)
	}
	return all, nil
}

// orderRequests puts orders into requests of one bank each, with at most this many lines.
func orderRequests(orders []client.Payment, lines int) (all []orderRequest, err error) {
	open := map[string]*orderRequest{}
	for _, o := range orders {
		s := open[o.Payer.ISPB]
		if s == nil {
			s = &orderRequest{ispb: o.Payer.ISPB}
			open[o.Payer.ISPB] = s
		}
		line, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		s.body, s.payments = append(append(s.body, line...), '\n'), s.payments+1
		if s.payments == lines {
			all = append(all, *s)
			delete(open, o.Payer.ISPB)
		}
	}
	for _, s := range open {
		all = append(all, *s)
	}
	return all, nil
}

// callResult sums up many calls.
type callResult struct {
	requests int
	took     time.Duration // from the first request to the last response
	latency  load.Latency  // of a request, to the end of its response
}

// callOver calls on this many connections until next returns nil. One wrong response makes the
// run invalid.
func callOver(ctx context.Context, connections int, next func() (ask func(context.Context) error)) (callResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	recorder := load.NewRecorder()
	var requests atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				ask := next()
				if ask == nil {
					return
				}
				sent := time.Now()
				if err := ask(ctx); err != nil {
					cancel(fmt.Errorf("the run is not valid: %w", err))
					return
				}
				recorder.Record(time.Since(sent))
				requests.Add(1)
			}
		})
	}
	all.Wait()
	return callResult{int(requests.Load()), time.Since(began), recorder.Latency("request")}, context.Cause(ctx)
}

// each calls ask once for each value of a list.
func each[V any](list []V, ask func(context.Context, V) error) func() func(context.Context) error {
	var taken atomic.Int64
	return func() func(context.Context) error {
		i := int(taken.Add(1)) - 1
		if i >= len(list) {
			return nil
		}
		return func(ctx context.Context) error { return ask(ctx, list[i]) }
	}
}

// anyFor calls ask with random numbers below n, for a time.
func anyFor(lasts time.Duration, n int, ask func(context.Context, int) error) func() func(context.Context) error {
	until := time.Now().Add(lasts)
	return func() func(context.Context) error {
		if time.Now().After(until) {
			return nil
		}
		i := rand.IntN(n)
		return func(ctx context.Context) error { return ask(ctx, i) }
	}
}

// frontDoor measures the HTTP API. There is a figure only if every response was right, every
// payment settled, and the audit is clean.
func (c Config) frontDoor(ctx context.Context, s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	callers := &callers{load.NewCallers(s.ProducerURL(), keys)}
	defer callers.Close()
	door := &Door{Operation: r.does, Connections: doorConnections}
	measure, err := c.prepare(ctx, s, callers, population, r, door)
	if err != nil {
		return nil, err
	}
	m, err := c.begin(s)
	if err != nil {
		return nil, err
	}
	got, err := measure()
	if err == nil {
		err = m.end()
	}
	if err != nil {
		return nil, err
	}
	verdict, err := c.audit(ctx, s)
	if err != nil {
		return nil, err
	}
	if verdict.Summary.Settled != r.payments || verdict.Summary.Payments != r.payments {
		return nil, fmt.Errorf("the run is not valid: %d payments were accepted, the audit found %d, of which %d settled", r.payments, verdict.Summary.Payments, verdict.Summary.Settled)
	}
	if door.Count == 0 {
		door.Count = got.requests
	}
	run := &Run{door: door, verdict: "every response was right. " + verdict.String()}
	run.set(runFigures, "payments", float64(r.payments))
	run.set(runFigures, "per_second", float64(door.Count)/got.took.Seconds())
	run.setLatency(&got.latency)
	m.costs(run, door.Count)
	return run, nil
}

// prepare does what comes before an operation is measured, and returns what measures it.
func (c Config) prepare(ctx context.Context, s *stack.Stack, callers *callers, population sandbox.Population, r row, door *Door) (func() (callResult, error), error) {
	if r.does == readBalances {
		return func() (callResult, error) { return c.readBalances(ctx, s, callers, population, r) }, nil
	}
	made, err := orders(population, r.payments)
	if err != nil {
		return nil, err
	}
	lines, pay := batchLines, callers.payBatch
	if r.does == payOne {
		lines, pay = 1, callers.pay
	}
	requests, err := orderRequests(made, lines)
	if err != nil {
		return nil, err
	}
	if r.does != readStates { // the costs include settling the payments
		if door.Count = r.payments; lines > 1 {
			door.Connections, door.Lines = batchesAtOnce, lines
		}
		return func() (callResult, error) {
			got, err := callOver(ctx, door.Connections, each(requests, pay))
			if err == nil {
				err = awaitReports(ctx, s, r.payments)
			}
			return got, err
		}, nil
	}
	paid := 0
	for part := range slices.Chunk(requests, waitingMax/batchLines) {
		if _, err := callOver(ctx, batchesAtOnce, each(part, callers.payBatch)); err != nil {
			return nil, err
		}
		for _, request := range part {
			paid += request.payments
		}
		if err := awaitReports(ctx, s, paid); err != nil {
			return nil, err
		}
	}
	return func() (callResult, error) {
		return callOver(ctx, doorConnections, anyFor(c.RateDuration, len(made), func(ctx context.Context, i int) error {
			return callers.call(ctx, http.MethodGet, "/v1/payments/"+made[i].EndToEndID, made[i].Payer.ISPB, nil, http.StatusOK, `"status":"settled"`, 1)
		}))
	}, nil
}

// readBalances reads balances while payments come over HTTP at a fixed rate.
func (c Config) readBalances(ctx context.Context, s *stack.Stack, callers *callers, population sandbox.Population, r row) (got callResult, err error) {
	settling, err := mix.Parse("settling")
	if err != nil {
		return got, err
	}
	reading := make(chan error, 1)
	go func() {
		var err error
		got, err = callOver(ctx, doorConnections, anyFor(c.RateDuration, population.Customers, func(ctx context.Context, i int) error {
			return callers.balance(ctx, population.Customer(i))
		}))
		reading <- err
	}()
	keys, err := s.Keys()
	if err != nil {
		return got, errors.Join(err, <-reading)
	}
	result, err := load.Run(ctx, load.Config{
		Stream: s.Kafka(), Population: population, Mix: settling, MixName: "settling",
		Rate: settlingRate, Payments: r.payments, Seed: 1, DrainTimeout: reportsMax, OutstandingMax: 1_000_000, FrontDoor: s.ProducerURL(), Keys: keys,
	})
	if err = errors.Join(err, <-reading); err == nil && !result.Passed {
		report.WriteLoad(c.Log, result)
		err = errors.New("the run is not valid: " + result.Verdict())
	}
	return got, err
}

// awaitReports returns when there are n settlement reports.
func awaitReports(ctx context.Context, s *stack.Stack, n int) error {
	client, err := s.Kafka().Client(kgo.ClientID("bench"))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, reportsMax, fmt.Errorf("not reported within %v", reportsMax))
	defer cancel()
	for {
		ends, err := stream.Ends(ctx, kadm.NewClient(client), stream.Settlements)
		if err != nil {
			return err
		}
		reports := 0
		ends.Each(func(end kadm.ListedOffset) { reports += int(end.Offset) })
		if reports >= n {
			return nil
		}
		if !host.Sleep(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%d of %d payments have a settlement report: %w", reports, n, context.Cause(ctx))
		}
	}
}
