package bank

import (
	"errors"
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

// Config is the configuration of the service.
type Config struct {
	Stream          stream.Config
	Telemetry       telemetry.Config
	HTTP            web.Config
	Access          AccessConfig
	Bank            ResponseConfig
	Profiles        ProfilesConfig
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" help:"longest time from SIGTERM to the exit, 1s to 5m"`
}

// ResponseConfig bounds the responding.
type ResponseConfig struct {
	Seed            uint64        `env:"SIMULATOR_SEED" envDefault:"1" help:"with the same seed, the same payment gets the same answer"`
	UnansweredMax   int           `env:"SIMULATOR_UNANSWERED_MAX" envDefault:"200000" help:"requests whose answer is delayed or not acknowledged yet, 1000 to 5000000; at the limit, no more are fetched"`
	PollRecordsMax  int           `env:"SIMULATOR_POLL_RECORDS_MAX" envDefault:"5000" help:"requests in one poll, 1 to 100000"`
	SessionTimeout  time.Duration `env:"SIMULATOR_SESSION_TIMEOUT" envDefault:"3s" help:"after how long without a heartbeat the group gives a simulator's partitions to others, 1s to 1m; at least the brokers' group.min.session.timeout.ms"`
	CommitInterval  time.Duration `env:"SIMULATOR_COMMIT_INTERVAL" envDefault:"500ms" help:"time between two commits of offsets, 10ms to 1m"`
	CommitTimeout   time.Duration `env:"SIMULATOR_COMMIT_TIMEOUT" envDefault:"5s" help:"longest time of one commit, 100ms to 1m"`
	MetricSeriesMax int           `env:"SIMULATOR_METRIC_SERIES_MAX" envDefault:"1000" help:"combinations of PSP and reason with a metric of their own, 1 to 100000; all others are counted together"`
	AnswerKeysFile  string        `env:"ANSWER_KEYS_FILE" help:"file of the secrets with which the banks seal their answers, as bootstrap writes it; read at the start; empty: answers have no seal"`
	CrashAt         string        `env:"SIMULATOR_CRASH_AT" help:"for tests: POINT:N kills the process when it passes a step for the N-th time, such as after-answer-produced:100; empty: never"`
}

// ProfilesConfig is how the banks behave until somebody changes it.
type ProfilesConfig struct {
	Initial   string        `env:"SIMULATOR_PROFILES" help:"JSON object of profiles by bank (ISPB or default) or bank/branch, in the form of GET /v1/profiles; they override those of the sandbox"`
	LateDelay time.Duration `env:"SIMULATOR_LATE_DELAY" envDefault:"45s" help:"late_delay_ms of profiles without one, 0 to 10m; choose more than the engine waits"`
	Max       int           `env:"SIMULATOR_PROFILES_MAX" envDefault:"10000" help:"profiles, 10 to 1000000"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	_, profilesErr := c.Profiles.catalog()
	_, crashErr := parseCrash(c.Bank.CrashAt, nil)
	return errors.Join(
		c.Stream.Validate(), c.Telemetry.Validate(), c.HTTP.Validate(), c.Access.Validate(c.HTTP.Loopback()),
		settings.InRange("SIMULATOR_UNANSWERED_MAX", c.Bank.UnansweredMax, 1000, 5_000_000),
		settings.InRange("SIMULATOR_POLL_RECORDS_MAX", c.Bank.PollRecordsMax, 1, 100_000),
		settings.DurationInRange("SIMULATOR_SESSION_TIMEOUT", c.Bank.SessionTimeout, time.Second, time.Minute),
		settings.DurationInRange("SIMULATOR_COMMIT_INTERVAL", c.Bank.CommitInterval, 10*time.Millisecond, time.Minute),
		settings.DurationInRange("SIMULATOR_COMMIT_TIMEOUT", c.Bank.CommitTimeout, 100*time.Millisecond, time.Minute),
		settings.InRange("SIMULATOR_METRIC_SERIES_MAX", c.Bank.MetricSeriesMax, 1, 100_000),
		settings.DurationInRange("SIMULATOR_LATE_DELAY", c.Profiles.LateDelay, 0, decision.DelayMax),
		settings.InRange("SIMULATOR_PROFILES_MAX", c.Profiles.Max, 10, 1_000_000),
		settings.DurationInRange("SHUTDOWN_TIMEOUT", c.ShutdownTimeout, time.Second, 5*time.Minute),
		profilesErr, crashErr,
	)
}

func (c ProfilesConfig) catalog() (*decision.Catalog, error) {
	catalog, err := decision.NewCatalog(c.Initial, c.LateDelay, c.Max)
	if err != nil {
		return nil, fmt.Errorf("SIMULATOR_PROFILES: %w", err)
	}
	return catalog, nil
}
