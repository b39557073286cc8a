// Package redpanda makes the embedded broker behave like Redpanda, where Redpanda differs from
// Apache Kafka in something that this project relies on. It exists so that a test fails where
// Redpanda would. deploy/README.md names the sources in which the behaviour was read.
package redpanda

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// clusterID begins as Redpanda's does, by which clients can tell what they talk to.
const clusterID = "redpanda.liquida"

// Options returns what the broker must be made with. Imitate does the rest.
func Options() []kfake.Opt {
	return []kfake.Opt{kfake.ClusterID(clusterID), kfake.MaxVersions(versions())}
}

// versions are those of the requests that Redpanda serves and this project sends: about those of Kafka 2.4. Fetch 11
// and Metadata 8 name no topic id, so a topic that was made anew looks like the old one.
func versions() *kversion.Versions {
	all := kversion.V2_4_0()
	for key, highest := range map[kmsg.Key]int16{
		kmsg.Produce: 7, kmsg.Fetch: 11, kmsg.ListOffsets: 4, kmsg.Metadata: 8, kmsg.OffsetFetch: 7,
		kmsg.FindCoordinator: 3,
		kmsg.CreateTopics:    6, kmsg.InitProducerID: 3, kmsg.OffsetForLeaderEpoch: 4, kmsg.SASLAuthenticate: 2,
		kmsg.DescribeClientQuotas: 1, kmsg.AlterClientQuotas: 1, kmsg.DescribeUserSCRAMCredentials: 0,
		kmsg.AlterUserSCRAMCredentials: 0,
	} {
		all.SetMaxKeyVersion(key.Int16(), highest)
	}

	return all
}

// describedSettings are the settings of a topic that Redpanda has, of those that the project sets or reads. It takes
// min.insync.replicas and unclean.leader.election.enable without effect, and never describes them.
var describedSettings = []string{
	"cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.after.max.ms",
	"message.timestamp.before.max.ms",
	"message.timestamp.type", "replication.factor", "retention.bytes", "retention.ms", "segment.bytes", "write.caching",
}

// Imitate has a broker that was made with Options describe settings of topics as Redpanda does. It takes those that
// Redpanda ignores, too: they have no effect on one node.
func Imitate(cluster *kfake.Cluster) {
	cluster.ControlKey(kmsg.DescribeConfigs.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		for i := range request.(*kmsg.DescribeConfigsRequest).Resources {
			resource := &request.(*kmsg.DescribeConfigsRequest).Resources[i]
			if resource.ConfigNames == nil { // which asks for all
				resource.ConfigNames = describedSettings
			}
			resource.ConfigNames = slices.DeleteFunc(slices.Clone(resource.ConfigNames), func(name string) bool {
				return !slices.Contains(describedSettings, name)
			})
		}

		return nil, nil, false
	})
}
