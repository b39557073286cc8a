package engine

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
)

// common is what the partitions of one engine share.
type common struct {
	config                *Config
	on                    host.Host
	started               time.Time
	pendingTimeoutSeconds uint32
	log                   *zap.Logger
	crash                 *crash.Crash // nil but in tests

	register     registry
	room         *room
	participants *participants
	shares       *shares
	metrics      *metrics

	unasked, recoded complaints // by responses
}

// registry is the register of participants: what it says, and whether that is fresh. The engine has
// the ledger's, except in a test that tries every order of events.
type registry interface {
	Current() (*register.State, bool)
}

// second is the age of this process in seconds, by the monotonic clock.
func (c *common) second(now time.Time) int64 { return int64(now.Sub(c.started) / time.Second) }

// now is the wall clock, which a test can make wrong. Only what is compared with another
// clock is read here.
func (c *common) now() time.Time { return c.on.Now().Add(c.config.ClockOffset) }

// refused counts an order or a copy that was refused, if that was to protect others.
func (c *common) refused(sender pix.ISPB, reason pix.Reason) {
	if slices.Contains(protecting, reason) {
		c.metrics.refusals.WithLabelValues(c.participants.label(sender), reason.String()).Inc()
	}
}
