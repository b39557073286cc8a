package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/deploy/redpanda"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

// startLedger starts a server. Tests that do are not parallel, and few: each server takes 2 GiB of
// memory, and to write to all of it seconds of CPU. extra are more arguments for it.
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

func quietly(string, ...any) {}

// prepare makes the topics.
func prepare(t *testing.T, config *Config) {
	t.Helper()
	_, err := ensureKafka(t.Context(), config, quietly)
	kit.Must(t, err)
}

func startKafka(t *testing.T, options ...kfake.Opt) stream.Config {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	kit.Must(t, err)
	t.Cleanup(cluster.Close)
	return stream.Config{Brokers: cluster.ListenAddrs()}
}

// startKafkaLikeRedpanda runs a broker that behaves like Redpanda.
func startKafkaLikeRedpanda(t *testing.T, options ...kfake.Opt) stream.Config {
	t.Helper()
	cluster, err := kfake.NewCluster(append(redpanda.Options(), append(options, kfake.NumBrokers(1))...)...)
	kit.Must(t, err)
	t.Cleanup(cluster.Close)
	redpanda.Imitate(cluster)
	return stream.Config{Brokers: cluster.ListenAddrs()}
}

// smallConfig makes many small requests, so that there are many places to be interrupted.
func smallConfig(t *testing.T) *Config {
	t.Helper()
	var config Config
	if err := settings.Parse(&config); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	config.Population = sandbox.Population{Banks: 3, Customers: 20, DepositCentavos: 100, ReserveCentavos: 1000}
	config.EventsMax = 8
	config.Partitions = 3
	config.Timeout = 20 * time.Second
	return &config
}

// everyAccount follows from the laws of money in docs/reference.md, not from the code under test.
func everyAccount(p sandbox.Population) map[ledger.AccountID]int64 {
	balances := map[ledger.AccountID]int64{ledger.RefusalsAccount: 0, ledger.IssuanceAccount: -int64(p.Banks) * int64(p.ReserveCentavos)}
	for i := range p.Banks {
		balances[ledger.ReserveAccount(p.Bank(i))] = int64(p.ReserveCentavos)
		balances[ledger.TransitAccount(p.Bank(i))] = -2 * int64(p.ReserveCentavos)
		for _, branch := range []string{"9001", "9002", "9003", "9004"} {
			balances[ledger.CustomerAccount(pix.Account{ISPB: p.Bank(i), Branch: branch, Number: "1"})] = 0
		}
		balances[ledger.CustomerAccount(pix.Account{ISPB: p.Bank(i), Branch: "9010", Number: "1"})] = 2 * int64(p.ReserveCentavos)
	}
	for i := range p.Customers {
		bank := p.Bank(i % p.Banks)
		balances[ledger.CustomerAccount(pix.Account{ISPB: bank, Branch: "0001", Number: fmt.Sprint(i/p.Banks + 1)})] = int64(p.DepositCentavos)
		balances[ledger.TransitAccount(bank)] -= int64(p.DepositCentavos)
	}
	balances[ledger.RegisterAccount], balances[ledger.AllowanceSourceAccount] = 0, 0
	for i := range p.Banks { // the books are what reserve and transit add up to
		bank := p.Bank(i)
		books := balances[ledger.ReserveAccount(bank)] + balances[ledger.TransitAccount(bank)]
		balances[ledger.BooksAccount(bank)] = books
		balances[ledger.RegisterAccount] -= books
		balances[ledger.AllowanceAccount(bank, ledger.Day)], balances[ledger.AllowanceAccount(bank, ledger.Night)] = 0, 0
	}
	return balances
}

// look returns the balances that are there and how many fundings.
func look(t *testing.T, client tigerbeetle.Client, p sandbox.Population) (accounts map[ledger.AccountID]tb.Account, fundings int, marker bool) {
	t.Helper()
	ids := append(slices.Collect(maps.Keys(everyAccount(p))), ledger.MarkerID)
	accounts = map[ledger.AccountID]tb.Account{}
	found, err := client.LookupAccounts(ids)
	kit.Must(t, err)
	for _, account := range found {
		accounts[account.ID] = account
	}
	transfers, err := client.LookupTransfers(ids)
	kit.Must(t, err)
	for _, transfer := range transfers {
		switch transfer.Code {
		case ledger.CodeMarker:
			marker = true
		case ledger.CodeFunding:
			fundings++
		}
	}
	return accounts, fundings, marker
}

func checkFunded(t *testing.T, client tigerbeetle.Client, p sandbox.Population) {
	t.Helper()
	accounts, fundings, marker := look(t, client, p)
	want := everyAccount(p)
	if len(accounts) != len(want) || !marker {
		t.Errorf("%d accounts, want %d; marker %v", len(accounts), len(want), marker)
	}
	if funded := p.Banks + p.Customers + p.Banks; fundings != funded { // reserves, customers, the rich
		t.Errorf("%d fundings, want %d", fundings, funded)
	}
	for id, balance := range want {
		account := accounts[id]
		if got := ledger.Centavos(account.CreditsPosted) - ledger.Centavos(account.DebitsPosted); got != balance {
			t.Errorf("%s holds %d, want %d", ledger.AccountName(id), got, balance)
		}
		kind, _ := ledger.UnpackAccount(id)
		if account.Ledger != [10]uint32{0, 986, 986, 986, 986, 986, 1, 1, 2, 2}[kind] || account.Code != uint16(kind) || account.Flags != kind.Flags() {
			t.Errorf("%s is %+v", ledger.AccountName(id), account)
		}
	}
}

// checkEnrolled expects that each bank has its opening and has joined, and nothing else.
func checkEnrolled(t *testing.T, client tigerbeetle.Client, p sandbox.Population) {
	t.Helper()
	records, err := client.GetAccountTransfers(tb.AccountFilter{AccountID: ledger.RegisterAccount, Limit: 8189,
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()})
	records = slices.DeleteFunc(records, func(record tb.Transfer) bool { return ledger.ActKind(record.Code).HasDigest() })
	if err != nil || len(records) != 2*p.Banks {
		t.Fatalf("%d records, %v; want an opening and a join of each of %d banks", len(records), err, p.Banks)
	}
	balances := everyAccount(p)
	for i, record := range records {
		want := ledger.Act{Kind: ledger.Opening, Bank: p.Bank(i % p.Banks), ByCentralBank: true}
		if want.Centavos = balances[ledger.BooksAccount(want.Bank)]; i >= p.Banks {
			want.Kind, want.Centavos = ledger.Joined, 0
		}
		if got, _, err := ledger.ActOf(record); err != nil || got != want {
			t.Errorf("record %d is %+v, %v; want %+v", i, got, err, want)
		}
	}
}

// A run is interrupted at each of its requests in turn, so that the next one starts from
// every state that an interruption can leave.
func TestItGoesOnFromAnyHalfDoneState(t *testing.T) {
	config := smallConfig(t)
	config.Ledger = startLedger(t)
	client := connect(t, config.Ledger)
	p := config.Population
	other := *config
	other.Population.Customers++

	states := map[string]bool{}
	for requests := 1; ; requests++ {
		err := (&chart{config, &dying{client, requests}}).populate(t.Context(), quietly)
		if err == nil { // it ended before the interruption
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		accounts, fundings, marker := look(t, client, p)
		if fundings > 0 && len(accounts) < len(everyAccount(p)) {
			t.Fatalf("%d fundings were sent with %d accounts: those that missed theirs burnt their ids", fundings, len(accounts))
		}
		if marker && fundings != 2*p.Banks+p.Customers {
			t.Fatalf("the marker is there after %d fundings", fundings)
		}
		states[fmt.Sprint(len(accounts), fundings, marker)] = true

		// Nobody can go on with another population from here.
		err = (&chart{&other, client}).populate(t.Context(), quietly)
		if err == nil || !strings.Contains(err.Error(), "SANDBOX_CUSTOMERS is 20 there and 21 here") {
			t.Fatalf("another population at %d accounts, %d fundings: %v", len(accounts), fundings, err)
		}
	}
	if len(states) < 8 {
		t.Errorf("only %d different half-done states were seen: %v", len(states), states)
	}
	checkFunded(t, client, p)
	checkEnrolled(t, client, p)
}

// Two runs at once from nothing, then others on the ledger that they have filled: each step has a
// Kafka and keys of its own.
func TestTwoAtOnceFromNothingAndThenAgain(t *testing.T) {
	config := smallConfig(t)
	config.Ledger, config.Stream = startLedger(t), startKafka(t)
	config.ClientKeysDir, config.DigestsFile, config.AnswerKeysFile = filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "digests"), filepath.Join(t.TempDir(), "answers")
	ended := make(chan error)
	for range 2 {
		go func() { ended <- Run(context.Background(), config, io.Discard) }()
	}
	for range 2 {
		kit.Must(t, <-ended)
	}
	client := connect(t, config.Ledger)
	checkFunded(t, client, config.Population)
	checkKeys := func() map[string]string {
		t.Helper()
		all, err := keys.ReadAll(config.ClientKeysDir)
		if err != nil || len(all) != config.Population.Banks+1 {
			t.Fatalf("%d keys: %v", len(all), err)
		}
		centralBank, err := keys.ReadCentralBankKeys(config.DigestsFile)
		kit.Must(t, err)
		for holder, key := range all {
			if acts := actsOfKey(t, client, key); holder == keys.CentralBank && !centralBank.Known(key) || holder != keys.CentralBank && acts != "key named of "+holder {
				t.Errorf("the key of %s would not be known: %s", holder, acts)
			}
		}
		seals, err := keys.ReadSeals(config.AnswerKeysFile)
		kit.Must(t, err)
		for _, bank := range banks(config.Population) {
			secrets := seals.Fingerprints(bank)
			if len(secrets) != 1 || actsOf(t, client, secrets[0]) != "seal named of "+string(bank) {
				t.Fatalf("the secrets of %s are %x", bank, secrets)
			}
			all["seal of "+string(bank)] = fmt.Sprintf("%x", secrets[0])
		}
		return all
	}
	made := checkKeys()

	var said bytes.Buffer
	kit.Must(t, Run(context.Background(), config, &said))
	if want := "3 PSPs with BRL 10.00 in reserve each and 35 customers, funded by an earlier run"; !strings.Contains(said.String(), want) {
		t.Errorf("a rerun says:\n%swant ... %s", said.String(), want)
	}
	checkFunded(t, client, config.Population)
	checkEnrolled(t, client, config.Population)
	if !maps.Equal(made, checkKeys()) {
		t.Error("a rerun made other keys")
	}

	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Population.Banks = 4 }, "SANDBOX_BANKS is 3 there and 4 here"},
		{func(c *Config) { c.Population.Customers = 21 }, "SANDBOX_CUSTOMERS is 20 there and 21 here"},
		{func(c *Config) { c.Population.DepositCentavos = 1 }, "SANDBOX_DEPOSIT_CENTAVOS is 100 there and 1 here"},
		{func(c *Config) { c.Population.ReserveCentavos = 1 }, "SANDBOX_RESERVE_CENTAVOS is 1000 there and 1 here"},
		{func(c *Config) { c.Partitions = 2 }, "topic pix.payments has 3 partitions and PARTITIONS is 2: partitions are never taken away"},
		{func(c *Config) { c.Ledger.ClusterID = 1; c.Timeout = time.Second }, "TIGERBEETLE_CLUSTER_ID 1, has not answered within BOOTSTRAP_TIMEOUT 1s"},
	} {
		differing := *config
		c.change(&differing)
		kit.Says(t, Run(context.Background(), &differing, io.Discard), c.says)
	}
	checkFunded(t, client, config.Population)

	t.Run("ABankThatJoinedIsKept", func(t *testing.T) { aBankThatJoinedIsKept(t, config.Ledger) })
	t.Run("WhatWasRevokedIsNotNamedAgain", func(t *testing.T) { whatWasRevokedIsNotNamedAgain(t, config.Ledger) })
	second := startLedger(t, "--development") // its requests hold 253
	tooMany := slices.Repeat([]tb.Account{ledger.NewAccount(ledger.RefusalsAccount)}, 254)
	err := (&chart{&Config{EventsMax: 8189, Timeout: config.Timeout}, connect(t, second)}).createAccounts(t.Context(), slices.Values(tooMany), silent)
	kit.Says(t, err, "LEDGER_BATCH_EVENTS_MAX is 8189 and must not exceed the server's limit")
	t.Run("TopicsAndLedgerBelongTogether", func(t *testing.T) { topicsAndLedgerBelongTogether(t, config.Ledger, second) })
	t.Run("TopicsOfAnEarlierVersionAreAdopted", func(t *testing.T) { topicsOfAnEarlierVersionAreAdopted(t, second) })
	t.Run("ATopicThatTheLedgerNamesIsNotCreatedAgain", func(t *testing.T) { aTopicThatTheLedgerNamesIsNotCreatedAgain(t, config.Ledger) })
}

func TestWhatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	config.Timeout = 3 * time.Second
	config.Stream.Brokers = []string{"127.0.0.1:1"}
	kit.Says(t, kit.ErrorOf(ensureKafka(context.Background(), config, quietly)), "KAFKA_BROKERS [127.0.0.1:1] is not ready after BOOTSTRAP_TIMEOUT 3s", "refused")
	config.Ledger.Addresses = []string{"127.0.0.1:1"}
	kit.Says(t, Run(context.Background(), config, io.Discard), "TIGERBEETLE_ADDRESSES [127.0.0.1:1], TIGERBEETLE_CLUSTER_ID 0, has not answered within BOOTSTRAP_TIMEOUT 3s")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Run(ctx, config, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// lateContext is a context whose end comes a second after its deadline, as on a machine
// that is busy: in between, what dials has no time left, and nothing says that it is up.
type lateContext struct{ context.Context }

func (c lateContext) Deadline() (time.Time, bool) {
	deadline, has := c.Context.Deadline()
	return deadline.Add(-time.Second), has
}

func TestThatTheTimeIsUpIsNoReason(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	config.Stream.Brokers = []string{"127.0.0.1:1"}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	kit.Says(t, kit.ErrorOf(ensureKafka(lateContext{ctx}, config, quietly)), "refused")
}

func TestItWaitsForKafka(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	address := listener.Addr().String()
	listener.Close()
	config.Stream.Brokers = []string{address}
	ended := make(chan error)
	go func() {
		_, err := ensureKafka(context.Background(), config, quietly)
		ended <- err
	}()
	time.Sleep(500 * time.Millisecond)
	startKafka(t, kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, address) }))
	kit.Must(t, <-ended)
}

func TestTopics(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	config.Stream = startKafka(t, kfake.SeedTopics(3)) // no topics yet
	client := kafkaOf(t, config)
	admin := kadm.NewClient(client)
	ctx := context.Background()

	created, err := ensureKafka(ctx, config, quietly)
	if err != nil || created != len(stream.Topics) {
		t.Fatal(created, err)
	}
	// An interrupted run has left some.
	kit.Must(t, kit.ErrorOf(admin.DeleteTopics(ctx, stream.Settlements, stream.AuthorizationRequests)))
	if created, err = ensureKafka(ctx, config, quietly); err != nil || created != 2 {
		t.Fatal(created, err)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, stream.Payments, stream.AuthorizationRequests, stream.AuthorizationResponses, stream.Settlements, stream.DeadLetters)
	kit.Must(t, err)
	for _, topic := range configs {
		retention, bytes := "-1", "1048576"
		if strings.HasPrefix(topic.Name, "pix.authorization-") {
			retention, bytes = "3600000", "131072"
		}
		for _, entry := range topic.Configs {
			if want := map[string]string{"retention.ms": retention, "retention.bytes": "-1", "max.message.bytes": bytes, "cleanup.policy": "delete", "min.insync.replicas": "1"}[entry.Key]; want != "" && entry.MaybeValue() != want {
				t.Errorf("%s: %s is %s, want %s", topic.Name, entry.Key, entry.MaybeValue(), want)
			}
		}
	}

	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Partitions = 2 }, "topic pix.payments has 3 partitions and PARTITIONS is 2"},
		{func(c *Config) { c.ReplicationFactor = 3 }, "topic pix.payments has 1 replicas and REPLICATION_FACTOR is 3"},
	} {
		differing := *config
		c.change(&differing)
		kit.Says(t, kit.ErrorOf(ensureKafka(ctx, &differing, quietly)), c.says)
	}
	// What somebody has changed, or a setting that has changed, is set, and said.
	kit.Must(t, kit.ErrorOf(client.ProduceSync(ctx, &kgo.Record{Topic: stream.Payments, Value: []byte("kept")}).First()))
	for _, c := range []struct{ topic, name, value string }{
		{stream.Payments, "cleanup.policy", "compact"},
		{stream.AuthorizationResponses, "max.message.bytes", "1048576"},
		{stream.Settlements, "message.timestamp.type", "LogAppendTime"},
		{stream.Settlements, "unclean.leader.election.enable", "true"},
	} {
		kit.Must(t, kit.ErrorOf(admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: c.name, Value: &c.value}}, c.topic)))
	}
	config.TransientRetention = 2 * time.Hour
	var said []string
	kit.Must(t, kit.ErrorOf(ensureKafka(ctx, config, func(format string, values ...any) { said = append(said, fmt.Sprintf(format, values...)) })))
	want := []string{
		"topic pix.payments has cleanup.policy=delete now; it had cleanup.policy=compact",
		"topic pix.authorization-requests has retention.ms=7200000 now; it had retention.ms=3600000",
		"topic pix.authorization-responses has max.message.bytes=131072 now; it had max.message.bytes=1048576",
		"topic pix.authorization-responses has retention.ms=7200000 now; it had retention.ms=3600000",
		"topic pix.settlements has message.timestamp.type=CreateTime now; it had message.timestamp.type=LogAppendTime",
		"topic pix.settlements has unclean.leader.election.enable=false now; it had unclean.leader.election.enable=true",
	}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("it says %q", said)
	}
	if bounds, err := stream.BoundsOf(ctx, client, stream.Payments); err != nil || bounds[0].End-bounds[0].Start != 1 {
		t.Errorf("the record that was there: %v, %v", bounds, err)
	}
	// Nobody can make an engine read an answer of 900 kB.
	for topic, want := range map[string]error{stream.Payments: nil, stream.AuthorizationRequests: kerr.MessageTooLarge, stream.AuthorizationResponses: kerr.MessageTooLarge} {
		_, err := hostile.Produce(ctx, client, topic, 0, hostile.New(time.Now().UnixMilli(), make([]byte, 900_000)).Encode())
		if !errors.Is(err, want) {
			t.Errorf("900 kB to %s: %v, want %v", topic, err, want)
		}
	}
}

// What every service's acks=all means is up to the topic: a majority.
func TestAnAcknowledgedRecordIsOnAMajority(t *testing.T) {
	t.Parallel()
	for replicas, want := range map[int]string{1: "1", 2: "2", 3: "2", 5: "3"} {
		if got := topicConfigs(stream.Topics[0], "", &Config{ReplicationFactor: replicas})["min.insync.replicas"]; got != want {
			t.Errorf("with %d replicas min.insync.replicas is %q, want %s", replicas, got, want)
		}
	}
}

func TestImpossibleTopicsFailAtOnce(t *testing.T) {
	config := smallConfig(t)
	config.Stream = startKafka(t)
	config.ReplicationFactor = 3
	started := time.Now()
	_, err := ensureKafka(context.Background(), config, quietly)
	kit.Says(t, err, "Kafka refuses to create topic pix.payments with PARTITIONS 3 and REPLICATION_FACTOR 3")
	if took := time.Since(started); took > config.Timeout/2 {
		t.Errorf("it took %v to give up", took)
	}
}

func TestConfigNamesTheVariableAndTheValue(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Partitions = 0 }, "PARTITIONS is 0: it must be from 1 to 1024"},
		{func(c *Config) { c.ReplicationFactor = 10 }, "REPLICATION_FACTOR is 10"},
		{func(c *Config) { c.TransientRetention = time.Minute }, "TRANSIENT_RETENTION is 1m0s"},
		{func(c *Config) { c.Timeout = 0 }, "BOOTSTRAP_TIMEOUT is 0s"},
		{func(c *Config) { c.EventsMax = 8190 }, "LEDGER_BATCH_EVENTS_MAX is 8190: it must be from 8 to 8189"},
		{func(c *Config) { c.WriterBytesMax = 1000 }, "KAFKA_WRITER_BYTES_PER_SECOND_MAX is 1000: it must be from 65536 to 1073741824"},
		{func(c *Config) { c.Population.Banks = 1 }, "SANDBOX_BANKS is 1"},
		{func(c *Config) { c.Ledger.Addresses = []string{"localhost:3001"} }, `TIGERBEETLE_ADDRESSES holds "localhost:3001"`},
		{func(c *Config) { c.ClientKeysDir = "keys" }, `CLIENT_KEYS_DIR is "keys" and HTTP_KEYS_FILE "": give both or none`},
		{func(c *Config) { c.BankKeysDir = "banks" }, `SIMULATOR_API_KEYS_DIR is "banks" and CLIENT_KEYS_DIR "": name two folders`},
		{func(c *Config) { c.ClientKeysDir, c.DigestsFile, c.BankKeysDir = "keys", "digests", "keys/" }, `SIMULATOR_API_KEYS_DIR is "keys/" and CLIENT_KEYS_DIR "keys": name two folders`},
		{func(c *Config) { c.Stream.Brokers = nil }, "KAFKA_BROKERS is empty"},
	} {
		config := smallConfig(t)
		c.change(config)
		kit.Says(t, settings.Check(config), c.says)
	}
}

// Redpanda ignores some settings and never describes them. The bootstrap says so once, and why that is safe.
func TestTopicsOnABrokerLikeRedpanda(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	config.Stream = startKafkaLikeRedpanda(t)
	var said bytes.Buffer
	say := func(format string, values ...any) { fmt.Fprintf(&said, format+"\n", values...) }
	client := kafkaOf(t, config)
	for run, want := range []int{len(stream.Topics), 0, 0} {
		if run == 2 { // as a cluster describes it on which nobody may cache writes
			kit.Must(t, kit.ErrorOf(kadm.NewClient(client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: writeCaching, Value: new("disabled")}}, topicNames()...)))
		}
		said.Reset()
		if created, err := ensureKafka(t.Context(), config, say); err != nil || created != want {
			t.Fatalf("run %d: %d topics created, want %d: %v", run, created, want, err)
		}
		if strings.Count(said.String(), "min.insync.replicas") != 1 || !strings.Contains(said.String(), "majority") ||
			strings.Count(said.String(), "unclean.leader.election.enable") != 1 || strings.Count(said.String(), "\n") != 2 {
			t.Errorf("run %d says %q: want each ignored setting in one line, and why it is safe", run, said.String())
		}
	}
}

// What a broker does not describe may be absent only where that is known to be safe.
func TestAbsentSettingsOfTopics(t *testing.T) {
	t.Parallel()
	const raft, one, redpanda, another = "Raft", "REPLICATION_FACTOR 1", "redpanda.0c5d", "bGlxdWlkYS1zdGFjay0wMQ"
	const before, after = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
	for _, c := range []struct {
		absent, cluster   string
		replicationFactor int
		safe              string // "": refused
	}{
		{"min.insync.replicas", redpanda, 3, raft},
		{"min.insync.replicas", another, 1, one},
		{"min.insync.replicas", another, 3, ""},
		{"min.insync.replicas", "not-redpanda.0c5d", 3, ""},
		{"unclean.leader.election.enable", redpanda, 3, raft},
		{"unclean.leader.election.enable", another, 1, one},
		{"unclean.leader.election.enable", another, 3, ""},
		{after, redpanda, 1, "its own clock"},
		{after, another, 1, ""},
		{before, another, 3, "old records"},
	} {
		config := &Config{ReplicationFactor: c.replicationFactor}
		if why, safe := safelyIgnored(c.absent, c.cluster, config); safe != (c.safe != "") || safe && !strings.Contains(why, c.safe) {
			t.Errorf("%+v: %v, %q", c, safe, why)
		}
	}
	sometimes := []string{"min.insync.replicas", "unclean.leader.election.enable", before, after}
	for name := range topicConfigs(stream.Topics[0], redpanda, &Config{}) {
		if _, safe := safelyIgnored(name, redpanda, &Config{ReplicationFactor: 1}); safe != slices.Contains(sometimes, name) {
			t.Errorf("%s may be absent: %v", name, safe)
		}
	}
	for absent, safe := range map[string]string{before: "old records", after: ""} {
		config := smallConfig(t)
		broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID(another))
		kit.Must(t, err)
		t.Cleanup(broker.Close)
		config.Stream.Brokers = broker.ListenAddrs()
		forget(broker, absent, safe != "")
		var said bytes.Buffer
		_, err = ensureKafka(t.Context(), config, func(format string, values ...any) { fmt.Fprintf(&said, format+"\n", values...) })
		if safe == "" {
			kit.Says(t, err, "does not describe it", absent)
		} else if err != nil || strings.Count(said.String(), absent) != 1 || !strings.Contains(said.String(), safe) {
			t.Errorf("without %s: %v, says %q", absent, err, said.String())
		}
	}
}

// forget lets a broker never describe a setting. One that refuses takes no topic with it, and no change to it.
func forget(broker *kfake.Cluster, name string, refuses bool) {
	broker.ControlKey(kmsg.DescribeConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		for i, resource := range request.(*kmsg.DescribeConfigsRequest).Resources {
			if resource.ConfigNames == nil {
				for known := range topicConfigs(stream.Topics[0], "redpanda.", &Config{}) {
					if known != name {
						request.(*kmsg.DescribeConfigsRequest).Resources[i].ConfigNames = append(request.(*kmsg.DescribeConfigsRequest).Resources[i].ConfigNames, known)
					}
				}
			}
		}
		return nil, nil, false
	})
	if !refuses {
		return
	}
	broker.ControlKey(kmsg.CreateTopics.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		for _, topic := range request.(*kmsg.CreateTopicsRequest).Topics {
			if slices.ContainsFunc(topic.Configs, func(c kmsg.CreateTopicsRequestTopicConfig) bool { return c.Name == name }) {
				broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: topic.Topic, Err: kerr.InvalidConfig})
			}
		}
		return nil, nil, false
	})
	broker.ControlKey(kmsg.IncrementalAlterConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		for _, resource := range request.(*kmsg.IncrementalAlterConfigsRequest).Resources {
			if slices.ContainsFunc(resource.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return c.Name == name }) {
				broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.IncrementalAlterConfigs}, Resource: resource.ResourceName, Err: kerr.InvalidConfig})
			}
		}
		return nil, nil, false
	})
}

// Who may not alter a topic is told which setting it needs, and with what.
func TestASettingThatMayNotBeSetIsNamed(t *testing.T) {
	t.Parallel()
	config := smallConfig(t)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	kit.Must(t, err)
	t.Cleanup(broker.Close)
	config.Stream.Brokers = broker.ListenAddrs()
	prepare(t, config)
	for _, refusal := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidConfig} {
		broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.IncrementalAlterConfigs}, Err: refusal, Count: 1})
		config.TransientRetention += time.Hour
		if _, err := ensureKafka(t.Context(), config, quietly); !errors.Is(err, refusal) || !strings.Contains(err.Error(), "topic pix.authorization-requests has retention.ms=") || !strings.Contains(err.Error(), "set it with your Kafka tools") {
			t.Errorf("%s: %v", refusal.Message, err)
		}
	}
}
