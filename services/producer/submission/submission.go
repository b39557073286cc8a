// Package submission takes payments and returns: it publishes them to Kafka and responds
// once Kafka has acknowledged them.
package submission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/overload"
	"github.com/liquida/liquida/services/producer/query"
)

// Config bounds the publishing.
type Config struct {
	PublishTimeout time.Duration `env:"PUBLISH_TIMEOUT" envDefault:"5s" range:"1s to 1m" help:"for Kafka to acknowledge a payment; then 503, its fate unknown"`
	InFlightMax    int           `env:"PAYMENTS_IN_FLIGHT_MAX" envDefault:"20000" range:"1 to 1000000" help:"payments that wait for Kafka's acknowledgement, and look-ups of their ids; above it 429"`
	FlightTimeMax  time.Duration `env:"FLIGHT_TIME_MAX" envDefault:"60s" range:"1s to 1h" help:"how long an id that was sent here, and that the ledger does not know, is refused with other content, and how far back open questions to a bank are looked for; longer than ENGINE_DEADLINE"`
	CrashAt        string        `env:"PRODUCER_CRASH_AT" help:"for tests only: POINT:N kills this process at the N-th passage of a step, such as after-published:100; empty: never"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	_, err := parseCrash(c.CrashAt, nil)
	return err
}

// Publisher publishes orders.
type Publisher struct {
	timeout time.Duration
	client  *kgo.Client // asks, and writes nothing
	connect func() (*kgo.Client, error)
	writer  atomic.Pointer[writer]
	gate    *overload.Gate
	permits *web.Pool // a permit for each order that Kafka has not answered, and for each look-up before
	flights flights
	now     func() time.Time
	crash   *crash.Crash // nil but in tests

	unconfirmed atomic.Bool // the ledger was built again, and its acts are not confirmed
	// why nothing is sent; nil: the log is the ledger's, as far as it was seen
	wrongLog atomic.Pointer[origin.Mismatch]
	doubted  chan struct{} // wakes WatchLog

	*places
	topicsWrong atomic.Pointer[string] // nil: the topics are those of before
}

// NewPublisher does not wait for a broker.
func NewPublisher(config Config, kafka stream.Config, on host.Host, pools *web.Pools, gate *overload.Gate,
	t *telemetry.Telemetry) (*Publisher, error) {
	crash, err := parseCrash(config.CrashAt, on.Die)
	if err != nil {
		return nil, err
	}
	placing := &places{known: make(chan struct{})}
	connect := func() (*kgo.Client, error) {
		return stream.Connect(kafka, on.Dial, "producer", t,
			kgo.RecordPartitioner(placing),
			// A payment whose caller has given up must not go out much later, nor fill the
			// buffer of an absent broker.
			kgo.RecordDeliveryTimeout(config.PublishTimeout),
			kgo.ProduceRequestTimeout(config.PublishTimeout),
			kgo.RequestTimeoutOverhead(config.PublishTimeout),
			kgo.MaxBufferedRecords(config.InFlightMax),
		)
	}

	client, err := stream.Connect(kafka, on.Dial, "producer-asks", t)
	if err != nil {
		return nil, err
	}

	p := &Publisher{timeout: config.PublishTimeout, client: client, connect: connect, now: on.Now, crash: crash,
		gate: gate, flights: flights{lasts: config.FlightTimeMax},
		permits: pools.Pool("payments in flight", "PAYMENTS_IN_FLIGHT_MAX", config.InFlightMax),
		doubted: make(chan struct{}, 1), places: placing}
	if err := p.renew(); err != nil {
		client.Close()
		return nil, err
	}

	return p, nil
}

// Client is the connection to Kafka of those that ask the broker.
func (p *Publisher) Client() *kgo.Client { return p.client }

// Close closes the connections. What Kafka has not acknowledged is lost.
func (p *Publisher) Close() {
	p.writer.Load().close()
	p.client.Close()
}

// Stop waits for acknowledgements until ctx ends.
func (p *Publisher) Stop(ctx context.Context) error {
	defer p.Close()

	client := p.writer.Load().client
	if err := client.Flush(ctx); err != nil {
		return fmt.Errorf("%d payments were not acknowledged by Kafka: %w", client.BufferedProduceRecords(), err)
	}

	return nil
}

// delivery is an order on its way to Kafka.
type delivery struct {
	acknowledged chan error
	until        time.Time
}

// refused is why an order was not sent.
type refused struct{ *web.Problem }

func (r refused) Error() string { return r.Detail }

// publish begins to send a caller's order. It calls done, if any, when Kafka has answered,
// however late.
func (p *Publisher) publish(who access.Caller, order *sending, done func()) *delivery {
	d := &delivery{make(chan error, 1), time.Now().Add(p.timeout)}

	var problem *web.Problem
	if wrong := p.wrongLog.Load(); wrong != nil {
		problem = query.ClosedBy(wrong.Error())
	} else {
		problem = p.permits.Take(who.Name())
	}

	if problem == nil {
		if problem = p.inFlight(order); problem != nil {
			p.permits.Free(who.Name())
		}
	}

	if problem != nil {
		d.acknowledged <- refused{problem}

		if done != nil {
			done()
		}

		return d
	}
	p.gate.Accepted(who.Name())
	writer := p.writer.Load()
	before := writer.ends.Load()
	// No context of the request: the client would fail the payments of others with it.
	writer.client.TryProduce(context.Background(), order.Record, func(record *kgo.Record, err error) {
		err = p.stored(writer, before, record, err)
		if errors.Is(err, kgo.ErrMaxBuffered) {
			p.flights.forget(order.Order)
		}
		p.permits.Free(who.Name())
		d.acknowledged <- err

		if done != nil {
			done()
		}
	})
	p.crash.PassSent(afterPublished)

	return d
}

// errNotInTime means that the HTTP request gave up, not the Kafka client: the record may
// still be acknowledged.
var errNotInTime = errors.New("no acknowledgement within PUBLISH_TIMEOUT")

// wait returns nil once Kafka has acknowledged. It returns within the timeout, and when the caller's key has ended.
func (d *delivery) wait(by access.Caller) error {
	late := errNotInTime

	select {
	case err := <-d.acknowledged:
		return err
	case <-by.Done():
		late = access.ErrEnded
	case <-time.After(time.Until(d.until)):
	}

	select { // both may have come when this goroutine did not run for long
	case err := <-d.acknowledged:
		return err
	default:
		return late
	}
}

// notPublished is the response to an order of which nobody knows that Kafka has stored it.
func notPublished(id string, err error) *web.Problem {
	if no := (refused{}); errors.As(err, &no) {
		no.EndToEndID = id
		return no.Problem
	}

	if errors.Is(err, kgo.ErrMaxBuffered) {
		return tooManyInFlight(id)
	}

	return &web.Problem{Type: web.Kind("unknown-fate"), Title: "Fate unknown", Status: http.StatusServiceUnavailable,
		RetryAfter: time.Second,
		Detail: fmt.Sprintf(
			"it is not certain that Kafka has stored the payment (%v): send the same again with this end_to_end_id, which is safe, or ask for its status",
			err),
		EndToEndID: id}
}

func tooManyInFlight(id string) *web.Problem {
	return &web.Problem{Type: web.Kind("busy"), Title: "Too many payments in flight",
		Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Detail:     "nothing was sent: send the payment again, with this end_to_end_id, after a pause",
		EndToEndID: id}
}

// Submissions serves the requests that send payments and returns.
type Submissions struct {
	*Publisher
	batches batches
	ledger  *query.Ledger // says who received the original of a return
	feed    *feed.Feed    // for callers that wait for the outcome
}

// New registers the metrics. A line of a batch has at most lineMax bytes.
func New(publisher *Publisher, batch BatchConfig, lineMax int, ledger *query.Ledger, feed *feed.Feed, pools *web.Pools,
	registry prometheus.Registerer) *Submissions {
	return &Submissions{Publisher: publisher, batches: newBatches(batch, lineMax, pools, registry),
		ledger: ledger, feed: feed}
}

// receive admits a request, and reads how long its caller waits for the outcome, and its body.
func (s *Submissions) receive(r *http.Request, body any) (wait time.Duration, problem *web.Problem) {
	if problem := s.gate.Admit(access.Of(r).Name()); problem != nil { // before any work
		return 0, problem
	}

	if wait, problem = s.feed.Wait(r.Header); problem != nil {
		return 0, problem
	}

	if problem := field.ReadJSON(r.Body, body); problem != nil {
		return 0, problem
	}
	s.crash.Pass(afterRequestRead)

	return wait, s.closed()
}

// Accepted is the body of a response to POST /v1/payments.
type Accepted struct {
	EndToEndID string `json:"end_to_end_id"`
	Status     string `json:"status" enum:"accepted"`
}

// Pay serves POST /v1/payments.
func (s *Submissions) Pay(w http.ResponseWriter, r *http.Request) *web.Problem {
	var body Payment

	wait, problem := s.receive(r, &body)
	if problem != nil {
		return problem
	}

	payment, problem := body.sending(s.now())
	if problem != nil {
		return problem
	}

	if problem := s.leaves(access.Of(r), &body); problem != nil {
		return problem
	}

	waiting := s.feed.Await(r, wait, body.EndToEndID)
	defer waiting.End()

	if s.compare(r.Context(), payment); payment.problem != nil {
		return payment.problem
	}

	if err := s.publish(access.Of(r), payment, nil).wait(access.Of(r)); err != nil {
		return notPublished(body.EndToEndID, err)
	}
	s.crash.Pass(afterAcknowledged)

	return feed.Respond(waiting, w, r, s.feed.Payment(payment.ID).Sent(payment.Content, payment.known),
		Accepted{body.EndToEndID, "accepted"})
}

// leaves returns nil if the caller may send the payment, and it may leave the payer's account. Only
// the front door knows which accounts are not open: engines take what stands in the topic.
func (s *Submissions) leaves(who access.Caller, payment *Payment) *web.Problem {
	if problem := who.Pays(payment.Payer.ISPB, payment.EndToEndID); problem != nil {
		return problem
	}

	state, problem := s.ledger.Register()
	if problem != nil {
		return problem // without the id: nothing was sent
	}

	if problem = query.NotOpen(state, "payer", payment.Payer.Pix()); problem != nil {
		problem.EndToEndID = payment.EndToEndID
	}

	return problem
}
