package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/settings"
)

// ReadShare bounds what reads take of the ledger.
type ReadShare struct {
	Share   float64 `env:"LEDGER_READ_SHARE" envDefault:"0.1" help:"share of the ledger's time that reads of all front doors and live audits may take while payments wait; above 0, up to 1 for no limit"`
	Readers int     `env:"LEDGER_READERS" envDefault:"3" range:"1 to 100" help:"front doors and live audits of this ledger, or more: each takes an equal part of LEDGER_READ_SHARE"`
}

// Validate names the variable and the value that is wrong.
func (c ReadShare) Validate() error { return settings.Share("LEDGER_READ_SHARE", c.Share) }

// Own is the share of one reader.
func (c ReadShare) Own() float64 { return c.Share / float64(c.Readers) }

// ReadsConfig bounds the reads of a front door.
type ReadsConfig struct {
	ReadShare
	WaitMax time.Duration `env:"LEDGER_READ_WAIT_MAX" envDefault:"6s" range:"10ms to 1m" help:"how long a read waits at most for its participant's turn, and at least half of it; then 429"`
}

// Reads asks the ledger what callers want to know, beside what paying needs. One request is under way at a time, so
// a payment never waits for more than one. Look-ups of many callers share a request; a question joins
// only one that is not sent yet, so callers see what they have written. While payments wait, all together take their
// share of the ledger's time; otherwise all of it. It is divided among holders as fair says.
type Reads struct {
	config    ReadsConfig
	eventsMax int
	pause     time.Duration
	client    tigerbeetle.Client
	payments  func() bool // wait for the ledger
	ask       [kinds]func([]*question) error
	metrics   [kinds]requestMetrics
	cost      *prometheus.CounterVec
	label     func(holder string) string
	refused   prometheus.Counter
	wake      chan struct{}
	closed    chan struct{}

	mu       sync.Mutex
	fair     fair
	number   int       // of questions, ever
	sent     time.Time // the last request
	answered time.Time // the last one that was
	// how long small requests take, which do little but wait behind others: nearly the least of late
	small time.Duration
}

// The kinds of questions. Those of one kind share a request, but for queries.
const (
	transferLookUp = iota
	accountLookUp
	query
	kinds
	turn = kinds // of one who asks the ledger nothing, or nothing yet
)

// question waits for the ledger.
type question struct {
	kind    int
	number  int
	asked   time.Time
	ids     []tb.Uint128 // of a look-up
	objects int          // at most that it finds; of a query at last those that it found
	charged float64      // seconds, before it was sent
	send    func() error // of a query
	answer  any          // the channel of what was found
}

// The time that a request takes of the ledger, measured on two cores: an empty one, and at least and at most for each
// object. Objects that lie together in the ledger's tables cost little, those that are scattered forty times that.
const (
	requestCost    = 500 * time.Microsecond
	objectCost     = time.Microsecond
	objectCostMost = 50 * time.Microsecond
)

// answerCost is charged for each turn, whatever is found or refused: front door and caller share processors with the
// ledger. On two cores a refusal took 130 µs of the front door's.
const answerCost = 150 * time.Microsecond

// wrongCost is charged for an answer that no correct program gets, as well: nobody needs many of them.
const wrongCost = 10 * answerCost

// ReadObjects is how many objects a request reads, if no question alone needs more. A payment may have to wait for it,
// so it is as few as do not make requests many.
const ReadObjects = 256

// NewReads starts to ask. payments reports whether payments wait for the ledger. label is what the metrics call a
// holder. It calls fail if the client is of no more use.
func NewReads(client tigerbeetle.Client, config ReadsConfig, batch BatchConfig, payments func() bool,
	label func(holder string) string, registry prometheus.Registerer, fail func(error)) *Reads {
	r := &Reads{
		config: config, eventsMax: batch.EventsMax, pause: batch.Pause, client: client, payments: payments,
		label: label,
		fair:  fair{at: time.Now(), holders: map[string]*holder{}}, wake: make(chan struct{}, 1),
		closed: make(chan struct{}),
		cost: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: "pix_ledger_read_cost_seconds_total",
			Help: "Time of the ledger that reads of a participant took, as well as it can be measured from here; others: callers without a key."},
			[]string{"participant"}),
		refused: promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: "pix_ledger_reads_refused_total",
			Help: "Reads that were refused with 429, because their participant's part of the ledger's time for reads was taken for LEDGER_READ_WAIT_MAX."}),
	}
	promauto.With(registry).NewGaugeFunc(
		prometheus.GaugeOpts{Name: "pix_ledger_reads_waiting", Help: "Reads that wait for their turn, or for a request to the ledger."},
		func() float64 { return float64(r.waiting()) })

	for kind, name := range []string{"read transfers", "read accounts", "query"} {
		r.metrics[kind] = newRequestMetrics(registry, name)
	}
	r.ask = [kinds]func([]*question) error{
		lookUps(client.LookupTransfers, func(t *tb.Transfer) tb.Uint128 { return t.ID }),
		lookUps(client.LookupAccounts, func(a *tb.Account) tb.Uint128 { return a.ID }),
		func(one []*question) error { return one[0].send() },
	}
	go r.run(fail)

	return r
}

// Close asks no more. A request under way ends when the ledger answers it.
func (r *Reads) Close() { close(r.closed) }

// Crowded says that a read was not sent, because others of its holder, or too many, came before it.
type Crowded struct{ RetryAfter time.Duration }

func (c *Crowded) Error() string { return fmt.Sprintf("reads may go on in %v", c.RetryAfter) }

// Transfers returns those of the transfers that exist, in the order of the ids.
func (r *Reads) Transfers(ctx context.Context, holder string, ids []tb.Uint128) ([]tb.Transfer, error) {
	return lookUp[tb.Transfer](ctx, r, transferLookUp, holder, ids)
}

// Accounts is Transfers, of accounts.
func (r *Reads) Accounts(ctx context.Context, holder string, ids []tb.Uint128) ([]tb.Account, error) {
	return lookUp[tb.Account](ctx, r, accountLookUp, holder, ids)
}

// Turn charges a holder for an answer, whether or not the ledger is asked for it. While payments wait, who asks again
// and again waits for its turn, even for a refusal: thousands a second would take the processors from payments.
func (r *Reads) Turn(ctx context.Context, holder string) error {
	if !r.payments() || r.takeTurn(holder) {
		return nil
	}
	result := make(chan []struct{}, 1)
	_, err := await(ctx, r, r.config.WaitMax, holder, &question{kind: turn, answer: result}, result)

	return err
}

// Wrong charges a holder for a request that was wrong, after its turn.
func (r *Reads) Wrong(holder string) {
	if !r.payments() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fair.of(holder).credit -= wrongCost.Seconds()
}

// takeTurn takes a turn at once, if nothing else of the holder waits and it has credit.
func (r *Reads) takeTurn(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fair.grow(time.Now(), r.config.Own())

	h := r.fair.of(name)
	if len(h.waiting) > 0 || h.credit <= 0 {
		return false
	}
	h.credit -= answerCost.Seconds()

	return true
}

func lookUp[O any](ctx context.Context, r *Reads, kind int, holder string, ids []tb.Uint128) ([]O, error) {
	result := make(chan []O, 1)
	return await(ctx, r, r.config.WaitMax, holder,
		&question{kind: kind, ids: ids, objects: len(ids), answer: result}, result)
}

// Query makes a request of its own that finds at most so many objects. patient waits for its turn until ctx ends.
func Query[O any](ctx context.Context, r *Reads, holder string, objects int, patient bool,
	ask func(tigerbeetle.Client) ([]O, error)) ([]O, error) {
	result := make(chan []O, 1)
	q := &question{kind: query, objects: objects}
	q.send = func() error {
		found, err := ask(r.client)
		if err == nil {
			q.objects = len(found)
			result <- found
		}

		return err
	}

	var waitMax time.Duration // without limit
	if !patient {
		waitMax = r.config.WaitMax
	}

	return await(ctx, r, waitMax, holder, q, result)
}

// await returns the answer. A question that is not sent within waitMax is withdrawn, unless the ledger answers
// nobody: then it waits until ctx ends. Some are withdrawn from half of waitMax on, or callers that began together
// would all be refused and ask again in the same instant.
func await[O any](ctx context.Context, r *Reads, waitMax time.Duration, holder string, q *question,
	result <-chan []O) ([]O, error) {
	r.put(holder, q)

	var late <-chan time.Time
	if waitMax > 0 {
		late = time.After(waitMax/2 + rand.N(waitMax/2))
	}

	for {
		select {
		case found := <-result:
			return found, nil
		case <-late:
		case <-ctx.Done():
		}

		if err := r.withdraw(holder, q, ctx.Err() != nil); err != nil {
			return nil, err
		}

		if ctx.Err() != nil {
			return nil, fmt.Errorf("the ledger does not answer: %w", context.Cause(ctx))
		}
		late = nil
	}
}

func (r *Reads) put(name string, q *question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	q.number, q.asked = r.number, time.Now()
	h := r.fair.of(name)
	place := len(h.waiting)

	first := slices.IndexFunc(h.waiting, func(q *question) bool { return q.kind == turn })
	if first >= 0 && q.kind != turn {
		place = first // who has had its turn goes before those who wait for theirs
	}
	h.waiting = slices.Insert(h.waiting, place, q)
	r.awake()
}

func (r *Reads) awake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// withdraw takes a question back that was not sent, and returns the error. While the ledger has not answered what it
// was asked before, the question only is taken back if its time has ended.
func (r *Reads) withdraw(name string, q *question, ended bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.fair.of(name)
	i := slices.Index(h.waiting, q)
	silent := r.sent.After(r.answered) && r.sent.Before(q.asked) && q.kind != turn

	crowded := i >= 0 && !silent
	if crowded || i >= 0 && ended {
		h.waiting = slices.Delete(h.waiting, i, i+1)
	}

	if !crowded {
		return nil
	}
	r.refused.Inc()

	return &Crowded{RetryAfter: max(time.Second, r.fair.wait(h, r.config.Own()))}
}

func (r *Reads) waiting() (all int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for _, h := range r.fair.holders {
		all += len(h.waiting)
	}

	return all
}

// Small takes note of how long a request took that did little but wait behind others.
func (r *Reads) Small(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.small = min(took, r.small+(took-r.small)/8)
}

// run asks until it is closed.
func (r *Reads) run(fail func(error)) {
	for {
		batch, by, wait := r.next()
		if len(batch) == 0 {
			select {
			case <-r.wake:
			case <-time.After(wait):
			case <-r.closed:
				return
			}

			continue
		}
		sent := time.Now()

		err := r.ask[batch[0].kind](batch)
		select {
		case <-r.closed:
			return // then the client may be closed, too
		default:
		}

		if err != nil {
			fail(fmt.Errorf("the ledger refused a read: %w", err))
			return
		}
		r.charge(batch, by, time.Since(sent))
	}
}

// idle is how long run sleeps if nobody asks.
const idle = time.Minute

// next returns the questions of the next request and who asks them. Without any it returns how long to wait.
func (r *Reads) next() (batch []*question, by []string, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, share, all := time.Now(), r.config.Own(), !r.payments()
	r.fair.grow(now, share)

	if pause := r.sent.Add(r.pause).Sub(now); pause > 0 && !all { // so that more can share the request
		return nil, nil, pause
	}

	most, objects := min(r.eventsMax, ReadObjects), 0
	for {
		h, q := r.fair.next(func(q *question) bool {
			return len(batch) == 0 || q.kind == batch[0].kind && q.kind != query && objects+len(q.ids) <= most
		})
		switch {
		case h == nil:
			return batch, by, idle
		case !r.fair.affords(h, all):
			return batch, by, min(r.fair.wait(h, share), recheck)
		}
		h.waiting = slices.Delete(h.waiting, 0, 1)

		if q.kind == turn {
			h.credit -= answerCost.Seconds()
			q.answer.(chan []struct{}) <- nil

			continue
		}
		q.charged = (time.Duration(q.objects) * objectCost).Seconds()
		h.credit -= q.charged
		batch, by, objects, r.sent = append(batch, q), append(by, h.name), objects+len(q.ids), now
	}
}

// recheck is how soon a read goes on after the last payment.
const recheck = 50 * time.Millisecond

// charge takes what a request cost from those who asked, by what each asked for.
func (r *Reads) charge(batch []*question, by []string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()

	objects := 0
	for _, q := range batch {
		objects += q.objects
	}
	least, most := requestCost+time.Duration(objects)*objectCost, requestCost+time.Duration(objects)*objectCostMost

	cost := min(max(least, took-r.small), most).Seconds()
	if objects <= smallObjects {
		r.small = min(took, r.small+(took-r.small)/8)
	}
	r.answered = time.Now()
	r.metrics[batch[0].kind].observe(objects, took)

	for i, q := range batch {
		part := cost * float64(q.objects+1) / float64(objects+len(batch))
		r.fair.of(by[i]).credit -= part - q.charged
		r.cost.WithLabelValues(r.label(by[i])).Add(part)
	}
}

// smallObjects is what a small request finds at most.
const smallObjects = 8

// lookUps returns what asks the questions of many in one request.
func lookUps[O any](ask func([]tb.Uint128) ([]O, error), idOf func(*O) tb.Uint128) func([]*question) error {
	return func(batch []*question) error {
		var ids []tb.Uint128
		for _, q := range batch {
			ids = append(ids, q.ids...)
		}

		objects, err := ask(ids)
		if err != nil {
			return errors.Join(fmt.Errorf(
				"a look-up of %d ids (LEDGER_LOOKUP_IDS_MAX must not exceed the server's limit)", len(ids)), err)
		}

		byID := indexed(objects, idOf)
		for _, q := range batch {
			q.answer.(chan []O) <- among(byID, q.ids)
		}

		return nil
	}
}
