package frontdoor

import (
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/act"
	"github.com/liquida/liquida/services/producer/feed"
	"github.com/liquida/liquida/services/producer/overload"
	"github.com/liquida/liquida/services/producer/query"
	"github.com/liquida/liquida/services/producer/question"
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
	Act             act.Config
	Batch           submission.BatchConfig
	Overload        overload.Config
	Feed            feed.Config
	Question        question.Config
	Pools           web.PoolsConfig
	LedgerLimitGiB  int64         `env:"LEDGER_LIMIT_GIB" envDefault:"16384" range:"2 to 65536" help:"the ledger's --limit-storage, for the alert before its data file is full"`
	BooksInterval   time.Duration `env:"BOOKS_INTERVAL" envDefault:"2s" range:"200ms to 1m" help:"how often balances and backlog are read and published as metrics"`
	ClockOffset     time.Duration `env:"PRODUCER_CLOCK_OFFSET" envDefault:"0s" range:"-24h to 24h" help:"for tests only: added to this producer's clock"`
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" range:"1s to 5m" help:"longest time from SIGTERM to the exit"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	if err := c.Access.Validate(c.HTTP.Loopback()); err != nil {
		return err
	}
	// Otherwise callers that only wait could keep all others out.
	if waiting := c.Feed.WaitsMax + c.Feed.StreamsMax; waiting >= c.HTTP.ConnectionsMax {
		return fmt.Errorf("HTTP_CONNECTIONS_MAX is %d: it must be more than WAITS_MAX and STREAMS_MAX together, %d",
			c.HTTP.ConnectionsMax, waiting)
	}
	// Otherwise the connection is cut before the response that names the payment.
	if longest := max(c.Submission.PublishTimeout, c.Query.Timeout) + c.Query.Timeout +
		c.HTTP.ReadTimeout; c.HTTP.WriteTimeout <= longest {
		return fmt.Errorf("HTTP_WRITE_TIMEOUT is %v: it must be longer than HTTP_READ_TIMEOUT plus STATUS_TIMEOUT plus the longer of PUBLISH_TIMEOUT and STATUS_TIMEOUT, %v",
			c.HTTP.WriteTimeout, longest)
	}
	// The same of a read, which waits for its turn first.
	if longest := c.HTTP.ReadTimeout + c.Query.Reads.WaitMax + c.Query.Timeout; c.HTTP.WriteTimeout <= longest {
		return fmt.Errorf("HTTP_WRITE_TIMEOUT is %v: it must be longer than HTTP_READ_TIMEOUT, LEDGER_READ_WAIT_MAX and STATUS_TIMEOUT together, %v",
			c.HTTP.WriteTimeout, longest)
	}

	return nil
}
