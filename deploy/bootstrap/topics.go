package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/stream"
)

// topicConfigs returns the settings that a topic's correctness rests on, on the broker of a cluster. They are
// set, not left to a broker's defaults: a payment that was compacted away or has expired cannot be audited.
func topicConfigs(topic stream.Topic, cluster string, config *Config) map[string]string {
	retention := strconv.FormatInt(config.TransientRetention.Milliseconds(), 10)
	if topic.KeepForever {
		retention = "-1"
	}

	cleanup := "delete"
	if topic.Compacted {
		cleanup = "compact"
	}

	configs := map[string]string{
		"cleanup.policy": cleanup,
		// batches stay as they were sent, so what a writer keeps to, readers can rely on
		"compression.type":  "producer",
		"max.message.bytes": strconv.Itoa(topic.MessageBytes()),
		// An order is valid relative to its record's timestamp, which is its sender's: see Validate of platform/pix.
		"message.timestamp.type": "CreateTime",
		// Old records are welcome: an order may have waited for long, and a restored topic keeps its timestamps. But
		// one from the future would keep all that comes behind it from expiring. Its sender gets INVALID_TIMESTAMP.
		"message.timestamp.before.max.ms": "9223372036854", // 292 years, the most that Redpanda takes
		"message.timestamp.after.max.ms":  "3600000",
		// Services produce with acks=all, which means all in-sync replicas. With this many of them
		// that is a majority, so no loss of a minority loses an acknowledged record.
		"min.insync.replicas": strconv.Itoa(config.ReplicationFactor/2 + 1),
		"retention.bytes":     "-1",
		"retention.ms":        retention,
		// A replica that lacks acknowledged records must not become the leader: they would be gone.
		"unclean.leader.election.enable": "false",
	}
	if isRedpanda(cluster) {
		configs[writeCaching] = "false" // with it, Redpanda acknowledges what is in memory only
	}

	return configs
}

const writeCaching = "write.caching"

func isRedpanda(cluster string) bool { return strings.HasPrefix(cluster, "redpanda.") } // its cluster ids begin so

// safelyIgnored returns why the broker of a cluster may ignore a setting of a topic, or "": then it does
// not describe it, and there is nothing to compare. Every other setting must be described.
func safelyIgnored(name, cluster string, config *Config) (why string) {
	const replicas, unclean = "min.insync.replicas", "unclean.leader.election.enable"
	switch redpanda := isRedpanda(cluster); {
	case redpanda && name == replicas:
		return "Redpanda acknowledges a record of acks=all when a Raft majority has it"
	case redpanda && name == unclean:
		return "Raft elects no leader that lacks an acknowledged record"
	case config.ReplicationFactor == 1 && (name == replicas || name == unclean):
		return "with REPLICATION_FACTOR 1 the one replica has every acknowledged record"
	}

	return ""
}

func connectKafka(config *Config) (*kgo.Client, error) {
	client, err := config.Stream.Client(
		kgo.ClientID("bootstrap"), kgo.DialTimeout(2*time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequestRetries(0),                    // a retry of the client's own would hide why the broker is away
		kgo.MetadataMinAge(100*time.Millisecond), // the default of 5 s would hide the topics just created
	)
	if err != nil {
		return nil, fmt.Errorf("cannot make a Kafka client: %w", err)
	}

	return client, nil
}

// patiently does what may fail because Kafka, or something in it, is not ready yet: topics that it has just created
// have no leader for a moment, and the first group no coordinator. It says why it waits: after 2 s, then every 5.
func patiently(ctx context.Context, config *Config, say func(string, ...any), do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	deadline, _ := ctx.Deadline() // a connection looks at it, and a busy machine may end ctx only later

	var why error

	for told := time.Now().Add(-3 * time.Second); ; {
		err := do(ctx)
		if !errors.As(err, new(*awayError)) && !kerr.IsRetriable(err) {
			return err
		}
		// after the deadline err says only that time is up: keep the last cause
		if why == nil || time.Now().Before(deadline) {
			why = err
		}

		if time.Since(told) > 5*time.Second {
			told = time.Now()
			say("waiting for Kafka: %v", why)
		}

		if !host.Sleep(ctx, 200*time.Millisecond) {
			return notReady(config, why)
		}
	}
}

// ensureKafka creates the missing topics, and sets on others what they must have; it fails if the broker does not take
// it. On a secured broker it also creates the users, and grants ACLs and quotas.
func ensureKafka(ctx context.Context, client *kgo.Client, config *Config, say func(string, ...any)) error {
	said := map[string]bool{}
	once := func(format string, values ...any) (first bool) { // each attempt finds the same
		line := fmt.Sprintf(format, values...)
		if first = !said[line]; first {
			said[line] = true
			say("%s", line)
		}

		return first
	}

	return patiently(ctx, config, say, func(ctx context.Context) error {
		return ensureOnce(ctx, client, config, once)
	})
}

func ensureOnce(ctx context.Context, client *kgo.Client, config *Config, say func(string, ...any) bool) error {
	if err := stream.Reach(ctx, client); err != nil { // a wrong password too: the broker may still be making its users
		return &awayError{err}
	}

	admin := kadm.NewClient(client)
	for _, step := range []func(context.Context, *kadm.Client, *Config, func(string, ...any) bool) error{createMissing,
		grow, verifyAll} {
		if err := step(ctx, admin, config, say); err != nil {
			return err
		}
	}

	if config.PasswordsDir == "" {
		return nil
	}

	return ensureUsers(ctx, client, config, config.PasswordsDir, stream.Accesses, func(format string, values ...any) {
		say(format, values...)
	})
}

// awayError is a failure that may pass.
type awayError struct{ error }

func (e *awayError) Unwrap() error { return e.error }

func away(format string, values ...any) error { return &awayError{fmt.Errorf(format, values...)} }

func createMissing(ctx context.Context, admin *kadm.Client, config *Config, say func(string, ...any) bool) error {
	metadata, err := admin.Metadata(ctx, stream.TopicNames()...)
	if err != nil {
		return &awayError{err}
	}

	for _, topic := range stream.Topics {
		if !errors.Is(metadata.Topics[topic.Name].Err, kerr.UnknownTopicOrPartition) {
			continue
		}

		if topic.Name == stream.Payments && config.namedLog > 0 {
			return fmt.Errorf("topic %s does not exist, and the ledger names its log (number %d): a new topic would hide the loss of acknowledged payments; put the log back, or set PAYMENTS_LOG_GIVEN_UP=%[2]d if it is lost for good: see ForeignLog in deploy/runbook.md",
				topic.Name, config.namedLog)
		}

		if topic.KeepForever && !topic.Compacted && topic.Name != stream.Payments && config.namedLog > 0 &&
			!config.retell {
			return fmt.Errorf("topic %s does not exist, and engines have worked: what it kept is gone, and an empty one would hide that; put its files back, or stop all engines and run bootstrap retell, with which engines write again what is missing: see TopicsChanged in deploy/runbook.md",
				topic.Name)
		}

		configs := map[string]*string{}
		for name, value := range topicConfigs(topic, metadata.Cluster, config) {
			configs[name] = &value
		}

		response, err := admin.CreateTopic(ctx, int32(config.Partitions), int16(config.ReplicationFactor),
			configs, topic.Name)
		switch {
		case err == nil:
			say("topic %s is new", topic.Name)
		case errors.Is(err, kerr.TopicAlreadyExists): // another bootstrap was faster
		case response.Err != nil && !kerr.IsRetriable(response.Err):
			return fmt.Errorf("Kafka refuses to create topic %s with PARTITIONS %d and REPLICATION_FACTOR %d: %w %s",
				topic.Name, config.Partitions, config.ReplicationFactor, response.Err, response.ErrMessage)
		default:
			return away("creating topic %s: %w", topic.Name, err)
		}
	}

	return nil
}

// verifyAll verifies every topic, also those just created: another run may have been faster. It sets what
// must be different, and has it read again.
func verifyAll(ctx context.Context, admin *kadm.Client, config *Config, say func(string, ...any) bool) error {
	found, err := admin.Metadata(ctx, stream.TopicNames()...)
	if err != nil {
		return &awayError{err}
	}

	configs, err := admin.DescribeTopicConfigs(ctx, stream.TopicNames()...)
	if err != nil {
		return &awayError{err}
	}
	var altered error

	for _, topic := range stream.Topics {
		if err := verifyPartitions(topic, found.Topics[topic.Name], config); err != nil {
			return err
		}

		described, err := configs.On(topic.Name, nil)
		if err = errors.Join(err, described.Err); err != nil {
			return away("configuration of topic %s: %w", topic.Name, err)
		}

		have := map[string]string{}
		for _, entry := range described.Configs {
			have[entry.Key] = entry.MaybeValue()
		}

		want := topicConfigs(topic, found.Cluster, config)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			is, known := have[name]

			why := safelyIgnored(name, found.Cluster, config)
			switch {
			case is == want[name], name == writeCaching && is == "disabled": // for the whole cluster
			case !known && why != "":
				say("this broker ignores the topics' setting %s, which is safe here: %s", name, why)
			default:
				if err := alter(ctx, admin, topic.Name, name, is, want[name]); err != nil {
					return err
				}

				if first := say("topic %s has %s=%s now; it had %q", topic.Name, name, want[name], is); !first &&
					!known {
					return fmt.Errorf("topic %s must have %s=%s, and this broker (cluster %q) does not describe it: without it records could be lost, so use a broker that knows it",
						topic.Name, name, want[name], found.Cluster)
				}
				altered = away("topic %s has a new %s, to be read again", topic.Name, name)
			}
		}
	}

	return altered
}

func verifyPartitions(topic stream.Topic, detail kadm.TopicDetail, config *Config) error {
	have, replicas := len(detail.Partitions), detail.Partitions.NumReplicas()
	switch {
	case detail.Err != nil: // a new topic takes a moment to be known everywhere
		return away("topic %s: %w", topic.Name, detail.Err)
	case have > config.Partitions:
		return fmt.Errorf("topic %s has %d partitions and PARTITIONS is %d: partitions are never taken away, because their records would be lost; set PARTITIONS to %[2]d or more",
			topic.Name, have, config.Partitions)
	case have < config.Partitions: // grow has added them, and not every broker knows it
		return away("topic %s has %d partitions and not yet %d", topic.Name, have, config.Partitions)
	case replicas < config.ReplicationFactor:
		return fmt.Errorf("topic %s has %d replicas and REPLICATION_FACTOR is %d: reassign its partitions, or set REPLICATION_FACTOR to %[2]d",
			topic.Name, replicas, config.ReplicationFactor)
	}

	return nil
}

// alter sets a setting of a topic.
func alter(ctx context.Context, admin *kadm.Client, topic, name, have, want string) error {
	what := fmt.Sprintf("topic %s has %s=%s and must have %[2]s=%[4]s", topic, name, have, want)

	responses, err := admin.AlterTopicConfigs(ctx,
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &want}}, topic)
	if err != nil {
		return away("%s: %w", what, err)
	}

	response, err := responses.On(topic, nil)
	switch err = errors.Join(err, response.Err); {
	case err == nil:
		return nil
	case kerr.IsRetriable(err):
		return away("%s: %w", what, err)
	}

	return fmt.Errorf("%s, and Kafka does not let this user set it: %w %s: set it with your Kafka tools (retention.ms of the authorization topics follows TRANSIENT_RETENTION, min.insync.replicas is REPLICATION_FACTOR/2+1), or start with an empty Kafka",
		what, err, response.ErrMessage)
}

// grow adds the partitions that topics lack. pix.payments is the last: an order in a partition that another
// topic lacks would find no bank. It waits until all who read the questions to banks own the new ones. Engines take
// over what was added then, and front doors send orders there as soon as an engine owns it.
func grow(ctx context.Context, admin *kadm.Client, config *Config, say func(string, ...any) bool) error {
	found, err := admin.ListTopics(ctx, stream.TopicNames()...)
	if err != nil {
		return &awayError{err}
	}

	for _, topic := range slices.Backward(stream.TopicNames()) { // pix.payments is the first of them
		detail := found[topic]

		have := len(detail.Partitions)
		if detail.Err != nil || have >= config.Partitions { // verifyPartitions refuses more
			continue
		}

		if topic == stream.Payments {
			if err := askedEverywhere(ctx, admin, config); err != nil {
				return err
			}
		}

		response, err := admin.UpdatePartitions(ctx, config.Partitions, topic)
		if err == nil {
			err = response.Error()
		}

		if err != nil {
			return away("adding partitions to topic %s: %w", topic, err)
		}
		say("topic %s has %d partitions now, %d of them new", topic, config.Partitions, config.Partitions-have)
	}

	return nil
}

// askedEverywhere returns an error while a group that reads the questions to banks does not own all of their
// partitions: its banks would not be asked. Readers without a group cannot be seen.
func askedEverywhere(ctx context.Context, admin *kadm.Client, config *Config) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return away("listing the groups of consumers: %w", err)
	}

	groups, err := admin.DescribeGroups(ctx, listed.Groups()...)
	if err != nil {
		return away("describing the groups of consumers: %w", err)
	}

	for _, group := range groups.Sorted() {
		reads := slices.Contains(group.JoinTopics(), stream.AuthorizationRequests)
		if owned := len(group.AssignedPartitions()[stream.AuthorizationRequests]); reads && owned < config.Partitions {
			return &awayError{unreadError{
				fmt.Errorf("the consumer group %s owns %d of the %d partitions of %s, so %s gets no more partitions yet",
					group.Group, owned, config.Partitions, stream.AuthorizationRequests, stream.Payments)}}
		}
	}

	return nil
}

// unreadError says that Kafka is ready, and a reader is not.
type unreadError struct{ error }

// notReady is the error of a run whose time is over.
func notReady(config *Config, why error) error {
	if errors.As(why, new(unreadError)) {
		return fmt.Errorf("after BOOTSTRAP_TIMEOUT %v %w. Payments go on as before. Clients look for new partitions regularly (metadata.max.age.ms, 5 minutes by default): run this again, stop the group's program, or raise BOOTSTRAP_TIMEOUT",
			config.Timeout, why)
	}

	return fmt.Errorf("Kafka at KAFKA_BROKERS %v is not ready after BOOTSTRAP_TIMEOUT %v: %w; start it, or correct the settings KAFKA_…",
		config.Stream.Brokers, config.Timeout, why)
}
