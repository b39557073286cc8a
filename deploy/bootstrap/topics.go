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
		"cleanup.policy":    cleanup,
		"compression.type":  "producer", // batches stay as they were sent, so what a writer keeps to, readers can rely on
		"max.message.bytes": strconv.Itoa(topic.MessageBytes()),
		// An order is valid relative to its record's timestamp, which is its sender's: see Validate of platform/pix.
		"message.timestamp.type": "CreateTime",
		// Old records are welcome: an order may have waited for long, and a restored topic keeps its timestamps. But one
		// from the future would keep all that comes behind it from expiring. Its sender gets INVALID_TIMESTAMP.
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

// mayBeIgnored are the settings of topics that a broker may ignore, and why that is safe: on Redpanda, and on others.
var mayBeIgnored = map[string]struct {
	onRedpanda, onOthers string // "": not safe there
	oneReplica           bool   // on others, only with REPLICATION_FACTOR 1
}{
	"min.insync.replicas": {
		onRedpanda: "Redpanda acknowledges a record of acks=all when a Raft majority has it",
		onOthers:   "with REPLICATION_FACTOR 1 the one replica has every acknowledged record", oneReplica: true,
	},
	"unclean.leader.election.enable": {
		onRedpanda: "Raft elects no leader that lacks an acknowledged record",
		onOthers:   "with REPLICATION_FACTOR 1 no other replica could lead", oneReplica: true,
	},
	// Redpanda knows these since 25.3.
	"message.timestamp.before.max.ms": {onRedpanda: byItsClock, onOthers: "a broker that does not know it takes old records"},
	"message.timestamp.after.max.ms":  {onRedpanda: byItsClock},
}

const byItsClock = "Redpanda deletes by its own clock, and not by timestamps"

// safelyIgnored returns why the broker of a cluster may ignore a setting of a topic: then it does
// not describe it, and there is nothing to compare. Every other setting must be described.
func safelyIgnored(name, cluster string, config *Config) (why string, safe bool) {
	ignored := mayBeIgnored[name]
	if isRedpanda(cluster) {
		return ignored.onRedpanda, ignored.onRedpanda != ""
	}
	return ignored.onOthers, ignored.onOthers != "" && (config.ReplicationFactor == 1 || !ignored.oneReplica)
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

// withKafka does something with Kafka, for as long as it may take.
func withKafka(ctx context.Context, config *Config, do func(context.Context, *kgo.Client) error) error {
	client, err := connectKafka(config)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	return do(ctx, client)
}

// ensureKafka creates the missing topics and returns how many it created. Topics that exist get the
// settings that they must have; it fails if the broker does not take one. On a secured broker it also creates the users and grants
// the ACLs.
func ensureKafka(ctx context.Context, config *Config, say func(string, ...any)) (created int, err error) {
	err = withKafka(ctx, config, func(ctx context.Context, client *kgo.Client) error {
		deadline, _ := ctx.Deadline() // a connection looks at it, and a busy machine may end ctx only later

		var why error // why it waits: logged after 2 s, then every 5
		tried := settingsTried{}
		for told := time.Now().Add(-3 * time.Second); ; {
			made, ignored, err := ensureOnce(ctx, client, config, tried, say)
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
				return nil
			case !errors.As(err, &away):
				return err
			case why == nil || time.Now().Before(deadline): // after the deadline err says only that time is up: keep the last cause
				why = away.err
			}
			if time.Since(told) > 5*time.Second {
				told = time.Now()
				say("waiting for Kafka: %v", why)
			}
			if !host.Sleep(ctx, 200*time.Millisecond) {
				return notReady(config, why)
			}
		}
	})
	return created, err
}

// ensureOnce also returns which settings of topics the broker ignores, and why that is safe.
func ensureOnce(ctx context.Context, client *kgo.Client, config *Config, tried settingsTried, say func(string, ...any)) (created int, ignored map[string]string, err error) {
	if err := stream.Reach(ctx, client); err != nil { // a wrong password too: the broker may still be making its users
		return 0, nil, &awayError{err}
	}
	admin := kadm.NewClient(client)
	if created, err = createMissing(ctx, admin, config); err != nil {
		return created, nil, err
	}
	if err = grow(ctx, admin, config, say); err != nil {
		return created, nil, err
	}
	if ignored, err = verifyAll(ctx, admin, config, tried, say); err == nil && config.PasswordsDir != "" {
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
	metadata, err := admin.Metadata(ctx, topicNames()...)
	if err != nil {
		return 0, &awayError{err}
	}
	found, cluster := metadata.Topics, metadata.Cluster
	for _, topic := range stream.Topics {
		if !errors.Is(found[topic.Name].Err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if topic.Name == stream.Payments && config.namedLog > 0 {
			return created, fmt.Errorf("topic %s does not exist, and the ledger names its log (number %d): a new topic would hide the loss of acknowledged payments; put the log back, or set PAYMENTS_LOG_GIVEN_UP=%[2]d if it is lost for good: see ForeignLog in deploy/runbook.md", topic.Name, config.namedLog)
		}
		if topic.KeepForever && !topic.Compacted && topic.Name != stream.Payments && config.namedLog > 0 && !config.retell {
			return created, fmt.Errorf("topic %s does not exist, and engines have worked: what it kept is gone, and an empty one would hide that; put its files back, or stop all engines and run bootstrap retell, with which engines write again what is missing: see TopicsChanged in deploy/runbook.md", topic.Name)
		}
		configs := map[string]*string{}
		for name, value := range topicConfigs(topic, cluster, config) {
			configs[name] = &value
		}
		response, err := admin.CreateTopic(ctx, int32(config.Partitions), int16(config.ReplicationFactor), configs, topic.Name)
		if errors.Is(response.Err, kerr.InvalidConfig) { // it does not know one that it may ignore: verifyAll finds out which
			maps.DeleteFunc(configs, func(name string, _ *string) bool { _, safe := safelyIgnored(name, cluster, config); return safe })
			response, err = admin.CreateTopic(ctx, int32(config.Partitions), int16(config.ReplicationFactor), configs, topic.Name)
		}
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

// settingsTried are the settings that this run has set on topics that exist, by topic and name.
type settingsTried map[[2]string]bool

// verifyAll verifies every topic, also those just created: another run may have been faster. It sets what
// must be different, and reads it again.
func verifyAll(ctx context.Context, admin *kadm.Client, config *Config, tried settingsTried, say func(string, ...any)) (ignored map[string]string, err error) {
	found, err := admin.Metadata(ctx, topicNames()...)
	if err != nil {
		return nil, &awayError{err}
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topicNames()...)
	if err != nil {
		return nil, &awayError{err}
	}
	ignored = map[string]string{}
	altered := ""
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
		for _, differing := range differingSettings(topic, described, found.Cluster, config) {
			why, safe := safelyIgnored(differing.name, found.Cluster, config)
			key := [2]string{topic.Name, differing.name}
			switch {
			case !tried[key]:
				if err := differing.alter(ctx, admin, safe); err != nil {
					return nil, err
				}
				if tried[key] = true; !safe || differing.have != nil {
					say("topic %s has %s=%s now; it had %s", topic.Name, differing.name, differing.want, differing.had())
				}
				altered = differing.String()
			case differing.have != nil: // a broker that has taken it may not describe it at once
				return nil, &awayError{fmt.Errorf("%v: Kafka has taken the new value, and does not describe it yet", differing)}
			case safe:
				ignored[differing.name] = why
			default:
				return nil, fmt.Errorf("%v, and this broker (cluster %q) does not describe it: without it records could be lost, so use a broker that knows it", differing, found.Cluster)
			}
		}
	}
	if altered != "" {
		return nil, &awayError{errors.New(altered + ": to be read again")}
	}
	return ignored, nil
}

func verifyPartitions(topic stream.Topic, detail kadm.TopicDetail, config *Config) error {
	switch have := len(detail.Partitions); {
	case have > config.Partitions:
		return fmt.Errorf("topic %s has %d partitions and PARTITIONS is %d: partitions are never taken away, because their records would be lost; set PARTITIONS to %d or more", topic.Name, have, config.Partitions, have)
	case have < config.Partitions: // grow has added them, and not every broker knows it
		return &awayError{fmt.Errorf("topic %s has %d partitions and not yet %d", topic.Name, have, config.Partitions)}
	}
	if have := detail.Partitions.NumReplicas(); have < config.ReplicationFactor {
		return fmt.Errorf("topic %s has %d replicas and REPLICATION_FACTOR is %d: reassign its partitions, or set REPLICATION_FACTOR to %d", topic.Name, have, config.ReplicationFactor, have)
	}
	return nil
}

// differingSetting is a setting of a topic that is not what it must be.
type differingSetting struct {
	topic, name, want string
	have              *string // nil: the broker does not describe it
}

// differingSettings compares what the broker describes with what it must be.
func differingSettings(topic stream.Topic, described kadm.ResourceConfig, cluster string, config *Config) (differing []differingSetting) {
	have := map[string]*string{}
	for _, entry := range described.Configs {
		have[entry.Key] = new(entry.MaybeValue())
	}
	want := topicConfigs(topic, cluster, config)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		is := have[name]
		if off := name == writeCaching && is != nil && *is == "disabled"; off { // for the whole cluster
			continue
		}
		if is == nil || *is != want[name] {
			differing = append(differing, differingSetting{topic.Name, name, want[name], is})
		}
	}
	return differing
}

func (d differingSetting) String() string {
	return fmt.Sprintf("topic %s has %s and must have %s=%s", d.topic, d.had(), d.name, d.want)
}

func (d differingSetting) had() string {
	if d.have == nil {
		return "no " + d.name
	}
	return d.name + "=" + *d.have
}

// alter sets the setting. A broker may refuse one that it does not know and may safely ignore.
func (d differingSetting) alter(ctx context.Context, admin *kadm.Client, safe bool) error {
	responses, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: d.name, Value: &d.want}}, d.topic)
	if err != nil {
		return &awayError{fmt.Errorf("%v: %w", d, err)}
	}
	response, err := responses.On(d.topic, nil)
	switch err = errors.Join(err, response.Err); {
	case err == nil, safe && d.have == nil && errors.Is(err, kerr.InvalidConfig):
		return nil
	case kerr.IsRetriable(err):
		return &awayError{fmt.Errorf("%v: %w", d, err)}
	}
	return fmt.Errorf("%v, and Kafka does not let this user set it: %w %s: set it with your Kafka tools (retention.ms of the authorization topics follows TRANSIENT_RETENTION, min.insync.replicas is REPLICATION_FACTOR/2+1), or start with an empty Kafka", d, err, response.ErrMessage)
}
