package submission

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

// LogNeed is the name under which WatchLog reports.
const LogNeed = "log"

// logInterval is how long topics and ledger that do not belong together go unnoticed, beside the time of
// a look, if no acknowledgement tells of it before.
const logInterval = 5 * time.Second

// WatchLog compares topics and ledger, until ctx ends, and says to closes whether they belong together: nil, or
// why not. It closes seen after the first look. While broker or ledger is away, what was seen last counts.
// Their own needs say so. While they do not belong together there is no writer; the log that comes then
// has a new one.
func (p *Publisher) WatchLog(ctx context.Context, client tigerbeetle.Client, t *telemetry.Telemetry, closes func(error),
	seen chan<- struct{}) {
	var watch origin.Watch

	for first := true; ; first = false {
		was := p.wrongLog.Load()

		err := p.look(ctx, &watch, client)
		if ctx.Err() != nil {
			return
		}

		wrong, _ := errors.AsType[*origin.Mismatch](err)
		if wrong != nil {
			p.wrongLog.Store(wrong)
			p.writer.Load().close() // nothing of it must go into another log
		} else if err == nil {
			if err = p.goOn(was, &watch); err != nil {
				t.Log.Warn("cannot make a Kafka client for the log; trying again", zap.Error(err))
			}
		}

		if counts := err == nil || wrong != nil || errors.Is(err, origin.ErrUnnamed); counts || first {
			if counts {
				closes(err)
			}

			if err == nil && watch.Found.Unconfirmed {
				err = origin.ErrUnconfirmed
			}
			p.unconfirmed.Store(errors.Is(err, origin.ErrUnconfirmed))

			if t.Health.Report(LogNeed, err) {
				t.Log.Info("compared topics and ledger", zap.Error(err))
			}
		}

		if first {
			close(seen)
		}

		select {
		case <-ctx.Done():
			return
		case <-p.doubted:
			if why := p.wrongLog.Load(); why != nil {
				closes(why)

				if t.Health.Report(LogNeed, why) {
					t.Log.Error("an acknowledgement tells of another log: nothing is taken until topics and ledger were compared",
						zap.Error(why))
				}
			}
		case <-time.After(host.Next(logInterval)):
		}
	}
}

// look compares topics and ledger, and the log with what it was before. If only the latter says that it
// is another one, a second look counts, as in origin.Check.
func (p *Publisher) look(ctx context.Context, watch *origin.Watch, client tigerbeetle.Client) (err error) {
	w := p.writer.Load()
	for range 2 {
		reached := w.reached() // before the look: what is acknowledged meanwhile may lie above its bounds

		if err := watch.Look(ctx, p.client, client); err != nil {
			return err
		}

		if err = w.shrunk(reached, watch.Found); err == nil || !host.Sleep(ctx, time.Second) {
			return err
		}
	}

	return err
}

// goOn goes on with the log that watch has found, unless there was doubt since the look began: was is what
// was wrong then. Each log has a writer of its own.
func (p *Publisher) goOn(was *origin.Mismatch, watch *origin.Watch) error {
	w := p.writer.Load()
	if was != nil || w.log != 0 && w.log != watch.Found.Log {
		if err := p.renew(); err != nil {
			return err
		}
		w = p.writer.Load()
	}

	ends := map[int32]int64{}
	for partition, bounds := range watch.Found.Bounds {
		ends[partition] = bounds.End
	}
	w.log = watch.Found.Log
	w.ends.Store(&ends)
	p.wrongLog.CompareAndSwap(was, nil)

	return nil
}

// closed returns the response to an order while no order may be taken.
func (s *Submissions) closed() *web.Problem {
	return cmp.Or(s.ledger.Closed(), s.ledger.ClockWrong(), s.withoutTopics())
}

// Shut makes the publisher take nothing while there is an error: what is sent would not settle.
func (p *Publisher) Shut(why error) {
	if why == nil {
		p.topicsWrong.Store(nil)
		return
	}
	text := why.Error()
	p.topicsWrong.Store(&text)
}

func (p *Publisher) withoutTopics() *web.Problem {
	if p.unconfirmed.Load() {
		return &web.Problem{Type: web.Kind("acts-only"), Title: "Only acts are taken",
			Status: http.StatusServiceUnavailable, RetryAfter: logInterval,
			Detail: "nothing was sent: " + origin.ErrUnconfirmed.Error()}
	}

	if why := p.topicsWrong.Load(); why != nil {
		return &web.Problem{Type: web.Kind("topics-wrong"), Title: "Kafka's topics are not those of before",
			Status: http.StatusServiceUnavailable, RetryAfter: logInterval,
			Detail: "nothing was sent: " + *why}
	}

	return nil
}
