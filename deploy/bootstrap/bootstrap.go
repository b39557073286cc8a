// Package bootstrap prepares an empty Kafka and an empty ledger for the clearing house:
// topics, accounts and their initial funds. It is safe to run any number of times, several at
// once, and from any state that an interrupted run left: every name and id is a function of
// the configuration, so nothing is created twice.
package bootstrap

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

// Config says what to prepare, and where.
type Config struct {
	Stream     stream.Config
	Ledger     ledger.Config
	Population sandbox.Population

	Partitions        int `env:"PARTITIONS" envDefault:"16" range:"1 to 1024" help:"partitions of every topic; more than topics have are added to them; never less"`
	ReplicationFactor int `env:"REPLICATION_FACTOR" envDefault:"1" range:"1 to 9" help:"replicas of every partition; at most the number of brokers; Redpanda takes odd numbers only"`
	// a response must outlive the payment that waits for it
	TransientRetention time.Duration `env:"TRANSIENT_RETENTION" envDefault:"1h" range:"5m to 720h" help:"retention of the two authorization topics; the others keep everything"`
	EventsMax          int           `env:"LEDGER_BATCH_EVENTS_MAX" envDefault:"8189" range:"8 to 8189" help:"accounts or transfers in one request to the ledger, of an engine at least 134; at most the server's own limit (253 if it was started with --development)"`
	PasswordsDir       string        `env:"KAFKA_PASSWORDS_DIR" help:"folder of the passwords of Kafka's users, in USER/password: missing ones are made, with users and ACLs; banks that answer for themselves are in participants/USER; empty: Kafka is not secured"`
	WriterBytesMax     int64         `env:"KAFKA_WRITER_BYTES_PER_SECOND_MAX" envDefault:"10485760" help:"quota of each user of KAFKA_PASSWORDS_DIR that is a program of banks, in bytes written a second to each broker; 10 MiB are some 50,000 orders; 65536 to 1073741824; 0: no quota"`
	ClientKeysDir      string        `env:"CLIENT_KEYS_DIR" help:"folder for the keys of participants and the central bank for the HTTP API: missing ones are made, and those of participants named in the register; empty: none"`
	DigestsFile        string        `env:"HTTP_KEYS_FILE" help:"file for the digest of the central bank's key in CLIENT_KEYS_DIR; needed with it"`
	BankKeysDir        string        `env:"SIMULATOR_API_KEYS_DIR" help:"folder for copies of the participants' keys in CLIENT_KEYS_DIR, for the bank simulator; empty: none"`
	AnswerKeysFile     string        `env:"ANSWER_KEYS_FILE" help:"file for the secrets with which banks seal their responses: missing ones are made; empty: none"`
	LogGivenUp         int           `env:"PAYMENTS_LOG_GIVEN_UP" envDefault:"0" range:"0 to 63" help:"number of the log of pix.payments that is lost for good, as refusals name it: then the topic is taken as it is, or created anew; 0: none"`
	LedgerGivenUp      string        `env:"LEDGER_GIVEN_UP" help:"identity of the topics' ledger, as refusals print it, or none, if it is lost for good: then, with no engine running, the topics take the ledger at hand; it may stay"`
	Timeout            time.Duration `env:"BOOTSTRAP_TIMEOUT" envDefault:"60s" range:"1s to 1h" help:"how long to wait for Kafka, and for each result of the ledger"`

	namedLog uint32 // the log that the ledger names; 0: none
	retell   bool   // see Retell
}

// Validate names the variable and the value that is wrong.
func (c *Config) Validate() error {
	if c.LedgerGivenUp != "" {
		if _, err := ledger.ParseIdentity(c.LedgerGivenUp); err != nil {
			return fmt.Errorf("LEDGER_GIVEN_UP: %w", err)
		}
	}

	if c.PasswordsDir != "" && c.Stream.SASLUser == "" {
		return fmt.Errorf("KAFKA_PASSWORDS_DIR is %q and KAFKA_SASL_USER is empty: name the user that may make others",
			c.PasswordsDir)
	}

	if (c.ClientKeysDir == "") != (c.DigestsFile == "") {
		return fmt.Errorf("CLIENT_KEYS_DIR is %q and HTTP_KEYS_FILE %q: give both or none", c.ClientKeysDir,
			c.DigestsFile)
	}

	if c.BankKeysDir != "" &&
		(c.ClientKeysDir == "" || filepath.Clean(c.BankKeysDir) == filepath.Clean(c.ClientKeysDir)) {
		return fmt.Errorf("SIMULATOR_API_KEYS_DIR is %q and CLIENT_KEYS_DIR %q: name two folders", c.BankKeysDir,
			c.ClientKeysDir)
	}

	if c.WriterBytesMax == 0 {
		return nil
	}

	return settings.InRange("KAFKA_WRITER_BYTES_PER_SECOND_MAX", c.WriterBytesMax, 64<<10, 1<<30)
}

func (c *Config) marker() ledger.Marker {
	return ledger.Marker{
		Banks: uint32(c.Population.Banks), Customers: uint32(c.Population.Customers),
		DepositCentavos: c.Population.DepositCentavos, ReserveCentavos: c.Population.ReserveCentavos,
	}
}

// Run prepares everything and writes to progress what it does. When it returns nil, the topics
// and the marker exist.
func Run(ctx context.Context, config *Config, progress io.Writer) error {
	return withChart(config, func(c *chart) error { return c.run(ctx, teller("bootstrap", progress)) })
}

// teller says what a program does, and when.
func teller(program string, progress io.Writer) func(format string, values ...any) {
	started := time.Now()

	return func(format string, values ...any) {
		fmt.Fprintf(progress, "%s: %6.1fs  %s\n", program, time.Since(started).Seconds(),
			fmt.Sprintf(format, values...))
	}
}

func (c *chart) run(ctx context.Context, say func(string, ...any)) error {
	config := c.config
	// Read the ledger's marker first, so that a run with another population changes nothing.
	say("asking the ledger at %v what it holds", config.Ledger.Addresses)

	done, err := c.populated(ctx)
	if err != nil {
		return err
	}

	if err := c.keepLog(ctx, say); err != nil {
		return err
	}

	if config.retell {
		if err := c.forgetFinished(ctx, say); err != nil {
			return err
		}
	}
	say("asking Kafka at %v for the topics", config.Stream.Brokers)

	if err := ensureKafka(ctx, c.kafka, config, say); err != nil {
		return err
	}
	say("%d topics with %d partitions each", len(stream.Topics), config.Partitions)

	if config.PasswordsDir != "" {
		say("%d users of Kafka with their ACLs; their passwords are in %s", len(stream.Accesses), config.PasswordsDir)
	}

	gate := gate{chart: c, say: say}

	err = gate.patiently(ctx, func(ctx context.Context) error {
		if err := gate.check(ctx, done); err != nil {
			return err
		}

		return origin.CheckLog(ctx, c.kafka, c.client)
	})
	if err != nil {
		return err
	}

	since := "by an earlier run"
	if !done {
		since = "now"

		if err := c.populate(ctx); err != nil {
			return err
		}
	}

	if err := gate.patiently(ctx, gate.name); err != nil {
		return err
	}

	p := config.Population
	if config.ClientKeysDir != "" {
		if err := keys.Make(config.ClientKeysDir, config.DigestsFile, banks(p)); err != nil {
			return fmt.Errorf("cannot make the keys of CLIENT_KEYS_DIR and HTTP_KEYS_FILE: %w", err)
		}

		if config.BankKeysDir != "" {
			if err := keys.CopyBanks(config.ClientKeysDir, config.BankKeysDir); err != nil {
				return fmt.Errorf("cannot copy the keys of CLIENT_KEYS_DIR to SIMULATOR_API_KEYS_DIR: %w", err)
			}
		}
		say("keys for %d PSPs and the central bank are in %s", p.Banks, config.ClientKeysDir)
	}

	if config.AnswerKeysFile != "" {
		if err := keys.MakeSeals(config.AnswerKeysFile, banks(p)); err != nil {
			return fmt.Errorf("cannot make the secrets of ANSWER_KEYS_FILE: %w", err)
		}
	}

	if err := c.keepParticipants(ctx, say); err != nil {
		return err
	}
	say("ready: %d PSPs with %s in reserve each and %d customers, funded %s", p.Banks,
		pix.Reais(int64(p.ReserveCentavos)), p.Customers+p.Banks*len(sandbox.SpecialBranches), since)

	return nil
}

func banks(p sandbox.Population) []pix.ISPB {
	var all []pix.ISPB
	for bank := range p.Banks {
		all = append(all, p.Bank(bank))
	}

	return all
}
