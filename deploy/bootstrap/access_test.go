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

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// startSecuredKafka starts a broker with start, and returns a configuration that logs in as its
// admin and makes users.
func startSecuredKafka(t *testing.T, start func(*testing.T, ...kfake.Opt) stream.Config) *Config {
	t.Helper()
	config := smallConfig(t)
	config.PasswordsDir = t.TempDir()
	file := keys.PasswordFile(config.PasswordsDir, stream.Admin)
	if err := keys.MakePassword(file); err != nil {
		t.Fatal(err)
	}
	password, err := keys.ReadPassword(file)
	if err != nil {
		t.Fatal(err)
	}
	config.Stream = start(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("SCRAM-SHA-512", stream.Admin, password))
	config.Stream.SASLUser, config.Stream.SASLPasswordFile = stream.Admin, file
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	return config
}

// as returns a client that logs in as user, with the password from the folder.
func as(t *testing.T, config *Config, user string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	kafka := config.Stream
	kafka.SASLUser, kafka.SASLPasswordFile = user, keys.PasswordFile(config.PasswordsDir, user)
	connection, err := kafka.Options()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(slices.Concat(connection, []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond)}, options)...)
	if err != nil {
		t.Fatal(err)
	}
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
	t.Run("embedded", func(t *testing.T) { everyUserMayDoWhatTheTableSays(t, startKafka) })
	t.Run("redpanda-like", func(t *testing.T) { everyUserMayDoWhatTheTableSays(t, startKafkaLikeRedpanda) })
}

func everyUserMayDoWhatTheTableSays(t *testing.T, start func(*testing.T, ...kfake.Opt) stream.Config) {
	config := startSecuredKafka(t, start)
	var said bytes.Buffer
	say := func(format string, values ...any) { fmt.Fprintf(&said, format+"\n", values...) }
	if _, err := ensureKafka(t.Context(), config, say); err != nil {
		t.Fatal(err)
	}
	admin := as(t, config, stream.Admin, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for _, topic := range stream.Topics {
		if !mayWrite(t, admin, topic.Name) {
			t.Fatalf("the admin may not write to %s", topic.Name)
		}
	}
	for _, access := range stream.Accesses {
		client := as(t, config, access.User)
		for _, topic := range stream.Topics {
			if got, want := mayWrite(t, client, topic.Name), slices.Contains(access.Writes, topic.Name); got != want {
				t.Errorf("%s may write to %s: %v, want %v", access.User, topic.Name, got, want)
			}
			if got, want := mayRead(t, config, access.User, topic.Name), slices.Contains(access.Reads, topic.Name); got != want {
				t.Errorf("%s may read %s: %v, want %v", access.User, topic.Name, got, want)
			}
		}
		for _, group := range []string{stream.EngineGroup, stream.BankGroup} {
			_, err := kadm.NewClient(client).FetchOffsets(t.Context(), group)
			want := slices.Contains(access.Joins, group) || slices.Contains(access.Sees, group)
			if got := !errors.Is(err, kerr.GroupAuthorizationFailed); got != want {
				t.Errorf("%s may see the offsets of %s: %v, want %v", access.User, group, err, want)
			}
		}
		// An open transaction on the payments would stop its partitions.
		if err := as(t, config, access.User, kgo.TransactionalID("of-"+access.User)).BeginTransaction(); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
			t.Errorf("%s may write in a transaction: %v", access.User, err)
		}
		if _, err := kadm.NewClient(client).CreateTopics(t.Context(), 1, 1, nil, "topic-of-"+access.User); err == nil {
			if listed, err := kadm.NewClient(admin).ListTopics(t.Context()); err != nil || listed.Has("topic-of-"+access.User) {
				t.Errorf("%s may create topics: %v", access.User, err)
			}
		}
		password, err := keys.ReadPassword(keys.PasswordFile(config.PasswordsDir, access.User))
		if err != nil || strings.Contains(said.String(), password) {
			t.Errorf("the password of %s: %v; it must not be printed", access.User, err)
		}
	}
}

func TestWhatTheTableDoesNotGiveIsTakenAway(t *testing.T) {
	t.Parallel()
	config := startSecuredKafka(t, startKafka)
	if _, err := ensureKafka(t.Context(), config, quietly); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(as(t, config, stream.Admin))
	for _, surplus := range []*kadm.ACLBuilder{
		kadm.NewACLs().Allow("User:producer").Topics(stream.Settlements).Operations(kadm.OpWrite),
		kadm.NewACLs().Allow("User:producer").Topics("pix.").Operations(kadm.OpAll).ResourcePatternType(kadm.ACLPatternPrefixed),
		kadm.NewACLs().Allow("User:producer").AllowHosts("127.0.0.1").Topics(stream.AuthorizationResponses).Operations(kadm.OpWrite),
		kadm.NewACLs().Allow("User:somebody").Topics(stream.Settlements).Operations(kadm.OpRead), // not our user: bootstrap leaves it
	} {
		if _, err := admin.CreateACLs(t.Context(), surplus); err != nil {
			t.Fatal(err)
		}
	}
	producer := as(t, config, "producer")
	if !mayWrite(t, producer, stream.Settlements) {
		t.Fatal("the surplus ACL has no effect: the test proves nothing")
	}
	if _, err := ensureKafka(t.Context(), config, quietly); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{stream.Settlements, stream.AuthorizationResponses, stream.DeadLetters} {
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
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ensureKafka(t.Context(), config, quietly); err != nil {
			t.Fatal(err)
		}
		password, err := keys.ReadPassword(file)
		if err != nil {
			t.Fatal(err)
		}
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
	if err := keys.MakePassword(config.Stream.SASLPasswordFile); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	_, err := ensureKafka(t.Context(), config, func(format string, values ...any) { fmt.Fprintf(&said, format, values...) })
	const reason = "KAFKA_SASL_USER or its password is missing or wrong"
	if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(said.String(), reason) {
		t.Errorf("it ended with %v after it had said %q; want %q in both", err, &said, reason)
	}
	config.Stream.SASLUser, config.Stream.SASLPasswordFile = "", ""
	if err := config.Validate(); err == nil || !strings.Contains(err.Error(), "KAFKA_SASL_USER is empty: name the user that may make others") {
		t.Error(err)
	}
}
