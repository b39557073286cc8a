package bootstrap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// onSecuredKafka returns a configuration that logs in as the admin of a broker, and makes users.
func onSecuredKafka(t *testing.T, options ...kfake.Opt) *Config {
	t.Helper()
	config := smallConfig(t)
	config.PasswordsDir = t.TempDir()
	file := keys.PasswordFile(config.PasswordsDir, stream.Admin)
	kit.Must(t, keys.MakePassword(file))
	password, err := keys.ReadPassword(file)
	kit.Must(t, err)
	_, config.Stream = startKafka(t,
		append(options, kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.Superuser("SCRAM-SHA-512", stream.Admin, password))...)
	config.Stream.SASLUser, config.Stream.SASLPasswordFile = stream.Admin, file
	kit.Must(t, config.Validate())

	return config
}

// as returns a client that logs in as user, with the password from the folder.
func as(t *testing.T, config *Config, user string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	kafka := config.Stream
	kafka.SASLUser, kafka.SASLPasswordFile = user, keys.PasswordFile(config.PasswordsDir, user)
	connection, err := kafka.Options()
	kit.Must(t, err)
	client, err := kgo.NewClient(
		slices.Concat(connection, []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond)}, options)...)
	kit.Must(t, err)
	t.Cleanup(client.Close)

	return client
}

func mayWrite(t *testing.T, client *kgo.Client, topic string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
	// Who may write to no topic gets not even the number of an idempotent producer.
	if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) &&
		!errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Fatalf("writing to %s: %v", topic, err)
	}

	return err == nil
}

func mayRead(t *testing.T, config *Config, user, topic string) bool {
	t.Helper()
	client := as(t, config, user,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	for { // a record that the admin has written, or a refusal
		fetches := client.PollFetches(ctx)
		if fetches.NumRecords() > 0 {
			return true
		}

		for _, failed := range fetches.Errors() {
			if errors.Is(failed.Err, kerr.TopicAuthorizationFailed) {
				return false
			}
			t.Fatalf("%s reading %s: %v", user, topic, failed.Err)
		}
	}
}

// Each user may do what the table says and nothing else, also after somebody gave it more. Its password stays until its
// file is replaced, and is never printed.
func TestUsers(t *testing.T) {
	t.Parallel()
	versions := kversion.Stable()
	// all else works; TestSecuredKafka of loadtest/e2e has quotas
	versions.SetMaxKeyVersion(kmsg.AlterClientQuotas.Int16(), -1)
	config := onSecuredKafka(t, kfake.MaxVersions(versions))
	passwords := map[string]string{}

	for run := range 3 {
		said, err := prepare(t, config)
		if err != nil || !strings.Contains(said, "NO QUOTAS") {
			t.Fatalf("%v, and it says %q", err, said)
		}

		for user := range rightsByHand {
			password, err := keys.ReadPassword(keys.PasswordFile(config.PasswordsDir, user))

			changed := run > 0 && passwords[user] != password
			if err != nil || strings.Contains(said, password) || changed != (run == 2 && user == "producer") {
				t.Errorf("run %d: the password of %s: %v; changed %v; it must not be printed", run, user, err, changed)
			}
			passwords[user] = password
		}
		kit.Must(t, stream.Reach(t.Context(), as(t, config, "producer")))

		if run == 1 {
			kit.Must(t, os.Remove(keys.PasswordFile(config.PasswordsDir, "producer")))
		}
	}

	client := as(t, config, stream.Admin, kgo.RecordPartitioner(kgo.ManualPartitioner()))

	admin := kadm.NewClient(client)
	for _, surplus := range []*kadm.ACLBuilder{
		kadm.NewACLs().Allow("User:producer").Topics(stream.Settlements).Operations(kadm.OpWrite),
		kadm.NewACLs().Allow("User:producer").Topics("pix.").Operations(kadm.OpAll).ResourcePatternType(
			kadm.ACLPatternPrefixed),
		kadm.NewACLs().Allow("User:producer").AllowHosts("127.0.0.1").Topics(stream.AuthorizationRequests).Operations(
			kadm.OpWrite),
		// not our user: bootstrap leaves it
		kadm.NewACLs().Allow("User:somebody").Topics(stream.Settlements).Operations(kadm.OpRead),
	} {
		kit.Must(t, kit.ErrorOf(admin.CreateACLs(t.Context(), surplus)))
	}

	if !mayWrite(t, as(t, config, "producer"), stream.Settlements) {
		t.Fatal("the surplus ACL has no effect: the test proves nothing")
	}
	kit.Must(t, kit.ErrorOf(prepare(t, config)))

	others, err := admin.DescribeACLs(t.Context(),
		kadm.NewACLs().AnyResource().Allow("User:somebody").AllowHosts().Operations(kadm.OpAny).ResourcePatternType(
			kadm.ACLPatternAny))
	if err != nil || len(others[0].Described) != 1 {
		t.Errorf("the rights of a user that is not in the table: %v, %v", others, err)
	}

	for _, topic := range stream.Topics {
		kit.Must(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: topic.Name, Value: []byte("x")}).FirstErr())
	}

	if len(rightsByHand) != len(stream.Accesses) {
		t.Errorf("%d users, and %d rows here", len(stream.Accesses), len(rightsByHand))
	}

	for user, has := range rightsByHand {
		tryAll(t, config, config, user, has)
	}

	config.Timeout = 4 * time.Second
	config.Stream.SASLPasswordFile = filepath.Join(t.TempDir(), "guessed")
	kit.Must(t, keys.MakePassword(config.Stream.SASLPasswordFile))

	const reason = "KAFKA_SASL_USER or its password is missing or wrong"
	if said, err := prepare(t, config); err == nil || !strings.Contains(err.Error(), reason) ||
		!strings.Contains(said, reason) {
		t.Errorf("it ended with %v after it had said %q; want %q in both", err, said, reason)
	}
}

// has lists by hand what a user may do, so that an error in the table of platform/stream is found. The names of
// topics are without "pix.".
type has struct{ writes, reads, joins, sees string }

var (
	rightsByHand = map[string]has{
		"producer": {"payments authorization-responses",
			"payments authorization-requests settlements dead-letters checkpoints", "", "clearing-engine"},
		"clearing-engine": {"authorization-requests settlements dead-letters checkpoints",
			"payments authorization-responses settlements dead-letters checkpoints", "clearing-engine", ""},
		"bank-simulator": {"authorization-responses", "authorization-requests", "bank-simulator", ""},
		"loadtest": {"payments",
			"payments authorization-requests authorization-responses settlements dead-letters checkpoints", "",
			"clearing-engine"},
		"room": {"", "payments authorization-requests authorization-responses settlements dead-letters checkpoints",
			"", "clearing-engine"},
	}
	ofParticipant = has{"authorization-responses", "authorization-requests", "participant-10000006", ""}
)

// tryAll tries everything as a user, also what it must not do. own has the user's password.
func tryAll(t *testing.T, config, own *Config, user string, may has) {
	t.Helper()
	client := as(t, own, user)
	listed := func(list, name string) bool { return slices.Contains(strings.Fields(list), name) }
	expect := func(got, want bool, what string) {
		t.Helper()

		if got != want {
			t.Errorf("%s may %s: %v, want %v", user, what, got, want)
		}
	}

	for _, topic := range stream.Topics {
		short := strings.TrimPrefix(topic.Name, "pix.")
		expect(mayWrite(t, client, topic.Name), listed(may.writes, short), "write to "+topic.Name)
		expect(mayRead(t, own, user, topic.Name), listed(may.reads, short), "read "+topic.Name)
		deleted, err := kadm.NewClient(client).DeleteRecords(t.Context(),
			kadm.Offsets{topic.Name: {0: {Topic: topic.Name, At: 1}}})
		expect(errors.Join(err, deleted.Error()) == nil, false, "delete records of "+topic.Name)
	}

	for _, group := range []string{stream.EngineGroup, stream.BankGroup, "participant-10000006", "participant-10000001",
		"another"} {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group,
			"consumer", 6000, 6000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		joined, err := join.RequestWith(t.Context(), client) // it only gets an id: MEMBER_ID_REQUIRED
		expect(err == nil && joined.ErrorCode != kerr.GroupAuthorizationFailed.Code, listed(may.joins, group),
			"join "+group)
		_, err = kadm.NewClient(client).FetchOffsets(t.Context(), group)
		expect(!errors.Is(err, kerr.GroupAuthorizationFailed), listed(may.joins, group) || listed(may.sees, group),
			"see the offsets of "+group)
		_, err = kadm.NewClient(client).DeleteGroup(t.Context(), group)
		expect(!errors.Is(err, kerr.GroupAuthorizationFailed), false, "delete "+group)
	}
	// An open transaction on the payments would stop its partitions.
	expect(!errors.Is(as(t, own, user, kgo.TransactionalID("of-"+user)).BeginTransaction(),
		kerr.TransactionalIDAuthorizationFailed), false, "write in a transaction")

	_, err := kadm.NewClient(client).CreateTopics(t.Context(), 1, 1, nil, "topic-of-"+user)
	if listed, wrong := kadm.NewClient(as(t, config, stream.Admin)).ListTopics(t.Context()); err == nil &&
		(wrong != nil || listed.Has("topic-of-"+user)) {
		t.Errorf("%s may create topics: %v", user, wrong)
	}
}
