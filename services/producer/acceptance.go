package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

// acceptance takes payments: it publishes them and says so once Kafka has acknowledged.
type acceptance struct {
	timeout time.Duration
	client  *kgo.Client
	crash   *crash.Crash // nil but in tests
	follow  *follow      // for those who wait for the outcome
}

func newAcceptance(config AcceptConfig, kafka stream.Config, t *telemetry.Telemetry) (*acceptance, error) {
	crash, err := parseCrash(config.CrashAt)
	if err != nil {
		return nil, err
	}
	client, err := stream.Connect(kafka, host.System().Dial, "producer", t,
		// Kafka's own placement by key, so that any producer puts a payment where we do.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		// A payment that nobody waits for any more must not go out much later, nor fill
		// the buffer of an absent broker.
		kgo.RecordDeliveryTimeout(config.PublishTimeout),
		kgo.ProduceRequestTimeout(config.PublishTimeout),
		kgo.RequestTimeoutOverhead(config.PublishTimeout),
		kgo.MaxBufferedRecords(config.InFlightMax),
		kgo.MetadataMaxAge(10*time.Second), kgo.MetadataMinAge(time.Second),
	)
	if err != nil {
		return nil, err
	}
	return &acceptance{timeout: config.PublishTimeout, client: client, crash: crash}, nil
}

// stop waits for acknowledgements within the context's time.
func (a *acceptance) stop(ctx context.Context) error {
	defer a.client.Close()
	if err := a.client.Flush(ctx); err != nil {
		return fmt.Errorf("%d payments were not acknowledged by Kafka: %w", a.client.BufferedProduceRecords(), err)
	}
	return nil
}

// ServeHTTP answers POST /v1/payments.
func (a *acceptance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body payment
	if problem := web.ReadJSON(r.Body, &body); problem != nil {
		problem.Write(w)
		return
	}
	a.crash.Pass(afterRequestRead)
	record, problem := body.record(time.Now())
	if problem != nil {
		problem.Write(w)
		return
	}
	if problem := callerOf(r).pays(&body); problem != nil {
		problem.Write(w)
		return
	}
	if err := a.send(record, nil).wait(); err != nil {
		notPublished(body.EndToEndID, err).Write(w)
		return
	}
	a.crash.Pass(afterAcknowledged)
	id, _ := pix.ParseEndToEndID(body.EndToEndID) // valid: it was published
	answerTaken(a.follow, w, r, a.follow.payment(id), accepted{body.EndToEndID, "accepted"})
}

type accepted struct {
	EndToEndID string `json:"end_to_end_id"`
	Status     string `json:"status" enum:"accepted"`
}

// notPublished says what an error of publishing means for a payment.
func notPublished(endToEndID string, err error) *web.Problem {
	if errors.Is(err, kgo.ErrMaxBuffered) {
		return tooManyInFlight(endToEndID)
	}
	return &web.Problem{Type: web.Kind("unknown-fate"), Title: "Fate unknown", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail:     fmt.Sprintf("Kafka did not acknowledge the payment (%v), which may have been accepted or not: send the same again with this end_to_end_id, which is safe, or ask for its status", err),
		EndToEndID: endToEndID}
}

func tooManyInFlight(endToEndID string) *web.Problem {
	return &web.Problem{Type: web.Kind("busy"), Title: "Too many payments in flight", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Detail:     "nothing was sent: send the payment again, with this end_to_end_id, after a pause",
		EndToEndID: endToEndID}
}

// errNotInTime says that a record was given up by its request, not by the client: one in
// a request without an answer may still be acknowledged.
var errNotInTime = errors.New("no acknowledgement within PUBLISH_TIMEOUT")

// sent is a payment on its way to Kafka.
type sent struct {
	acknowledged chan error
	until        time.Time
}

// send begins to publish; done, if any, is called when Kafka has answered, however late.
func (a *acceptance) send(record *kgo.Record, done func()) *sent {
	s := &sent{make(chan error, 1), time.Now().Add(a.timeout)}
	// No context of the request: the client would fail the payments of others with it.
	a.client.TryProduce(context.Background(), record, func(_ *kgo.Record, err error) {
		s.acknowledged <- err
		if done != nil {
			done()
		}
	})
	a.crash.PassSent(afterPublished)
	return s
}

// wait returns nil once Kafka has acknowledged, and in any case within the timeout.
func (s *sent) wait() error {
	timer := time.NewTimer(time.Until(s.until))
	defer timer.Stop()
	select {
	case err := <-s.acknowledged:
		return err
	case <-timer.C:
		select { // both may be so when nobody looked for long
		case err := <-s.acknowledged:
			return err
		default:
			return errNotInTime
		}
	}
}
