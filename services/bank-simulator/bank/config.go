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

const (
	seed            = 1    // of decisions: the same payment always gets the same answer
	pollRecordsMax  = 5000 // requests in one poll
	commitTimeout   = 5 * time.Second
	metricSeriesMax = 1000 // combinations of PSP and reason with a metric of their own; all others are counted together
	profilesMax     = 10_000
)

// ResponseConfig bounds the responding.
type ResponseConfig struct {
	UnansweredMax  int           `env:"SIMULATOR_UNANSWERED_MAX" envDefault:"200000" range:"1000 to 5000000" help:"requests whose answer is delayed or not acknowledged yet; with so many nothing is fetched"`
	SessionTimeout time.Duration `env:"SIMULATOR_SESSION_TIMEOUT" envDefault:"3s" range:"1s to 1m" help:"time without a heartbeat after which another simulator takes over; at least the brokers' group.min.session.timeout.ms"`
	CommitInterval time.Duration `env:"SIMULATOR_COMMIT_INTERVAL" envDefault:"500ms" range:"10ms to 1m" help:"time between two commits of offsets"`
	AnswerKeysFile string        `env:"ANSWER_KEYS_FILE" help:"secrets with which banks seal their answers, as bootstrap writes them; banks that it does not name answer by themselves; read again when it changes; empty: all banks are answered for, without a seal"`
	CrashAt        string        `env:"SIMULATOR_CRASH_AT" help:"for tests only: POINT:N kills this process at the N-th passage of a step, such as after-answer-produced:100; empty: never"`
}

// ProfilesConfig is how the banks behave until somebody changes it.
type ProfilesConfig struct {
	Initial   string        `env:"SIMULATOR_PROFILES" help:"JSON object of profiles by bank (ISPB or default) or bank/branch, as of GET /v1/profiles; they override those of the sandbox"`
	LateDelay time.Duration `env:"SIMULATOR_LATE_DELAY" envDefault:"45s" range:"0 to 10m" help:"late_delay_ms of profiles without one; choose more than the engine waits"`
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	_, profilesErr := c.Profiles.catalog()
	_, crashErr := parseCrash(c.Bank.CrashAt, nil)
	return errors.Join(c.Access.Validate(c.HTTP.Loopback()), c.Accounts.Validate(), profilesErr, crashErr)
}

func (c ProfilesConfig) catalog() (*decision.Catalog, error) {
	catalog, err := decision.NewCatalog(c.Initial, c.LateDelay, profilesMax)
	if err != nil {
		return nil, fmt.Errorf("SIMULATOR_PROFILES: %w", err)
	}

	return catalog, nil
}
