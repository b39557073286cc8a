// Package query answers from the ledger: what became of a payment or a return, what accounts
// hold, and whether the books of a participant agree.
package query

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/deadletter"
)

// Config bounds the questions to the ledger.
type Config struct {
	Timeout        time.Duration `env:"STATUS_TIMEOUT" envDefault:"3s" range:"100ms to 1m" help:"for the ledger to answer; then 503"`
	Reads          ledger.ReadsConfig
	InFlightMax    int           `env:"STATUS_IN_FLIGHT_MAX" envDefault:"1000" range:"1 to 100000" help:"reads that wait for the ledger, and as many look-ups before returns and acts; above it 429"`
	IDsMax         int           `env:"LEDGER_LOOKUP_IDS_MAX" envDefault:"8189" range:"134 to 8189" help:"ids in one look-up; at most the server's own limit (253 for a server started with --development)"`
	LookupPause    time.Duration `env:"LEDGER_LOOKUP_PAUSE" envDefault:"4ms" range:"0 to 1s" help:"shortest time between two look-ups of the same kind"`
	PageMax        int           `env:"PAGE_MAX" envDefault:"1000" range:"1 to 8188" help:"lines in one page of a statement or list; below LEDGER_LOOKUP_IDS_MAX"`
	DaysMax        int           `env:"DAY_STATEMENTS_MAX" envDefault:"16" range:"1 to 1000" help:"statements of days that are sent at the same time; above it 429"`
	DayTimeMax     time.Duration `env:"DAY_STATEMENT_TIME_MAX" envDefault:"1h" range:"1s to 24h" help:"for the statement of a day; then the connection breaks, or the response is 503 if nothing was sent"`
	ClockTolerance time.Duration `env:"LEDGER_CLOCK_TOLERANCE" envDefault:"2s" range:"100ms to 10s" help:"greatest difference to the ledger's clock; with more the producer takes no payments and returns"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if c.PageMax >= c.IDsMax { // a page needs one line more, to know whether others follow
		return fmt.Errorf("PAGE_MAX is %d: it must be below LEDGER_LOOKUP_IDS_MAX, %d", c.PageMax, c.IDsMax)
	}

	return nil
}

// Ledger asks the ledger. It bounds the time and the number of its questions, because a
// request to an absent ledger waits forever and cannot be cancelled. What paying needs goes to the ledger at once;
// all else is a read, and has its turn.
type Ledger struct {
	config    Config
	client    tigerbeetle.Client
	now       func() time.Time
	reads     *ledger.Reads
	transfers *lookups[tb.Transfer]
	accounts  *lookups[tb.Account]
	reading   *web.Pool // a permit for each read that waits
	asking    *web.Pool // a permit for each question of an act or a return that the ledger has not answered
	days      *web.Pool // a permit for each statement of a day that is sent
	pages     *actPages
	wrongDays prometheus.Counter
	foreign   prometheus.Counter
	stopping  context.Context // ends when the service begins to stop
	log       *zap.Logger
	failures  chan error
	register  *register.Register
	letters   *deadletter.Letters
	clock     atomic.Pointer[comparison]  // the latest; nil before the first
	closed    atomic.Pointer[web.Problem] // why nothing is told; nil: it is
	probes    chan struct{}               // the next probe is due at once
}

// New does not wait for the ledger. Statements of days end with stopping. now is the wall clock, which is compared with
// the ledger's; payments reports whether payments wait for the ledger.
func New(stopping context.Context, config Config, client tigerbeetle.Client, follows *register.Register,
	letters *deadletter.Letters, now func() time.Time, payments func() bool, pools *web.Pools,
	t *telemetry.Telemetry) *Ledger {
	l := &Ledger{stopping: stopping, config: config, client: client, register: follows, letters: letters, now: now,
		failures: make(chan error, 1), log: t.Log, probes: make(chan struct{}, 1),
		reading: pools.Pool("reads", "STATUS_IN_FLIGHT_MAX", config.InFlightMax),
		asking:  pools.Pool("look-ups", "STATUS_IN_FLIGHT_MAX", config.InFlightMax),
		days:    pools.Pool("day statements", "DAY_STATEMENTS_MAX", config.DaysMax), pages: newActPages()}
	l.wrongDays = prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_producer_wrong_statements_total",
		Help: "Statements of days whose lines do not lead to the ledger's own balances; not 0 is a breach."})
	l.foreign = prometheus.NewCounter(prometheus.CounterOpts{Name: "pix_producer_foreign_results_total",
		Help: "Queries of the ledger that found what they did not ask for, of which nothing was told; not 0 is a breach."})
	t.Registry.MustRegister(l.wrongDays, l.foreign)
	l.closed.Store(notCompared)
	batch := ledger.BatchConfig{EventsMax: config.IDsMax, Pause: config.LookupPause}
	l.reads = ledger.NewReads(client, config.Reads, batch, payments, labelOf, t.Registry, l.Fail)
	l.transfers = &lookups[tb.Transfer]{ledger: l, read: l.reads.Transfers,
		ask: ledger.NewTransferReader(client, batch, t.Registry, question[tb.Transfer].answer, l.Fail)}
	l.accounts = &lookups[tb.Account]{ledger: l, read: l.reads.Accounts,
		ask: ledger.NewAccountReader(client, batch, t.Registry, question[tb.Account].answer, l.Fail)}

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
	l.reads.Close()
	l.transfers.ask.Close()
	l.accounts.ask.Close()
}

// labelOf returns what metrics call a reader, of whom there may be any number.
func labelOf(reader string) string {
	if _, err := pix.ParseISPB(reader); err != nil && reader != keys.CentralBank {
		return "others"
	}

	return reader
}

// payingKey marks the context of what paying needs.
type payingKey struct{}

// Paying returns the context of questions that are no reads: acts, and what the sender of an order waits for.
func Paying(ctx context.Context) context.Context { return context.WithValue(ctx, payingKey{}, true) }

// reading returns the context of questions that are reads, whatever they belong to.
func reading(ctx context.Context) context.Context {
	return context.WithValue(ctx, payingKey{}, false)
}

func isPaying(ctx context.Context) bool {
	paying, _ := ctx.Value(payingKey{}).(bool)
	return paying
}

// lookups asks for objects by id. Questions at the same time share a request.
type lookups[O any] struct {
	ledger *Ledger
	read   func(ctx context.Context, reader string, ids []tb.Uint128) ([]O, error)
	ask    *ledger.Reader[question[O], O] // of what paying needs
}

// question waits for the ledger. One that its HTTP request has given up keeps its permit: the look-up still waits.
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
	if isPaying(ctx) {
		return l.findWith(ctx, l.ledger.asking, ids)
	}

	return read(ctx, l.ledger, func(ctx context.Context, reader string) (found []O, err error) {
		for part := range slices.Chunk(ids, l.ledger.config.IDsMax) {
			some, err := l.read(ctx, reader, part)
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}

		return found, nil
	})
}

// read has a turn of the caller among those that read, and returns within the timeout.
func read[O any](ctx context.Context, l *Ledger,
	ask func(ctx context.Context, reader string) ([]O, error)) ([]O, *web.Problem) {
	reader := access.From(ctx).Name()
	if problem := l.reading.Take(reader); problem != nil {
		return nil, problem
	}
	defer l.reading.Free(reader)
	bounded, done := context.WithTimeout(ctx, l.config.Timeout)
	defer done()
	found, err := ask(bounded, reader)

	if closed := l.Closed(); closed != nil { // a stream or a wait that began before
		return nil, closed
	}

	return found, l.unread(err)
}

// Turn waits, while payments wait, until a caller may be answered: each has its part of what answers to reads may take,
// even of refusals.
func (l *Ledger) Turn(ctx context.Context, caller string) *web.Problem {
	bounded, done := context.WithTimeout(ctx, l.config.Timeout)
	defer done()

	return l.unread(l.reads.Turn(bounded, caller))
}

// Wrong says that a caller that had its turn asked for what no correct program asks for: its next one comes later.
func (l *Ledger) Wrong(caller string) { l.reads.Wrong(caller) }

// unread returns the response to a read that was not answered, or nil.
func (l *Ledger) unread(err error) *web.Problem {
	var crowded *ledger.Crowded
	switch {
	case err == nil:
		return nil
	case errors.As(err, &crowded):
		return &web.Problem{Type: web.Kind("busy"), Title: "Your part of the reads is taken",
			Status: http.StatusTooManyRequests, RetryAfter: crowded.RetryAfter.Round(time.Second),
			Rule: fmt.Sprintf("while payments wait, reads of all participants take %g of the ledger's time (LEDGER_READ_SHARE), in equal parts by what they cost",
				l.config.Reads.Share),
			Detail: fmt.Sprintf("what you have read took your part, or your turn did not come within LEDGER_READ_WAIT_MAX (%v): nothing was read, ask again after a pause, and for less",
				l.config.Reads.WaitMax)}
	}

	return ledgerAway(l.config.Timeout)
}

// findWith is find with permits of another pool. More ids than a request holds are several questions, which
// are asked at once.
func (l *lookups[O]) findWith(ctx context.Context, permits *web.Pool,
	ids []tb.Uint128) (found []O, problem *web.Problem) {
	asker := access.From(ctx).Name()
	var results []<-chan []O

	for part := range slices.Chunk(ids, l.ledger.config.IDsMax) {
		if problem := permits.Take(asker); problem != nil {
			return nil, problem
		}
		result := make(chan []O, 1)
		l.ask.Read(question[O]{result, permits, asker}, part)
		results = append(results, result)
	}
	timeout := l.ledger.config.Timeout
	bounded, done := context.WithTimeout(ctx, timeout)
	defer done()

	for _, result := range results {
		some, problem := within(bounded, timeout, result)
		if problem != nil {
			return nil, problem
		}
		found = append(found, some...)
	}

	if problem := l.ledger.Closed(); problem != nil { // a stream or a wait that began before
		return nil, problem
	}

	return found, nil
}

// query makes an inquiry. Inquiries do not share requests.
func query[O any](ctx context.Context, l *Ledger, q inquiry[O]) (found []O, problem *web.Problem) {
	if isPaying(ctx) {
		found, problem = Ask(ctx, l, l.asking, q.ask)
	} else {
		found, problem = read(ctx, l, func(ctx context.Context, reader string) ([]O, error) {
			return ledger.Query(ctx, l.reads, reader, q.limit, false, q.ask)
		})
	}

	if problem != nil {
		return nil, problem
	}

	return checked(l, q, found)
}

// Ask sends a request of its own to the ledger, with a permit of a pool. It returns within the
// timeout; the request keeps its permit until the ledger answers.
func Ask[O any](ctx context.Context, l *Ledger, permits *web.Pool,
	ask func(tigerbeetle.Client) ([]O, error)) ([]O, *web.Problem) {
	asker := access.From(ctx).Name()
	if problem := permits.Take(asker); problem != nil {
		return nil, problem
	}
	result := make(chan []O, 1)
	go func() {
		found, err := ask(l.client)
		permits.Free(asker)

		if err != nil {
			l.Fail(fmt.Errorf("the ledger refused a request: %w", err))
			return
		}
		result <- found
	}()

	found, problem := within(ctx, l.config.Timeout, result)
	if closed := l.Closed(); closed != nil {
		return nil, closed
	}

	return found, problem
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
	return &web.Problem{Type: web.Kind("ledger-away"), Title: "The ledger does not answer",
		Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("no answer within STATUS_TIMEOUT (%v): ask again later", timeout)}
}
