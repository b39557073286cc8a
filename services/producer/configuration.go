package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

type configuration struct {
	Stream          stream.Config
	Ledger          ledger.Config
	Telemetry       telemetry.Config
	HTTP            web.Config
	Door            DoorConfig
	Accept          AcceptConfig
	Status          StatusConfig
	Batch           BatchConfig
	Follow          FollowConfig
	BooksInterval   time.Duration `env:"BOOKS_INTERVAL" envDefault:"2s" help:"how often balances and backlog are read and published as metrics, 200ms to 1m"`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" help:"longest time from SIGTERM to the end, 1s to 5m"`
}

// AcceptConfig bounds the taking of payments.
type AcceptConfig struct {
	PublishTimeout time.Duration `env:"PUBLISH_TIMEOUT" envDefault:"5s" help:"for Kafka to acknowledge a payment, 1s to 1m; then the answer is 503, its fate unknown"`
	InFlightMax    int           `env:"PAYMENTS_IN_FLIGHT_MAX" envDefault:"10000" help:"payments that wait for Kafka's acknowledgement, 1 to 1000000; past it the answer is 429"`
	CrashAt        string        `env:"PRODUCER_CRASH_AT" help:"for tests only: POINT:N kills this process at the N-th passage of a step, such as after-published:100; empty: never"`
}

// StatusConfig bounds the asking for the status of payments.
type StatusConfig struct {
	Timeout            time.Duration `env:"STATUS_TIMEOUT" envDefault:"3s" help:"for the ledger to answer, 100ms to 1m; then the answer is 503"`
	InFlightMax        int           `env:"STATUS_IN_FLIGHT_MAX" envDefault:"1000" help:"payments, and as many accounts, whose look-up waits for the ledger, 1 to 100000; past it the answer is 429"`
	IDsMax             int           `env:"LEDGER_LOOKUP_IDS_MAX" envDefault:"8189" help:"ids in one look-up, 134 to 8189; at most the server's own limit (253 for a server started with --development)"`
	LookupPause        time.Duration `env:"LEDGER_LOOKUP_PAUSE" envDefault:"4ms" help:"shortest time from one look-up to the next of the same kind, 0 to 1s; what is asked meanwhile shares a request"`
	QueriesInFlightMax int           `env:"LEDGER_QUERIES_IN_FLIGHT_MAX" envDefault:"64" help:"statements and lists that wait for the ledger, 1 to 10000; past it the answer is 429"`
	PageMax            int           `env:"PAGE_MAX" envDefault:"1000" help:"lines in one page of a statement or list, 1 to 8188; below LEDGER_LOOKUP_IDS_MAX"`
	ClockTolerance     time.Duration `env:"LEDGER_CLOCK_TOLERANCE" envDefault:"2s" help:"how far this clock may be ahead of the ledger's, 0 to 1m; only that long after its timeout is a payment without a verdict called rejected"`
}

// BatchConfig bounds the taking of payments in batches.
type BatchConfig struct {
	LinesMax   int           `env:"BATCH_LINES_MAX" envDefault:"10000" help:"payments in one batch, 1 to 100000"`
	BytesMax   int64         `env:"BATCH_BYTES_MAX" envDefault:"4194304" help:"bytes in one batch, 1024 to 67108864; a line has at most HTTP_BODY_BYTES_MAX"`
	BatchesMax int           `env:"BATCHES_MAX" envDefault:"16" help:"batches at the same time, 1 to 1000; past it the answer is 429"`
	Timeout    time.Duration `env:"BATCH_TIMEOUT" envDefault:"1m" help:"for a whole batch to arrive, 1s to 10m"`
}

// FollowConfig bounds the waiting for payments and the following of them.
type FollowConfig struct {
	WaitMax       time.Duration `env:"WAIT_MAX" envDefault:"30s" help:"longest wait of a submission for its outcome (Prefer: wait=N), 1s to 5m"`
	WaitsMax      int           `env:"WAITS_MAX" envDefault:"1000" help:"submissions that wait at the same time, 1 to 100000; past it the wait is not applied"`
	AskAgain      time.Duration `env:"ASK_AGAIN_INTERVAL" envDefault:"1s" help:"how often the ledger is asked for a payment that someone follows, when no settlement report says that it is time, 10ms to 1m"`
	StreamsMax    int           `env:"STREAMS_MAX" envDefault:"1000" help:"open streams of events, 1 to 100000; past it the answer is 429"`
	StreamTimeMax time.Duration `env:"STREAM_TIME_MAX" envDefault:"1h" help:"how long a stream stays open, 1s to 24h; its client goes on with a new one"`
	KeepAlive     time.Duration `env:"STREAM_KEEP_ALIVE" envDefault:"15s" help:"how often a comment says that a silent stream lives, 100ms to 5m"`
	WritePatience time.Duration `env:"STREAM_WRITE_TIMEOUT" envDefault:"10s" help:"for one event to be written, 100ms to 1m; then the stream ends"`
	HistoriesMax  int           `env:"SETTLEMENT_HISTORIES_MAX" envDefault:"4" help:"streams that read past settlements from Kafka at the same time, 1 to 64; others wait for their turn"`
}

func (c *configuration) Validate() error {
	_, crashErr := parseCrash(c.Accept.CrashAt)
	if err := errors.Join(
		crashErr,
		c.Stream.Validate(), c.Ledger.Validate(), c.Telemetry.Validate(), c.HTTP.Validate(),
		c.Door.Validate(c.HTTP.Loopback()),
		settings.DurationInRange("PUBLISH_TIMEOUT", c.Accept.PublishTimeout, time.Second, time.Minute),
		settings.InRange("PAYMENTS_IN_FLIGHT_MAX", c.Accept.InFlightMax, 1, 1_000_000),
		settings.DurationInRange("STATUS_TIMEOUT", c.Status.Timeout, 100*time.Millisecond, time.Minute),
		settings.InRange("STATUS_IN_FLIGHT_MAX", c.Status.InFlightMax, 1, 100_000),
		settings.InRange("LEDGER_LOOKUP_IDS_MAX", c.Status.IDsMax, 134, 8189), // a payment, its returns and their verdicts
		settings.DurationInRange("LEDGER_LOOKUP_PAUSE", c.Status.LookupPause, 0, time.Second),
		settings.InRange("LEDGER_QUERIES_IN_FLIGHT_MAX", c.Status.QueriesInFlightMax, 1, 10_000),
		settings.InRange("PAGE_MAX", c.Status.PageMax, 1, 8188),
		settings.DurationInRange("LEDGER_CLOCK_TOLERANCE", c.Status.ClockTolerance, 0, time.Minute),
		settings.InRange("BATCH_LINES_MAX", c.Batch.LinesMax, 1, 100_000),
		settings.InRange("BATCH_BYTES_MAX", c.Batch.BytesMax, 1<<10, 64<<20),
		settings.InRange("BATCHES_MAX", c.Batch.BatchesMax, 1, 1000),
		settings.DurationInRange("BATCH_TIMEOUT", c.Batch.Timeout, time.Second, 10*time.Minute),
		settings.DurationInRange("WAIT_MAX", c.Follow.WaitMax, time.Second, 5*time.Minute),
		settings.InRange("WAITS_MAX", c.Follow.WaitsMax, 1, 100_000),
		settings.DurationInRange("ASK_AGAIN_INTERVAL", c.Follow.AskAgain, 10*time.Millisecond, time.Minute),
		settings.InRange("STREAMS_MAX", c.Follow.StreamsMax, 1, 100_000),
		settings.DurationInRange("STREAM_TIME_MAX", c.Follow.StreamTimeMax, time.Second, 24*time.Hour),
		settings.DurationInRange("STREAM_KEEP_ALIVE", c.Follow.KeepAlive, 100*time.Millisecond, 5*time.Minute),
		settings.DurationInRange("STREAM_WRITE_TIMEOUT", c.Follow.WritePatience, 100*time.Millisecond, time.Minute),
		settings.InRange("SETTLEMENT_HISTORIES_MAX", c.Follow.HistoriesMax, 1, 64),
		settings.DurationInRange("BOOKS_INTERVAL", c.BooksInterval, 200*time.Millisecond, time.Minute),
		settings.DurationInRange("SHUTDOWN_TIMEOUT", c.ShutdownTimeout, time.Second, 5*time.Minute),
	); err != nil {
		return err
	}
	// One line more than a page is asked for, to know whether there are more.
	if c.Status.PageMax >= c.Status.IDsMax {
		return fmt.Errorf("PAGE_MAX is %d: it must be below LEDGER_LOOKUP_IDS_MAX, %d", c.Status.PageMax, c.Status.IDsMax)
	}
	// Else those who only wait could keep everyone else out.
	if waiting := c.Follow.WaitsMax + c.Follow.StreamsMax; waiting >= c.HTTP.ConnectionsMax {
		return fmt.Errorf("HTTP_CONNECTIONS_MAX is %d: it must be more than WAITS_MAX and STREAMS_MAX together, %d", c.HTTP.ConnectionsMax, waiting)
	}
	// Else the connection is cut before the answer that names the payment.
	if longest := max(c.Accept.PublishTimeout, c.Status.Timeout) + c.Status.Timeout + c.HTTP.ReadTimeout; c.HTTP.WriteTimeout <= longest {
		return fmt.Errorf("HTTP_WRITE_TIMEOUT is %v: it must be longer than HTTP_READ_TIMEOUT plus STATUS_TIMEOUT plus the longer of PUBLISH_TIMEOUT and STATUS_TIMEOUT, %v", c.HTTP.WriteTimeout, longest)
	}
	return nil
}
