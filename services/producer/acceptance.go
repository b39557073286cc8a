package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

// acceptance takes payments: it publishes them and says so once Kafka has acknowledged.
type acceptance struct {
	timeout time.Duration
	client  *kgo.Client
	crash   *crash.Crash // nil but in tests
}

func newAcceptance(config AcceptConfig, kafka stream.Config, t *telemetry.Telemetry) (*acceptance, error) {
	crash, err := parseCrash(config.CrashAt)
	if err != nil {
		return nil, err
	}
	client, err := stream.Connect(kafka, "producer", t,
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
	now := time.Now().Truncate(time.Millisecond) // Kafka keeps milliseconds
	order, problem := body.order(now)
	if problem != nil {
		problem.Write(w)
		return
	}
	value, err := order.MarshalVT()
	if err == nil {
		err = a.publish(&kgo.Record{Topic: stream.Payments, Key: []byte(order.EndToEndId), Value: value, Timestamp: now})
	}
	switch {
	case errors.Is(err, kgo.ErrMaxBuffered):
		(&web.Problem{Type: web.Kind("busy"), Title: "Too many payments in flight", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
			Detail:     "nothing was sent: send the payment again, with this end_to_end_id, after a pause",
			EndToEndID: order.EndToEndId}).Write(w)
	case err != nil:
		(&web.Problem{Type: web.Kind("unknown-fate"), Title: "Fate unknown", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Detail:     fmt.Sprintf("Kafka did not acknowledge the payment (%v), which may have been accepted or not: send the same again with this end_to_end_id, which is safe, or ask for its status", err),
			EndToEndID: order.EndToEndId}).Write(w)
	default:
		a.crash.Pass(afterAcknowledged)
		web.WriteJSON(w, http.StatusAccepted, accepted{order.EndToEndId, "accepted"})
	}
}

type accepted struct {
	EndToEndID string `json:"end_to_end_id"`
	Status     string `json:"status"`
}

// errNotInTime says that a record was given up by its request, not by the client: one in
// a request without an answer may still be acknowledged.
var errNotInTime = errors.New("no acknowledgement within PUBLISH_TIMEOUT")

// publish returns nil once Kafka has acknowledged, and in any case within the timeout.
func (a *acceptance) publish(record *kgo.Record) error {
	acknowledged := make(chan error, 1)
	// No context of the request: the client would fail the payments of others with it.
	a.client.TryProduce(context.Background(), record, func(_ *kgo.Record, err error) { acknowledged <- err })
	a.crash.PassSent(afterPublished)
	timer := time.NewTimer(a.timeout)
	defer timer.Stop()
	select {
	case err := <-acknowledged:
		return err
	case <-timer.C:
		return errNotInTime
	}
}
