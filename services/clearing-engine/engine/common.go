package engine

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/services/clearing-engine/metrics"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// common is what the partitions of one engine share.
type common struct {
	config                *Config
	on                    host.Host
	pendingTimeoutSeconds uint32
	log                   *zap.Logger
	crash                 *crash.Crash // nil but in tests

	register registry
	room     *room.Room
	metrics  *metrics.Metrics

	unasked, recoded complaints // by responses

	// moved holds a token if a partition did something since commitRegularly took it.
	moved chan struct{}

	// aheadOfLedger is this machine's clock minus the ledger's, nanoseconds, as the last pulse found it.
	aheadOfLedger atomic.Int64
}

// registry is the register of participants: what it says, and whether that is fresh. The engine has
// the ledger's, except in a test that tries every order of events.
type registry interface {
	Current() (*register.State, bool)
}

// now is the wall clock, which a test can make wrong. Only what is compared with another
// clock is read here.
func (c *common) now() time.Time { return c.on.Now().Add(c.config.ClockOffset) }
