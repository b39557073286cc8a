package redpanda

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// clusterID begins as Redpanda's does, by which clients can tell what they talk to.
const clusterID = "redpanda.liquida"

// Options returns what the broker must be made with. Imitate does the rest.
func (p Properties) Options() []kfake.Opt {
	return []kfake.Opt{
		kfake.ClusterID(clusterID),
		kfake.MaxVersions(versions()),
		kfake.BrokerConfigs(map[string]string{
			"group.min.session.timeout.ms": strconv.Itoa(p.GroupMinSessionTimeoutMS),
			"group.max.session.timeout.ms": strconv.Itoa(p.GroupMaxSessionTimeoutMS),
		}),
	}
}

// Imitate makes a broker that was made with Options behave like Redpanda. dataDir is where its
// data is; a broker that keeps it in memory has none, and no disk that could be full.
func (p Properties) Imitate(cluster *kfake.Cluster, dataDir string) {
	imitateTopicSettings(cluster)
	if dataDir != "" {
		imitateFullDisk(cluster, dataDir, p.StorageMinFreeBytes)
	}
}

// imitateFullDisk refuses records while no more than leastFree bytes of the disk are free.
func imitateFullDisk(cluster *kfake.Cluster, dataDir string, leastFree int64) {
	cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.BrokerNotAvailable, Count: -1,
		When: func(kmsg.Request) bool {
			var disk unix.Statfs_t
			err := unix.Statfs(dataDir, &disk)
			return err == nil && int64(disk.Bfree)*disk.Bsize <= leastFree //nolint:gosec // fits
		},
	})
}
