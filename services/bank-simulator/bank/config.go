package bank

import (
	"errors"
	"fmt"
	"time"

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
	Accounts        AccountsConfig
	Profiles        ProfilesConfig
	ShutdownTimeout time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"10s" range:"1s to 5m" help:"longest time from SIGTERM to the exit"`
}

// ResponseConfig bounds the responding.
type ResponseConfig struct {
	Seed            uint64        `env:"SIMULATOR_SEED" envDefault:"1" help:"with the same seed, the same payment gets the same answer"`
	UnansweredMax   int           `env:"SIMULATOR_UNANSWERED_MAX" envDefault:"200000" range:"1000 to 5000000" help:"requests whose answer is delayed or not acknowledged yet; at the limit, no more are fetched"`
	PollRecordsMax  int           `env:"SIMULATOR_POLL_RECORDS_MAX" envDefault:"5000" range:"1 to 100000" help:"requests in one poll"`
	SessionTimeout  time.Duration `env:"SIMULATOR_SESSION_TIMEOUT" envDefault:"3s" range:"1s to 1m" help:"after how long without a heartbeat the group gives a simulator's partitions to others; at least the brokers' group.min.session.timeout.ms"`
	CommitInterval  time.Duration `env:"SIMULATOR_COMMIT_INTERVAL" envDefault:"500ms" range:"10ms to 1m" help:"time between two commits of offsets"`
	CommitTimeout   time.Duration `env:"SIMULATOR_COMMIT_TIMEOUT" envDefault:"5s" range:"100ms to 1m" help:"longest time of one commit"`
	MetricSeriesMax int           `env:"SIMULATOR_METRIC_SERIES_MAX" envDefault:"1000" range:"1 to 100000" help:"combinations of PSP and reason with a metric of their own; all others are counted together"`
	AnswerKeysFile  string        `env:"ANSWER_KEYS_FILE" help:"file of the secrets with which the banks seal their answers, as bootstrap writes it; banks that it does not name answer by themselves; read again when it changes; empty: all banks are answered for, without a seal"`
	CrashAt         string        `env:"SIMULATOR_CRASH_AT" help:"for tests: POINT:N kills the process when it passes a step for the N-th time, such as after-answer-produced:100; empty: never"`
}

// ProfilesConfig is how the banks behave until somebody changes it.
type ProfilesConfig struct {
	Initial   string        `env:"SIMULATOR_PROFILES" help:"JSON object of profiles by bank (ISPB or default) or bank/branch, in the form of GET /v1/profiles; they override those of the sandbox"`
	LateDelay time.Duration `env:"SIMULATOR_LATE_DELAY" envDefault:"45s" range:"0 to 10m" help:"late_delay_ms of profiles without one; choose more than the engine waits"`
	Max       int           `env:"SIMULATOR_PROFILES_MAX" envDefault:"10000" range:"10 to 1000000" help:"profiles"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	_, profilesErr := c.Profiles.catalog()
	_, crashErr := parseCrash(c.Bank.CrashAt, nil)
	return errors.Join(c.Access.Validate(c.HTTP.Loopback()), c.Accounts.Validate(), profilesErr, crashErr)
}

func (c ProfilesConfig) catalog() (*decision.Catalog, error) {
	catalog, err := decision.NewCatalog(c.Initial, c.LateDelay, c.Max)
	if err != nil {
		return nil, fmt.Errorf("SIMULATOR_PROFILES: %w", err)
	}
	return catalog, nil
}
