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

	"github.com/liquida/liquida/platform/stream"
)

// topicConfigs returns the settings that a topic's correctness rests on. They are set, not left
// to a broker's defaults: a payment that was compacted away or has expired cannot be audited.
func topicConfigs(topic stream.Topic, config *Config) map[string]string {
	retention := strconv.FormatInt(config.TransientRetention.Milliseconds(), 10)
	if topic.KeepForever {
		retention = "-1"
	}
	return map[string]string{
		"cleanup.policy":    "delete",
		"max.message.bytes": strconv.Itoa(stream.MessageBytesMax),
		// Services produce with acks=all, which means all in-sync replicas. With this many of them
		// that is a majority, so no loss of a minority loses an acknowledged record.
		"min.insync.replicas": strconv.Itoa(config.ReplicationFactor/2 + 1),
		"retention.bytes":     "-1",
		"retention.ms":        retention,
	}
}

// safelyIgnored returns why the broker of a cluster may ignore a setting of a topic: then it does
// not describe it, and there is nothing to compare. Every other setting must be described.
func safelyIgnored(name, cluster string, config *Config) (why string, safe bool) {
	if name != "min.insync.replicas" {
		return "", false
	}
	switch {
	case strings.HasPrefix(cluster, "redpanda."): // Redpanda's cluster ids begin so
		return "Redpanda acknowledges a record of acks=all when a Raft majority has it", true
	case config.ReplicationFactor == 1:
		return "with REPLICATION_FACTOR 1 the one replica has every acknowledged record", true
	}
	return "", false
}

func connectKafka(config *Config) (*kgo.Client, error) {
	client, err := config.Stream.Client(
		kgo.ClientID("bootstrap"), kgo.DialTimeout(2*time.Second),
		kgo.RequestRetries(0),                    // a retry of the client's own would hide why the broker is away
		kgo.MetadataMinAge(100*time.Millisecond), // the default of 5 s would hide the topics just created
	)
	if err != nil {
		return nil, fmt.Errorf("cannot make a Kafka client: %w", err)
	}
	return client, nil
}

// ensureKafka creates the missing topics and returns how many it created. It fails if a topic
// exists with other settings. On a secured broker it also creates the users and grants the ACLs.
func ensureKafka(ctx context.Context, config *Config, say func(string, ...any)) (created int, err error) {
	client, err := connectKafka(config)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	deadline, _ := ctx.Deadline() // a connection looks at it, and a busy machine may end ctx only later

	var why error // why it waits: logged after 2 s, then every 5
	for told := time.Now().Add(-3 * time.Second); ; {
		made, ignored, err := ensureOnce(ctx, client, config)
		created += made
		quotas := ""
		if err == nil && config.PasswordsDir != "" {
			quotas, err = ensureQuotas(ctx, client, config, stream.Accesses)
		}
		var away *awayError
		switch {
		case err == nil:
			if quotas != "" {
				say("%s", quotas)
			}
			for _, name := range slices.Sorted(maps.Keys(ignored)) {
				say("this broker ignores the topics' setting %s, which is safe here: %s", name, ignored[name])
			}
			return created, nil
		case !errors.As(err, &away):
			return created, err
		case why == nil || time.Now().Before(deadline): // after the deadline err says only that time is up: keep the last cause
			why = away.err
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			say("waiting for Kafka: %v", why)
		}
		select {
		case <-ctx.Done():
			return created, fmt.Errorf("Kafka at KAFKA_BROKERS %v is not ready after BOOTSTRAP_TIMEOUT %v: %w; start it, or correct the settings KAFKA_…", config.Stream.Brokers, config.Timeout, why)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ensureOnce also returns which settings of topics the broker ignores, and why that is safe.
func ensureOnce(ctx context.Context, client *kgo.Client, config *Config) (created int, ignored map[string]string, err error) {
	if err := stream.Reach(ctx, client); err != nil { // a wrong password too: the broker may still be making its users
		return 0, nil, &awayError{err}
	}
	admin := kadm.NewClient(client)
	if created, err = createMissing(ctx, admin, config); err != nil {
		return created, nil, err
	}
	if ignored, err = verifyAll(ctx, admin, config); err == nil && config.PasswordsDir != "" {
		err = ensureUsers(ctx, client, config, config.PasswordsDir, stream.Accesses)
	}
	return created, ignored, err
}

// awayError is a failure that may pass.
type awayError struct{ err error }

func (e *awayError) Error() string { return e.err.Error() }

func topicNames() (names []string) {
	for _, topic := range stream.Topics {
		names = append(names, topic.Name)
	}
	return names
}

func createMissing(ctx context.Context, admin *kadm.Client, config *Config) (created int, err error) {
	found, err := admin.ListTopics(ctx, topicNames()...)
	if err != nil {
		return 0, &awayError{err}
	}
	for _, topic := range stream.Topics {
		if !errors.Is(found[topic.Name].Err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if topic.Name == stream.Payments && config.namedLog > 0 {
			return created, fmt.Errorf("topic %s does not exist, and the ledger names its log (number %d): a new topic would hide the loss of acknowledged payments; put the log back, or set PAYMENTS_LOG_GIVEN_UP=%[2]d if it is lost for good: see ForeignLog in deploy/runbook.md", topic.Name, config.namedLog)
		}
		configs := map[string]*string{}
		for name, value := range topicConfigs(topic, config) {
			configs[name] = &value
		}
		response, err := admin.CreateTopic(ctx, int32(config.Partitions), int16(config.ReplicationFactor), configs, topic.Name)
		switch {
		case err == nil:
			created++
		case errors.Is(err, kerr.TopicAlreadyExists): // another bootstrap was faster
		case response.Err != nil && !kerr.IsRetriable(response.Err):
			return created, fmt.Errorf("Kafka refuses to create topic %s with PARTITIONS %d and REPLICATION_FACTOR %d: %w %s", topic.Name, config.Partitions, config.ReplicationFactor, response.Err, response.ErrMessage)
		default:
			return created, &awayError{fmt.Errorf("creating topic %s: %w", topic.Name, err)}
		}
	}
	return created, nil
}

// verifyAll verifies every topic, also those just created: another run may have been faster.
func verifyAll(ctx context.Context, admin *kadm.Client, config *Config) (ignored map[string]string, err error) {
	found, err := admin.Metadata(ctx, topicNames()...)
	if err != nil {
		return nil, &awayError{err}
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topicNames()...)
	if err != nil {
		return nil, &awayError{err}
	}
	ignored = map[string]string{}
	for _, topic := range stream.Topics {
		detail := found.Topics[topic.Name]
		if detail.Err != nil { // a new topic takes a moment to be known everywhere
			return nil, &awayError{fmt.Errorf("topic %s: %w", topic.Name, detail.Err)}
		}
		described, err := configs.On(topic.Name, nil)
		if err = errors.Join(err, described.Err); err != nil {
			return nil, &awayError{fmt.Errorf("configuration of topic %s: %w", topic.Name, err)}
		}
		if err := verifyPartitions(topic, detail, config); err != nil {
			return nil, err
		}
		if err := verifyConfigs(topic, described, found.Cluster, config, ignored); err != nil {
			return nil, err
		}
	}
	return ignored, nil
}

func verifyPartitions(topic stream.Topic, detail kadm.TopicDetail, config *Config) error {
	if have := len(detail.Partitions); have != config.Partitions {
		return fmt.Errorf("topic %s has %d partitions and PARTITIONS is %d: a payment's partition is part of what engines and banks agree on, so set PARTITIONS to %d, or start with an empty Kafka", topic.Name, have, config.Partitions, have)
	}
	if have := detail.Partitions.NumReplicas(); have < config.ReplicationFactor {
		return fmt.Errorf("topic %s has %d replicas and REPLICATION_FACTOR is %d: reassign its partitions, or set REPLICATION_FACTOR to %d", topic.Name, have, config.ReplicationFactor, have)
	}
	return nil
}

// verifyConfigs compares what the broker describes, and notes in ignored what it safely ignores.
func verifyConfigs(topic stream.Topic, described kadm.ResourceConfig, cluster string, config *Config, ignored map[string]string) error {
	have := map[string]string{}
	for _, entry := range described.Configs {
		have[entry.Key] = entry.MaybeValue()
	}
	want := topicConfigs(topic, config)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, there := have[name]
		switch why, safe := safelyIgnored(name, cluster, config); {
		case !there && safe:
			ignored[name] = why
		case !there:
			return fmt.Errorf("topic %s must have %s=%s, and this broker (cluster %q) does not describe %s: without it records could be lost, so use a broker that knows it", topic.Name, name, want[name], cluster, name)
		case value != want[name]:
			return fmt.Errorf("topic %s has %s=%s and must have %s=%s: alter the topic with your Kafka tools (retention.ms of the authorization topics follows TRANSIENT_RETENTION, min.insync.replicas is REPLICATION_FACTOR/2+1), or start with an empty Kafka", topic.Name, name, value, name, want[name])
		}
	}
	return nil
}
