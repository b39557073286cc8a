package redpanda

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicSettings are the settings of a topic that Redpanda has, and describes. Those of its own
// features, which are named after it, are left out: nothing here uses them.
var topicSettings = []string{
	"cleanup.policy", "compaction.strategy", "compression.type", "delete.retention.ms", "flush.bytes", "flush.ms",
	"initial.retention.local.target.bytes", "initial.retention.local.target.ms", "max.compaction.lag.ms",
	"max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.type",
	"min.cleanable.dirty.ratio", "min.compaction.lag.ms", "replication.factor", "retention.bytes",
	"retention.local.target.bytes", "retention.local.target.ms", "retention.ms", "segment.bytes", "segment.ms", "write.caching",
}

// ignoredTopicSettings are accepted without effect, and never described.
var ignoredTopicSettings = []string{
	"file.delete.delay.ms", "flush.messages", "follower.replication.throttled.replicas", "index.interval.bytes",
	"leader.replication.throttled.replicas", "message.downconversion.enable", "message.format.version",
	"message.timestamp.difference.max.ms", "min.insync.replicas", "preallocate", "segment.index.bytes",
	"segment.jitter.ms", "unclean.leader.election.enable",
}

func known(setting string) bool   { return slices.Contains(topicSettings, setting) }
func ignored(setting string) bool { return slices.Contains(ignoredTopicSettings, setting) }

// imitateTopicSettings makes the broker accept, ignore, refuse and describe settings of topics as
// Redpanda does.
func imitateTopicSettings(cluster *kfake.Cluster) {
	// A fault answers for one topic and lets the others of the same request through.
	refuse := func(key kmsg.Key, topic string, err *kerr.Error) {
		fault := kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Err: err}
		if key != kmsg.CreateTopics {
			fault.Topic, fault.Resource = "", topic
		}
		cluster.Fault(fault)
	}
	cluster.ControlKey(kmsg.CreateTopics.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		topics := request.(*kmsg.CreateTopicsRequest).Topics
		for i := range topics {
			topic := &topics[i]
			topic.Configs = slices.DeleteFunc(topic.Configs, func(c kmsg.CreateTopicsRequestTopicConfig) bool { return ignored(c.Name) })
			switch {
			case slices.ContainsFunc(topic.Configs, func(c kmsg.CreateTopicsRequestTopicConfig) bool { return !known(c.Name) }):
				refuse(kmsg.CreateTopics, topic.Topic, kerr.InvalidConfig)
			case topic.ReplicationFactor > 0 && topic.ReplicationFactor%2 == 0:
				refuse(kmsg.CreateTopics, topic.Topic, kerr.InvalidReplicationFactor)
			}
		}
		return nil, nil, false
	})
	cluster.ControlKey(kmsg.AlterConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		resources := request.(*kmsg.AlterConfigsRequest).Resources
		for i := range resources {
			resource := &resources[i]
			if resource.ResourceType != kmsg.ConfigResourceTypeTopic {
				continue
			}
			resource.Configs = slices.DeleteFunc(resource.Configs, func(c kmsg.AlterConfigsRequestResourceConfig) bool { return ignored(c.Name) })
			if slices.ContainsFunc(resource.Configs, func(c kmsg.AlterConfigsRequestResourceConfig) bool { return !known(c.Name) }) {
				refuse(kmsg.AlterConfigs, resource.ResourceName, kerr.InvalidConfig)
			}
		}
		return nil, nil, false
	})
	cluster.ControlKey(kmsg.IncrementalAlterConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		resources := request.(*kmsg.IncrementalAlterConfigsRequest).Resources
		for i := range resources {
			resource := &resources[i]
			if resource.ResourceType != kmsg.ConfigResourceTypeTopic {
				continue
			}
			resource.Configs = slices.DeleteFunc(resource.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return ignored(c.Name) })
			if slices.ContainsFunc(resource.Configs, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return !known(c.Name) }) {
				refuse(kmsg.IncrementalAlterConfigs, resource.ResourceName, kerr.InvalidConfig)
			}
		}
		return nil, nil, false
	})
	cluster.ControlKey(kmsg.DescribeConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		resources := request.(*kmsg.DescribeConfigsRequest).Resources
		for i := range resources {
			resource := &resources[i]
			switch {
			case resource.ResourceType != kmsg.ConfigResourceTypeTopic:
			case resource.ConfigNames == nil: // which asks for all
				resource.ConfigNames = topicSettings
			default:
				resource.ConfigNames = slices.DeleteFunc(resource.ConfigNames, func(name string) bool { return !known(name) })
			}
		}
		return nil, nil, false
	})
}
