package engine

import (
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
)

// Config is the configuration of a clearing engine. Every queue, request and wait has its
// limit here, or a limit that follows from one.
type Config struct {
	Telemetry telemetry.Config
	Stream    stream.Config
	Ledger    ledger.Config
	Batch     ledger.BatchConfig

	InstanceID           string        `env:"ENGINE_INSTANCE_ID,expand" help:"name of this instance; a restarted engine of the same name gets its partitions back at once; two running engines must not share a name; ${HOSTNAME} and other variables are filled in; empty: no name"`
	Deadline             time.Duration `env:"ENGINE_DEADLINE" envDefault:"40s" help:"how long a payment may take, from its acceptance; after that it is rejected with AB03; 1s to 10m"`
	PendingTimeout       time.Duration `env:"ENGINE_PENDING_TIMEOUT" envDefault:"60s" help:"when the ledger itself ends a hold; whole seconds, at least ENGINE_DEADLINE + 5s"`
	InFlightMax          int           `env:"ENGINE_IN_FLIGHT_MAX" envDefault:"100000" help:"payments in flight, nearly all of which may wait for their bank; with so many nothing is fetched; 16 to 1000000"`
	WorkingMax           int           `env:"ENGINE_WORKING_MAX" envDefault:"20000" help:"payments in flight that do not wait for their bank, and so queue for the ledger; with so many nothing is fetched; 16 to 1000000"`
	InFlightBytesMax     int64         `env:"ENGINE_IN_FLIGHT_BYTES_MAX" envDefault:"67108864" help:"bytes of messages in flight; with so many nothing is fetched; 1 MiB to 4 GiB"`
	InFlightPSPShare     float64       `env:"ENGINE_IN_FLIGHT_PSP_SHARE" envDefault:"0.25" help:"share of ENGINE_IN_FLIGHT_MAX that may wait for the response of one PSP; more payments to it are rejected with LQ02; PSPs with answers over 5s late have at most half of ENGINE_IN_FLIGHT_MAX together; above 0, up to 1"`
	InFlightPayerShare   float64       `env:"ENGINE_IN_FLIGHT_PAYER_SHARE" envDefault:"0.25" help:"share of ENGINE_IN_FLIGHT_MAX that may wait because of one sending PSP: copies, returns, questions to silent PSPs, dead letters on their way; more copies are dead letters with LQ09, more returns are rejected with LQ11; above 0, up to 1"`
	CopiesMax            int           `env:"ENGINE_COPIES_MAX" envDefault:"64" help:"records that may wait for one order in flight: copies of it, and returns of the payment; more copies are dead letters with LQ09, more returns are rejected with LQ11; 1 to 10000"`
	ReturnsPerSecond     int           `env:"ENGINE_RETURNS_PER_SECOND" envDefault:"10" help:"returns of one payment that may begin in a second, in the long run; 128 may begin at once; more are rejected with LQ11; 1 to 10000"`
	InactiveParticipants []string      `env:"ENGINE_INACTIVE_PARTICIPANTS" help:"ISPBs whose new payments are rejected with DS27, comma-separated"`
	AnswerKeysFile       string        `env:"ANSWER_KEYS_FILE" help:"secrets with which banks seal their responses, as bootstrap writes them; a response without its bank's seal is forged and goes to the dead letters; read at the start; empty: no seals"`
	StandingAfter        time.Duration `env:"ENGINE_STANDING_AFTER" envDefault:"4s" help:"how long a partition may stand still although Kafka has records and there is room, and how long after its deadline a payment may be unfinished; then the engine is not ready, and says which record blocks; 1s to 1m"`
	CommitInterval       time.Duration `env:"ENGINE_COMMIT_INTERVAL" envDefault:"100ms" help:"how often finished offsets are committed; 10ms to 10s"`
	SessionTimeout       time.Duration `env:"ENGINE_SESSION_TIMEOUT" envDefault:"3s" help:"time without a heartbeat after which another engine takes over; the broker's group.min.session.timeout.ms must allow it; 1s to 1m"`
	RevokeDrain          time.Duration `env:"ENGINE_REVOKE_DRAIN" envDefault:"1s" help:"how long payments in flight may take to finish before their partition is handed over or the engine stops; 0s to 10s"`
	ClockSkewMax         time.Duration `env:"ENGINE_CLOCK_SKEW_MAX" envDefault:"2s" help:"greatest difference to the ledger's clock; with more the engine is not ready and fetches nothing; 100ms to 10s"`
	PulseInterval        time.Duration `env:"ENGINE_PULSE_INTERVAL" envDefault:"5s" help:"how often the ledger and its clock are probed; without a result for half of this time the engine is not ready; 1s to 1m"`
	CrashAt              string        `env:"ENGINE_CRASH_AT" help:"for tests only: POINT:N kills this process at the N-th passage of a step, such as after-phase-1-answered:100; empty: never"`
	ClockOffset          time.Duration `env:"ENGINE_CLOCK_OFFSET" envDefault:"0s" help:"for tests only: added to this engine's clock; -24h to 24h"`
	ShutdownTimeout      time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" help:"how long an orderly stop may take: drain, commit, close; 1s to 5m"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	for _, err := range []error{
		c.Telemetry.Validate(), c.Stream.Validate(), c.Ledger.Validate(), c.Batch.Validate(),
		settings.DurationInRange("ENGINE_DEADLINE", c.Deadline, time.Second, 10*time.Minute),
		settings.DurationInRange("ENGINE_PENDING_TIMEOUT", c.PendingTimeout, c.Deadline+5*time.Second, time.Hour),
		settings.InRange("ENGINE_IN_FLIGHT_MAX", c.InFlightMax, 16, 1_000_000),
		settings.InRange("ENGINE_WORKING_MAX", c.WorkingMax, 16, 1_000_000),
		settings.InRange("ENGINE_IN_FLIGHT_BYTES_MAX", c.InFlightBytesMax, 1<<20, 4<<30),
		settings.InRange("ENGINE_RETURNS_PER_SECOND", c.ReturnsPerSecond, 1, 10_000),
		settings.InRange("ENGINE_COPIES_MAX", c.CopiesMax, 1, 10_000),
		settings.DurationInRange("ENGINE_STANDING_AFTER", c.StandingAfter, time.Second, time.Minute),
		settings.DurationInRange("ENGINE_COMMIT_INTERVAL", c.CommitInterval, 10*time.Millisecond, 10*time.Second),
		settings.DurationInRange("ENGINE_SESSION_TIMEOUT", c.SessionTimeout, time.Second, time.Minute),
		settings.DurationInRange("ENGINE_REVOKE_DRAIN", c.RevokeDrain, 0, 10*time.Second),
		settings.DurationInRange("ENGINE_CLOCK_SKEW_MAX", c.ClockSkewMax, 100*time.Millisecond, 10*time.Second),
		settings.DurationInRange("ENGINE_PULSE_INTERVAL", c.PulseInterval, time.Second, time.Minute),
		settings.DurationInRange("ENGINE_CLOCK_OFFSET", c.ClockOffset, -24*time.Hour, 24*time.Hour),
		settings.DurationInRange("SHUTDOWN_TIMEOUT", c.ShutdownTimeout, time.Second, 5*time.Minute),
	} {
		if err != nil {
			return err
		}
	}
	if c.PendingTimeout%time.Second != 0 {
		return fmt.Errorf("ENGINE_PENDING_TIMEOUT is %v: it must be whole seconds", c.PendingTimeout)
	}
	for name, share := range map[string]float64{"ENGINE_IN_FLIGHT_PSP_SHARE": c.InFlightPSPShare, "ENGINE_IN_FLIGHT_PAYER_SHARE": c.InFlightPayerShare} {
		if !(share > 0 && share <= 1) {
			return fmt.Errorf("%s is %v: it must be above 0 and at most 1", name, share)
		}
	}
	if _, err := parseCrash(c.CrashAt, nil); err != nil {
		return err
	}
	if least := len(ledger.AppendReturnTraceIDs(nil, pix.ReturnID{}, pix.EndToEndID{})); c.Batch.EventsMax < least {
		return fmt.Errorf("LEDGER_BATCH_EVENTS_MAX is %d: for an engine it must be at least %d, because a return is looked up with all slots of its payment", c.Batch.EventsMax, least)
	}
	for _, ispb := range c.InactiveParticipants {
		if _, err := pix.ParseISPB(ispb); err != nil {
			return fmt.Errorf("ENGINE_INACTIVE_PARTICIPANTS: %w", err)
		}
	}
	return nil
}
