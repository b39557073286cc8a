package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

// startLedger starts a server. Tests that do are few: each server takes 2 GiB of memory, and to write to all of it
// seconds of CPU. extra are more arguments for it.
func startLedger(t *testing.T, extra ...string) ledger.Config {
	t.Helper()
	server, err := ledgertest.Start(t.TempDir(), extra...)
	kit.Must(t, err)
	t.Cleanup(server.Stop)

	return server.Config
}

func connect(t *testing.T, config ledger.Config) tigerbeetle.Client {
	t.Helper()
	client, err := ledger.Connect(config)
	kit.Must(t, err)
	t.Cleanup(client.Close)

	return client
}

func kafkaOf(t *testing.T, config *Config) *kgo.Client {
	t.Helper()
	client, err := connectKafka(config)
	kit.Must(t, err)
	t.Cleanup(client.Close)

	return client
}

// startKafka starts a broker. change changes it before anybody asks it.
func startKafka(t *testing.T, options ...kfake.Opt) (*kfake.Cluster, stream.Config) {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3)}, options...)...)
	kit.Must(t, err)
	t.Cleanup(cluster.Close)

	return cluster, stream.Config{Brokers: cluster.ListenAddrs()}
}

// smallConfig makes many small requests, so that there are many places to be interrupted.
func smallConfig(t *testing.T) *Config {
	t.Helper()
	var config Config
	kit.Must(t, settings.Parse(&config))
	config.Population = sandbox.Population{Banks: 3, Customers: 20, DepositCentavos: 100, ReserveCentavos: 1000}
	config.EventsMax, config.Partitions, config.Timeout = 8, 3, 20*time.Second

	return &config
}

// onKafka is smallConfig with a broker, which knows no topics yet.
func onKafka(t *testing.T, of ledger.Config) *Config {
	t.Helper()
	config := smallConfig(t)
	config.Ledger = of
	_, config.Stream = startKafka(t)

	return config
}

// withKeys has keys and secrets made, too.
func withKeys(t *testing.T, config *Config) *Config {
	t.Helper()
	folder := t.TempDir()
	config.ClientKeysDir, config.DigestsFile, config.AnswerKeysFile = filepath.Join(folder, "keys"),
		filepath.Join(folder, "digests"), filepath.Join(folder, "answers")

	return config
}

// accountsOf returns the accounts of a ledger, but for their times.
func accountsOf(t *testing.T, client tigerbeetle.Client) map[tb.Account]bool {
	t.Helper()
	all, err := client.QueryAccounts(tb.QueryFilter{Limit: 8189})
	kit.Must(t, err)
	found := map[tb.Account]bool{}

	for _, account := range all {
		account.Timestamp = 0
		found[account] = true
	}

	return found
}

// funded returns a model of the ledger in which nothing was interrupted.
func funded(t *testing.T, config *Config) tigerbeetle.Client {
	t.Helper()
	model := ledgermodel.New().Connect(nil)
	kit.Must(t, (&chart{config: config, client: model}).populate(t.Context()))

	return model
}

// A run is interrupted at each of its requests in turn, so that the next one starts from
// every state that an interruption can leave.
func TestItGoesOnFromAnyHalfDoneState(t *testing.T) {
	config := smallConfig(t)
	client := connect(t, startLedger(t))
	p := config.Population
	want := funded(t, config)
	other := *config
	other.Population.Customers++

	states := map[string]bool{}

	for requests := 1; ; requests++ {
		err := (&chart{config: config, client: &dying{client, requests}}).populate(t.Context())
		if err == nil { // it ended before the interruption
			break
		}

		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}

		accounts, codes := len(accountsOf(t, client)), map[uint16]int{}
		for _, transfer := range transfersOf(t, client) {
			codes[transfer.Code]++
		}

		fundings, marker := codes[ledger.CodeFunding], codes[ledger.CodeMarker]
		if fundings > 0 && accounts < len(accountsOf(t, want)) {
			t.Fatalf("%d fundings were sent with %d accounts: those that missed theirs burnt their ids",
				fundings, accounts)
		}

		if marker > 0 && fundings != 2*p.Banks+p.Customers { // reserves, the rich, customers
			t.Fatalf("the marker is there after %d fundings", fundings)
		}
		states[fmt.Sprint(accounts, fundings, marker)] = true

		// Nobody can go on with another population from here.
		goesOn := &chart{config: &other, client: client}
		kit.Says(t, goesOn.populate(t.Context()), "SANDBOX_CUSTOMERS is 20 there and 21 here")
	}

	if len(states) < 8 {
		t.Errorf("only %d different half-done states were seen: %v", len(states), states)
	}

	if !maps.Equal(accountsOf(t, client), accountsOf(t, want)) {
		t.Errorf("the accounts are %v, want %v", accountsOf(t, client), accountsOf(t, want))
	}

	transfers := transfersOf(t, client)
	for i, transfer := range transfersOf(t, want) {
		transfer.Timestamp, transfers[i].Timestamp = 0, 0
		if transfer != transfers[i] {
			t.Fatalf("transfer %d is %+v, want %+v", i, transfers[i], transfer)
		}
	}
	// From the laws of money in docs/reference.md, and not from the code under test. Bank 0 has 7 of the 20 customers.
	bank := p.Bank(0)
	for id, want := range map[ledger.AccountID]int64{
		ledger.IssuanceAccount: -3000, ledger.ReserveAccount(bank): 1000, ledger.TransitAccount(bank): -2700,
		ledger.BooksAccount(bank): -1700,
		ledger.RegisterAccount:    5000,
		ledger.CustomerAccount(pix.Account{ISPB: bank, Branch: "0001", Number: "7"}): 100,
		ledger.CustomerAccount(pix.Account{ISPB: bank, Branch: "9010", Number: "1"}): 2000,
		ledger.CustomerAccount(pix.Account{ISPB: bank, Branch: "9001", Number: "1"}): 0,
	} {
		account := accountOf(t, client, id)
		if got := ledger.Centavos(account.CreditsPosted) - ledger.Centavos(account.DebitsPosted); got != want {
			t.Errorf("%s holds %d, want %d", ledger.AccountName(id), got, want)
		}
	}
}

// Two runs at once from nothing, then others on the ledger that they have filled: each step has a
// Kafka and keys of its own.
func TestTwoAtOnceFromNothingAndThenAgain(t *testing.T) {
	config := withKeys(t, onKafka(t, startLedger(t)))
	ended := make(chan error)

	for range 2 {
		go func() { ended <- Run(context.Background(), config, io.Discard) }()
	}

	for range 2 {
		kit.Must(t, <-ended)
	}
	client := connect(t, config.Ledger)
	known := func() map[string]string { // all keys and secrets, which the register or the file of digests names
		t.Helper()

		all, err := keys.ReadAll(config.ClientKeysDir)
		if err != nil || len(all) != config.Population.Banks+1 {
			t.Fatalf("%d keys: %v", len(all), err)
		}

		centralBank, err := keys.ReadCentralBankKeys(config.DigestsFile)
		if err != nil || !centralBank.Known(all[keys.CentralBank]) {
			t.Errorf("the central bank's key would not be known: %v", err)
		}
		seals, err := keys.ReadSeals(config.AnswerKeysFile)
		kit.Must(t, err)

		for _, bank := range banks(config.Population) {
			secrets := seals.Fingerprints(bank)
			if len(secrets) != 1 || actsOf(t, client, secrets[0]) != "seal named of "+string(bank) ||
				actsOf(t, client, keys.DigestOf(all[string(bank)])) != "key named of "+string(bank) {
				t.Fatalf("a key or a secret of %s would not be known", bank)
			}
			all["seal of "+string(bank)] = fmt.Sprintf("%x", secrets[0])
		}

		return all
	}
	made := known()

	var said bytes.Buffer
	kit.Must(t, Run(t.Context(), config, &said))

	if want := "3 PSPs with BRL 10.00 in reserve each and 35 customers, funded by an earlier run"; !strings.Contains(
		said.String(), want) {
		t.Errorf("a rerun says:\n%swant ... %s", said.String(), want)
	}

	if !maps.Equal(made, known()) {
		t.Error("a rerun made other keys")
	}

	for says, change := range map[string]func(*Config){
		"SANDBOX_BANKS is 3 there and 4 here":                     func(c *Config) { c.Population.Banks = 4 },
		"SANDBOX_CUSTOMERS is 20 there and 21 here":               func(c *Config) { c.Population.Customers = 21 },
		"SANDBOX_DEPOSIT_CENTAVOS is 100 there and 1 here":        func(c *Config) { c.Population.DepositCentavos = 1 },
		"topic pix.payments has 3 partitions and PARTITIONS is 2": func(c *Config) { c.Partitions = 2 },
		"TIGERBEETLE_CLUSTER_ID 1, has not answered within BOOTSTRAP_TIMEOUT 1s": func(c *Config) {
			c.Ledger.ClusterID, c.Timeout = 1, time.Second
		},
	} {
		differing := *config
		change(&differing)
		kit.Says(t, Run(t.Context(), &differing, io.Discard), says)
	}

	if !maps.Equal(accountsOf(t, client), accountsOf(t, funded(t, config))) {
		t.Errorf("the accounts are %v", accountsOf(t, client))
	}

	t.Run("ABankThatJoinedIsKept", func(t *testing.T) { aBankThatJoinedIsKept(t, config.Ledger) })
	t.Run("WhatWasRevokedIsNotNamedAgain", func(t *testing.T) { whatWasRevokedIsNotNamedAgain(t, config.Ledger) })
	second := startLedger(t, "--development") // its requests hold 253
	tooMany := slices.Repeat([]tb.Account{ledger.NewAccount(ledger.RefusalsAccount)}, 254)
	large := &chart{config: &Config{EventsMax: 8189, Timeout: config.Timeout}, client: connect(t, second)}
	err := large.createAccounts(t.Context(), these(tooMany...))
	kit.Says(t, err, "LEDGER_BATCH_EVENTS_MAX is 8189 and must not exceed the server's limit")
	t.Run("TopicsAndLedgerBelongTogether", func(t *testing.T) {
		topicsAndLedgerBelongTogether(t, config.Ledger, second)
	})
	t.Run("TopicsOfAnEarlierVersionAreAdopted", func(t *testing.T) { topicsOfAnEarlierVersionAreAdopted(t, second) })
	t.Run("ATopicThatTheLedgerNamesIsNotCreatedAgain", func(t *testing.T) {
		aTopicThatTheLedgerNamesIsNotCreatedAgain(t, config.Ledger)
	})
}

// That the time is up is no reason. TestTwoAtOnceFromNothingAndThenAgain shows it of the ledger.
func TestWhatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	config.Timeout = 3 * time.Second
	config.Stream.Brokers = []string{"127.0.0.1:1"}
	kit.Says(t, kit.ErrorOf(prepare(t, config)),
		"KAFKA_BROKERS [127.0.0.1:1] is not ready after BOOTSTRAP_TIMEOUT 3s", "refused")
}

func TestConfigNamesTheVariableAndTheValue(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"PARTITIONS is 0: it must be from 1 to 1024": func(c *Config) { c.Partitions = 0 },
		"KAFKA_WRITER_BYTES_PER_SECOND_MAX is 1000: it must be from 65536": func(c *Config) {
			c.WriterBytesMax = 1000
		},
		`CLIENT_KEYS_DIR is "keys" and HTTP_KEYS_FILE "": give both or none`: func(c *Config) {
			c.ClientKeysDir = "keys"
		},
		`SIMULATOR_API_KEYS_DIR is "keys/" and CLIENT_KEYS_DIR "keys": name two`: func(c *Config) {
			c.ClientKeysDir, c.DigestsFile, c.BankKeysDir = "keys", "digests", "keys/"
		},
		"KAFKA_SASL_USER is empty: name the user that may make others": func(c *Config) {
			c.PasswordsDir = "passwords"
		},
		`LEDGER_GIVEN_UP: "last week's" is no identity`: func(c *Config) {
			c.LedgerGivenUp = "last week's"
		},
	} {
		config := smallConfig(t)
		change(config)
		kit.Says(t, settings.Check(config), says)
	}
}
