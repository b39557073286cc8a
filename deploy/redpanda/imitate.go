package redpanda

import (
	"strconv"
	"time"

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
	if p.GroupInitialRebalanceDelayMS > 0 {
		imitateInitialRebalanceDelay(cluster, time.Duration(p.GroupInitialRebalanceDelayMS)*time.Millisecond)
	}
	if dataDir != "" {
		imitateFullDisk(cluster, dataDir, p.StorageMinFreeBytes)
	}
}

// imitateInitialRebalanceDelay makes the members that join an empty group wait together for
// company. Redpanda waits on while more come; this waits once.
func imitateInitialRebalanceDelay(cluster *kfake.Cluster, delay time.Duration) {
	opens := map[string]time.Time{} // group → when those that wait get in
	cluster.ControlKey(kmsg.JoinGroup.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		join := request.(*kmsg.JoinGroupRequest)
		if join.MemberID != "" { // it has waited, or was in before
			return nil, nil, false
		}
		opening := opens[join.Group]
		if !time.Now().Before(opening) {
			if group := cluster.GroupInfo(join.Group); group != nil && group.State != "Empty" {
				return nil, nil, false
			}
			opening = time.Now().Add(delay)
			opens[join.Group] = opening
		}
		cluster.SleepControl(func() { time.Sleep(time.Until(opening)) })
		return nil, nil, false
	})
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
