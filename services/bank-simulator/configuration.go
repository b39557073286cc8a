package main

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

type configuration struct {
	Stream          stream.Config
	Telemetry       telemetry.Config
	HTTP            web.Config
	Lock            LockConfig
	Bank            BankConfig
	Profiles        ProfilesConfig
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" help:"longest time from SIGTERM to the end, 1s to 5m"`
}

// BankConfig is what answering needs.
type BankConfig struct {
	Seed            uint64        `env:"SIMULATOR_SEED" envDefault:"1" help:"the same seed gives the same answer to the same payment"`
	UnansweredMax   int           `env:"SIMULATOR_UNANSWERED_MAX" envDefault:"200000" help:"requests that wait for their answer's time or its acknowledgement, 1000 to 5000000; at the limit no requests are fetched"`
	PollRecordsMax  int           `env:"SIMULATOR_POLL_RECORDS_MAX" envDefault:"5000" help:"requests taken at once, 1 to 100000"`
	SessionTimeout  time.Duration `env:"SIMULATOR_SESSION_TIMEOUT" envDefault:"3s" help:"how long the group waits for a simulator that fell silent, 1s to 1m; the brokers' group.min.session.timeout.ms must allow it"`
	CommitInterval  time.Duration `env:"SIMULATOR_COMMIT_INTERVAL" envDefault:"500ms" help:"from one commit of offsets to the next, 10ms to 1m"`
	CommitTimeout   time.Duration `env:"SIMULATOR_COMMIT_TIMEOUT" envDefault:"5s" help:"longest time of one commit, 100ms to 1m"`
	MetricSeriesMax int           `env:"SIMULATOR_METRIC_SERIES_MAX" envDefault:"1000" help:"combinations of PSP and reason that are counted apart, 1 to 100000; the rest is counted as others"`
	AnswerKeysFile  string        `env:"ANSWER_KEYS_FILE" help:"secrets with which the banks seal their answers, as bootstrap writes them; read at the start; empty: answers have no seal"`
	CrashAt         string        `env:"SIMULATOR_CRASH_AT" help:"for tests only: POINT:N kills this process at the N-th passage of a step, such as after-answer-produced:100; empty: never"`
}

// ProfilesConfig is how the banks behave at the start.
type ProfilesConfig struct {
	Initial   string        `env:"SIMULATOR_PROFILES" help:"JSON object of profiles by bank (ISPB or default) or bank/branch, as GET /v1/profiles shows them; over the sandbox's"`
	LateDelay time.Duration `env:"SIMULATOR_LATE_DELAY" envDefault:"45s" help:"late_delay_ms of profiles that do not say it, 0 to 10m; longer than the engine waits"`
	Max       int           `env:"SIMULATOR_PROFILES_MAX" envDefault:"10000" help:"number of profiles, 10 to 1000000"`
}

func (c *configuration) Validate() error {
	_, err := c.Profiles.book()
	_, crashErr := parseCrash(c.Bank.CrashAt)
	return errors.Join(
		c.Stream.Validate(), c.Telemetry.Validate(), c.HTTP.Validate(), c.Lock.Validate(c.HTTP.Loopback()),
		settings.InRange("SIMULATOR_UNANSWERED_MAX", c.Bank.UnansweredMax, 1000, 5_000_000),
		settings.InRange("SIMULATOR_POLL_RECORDS_MAX", c.Bank.PollRecordsMax, 1, 100_000),
		settings.DurationInRange("SIMULATOR_SESSION_TIMEOUT", c.Bank.SessionTimeout, time.Second, time.Minute),
		settings.DurationInRange("SIMULATOR_COMMIT_INTERVAL", c.Bank.CommitInterval, 10*time.Millisecond, time.Minute),
		settings.DurationInRange("SIMULATOR_COMMIT_TIMEOUT", c.Bank.CommitTimeout, 100*time.Millisecond, time.Minute),
		settings.InRange("SIMULATOR_METRIC_SERIES_MAX", c.Bank.MetricSeriesMax, 1, 100_000),
		settings.DurationInRange("SIMULATOR_LATE_DELAY", c.Profiles.LateDelay, 0, decision.DelayMax),
		settings.InRange("SIMULATOR_PROFILES_MAX", c.Profiles.Max, 10, 1_000_000),
		settings.DurationInRange("SHUTDOWN_TIMEOUT", c.ShutdownTimeout, time.Second, 5*time.Minute),
		err, crashErr,
	)
}

func (c ProfilesConfig) book() (*decision.Book, error) {
	book, err := decision.NewBook(c.Initial, c.LateDelay, c.Max)
	if err != nil {
		return nil, fmt.Errorf("SIMULATOR_PROFILES: %w", err)
	}
	return book, nil
}
