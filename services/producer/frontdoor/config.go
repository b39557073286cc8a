package frontdoor

import (
	"errors"
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/overload"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/submission"
)

// Config is the configuration of the service.
type Config struct {
	Stream          stream.Config
	Ledger          ledger.Config
	Telemetry       telemetry.Config
	HTTP            web.Config
	Access          access.Config
	Submission      submission.Config
	Query           query.Config
	Batch           submission.BatchConfig
	Overload        overload.Config
	Feed            feed.Config
	Pools           web.PoolsConfig
	BooksInterval   time.Duration `env:"BOOKS_INTERVAL" envDefault:"2s" help:"how often balances and backlog are read and published as metrics, 200ms to 1m"`
	ClockOffset     time.Duration `env:"PRODUCER_CLOCK_OFFSET" envDefault:"0s" help:"for tests only: added to this producer's clock; -24h to 24h"`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" help:"longest time from SIGTERM to the exit, 1s to 5m"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	if err := errors.Join(
		c.Stream.Validate(), c.Ledger.Validate(), c.Telemetry.Validate(), c.HTTP.Validate(), c.Access.Validate(c.HTTP.Loopback()),
		c.Submission.Validate(), c.Query.Validate(), c.Batch.Validate(), c.Overload.Validate(), c.Feed.Validate(), c.Pools.Validate(),
		settings.DurationInRange("BOOKS_INTERVAL", c.BooksInterval, 200*time.Millisecond, time.Minute),
		settings.DurationInRange("PRODUCER_CLOCK_OFFSET", c.ClockOffset, -24*time.Hour, 24*time.Hour),
		settings.DurationInRange("SHUTDOWN_TIMEOUT", c.ShutdownTimeout, time.Second, 5*time.Minute),
	); err != nil {
		return err
	}
	// Otherwise callers that only wait could keep all others out.
	if waiting := c.Feed.WaitsMax + c.Feed.StreamsMax; waiting >= c.HTTP.ConnectionsMax {
		return fmt.Errorf("HTTP_CONNECTIONS_MAX is %d: it must be more than WAITS_MAX and STREAMS_MAX together, %d", c.HTTP.ConnectionsMax, waiting)
	}
	// Otherwise the connection is cut before the response that names the payment.
	if longest := max(c.Submission.PublishTimeout, c.Query.Timeout) + c.Query.Timeout + c.HTTP.ReadTimeout; c.HTTP.WriteTimeout <= longest {
		return fmt.Errorf("HTTP_WRITE_TIMEOUT is %v: it must be longer than HTTP_READ_TIMEOUT plus STATUS_TIMEOUT plus the longer of PUBLISH_TIMEOUT and STATUS_TIMEOUT, %v", c.HTTP.WriteTimeout, longest)
	}
	return nil
}
