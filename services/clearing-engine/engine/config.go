package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// Config is the configuration of a clearing engine. Every queue, request and wait has a limit: one
// of these, one that follows from them, or a constant beside its code.
type Config struct {
	Telemetry telemetry.Config
	Stream    stream.Config
	Ledger    ledger.Config
	Batch     ledger.BatchConfig

	InstanceID         string        `env:"ENGINE_INSTANCE_ID,expand" help:"name of this instance; a restarted engine of the same name gets its partitions back at once; two running engines must not share a name; ${HOSTNAME} and other variables are filled in; empty: no name"`
	Deadline           time.Duration `env:"ENGINE_DEADLINE" envDefault:"40s" range:"1s to 10m" help:"how long a payment may take, from its acceptance; after that it is rejected with AB03"`
	PendingTimeout     time.Duration `env:"ENGINE_PENDING_TIMEOUT" envDefault:"60s" help:"when the ledger itself ends a hold; whole seconds, at least ENGINE_DEADLINE + 5s"`
	InFlightMax        int           `env:"ENGINE_IN_FLIGHT_MAX" envDefault:"100000" range:"16 to 1000000" help:"payments in flight, nearly all of which may wait for their bank; with so many nothing is fetched"`
	WorkingMax         int           `env:"ENGINE_WORKING_MAX" envDefault:"20000" range:"16 to 1000000" help:"payments in flight that queue for the ledger; with so many nothing is fetched"`
	InFlightBytesMax   int64         `env:"ENGINE_IN_FLIGHT_BYTES_MAX" envDefault:"67108864" range:"1048576 to 4294967296" help:"bytes of messages in flight; with so many nothing is fetched"`
	InFlightPSPShare   float64       `env:"ENGINE_IN_FLIGHT_PSP_SHARE" envDefault:"0.25" help:"share of ENGINE_IN_FLIGHT_MAX that may wait for one PSP; more payments are rejected with LQ02; payees that answer nothing for 2 s have a quarter of it, all PSPs with questions over 5 s old half of ENGINE_IN_FLIGHT_MAX; above 0, up to 1 for no limit"`
	InFlightPayerShare float64       `env:"ENGINE_IN_FLIGHT_PAYER_SHARE" envDefault:"0.25" help:"share of ENGINE_IN_FLIGHT_MAX that may wait because of one sending PSP: copies, returns, questions to silent PSPs, dead letters; more are LQ09, LQ11 or LQ02; above 0, up to 1"`
	CopiesMax          int           `env:"ENGINE_COPIES_MAX" envDefault:"64" range:"1 to 10000" help:"copies of one order in flight, and returns of its payment, that may wait for it; more copies are dead letters with LQ09, more returns are rejected with LQ11"`
	ReturnsPerSecond   int           `env:"ENGINE_RETURNS_PER_SECOND" envDefault:"10" range:"1 to 10000" help:"returns of one payment that may begin in a second, in the long run, and 128 at once; more are rejected with LQ11"`
	AnswerKeysFile     string        `env:"ANSWER_KEYS_FILE" help:"secrets with which banks seal their responses, as bootstrap writes them; a response without its bank's seal, or with a revoked one, is forged; read again when it changes; empty: no seals"`
	StandingAfter      time.Duration `env:"ENGINE_STANDING_AFTER" envDefault:"4s" range:"1s to 1m" help:"how long a partition may stand still although Kafka has records and there is room, and a payment be unfinished after its deadline, until the engine is not ready and says so"`
	CommitInterval     time.Duration `env:"ENGINE_COMMIT_INTERVAL" envDefault:"100ms" range:"10ms to 200ms" help:"how often finished offsets are committed, and with them what is taken; at most a fifth of the smallest SHED_AGE"`
	SessionTimeout     time.Duration `env:"ENGINE_SESSION_TIMEOUT" envDefault:"3s" range:"1s to 1m" help:"time without a heartbeat after which another engine takes over; at least the brokers' group.min.session.timeout.ms"`
	RevokeDrain        time.Duration `env:"ENGINE_REVOKE_DRAIN" envDefault:"1s" range:"0 to 10s" help:"how long payments in flight may take to finish before their partition is handed over or the engine stops"`
	ClockSkewMax       time.Duration `env:"ENGINE_CLOCK_SKEW_MAX" envDefault:"2s" range:"100ms to 10s" help:"greatest difference to the ledger's clock; with more the engine is not ready and fetches nothing"`
	PulseInterval      time.Duration `env:"ENGINE_PULSE_INTERVAL" envDefault:"5s" range:"1s to 1m" help:"how often the ledger and its clock are probed; without a result for half of this time the engine is not ready; more than ENGINE_PENDING_TIMEOUT less ENGINE_DEADLINE makes the ledger slower"`
	CrashAt            string        `env:"ENGINE_CRASH_AT" help:"for tests only: POINT:N kills this process at the N-th passage of a step, such as after-phase-1-answered:100; empty: never"`
	ClockOffset        time.Duration // for tests: added to this engine's clock
	ShutdownTimeout    time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" range:"1s to 5m" help:"longest time from SIGTERM to the exit"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	if err := settings.InRange("ENGINE_PENDING_TIMEOUT", c.PendingTimeout, c.Deadline+5*time.Second,
		time.Hour); err != nil {
		return err
	}

	if c.PendingTimeout%time.Second != 0 {
		return fmt.Errorf("ENGINE_PENDING_TIMEOUT is %v: it must be whole seconds", c.PendingTimeout)
	}

	if err := errors.Join(
		settings.Share("ENGINE_IN_FLIGHT_PSP_SHARE", c.InFlightPSPShare),
		settings.Share("ENGINE_IN_FLIGHT_PAYER_SHARE", c.InFlightPayerShare),
	); err != nil {
		return err
	}

	if _, err := parseCrash(c.CrashAt, nil); err != nil {
		return err
	}

	if least := len(ledger.AppendReturnTraceIDs(nil, pix.ReturnID{}, pix.EndToEndID{})); c.Batch.EventsMax < least {
		return fmt.Errorf("LEDGER_BATCH_EVENTS_MAX is %d: for an engine it must be at least %d, because a return is looked up with all slots of its payment",
			c.Batch.EventsMax, least)
	}

	return nil
}

func (c *Config) limits() room.Limits {
	return room.Limits{Payments: c.InFlightMax, Working: c.WorkingMax, Bytes: c.InFlightBytesMax,
		PSPShare: c.InFlightPSPShare, PayerShare: c.InFlightPayerShare}
}
