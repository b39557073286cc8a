package submission

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

// LogNeed is the name under which WatchLog reports.
const LogNeed = "log"

// logInterval is how long a log that is not the ledger's goes unnoticed, beside the time of
// a look.
const logInterval = 5 * time.Second

// WatchLog compares the log of pix.payments with the ledger, until ctx ends. It closes seen
// after the first look.
func (p *Publisher) WatchLog(ctx context.Context, client tigerbeetle.Client, t *telemetry.Telemetry, seen chan<- struct{}) {
	var watch origin.Watch
	for first := true; ; first = false {
		err := watch.Look(ctx, p.client, client)
		if ctx.Err() != nil {
			return
		}
		wrong, _ := errors.AsType[*origin.Mismatch](err)
		if wrong != nil || err == nil {
			p.wrongLog.Store(wrong)
		}
		if wrong != nil { // the topic may have been made anew, and the client would go on with the id of the old one
			p.client.PurgeTopicsFromProducing(stream.Payments)
		}
		// While broker or ledger is away, what was seen last counts. Their own needs say so.
		if (wrong != nil || err == nil || first) && t.Health.Report(LogNeed, err) {
			t.Log.Info("compared the log with the ledger", zap.Error(err))
		}
		if first {
			close(seen)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(logInterval):
		}
	}
}

// closed returns the response to an order while no order may be taken.
func (s *Submissions) closed() *web.Problem {
	return cmp.Or(s.ledger.ClockWrong(), s.logWrong())
}

// logWrong returns the response to an order while the log is not the ledger's: no engine
// would ever clear it.
func (p *Publisher) logWrong() *web.Problem {
	if wrong := p.wrongLog.Load(); wrong != nil {
		return &web.Problem{Type: web.Kind("log-wrong"), Title: "The log is not the ledger's", Status: http.StatusServiceUnavailable, RetryAfter: logInterval,
			Detail: "nothing was sent: " + wrong.Error()}
	}
	return nil
}
