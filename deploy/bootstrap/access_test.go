package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// startSecuredKafka starts a broker with start, and returns a configuration that logs in as its
// admin and makes users.
func startSecuredKafka(t *testing.T, start func(*testing.T, ...kfake.Opt) stream.Config) *Config {
	t.Helper()
	config := smallConfig(t)
	config.PasswordsDir = t.TempDir()
	file := keys.PasswordFile(config.PasswordsDir, stream.Admin)
	kit.Must(t, keys.MakePassword(file))
	password, err := keys.ReadPassword(file)
	kit.Must(t, err)
	config.Stream = start(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-512", stream.Admin, password))
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
	client, err := kgo.NewClient(slices.Concat(connection, []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond)}, options)...)
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
	if err != nil && !errors.Is(err, kerr.TopicAuthorizationFailed) && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Fatalf("writing to %s: %v", topic, err)
	}
	return err == nil
}

func mayRead(t *testing.T, config *Config, user, topic string) bool {
	t.Helper()
	client := as(t, config, user, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
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

func TestEveryUserMayDoWhatTheTableSaysAndNothingElse(t *testing.T) {
	t.Parallel()
	config := startSecuredKafka(t, startKafka)
	var said bytes.Buffer
	say := func(format string, values ...any) { fmt.Fprintf(&said, format+"\n", values...) }
	kit.Must(t, kit.ErrorOf(ensureKafka(t.Context(), config, say)))
	admin := as(t, config, stream.Admin, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, topic := range stream.Topics {
		if !mayWrite(t, admin, topic.Name) {
			t.Fatalf("the admin may not write to %s", topic.Name)
		}
	}
	if len(rightsByHand) != len(stream.Accesses) {
		t.Errorf("%d users, and %d rows here", len(stream.Accesses), len(rightsByHand))
	}
	for user, has := range rightsByHand {
		tryAll(t, config, config, user, has)
		password, err := keys.ReadPassword(keys.PasswordFile(config.PasswordsDir, user))
		if err != nil || strings.Contains(said.String(), password) {
			t.Errorf("the password of %s: %v; it must not be printed", user, err)
		}
	}
}

// has lists by hand what a user may do, so that an error in the table of platform/stream is found. The names of
// topics are without "pix.".
type has struct{ writes, reads, joins, sees string }

var (
	rightsByHand = map[string]has{
		"producer":        {"payments authorization-responses", "payments authorization-requests settlements dead-letters checkpoints", "", "clearing-engine"},
		"clearing-engine": {"authorization-requests settlements dead-letters checkpoints", "payments authorization-responses settlements dead-letters checkpoints", "clearing-engine", ""},
		"bank-simulator":  {"authorization-responses", "authorization-requests", "bank-simulator", ""},
		"loadtest":        {"payments", "payments authorization-requests authorization-responses settlements dead-letters checkpoints", "", "clearing-engine"},
		"room":            {"", "payments authorization-requests authorization-responses settlements dead-letters checkpoints", "", "clearing-engine"},
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
		deleted, err := kadm.NewClient(client).DeleteRecords(t.Context(), kadm.Offsets{topic.Name: {0: {Topic: topic.Name, At: 1}}})
		expect(errors.Join(err, deleted.Error()) == nil, false, "delete records of "+topic.Name)
	}
	for _, group := range []string{stream.EngineGroup, stream.BankGroup, "participant-10000006", "participant-10000001", "another"} {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 6000, 6000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		joined, err := join.RequestWith(t.Context(), client) // it only gets an id: MEMBER_ID_REQUIRED
		expect(err == nil && joined.ErrorCode != kerr.GroupAuthorizationFailed.Code, listed(may.joins, group), "join "+group)
		_, err = kadm.NewClient(client).FetchOffsets(t.Context(), group)
		expect(!errors.Is(err, kerr.GroupAuthorizationFailed), listed(may.joins, group) || listed(may.sees, group), "see the offsets of "+group)
		_, err = kadm.NewClient(client).DeleteGroup(t.Context(), group)
		expect(!errors.Is(err, kerr.GroupAuthorizationFailed), false, "delete "+group)
	}
	// An open transaction on the payments would stop its partitions.
	expect(!errors.Is(as(t, own, user, kgo.TransactionalID("of-"+user)).BeginTransaction(), kerr.TransactionalIDAuthorizationFailed), false, "write in a transaction")
	_, err := kadm.NewClient(client).CreateTopics(t.Context(), 1, 1, nil, "topic-of-"+user)
	if listed, wrong := kadm.NewClient(as(t, config, stream.Admin)).ListTopics(t.Context()); err == nil && (wrong != nil || listed.Has("topic-of-"+user)) {
		t.Errorf("%s may create topics: %v", user, wrong)
	}
}

func TestWhatTheTableDoesNotGiveIsTakenAway(t *testing.T) {
	t.Parallel()
	config := startSecuredKafka(t, startKafka)
	prepare(t, config)
	admin := kadm.NewClient(as(t, config, stream.Admin))
	for _, surplus := range []*kadm.ACLBuilder{
		kadm.NewACLs().Allow("User:producer").Topics(stream.Settlements).Operations(kadm.OpWrite),
		kadm.NewACLs().Allow("User:producer").Topics("pix.").Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternPrefixed),
		kadm.NewACLs().Allow("User:producer").AllowHosts("127.0.0.1").Topics(stream.AuthorizationRequests).Operations(kadm.OpWrite),
		kadm.NewACLs().Allow("User:somebody").Topics(stream.Settlements).Operations(kadm.OpRead), // not our user: bootstrap leaves it
	} {
		kit.Must(t, kit.ErrorOf(admin.CreateACLs(t.Context(), surplus)))
	}
	producer := as(t, config, "producer")
	if !mayWrite(t, producer, stream.Settlements) {
		t.Fatal("the surplus ACL has no effect: the test proves nothing")
	}
	prepare(t, config)
	for _, topic := range []string{stream.Settlements, stream.AuthorizationRequests, stream.DeadLetters} {
		if mayWrite(t, producer, topic) {
			t.Errorf("the producer may still write to %s", topic)
		}
	}
	if !mayWrite(t, producer, stream.Payments) {
		t.Error("the producer may no longer write payments")
	}
	others, err := admin.DescribeACLs(t.Context(), kadm.NewACLs().AnyResource().Allow("User:somebody").AllowHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny))
	if err != nil || len(others[0].Described) != 1 {
		t.Errorf("the rights of a user that is not in the table: %v, %v", others, err)
	}
}

func TestPasswordsStayUntilTheirFileIsReplaced(t *testing.T) {
	t.Parallel()
	config := startSecuredKafka(t, startKafka)
	file := keys.PasswordFile(config.PasswordsDir, "producer")
	var passwords []string
	for run := range 3 {
		if run == 2 {
			kit.Must(t, os.Remove(file))
		}
		prepare(t, config)
		password, err := keys.ReadPassword(file)
		kit.Must(t, err)
		passwords = append(passwords, password)
		if err := stream.Reach(t.Context(), as(t, config, "producer")); err != nil {
			t.Errorf("run %d: %v", run, err)
		}
	}
	if passwords[0] != passwords[1] || passwords[1] == passwords[2] {
		t.Error("a password changed by itself, or did not when its file was removed")
	}
}

func TestAdminsWrongPasswordIsTheReasonForWaiting(t *testing.T) {
	t.Parallel()
	config := startSecuredKafka(t, startKafka)
	config.Timeout = 4 * time.Second
	config.Stream.SASLPasswordFile = filepath.Join(t.TempDir(), "guessed")
	kit.Must(t, keys.MakePassword(config.Stream.SASLPasswordFile))
	var said bytes.Buffer
	_, err := ensureKafka(t.Context(), config, func(format string, values ...any) { fmt.Fprintf(&said, format, values...) })
	const reason = "KAFKA_SASL_USER or its password is missing or wrong"
	if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(said.String(), reason) {
		t.Errorf("it ended with %v after it had said %q; want %q in both", err, &said, reason)
	}
	config.Stream.SASLUser, config.Stream.SASLPasswordFile = "", ""
	kit.Says(t, config.Validate(), "KAFKA_SASL_USER is empty: name the user that may make others")
}
