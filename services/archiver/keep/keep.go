// Package keep keeps an archive of the ledger, as a service.
package keep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
)

// Config is the configuration of an archiver.
type Config struct {
	Telemetry telemetry.Config
	Ledger    ledger.Config

	Folder    string        `env:"ARCHIVE_DIR" envDefault:"archive" help:"folder of the archive, or s3://bucket/prefix?region=REGION, one for each ledger"`
	Interval  time.Duration `env:"ARCHIVE_INTERVAL" envDefault:"1s" range:"100ms to 1m" help:"how often the ledger is asked what is new, once all is read"`
	Share     float64       `env:"ARCHIVE_LEDGER_SHARE" envDefault:"0.01" help:"share of the ledger's time that this archiver may take while payments wait; above 0, up to 1 for no limit"`
	RowsMax   int           `env:"ARCHIVE_SEGMENT_ROWS_MAX" envDefault:"100000" range:"1000 to 1000000" help:"rows after which a segment ends within its minute, two kilobytes of memory each, and four while a day is merged; keep it for the life of a ledger"`
	EventsMax int           `env:"LEDGER_BATCH_EVENTS_MAX" envDefault:"8189" range:"8 to 8189" help:"accounts or transfers in one request to the ledger, of an engine at least 134; at most the server's own limit (253 if it was started with --development)"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	if c.Folder == "" {
		return errors.New("ARCHIVE_DIR is empty: it must be a folder, or s3://bucket/prefix")
	}

	if _, err := store.Open(context.Background(), c.Folder); err != nil {
		return fmt.Errorf("ARCHIVE_DIR: %w", err)
	}

	return settings.Share("ARCHIVE_LEDGER_SHARE", c.Share)
}

// What the service needs to be ready.
const (
	ledgerNeed  = "ledger"  // it answers, and is the archive's
	archiveNeed = "archive" // the last segment was stored
)

// stuckAfter is how long an answer of the ledger may take before the archiver is not ready.
const stuckAfter = 10 * time.Second

// keeper is the running service.
type keeper struct {
	config *Config
	on     host.Host
	client tigerbeetle.Client
	store  archive.Store
	t      *telemetry.Telemetry

	segments, rows prometheus.Counter
	end, open      prometheus.Gauge
	since          atomic.Uint64 // the ledger's time of the oldest thing that is in no segment; 0: there is none

	lock  sync.Mutex
	ended []archive.Manifest // the last segments of days whose files are to be merged
	told  map[string]bool    // days that were among them
}

// Run archives until ctx ends. What is killed at any moment goes on where the archive ends. It returns an error if it
// must not go on: the ledger is not the archive's, or has what this version cannot bring back. A full disk and an
// absent ledger are waited for.
func Run(ctx context.Context, config *Config, on host.Host, client tigerbeetle.Client) error {
	in, err := store.Open(ctx, config.Folder)
	if err != nil {
		return err
	}

	t, err := telemetry.Start("archiver", config.Telemetry, on)
	if err != nil {
		return err
	}
	defer t.Stop()
	t.Health.Need(ledgerNeed)
	t.Health.Need(archiveNeed)
	metrics := promauto.With(t.Registry)
	k := &keeper{
		config: config, on: on, client: client, store: in, t: t, told: map[string]bool{},
		segments: metrics.NewCounter(
			prometheus.CounterOpts{Name: "pix_archive_segments_total",
				Help: "Segments that this archiver has stored."}),
		rows: metrics.NewCounter(
			prometheus.CounterOpts{Name: "pix_archive_rows_total",
				Help: "Rows in the segments that this archiver has stored."}),
		end: metrics.NewGauge(
			prometheus.GaugeOpts{Name: "pix_archive_end_seconds",
				Help: "Where the archive ends, by the ledger's clock, in Unix seconds. 0: it has no segment."}),
		open: metrics.NewGauge(
			prometheus.GaugeOpts{Name: "pix_archive_rows_waiting",
				Help: "Rows in memory, of the segment that has not ended."}),
	}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{Name: "pix_archive_lag_seconds",
		Help: "Age of the oldest thing in the ledger that is in no segment yet, as far as it is known: what a loss of the ledger would leave to the topics alone. It grows while nothing can be archived."},
		k.lag)
	t.Log.Info("started", zap.Stringer("archive", k.store))
	var merging sync.WaitGroup
	defer merging.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	merging.Go(func() { k.mergeDays(ctx) })

	for {
		err := k.follow(ctx)
		// what comes from now on waits, whether it was read or not
		k.since.CompareAndSwap(0, uint64(on.Now().UnixNano()))

		if ctx.Err() != nil {
			t.Log.Info("stopped", zap.NamedError("because_of", context.Cause(ctx)))
			return nil
		}

		if errors.As(err, new(*past.Wrong)) {
			t.Log.Error("the archive must not go on", zap.Error(err))
			return err
		}

		if errors.Is(err, past.ErrNoLedger) {
			t.Health.Report(ledgerNeed, err)
			t.Log.Info("waiting for the ledger", zap.Error(err))
		} else {
			t.Health.Report(archiveNeed, err)
			t.Log.Error("cannot archive, trying again", zap.Error(err))
		}
		host.Sleep(ctx, retryAfter)
	}
}

const retryAfter = 2 * time.Second

// follow opens the archive, and stores what comes, until something goes wrong. Whatever was not stored is read again.
func (k *keeper) follow(ctx context.Context) error {
	a, err := past.New(ctx, k.client, k.config.EventsMax, k.store, k.config.RowsMax)
	if err != nil {
		return err
	}
	k.t.Health.Report(ledgerNeed, nil)
	k.t.Health.Report(archiveNeed, nil)

	for {
		late := time.AfterFunc(stuckAfter, func() {
			k.t.Health.Report(ledgerNeed, fmt.Errorf("no answer for %v", stuckAfter))
		})
		began := time.Now()
		p, all, err := a.Step(ctx)
		took := time.Since(began)

		if !late.Stop() && err == nil {
			k.t.Health.Report(ledgerNeed, nil)
		}

		if err != nil {
			return err
		}
		k.tell(p)

		pause := pause(p, k.config.Share)
		if all {
			pause = max(pause, host.Next(k.config.Interval))
		}
		k.t.Log.Debug("read", zap.Int("transfers", p.Read), zap.Duration("took", took))

		if !host.Sleep(ctx, pause) {
			return nil
		}
	}
}

// tell brings the metrics up to date.
func (k *keeper) tell(p past.Progress) {
	for _, m := range p.Stored {
		k.segments.Inc()
		k.rows.Add(float64(m.Payments + m.Records + m.Accounts))
		k.t.Log.Info("stored a segment", zap.String("segment", m.Name), zap.Int("payments", m.Payments),
			zap.Int("records", m.Records), zap.Int("accounts", m.Accounts), zap.String("chain", m.Chain))
	}
	k.lock.Lock()
	for _, end := range p.Ended { // all of them each time that the archive is opened
		if !k.told[end.Day] {
			k.told[end.Day] = true
			k.ended = append(k.ended, end)
		}
	}
	k.lock.Unlock()
	k.open.Set(float64(p.Waiting))
	k.end.Set(float64(p.Last.To) / 1e9)
	k.since.Store(p.Since)
}

// mergeDays makes one file of each finished day's, while the archive goes on.
func (k *keeper) mergeDays(ctx context.Context) {
	for host.Sleep(ctx, host.Next(k.config.Interval)) {
		k.lock.Lock()
		ended := k.ended
		k.ended = nil
		k.lock.Unlock()

		for _, end := range ended {
			err := archive.Merge(ctx, k.store, end)
			if err == nil || ctx.Err() != nil {
				continue
			}
			k.t.Log.Error("cannot merge the files of a finished day, trying again", zap.Error(err))
			k.lock.Lock()
			k.ended = append(k.ended, end)
			k.lock.Unlock()
			host.Sleep(ctx, mergeAgainAfter)
		}
	}
}

// mergeAgainAfter is long: a try reads the whole day.
const mergeAgainAfter = time.Minute

func (k *keeper) lag() float64 {
	since := k.since.Load()
	if since == 0 {
		return 0
	}

	return max(0, k.on.Now().Sub(time.Unix(0, int64(since))).Seconds())
}

// The time that a page takes of the ledger, measured on two cores: an empty one, and for each transfer.
const (
	requestCost  = 500 * time.Microsecond
	transferCost = time.Microsecond
)

// pause returns how long to leave the ledger alone. A page that was under way for much longer than it costs has waited
// behind payments.
func pause(p past.Progress, share float64) time.Duration {
	cost := requestCost + time.Duration(p.Read)*transferCost
	if p.Asked < 3*cost {
		return 0
	}

	return time.Duration(float64(cost)/share) - cost
}
