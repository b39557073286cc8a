// Package query answers from the ledger: what became of a payment or a return, what accounts
// hold, and whether the books of a participant agree.
package query

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/deadletter"
)

// Config bounds the questions to the ledger.
type Config struct {
	Timeout            time.Duration `env:"STATUS_TIMEOUT" envDefault:"3s" range:"100ms to 1m" help:"for the ledger to answer; then the response is 503"`
	InFlightMax        int           `env:"STATUS_IN_FLIGHT_MAX" envDefault:"1000" range:"1 to 100000" help:"payments, and as many accounts, whose look-up waits for the ledger; above it the response is 429"`
	IDsMax             int           `env:"LEDGER_LOOKUP_IDS_MAX" envDefault:"8189" range:"134 to 8189" help:"ids in one look-up; at most the server's own limit (253 for a server started with --development)"`
	LookupPause        time.Duration `env:"LEDGER_LOOKUP_PAUSE" envDefault:"4ms" range:"0 to 1s" help:"shortest time between two look-ups of the same kind; questions that come meanwhile share a request"`
	QueriesInFlightMax int           `env:"LEDGER_QUERIES_IN_FLIGHT_MAX" envDefault:"64" range:"1 to 10000" help:"statements and lists that wait for the ledger; above it the response is 429"`
	PageMax            int           `env:"PAGE_MAX" envDefault:"1000" range:"1 to 8188" help:"lines in one page of a statement or list; below LEDGER_LOOKUP_IDS_MAX"`
	DaysMax            int           `env:"DAY_STATEMENTS_MAX" envDefault:"16" range:"1 to 1000" help:"statements of days that are sent at the same time; above it the response is 429. All of them ask the ledger one question at a time"`
	DayTimeMax         time.Duration `env:"DAY_STATEMENT_TIME_MAX" envDefault:"1h" range:"1s to 24h" help:"for the statement of a day from its request to its end; then the connection breaks, or the response is 503 if nothing was sent"`
	ClockTolerance     time.Duration `env:"LEDGER_CLOCK_TOLERANCE" envDefault:"2s" range:"100ms to 10s" help:"greatest difference to the ledger's clock; with more the producer is not ready and takes no payments and returns"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if c.PageMax >= c.IDsMax { // a page needs one line more, to know whether others follow
		return fmt.Errorf("PAGE_MAX is %d: it must be below LEDGER_LOOKUP_IDS_MAX, %d", c.PageMax, c.IDsMax)
	}
	return nil
}

// Ledger asks the ledger. It bounds the time and the number of its questions, because a
// request to an absent ledger waits forever and cannot be cancelled.
type Ledger struct {
	config    Config
	client    tigerbeetle.Client
	now       func() time.Time
	transfers *lookups[tb.Transfer]
	accounts  *lookups[tb.Account]
	queries   *web.Pool     // a permit for each query that the ledger has not answered
	days      *web.Pool     // a permit for each statement of a day that is sent
	turn      chan struct{} // holds the question of the statement of a day that is asked
	wrongDays prometheus.Counter
	stopping  context.Context // ends when the service begins to stop
	log       *zap.Logger
	failures  chan error
	register  *register.Register
	letters   *deadletter.Letters
	clock     atomic.Pointer[comparison] // the latest; nil before the first
}

// New does not wait for the ledger. Statements of days end with stopping. now is the wall clock, which is compared with the ledger's.
func New(stopping context.Context, config Config, client tigerbeetle.Client, follows *register.Register, letters *deadletter.Letters, now func() time.Time, pools *web.Pools, t *telemetry.Telemetry) *Ledger {
	l := &Ledger{stopping: stopping, config: config, client: client, register: follows, letters: letters, now: now, failures: make(chan error, 1), queries: pools.Pool("queries", "LEDGER_QUERIES_IN_FLIGHT_MAX", config.QueriesInFlightMax),
		days: pools.Pool("day statements", "DAY_STATEMENTS_MAX", config.DaysMax), turn: make(chan struct{}, 1), log: t.Log}
	l.wrongDays = prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_producer_wrong_statements_total",
		Help: "Statements of days whose lines do not lead to the ledger's own balances; not 0 is a breach."})
	t.Registry.MustRegister(l.wrongDays)
	batch := ledger.BatchConfig{EventsMax: config.IDsMax, Pause: config.LookupPause}
	l.transfers = &lookups[tb.Transfer]{
		config: config, permits: pools.Pool("payment look-ups", "STATUS_IN_FLIGHT_MAX", config.InFlightMax),
		reader: ledger.NewTransferReader(client, batch, t.Registry, question[tb.Transfer].answer, l.Fail),
	}
	l.accounts = &lookups[tb.Account]{
		config: config, permits: pools.Pool("account look-ups", "STATUS_IN_FLIGHT_MAX", config.InFlightMax),
		reader: ledger.NewAccountReader(client, batch, t.Registry, question[tb.Account].answer, l.Fail),
	}
	return l
}

// Failures receives the error after which the client cannot answer any more: an evicted
// session or a wrong version. The process must end.
func (l *Ledger) Failures() <-chan error { return l.failures }

// Fail reports an error after which the client cannot answer any more. Nil is none.
func (l *Ledger) Fail(err error) {
	if err == nil {
		return
	}
	select {
	case l.failures <- err:
	default: // the first one ends the process
	}
}

// Close sends no more look-ups. Those under way end when the ledger answers or the owner of
// the client closes it.
func (l *Ledger) Close() {
	l.transfers.reader.Close()
	l.accounts.reader.Close()
}

// lookups asks for objects by id. Questions at the same time share a request.
type lookups[O any] struct {
	config Config
	reader *ledger.Reader[question[O], O]
	// permits bounds the questions that the ledger has not answered. One that its HTTP
	// request has given up keeps its permit: the look-up still waits.
	permits *web.Pool
}

// question waits for the ledger.
type question[O any] struct {
	result  chan<- []O
	permits *web.Pool // it has one of them
	asker   string
}

func (q question[O]) answer(found []O) {
	q.result <- found
	q.permits.Free(q.asker)
}

// find returns the objects that exist. It returns within the timeout.
func (l *lookups[O]) find(ctx context.Context, ids []tb.Uint128) ([]O, *web.Problem) {
	return l.findWith(ctx, l.permits, ids)
}

// findWith is find with permits of another pool. More ids than a request holds are several questions, which
// are asked at once.
func (l *lookups[O]) findWith(ctx context.Context, permits *web.Pool, ids []tb.Uint128) (found []O, problem *web.Problem) {
	asker := access.From(ctx).Name()
	var results []<-chan []O
	for part := range slices.Chunk(ids, l.config.IDsMax) {
		if problem := permits.Take(asker); problem != nil {
			return nil, problem
		}
		result := make(chan []O, 1)
		l.reader.Read(question[O]{result, permits, asker}, part)
		results = append(results, result)
	}
	bounded, done := context.WithTimeout(ctx, l.config.Timeout)
	defer done()
	for _, result := range results {
		some, problem := within(bounded, l.config.Timeout, result)
		if problem != nil {
			return nil, problem
		}
		found = append(found, some...)
	}
	return found, nil
}

// query asks what is not a look-up by id. Queries do not share requests.
func query[O any](ctx context.Context, l *Ledger, ask func(tigerbeetle.Client) ([]O, error)) ([]O, *web.Problem) {
	return Ask(ctx, l, l.queries, ask)
}

// Ask sends a request of its own to the ledger, with a permit of a pool. It returns within the
// timeout; the request keeps its permit until the ledger answers.
func Ask[O any](ctx context.Context, l *Ledger, permits *web.Pool, ask func(tigerbeetle.Client) ([]O, error)) ([]O, *web.Problem) {
	asker := access.From(ctx).Name()
	if problem := permits.Take(asker); problem != nil {
		return nil, problem
	}
	return within(ctx, l.config.Timeout, sent(l, ask, func() { permits.Free(asker) }))
}

// sent sends a request to the ledger. It calls answered once the ledger has answered, however late.
func sent[O any](l *Ledger, ask func(tigerbeetle.Client) ([]O, error), answered func()) <-chan []O {
	result := make(chan []O, 1)
	go func() {
		found, err := ask(l.client)
		answered()
		if err != nil {
			l.Fail(fmt.Errorf("the ledger refused a request: %w", err))
			return
		}
		result <- found
	}()
	return result
}

func within[O any](ctx context.Context, timeout time.Duration, result <-chan []O) ([]O, *web.Problem) {
	select {
	case found := <-result:
		return found, nil
	case <-time.After(timeout):
	case <-ctx.Done():
	}
	return nil, ledgerAway(timeout)
}

func ledgerAway(timeout time.Duration) *web.Problem {
	return &web.Problem{Type: web.Kind("ledger-away"), Title: "The ledger does not answer", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("no answer within STATUS_TIMEOUT (%v): ask again later", timeout)}
}
