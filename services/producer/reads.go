package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

// reads is how the front door asks the ledger: always within a time and a number, since a
// request to the ledger itself waits for ever and cannot be given up.
type reads struct {
	config    StatusConfig
	client    tigerbeetle.Client
	transfers *lookups[tb.Transfer]
	accounts  *lookups[tb.Account]
	queries   chan struct{} // bounds the queries that the ledger has not answered
	// failures gets what the client cannot recover from: an evicted session, a version
	// that does not fit. The process must end.
	failures chan error
}

// newReads does not wait for the ledger.
func newReads(config StatusConfig, at ledger.Config, t *telemetry.Telemetry) (*reads, error) {
	client, err := ledger.Connect(at)
	if err != nil {
		return nil, err
	}
	r := &reads{config: config, client: client, failures: make(chan error, 1), queries: make(chan struct{}, config.QueriesInFlightMax)}
	batch := ledger.BatchConfig{EventsMax: config.IDsMax, Pause: config.LookupPause}
	r.transfers = newLookups[tb.Transfer](config)
	r.transfers.reader = ledger.NewTransferReader(client, batch, t.Registry, r.transfers.deliver, r.failed)
	r.accounts = newLookups[tb.Account](config)
	r.accounts.reader = ledger.NewAccountReader(client, batch, t.Registry, r.accounts.deliver, r.failed)
	return r, nil
}

func (r *reads) failed(err error) {
	select {
	case r.failures <- err:
	default: // the first one ends the process
	}
}

// stop closes the client. With the ledger away a look-up never returns, and the process
// ends without it.
func (r *reads) stop(ctx context.Context) error {
	r.transfers.reader.Close()
	r.accounts.reader.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.client.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return errors.New("the ledger's client did not close in time: a look-up waits for the ledger")
	}
}

// lookups asks for objects by id; those that ask at the same time share a request.
type lookups[O any] struct {
	timeout time.Duration
	reader  *ledger.Reader[chan<- []O, O]
	// slots bounds the questions that the ledger has not answered. One that its request
	// has given up keeps its slot: the look-up still waits.
	slots chan struct{}
}

func newLookups[O any](config StatusConfig) *lookups[O] {
	return &lookups[O]{timeout: config.Timeout, slots: make(chan struct{}, config.InFlightMax)}
}

func (l *lookups[O]) deliver(answer chan<- []O, found []O) {
	answer <- found
	<-l.slots
}

// ask returns what was found of the ids, within the timeout, whatever the ledger does.
func (l *lookups[O]) ask(ctx context.Context, ids []tb.Uint128) ([]O, *web.Problem) {
	select {
	case l.slots <- struct{}{}:
	default:
		return nil, tooManyQuestions(cap(l.slots))
	}
	answer := make(chan []O, 1)
	l.reader.Read(answer, ids)
	return within(ctx, l.timeout, answer)
}

// query asks what is not a look-up by id. Queries do not share requests.
func query[O any](ctx context.Context, r *reads, ask func(tigerbeetle.Client) ([]O, error)) ([]O, *web.Problem) {
	select {
	case r.queries <- struct{}{}:
	default:
		return nil, tooManyQuestions(cap(r.queries))
	}
	answer := make(chan []O, 1)
	go func() {
		found, err := ask(r.client)
		<-r.queries
		if err != nil {
			r.failed(fmt.Errorf("the ledger refused a query: %w", err))
			return
		}
		answer <- found
	}()
	return within(ctx, r.config.Timeout, answer)
}

func within[O any](ctx context.Context, timeout time.Duration, answer <-chan []O) ([]O, *web.Problem) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case found := <-answer:
		return found, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, &web.Problem{Type: web.Kind("ledger-away"), Title: "The ledger does not answer", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("no answer within STATUS_TIMEOUT (%v): ask again later", timeout)}
}

func tooManyQuestions(limit int) *web.Problem {
	return &web.Problem{Type: web.Kind("busy"), Title: "Too many questions in flight", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Detail: fmt.Sprintf("%d questions wait for the ledger: ask again after a pause", limit)}
}

// ledgerNeed is the name under which watch reports.
const ledgerNeed = "ledger"

// watchEvery and watchPatience bound how long an absent ledger goes unnoticed: their sum.
const (
	watchEvery    = time.Second
	watchPatience = 2 * time.Second
)

// watch tells Health, until ctx ends, whether the ledger answers. The client itself never
// says, and a request to it cannot be given up: while one waits, no other is sent.
func (r *reads) watch(ctx context.Context, t *telemetry.Telemetry) {
	answers := make(chan error, 1)
	for {
		go func() {
			_, err := r.client.LookupAccounts([]tb.Uint128{ledger.IssuanceAccount})
			answers <- err
		}()
		var err error
		select {
		case err = <-answers:
		case <-ctx.Done():
			return
		case <-time.After(watchPatience):
			tell(t, fmt.Errorf("no answer within %v; is TIGERBEETLE_ADDRESSES right, and TIGERBEETLE_CLUSTER_ID?", watchPatience))
			select {
			case err = <-answers:
			case <-ctx.Done():
				return
			}
		}
		tell(t, err)
		if err != nil {
			r.failed(fmt.Errorf("the ledger's client has failed: %w", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
	}
}

func tell(t *telemetry.Telemetry, err error) {
	if !t.Health.Report(ledgerNeed, err) {
		return
	}
	if err != nil {
		t.Log.Warn("the ledger is away", zap.Error(err))
	} else {
		t.Log.Info("the ledger answers")
	}
}
