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
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

// status answers what became of a payment, from the ledger alone.
type status struct {
	config StatusConfig
	client tigerbeetle.Client
	reader *ledger.Reader[question, tb.Transfer]
	// failures gets what the client cannot recover from: an evicted session, a version
	// that does not fit. The process must end.
	failures chan error
	// slots bounds the questions that the ledger has not answered. One that its request
	// has given up keeps its slot: the look-up still waits.
	slots chan struct{}
}

// question is where an answer of the ledger goes.
type question chan []tb.Transfer

// newStatus does not wait for the ledger.
func newStatus(config StatusConfig, at ledger.Config, t *telemetry.Telemetry) (*status, error) {
	client, err := ledger.Connect(at)
	if err != nil {
		return nil, err
	}
	s := &status{config: config, client: client, failures: make(chan error, 1), slots: make(chan struct{}, config.InFlightMax)}
	s.reader = ledger.NewTransferReader(client, ledger.BatchConfig{EventsMax: config.IDsMax}, t.Registry,
		func(q question, found []tb.Transfer) {
			q <- found
			<-s.slots
		}, s.failed)
	return s, nil
}

func (s *status) failed(err error) {
	select {
	case s.failures <- err:
	default: // the first one ends the process
	}
}

// stop closes the client. With the ledger away a look-up never returns, and the process
// ends without it.
func (s *status) stop(ctx context.Context) error {
	s.reader.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.client.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return errors.New("the ledger's client did not close in time: a look-up waits for the ledger")
	}
}

// settlement is the body of GET /v1/payments/{endToEndId}.
type settlement struct {
	EndToEndID string     `json:"end_to_end_id"`
	Status     string     `json:"status"` // settled, rejected or reserved
	ReasonCode string     `json:"reason_code,omitempty"`
	ReservedAt *time.Time `json:"reserved_at,omitempty"` // by the ledger's clock, as all times here
	DecidedAt  *time.Time `json:"decided_at,omitempty"`
}

// ServeHTTP answers GET /v1/payments/{endToEndId}.
func (s *status) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("endToEndId")
	id, err := pix.ParseEndToEndID(text)
	if err != nil {
		invalid("", "end_to_end_id", text, pix.ReasonBadEndToEndID, err.Error()).Write(w)
		return
	}
	found, problem := s.lookUp(r.Context(), id)
	if problem != nil {
		problem.Write(w)
		return
	}
	answer, known := settlementOf(id, found, time.Now().Add(-s.config.ClockTolerance))
	if !known {
		(&web.Problem{Type: web.Kind("unknown-payment"), Title: "Unknown payment", Status: http.StatusNotFound, EndToEndID: text,
			Detail: "not in the ledger yet: it was never sent, or waits to be taken up, or was refused to the dead letters as no valid payment"}).Write(w)
		return
	}
	web.WriteJSON(w, http.StatusOK, answer)
}

// settlementOf says what the ledger's transfers mean for a payment. now is by the
// ledger's clock: called rejected too early, a payment could still settle.
func settlementOf(id pix.EndToEndID, found []tb.Transfer, now time.Time) (settlement, bool) {
	trace := ledger.TraceOf(id, found)
	answer := settlement{EndToEndID: id.String()}
	if trace.Held() {
		at := trace.HeldAt()
		answer.ReservedAt = &at
	}
	verdict, decided := trace.Verdict()
	switch {
	case decided:
		answer.Status, answer.ReasonCode, answer.DecidedAt = "rejected", verdict.Reason.String(), &verdict.Time
		if verdict.Settled {
			answer.Status = "settled"
		}
	case !trace.Held():
		return settlement{}, false
	case now.After(trace.ExpiresAt()):
		// The ledger has released the money, and no verdict but this one can follow.
		answer.Status, answer.ReasonCode = "rejected", pix.ReasonPayeePSPSilent.String()
	default:
		answer.Status = "reserved"
	}
	return answer, true
}

// lookUp returns within the timeout, whatever the ledger does.
func (s *status) lookUp(ctx context.Context, id pix.EndToEndID) ([]tb.Transfer, *web.Problem) {
	select {
	case s.slots <- struct{}{}:
	default:
		return nil, &web.Problem{Type: web.Kind("busy"), Title: "Too many questions in flight", Status: http.StatusTooManyRequests, RetryAfter: time.Second,
			Detail: fmt.Sprintf("%d questions wait for the ledger: ask again after a pause", cap(s.slots)), EndToEndID: id.String()}
	}
	answer := make(question, 1)
	s.reader.Read(answer, ledger.AppendTraceIDs(nil, id))
	timer := time.NewTimer(s.config.Timeout)
	defer timer.Stop()
	select {
	case found := <-answer:
		return found, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, &web.Problem{Type: web.Kind("ledger-away"), Title: "The ledger does not answer", Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("no answer within STATUS_TIMEOUT (%v): ask again later", s.config.Timeout), EndToEndID: id.String()}
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
func (s *status) watch(ctx context.Context, t *telemetry.Telemetry) {
	answers := make(chan error, 1)
	for {
		go func() {
			_, err := s.client.LookupAccounts([]tb.Uint128{ledger.IssuanceAccount})
			answers <- err
		}()
		var err error
		select {
		case err = <-answers:
		case <-ctx.Done():
			return
		case <-time.After(watchPatience):
			report(t, fmt.Errorf("no answer within %v; is TIGERBEETLE_ADDRESSES right, and TIGERBEETLE_CLUSTER_ID?", watchPatience))
			select {
			case err = <-answers:
			case <-ctx.Done():
				return
			}
		}
		report(t, err)
		if err != nil {
			s.failed(fmt.Errorf("the ledger's client has failed: %w", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchEvery):
		}
	}
}

func report(t *telemetry.Telemetry, err error) {
	if !t.Health.Report(ledgerNeed, err) {
		return
	}
	if err != nil {
		t.Log.Warn("the ledger is away", zap.Error(err))
	} else {
		t.Log.Info("the ledger answers")
	}
}
