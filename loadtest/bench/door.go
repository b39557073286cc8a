package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

const (
	doorConnections = 64 // each with one request at a time
	// doorPayments are sent at once. The API accepts them faster than they settle, and more would wait past their
	// deadline.
	doorPayments = 200_000
	batchLines   = 500
	// batchesAtOnce is below BATCHES_MAX.
	batchesAtOnce = 8
)

// call is a request of a bank to the HTTP API, and what its response must be: a status, and a text this many times.
type call struct {
	method, path string
	ispb         pix.ISPB
	body         []byte
	status       int
	text         string
	times        int
}

// read reads what a bank may see.
func read(ispb pix.ISPB, path, text string) call {
	return call{http.MethodGet, path, ispb, nil, http.StatusOK, text, 1}
}

func (c call) by(ctx context.Context, callers *load.Callers) error {
	answer, err := callers.Ask(ctx, c.method, c.path, string(c.ispb), c.body, c.status)
	if n := bytes.Count(answer, []byte(c.text)); err == nil && n != c.times {
		err = fmt.Errorf("%s %s: the response holds %s %d times, not %d: %.500s", c.method, c.path, c.text, n,
			c.times, answer)
	}

	return err
}

// await makes the call again until it is answered as it must be.
func (c call) await(ctx context.Context, callers *load.Callers) error {
	for until := time.Now().Add(reportsMax); ; {
		err := c.by(ctx, callers)
		if err == nil || time.Now().After(until) || !host.Sleep(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

func accountPath(a pix.Account) string {
	return fmt.Sprintf("/v1/accounts/%s/%s/%s", a.ISPB, a.Branch, a.Number)
}

// orders creates payments that must settle, before anything is measured.
func orders(population sandbox.Population, n int) (all []*pixv1.PaymentOrder, err error) {
	generator, start := mix.NewGenerator(population, rand.New(rand.NewPCG(1, 0))), time.Now()

	for i := range n {
		order := &pixv1.PaymentOrder{}
		err = errors.Join(err, order.UnmarshalVT(
			generator.Payment(mix.Accepted, start.Add(time.Duration(i)*time.Microsecond)).First.Value))
		all = append(all, order)
	}

	return all, err
}

// pays puts orders into calls of one bank each, with at most this many lines.
func pays(orders []*pixv1.PaymentOrder, lines int) (all []call, err error) {
	empty := call{http.MethodPost, "/v1/payments:batch", "", nil, http.StatusOK, `"status":"accepted"`, 0}
	if lines == 1 {
		empty.path, empty.status = "/v1/payments", http.StatusAccepted
	}
	open := map[string]call{}

	for _, o := range orders {
		line, err := json.Marshal(load.Payment(o))
		if err != nil {
			return nil, err
		}

		c, ok := open[o.Payer.Ispb]
		if !ok {
			c = empty
			c.ispb = pix.ISPB(o.Payer.Ispb)
		}
		c.body, c.times = append(append(c.body, line...), '\n'), c.times+1

		open[o.Payer.Ispb] = c
		if c.times == lines {
			all = append(all, c)
			delete(open, o.Payer.Ispb)
		}
	}

	for _, c := range open {
		all = append(all, c)
	}

	return all, nil
}

// calls sums up many calls.
type calls struct {
	count   int           // of requests, or of their payments
	took    time.Duration // from the first request to the last response
	latency load.Latency  // of a request, to the end of its response
}

// callOver makes calls on this many connections until next has none. One wrong response makes the run invalid.
func callOver(ctx context.Context, callers *load.Callers, connections int, next func() (call, bool)) (calls, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	recorder := load.NewRecorder()
	var all sync.WaitGroup
	began := time.Now()

	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				call, more := next()
				if !more {
					return
				}
				sent := time.Now()

				if err := call.by(ctx, callers); err != nil {
					cancel(fmt.Errorf("the run is not valid: %w", err))
					return
				}
				recorder.Record(time.Since(sent))
			}
		})
	}
	all.Wait()
	latency := recorder.Latency("request")

	return calls{int(latency.Count), time.Since(began), latency}, context.Cause(ctx)
}

// each returns the calls of a list, each once.
func each(list []call) func() (call, bool) {
	var taken atomic.Int64

	return func() (call, bool) {
		if i := int(taken.Add(1)) - 1; i < len(list) {
			return list[i], true
		}

		return call{}, false
	}
}

// frontDoor measures the HTTP API. There is a figure only if every response was right, every
// payment settled, and the audit is clean.
func (m *session) frontDoor(ctx context.Context) error {
	measure, err := m.prepareDoor(ctx)
	if err == nil {
		err = m.begin()
	}

	if err != nil {
		return err
	}

	got, err := measure()
	if err := errors.Join(err, m.end()); err != nil {
		return err
	}

	verdict, err := m.audit(ctx)
	if err != nil {
		return err
	}

	if verdict.Summary.Settled != m.payments || verdict.Summary.Payments != m.payments {
		return fmt.Errorf("the run is not valid: %d payments were accepted, the audit found %d, of which %d settled",
			m.payments, verdict.Summary.Payments, verdict.Summary.Settled)
	}
	m.run.verdict = "every response was right. " + verdict.String()
	m.run.set(perSecond.group, perSecond.name, float64(got.count)/got.took.Seconds())
	m.run.setLatency(&got.latency)
	m.costs(got.count)

	return nil
}

// prepareDoor does what comes before an operation is measured, and returns what measures it.
func (m *session) prepareDoor(ctx context.Context) (measure func() (calls, error), err error) {
	connections, lines := batchesAtOnce, batchLines
	if m.does == payOne {
		connections, lines = doorConnections, 1
	}

	made, err := orders(m.population, m.payments)
	if err != nil {
		return nil, err
	}

	paying, err := pays(made, lines)
	if err != nil {
		return nil, err
	}
	pay := func() (calls, error) { // costs include settling
		got, err := callOver(ctx, m.callers, connections, each(paying))
		if err == nil {
			err = m.awaitReports(ctx, m.payments)
		}
		got.count = m.payments

		return got, err
	}

	if m.does != readStates {
		return pay, nil
	}
	_, err = pay()

	return func() (calls, error) {
		until := time.Now().Add(m.RateDuration)

		return callOver(ctx, m.callers, doorConnections, func() (call, bool) {
			order := made[rand.IntN(len(made))]
			return read(pix.ISPB(order.Payer.Ispb), "/v1/payments/"+order.EndToEndId, `"status":"settled"`),
				time.Now().Before(until)
		})
	}, err
}

// awaitReports returns when there are n settlement reports.
func (m *session) awaitReports(ctx context.Context, n int) error {
	client, err := m.Kafka().Client(kgo.ClientID("bench"))
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
