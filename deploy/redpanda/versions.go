package redpanda

import (
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// requests are the Kafka requests that Redpanda serves, each with its highest version. Where two
// sources differ, this is the lower one: what runs on it runs on both. Later versions of Redpanda
// serve more (Fetch 13, Metadata with topic ids, ListOffsets 6, DescribeCluster). Users came to
// the Kafka API with 25.2; all else is as in December 2024.
var requests = map[kmsg.Key]int16{
	kmsg.Produce:                      7,
	kmsg.Fetch:                        11,
	kmsg.ListOffsets:                  4,
	kmsg.Metadata:                     8,
	kmsg.OffsetCommit:                 8,
	kmsg.OffsetFetch:                  7,
	kmsg.FindCoordinator:              3,
	kmsg.JoinGroup:                    6,
	kmsg.Heartbeat:                    4,
	kmsg.LeaveGroup:                   4,
	kmsg.SyncGroup:                    4,
	kmsg.DescribeGroups:               5,
	kmsg.ListGroups:                   4,
	kmsg.SASLHandshake:                1,
	kmsg.ApiVersions:                  3,
	kmsg.CreateTopics:                 6,
	kmsg.DeleteTopics:                 5,
	kmsg.DeleteRecords:                2,
	kmsg.InitProducerID:               3,
	kmsg.OffsetForLeaderEpoch:         4,
	kmsg.AddPartitionsToTxn:           3,
	kmsg.AddOffsetsToTxn:              1,
	kmsg.EndTxn:                       3,
	kmsg.TxnOffsetCommit:              3,
	kmsg.DescribeACLs:                 2,
	kmsg.CreateACLs:                   2,
	kmsg.DeleteACLs:                   2,
	kmsg.DescribeConfigs:              4,
	kmsg.AlterConfigs:                 2,
	kmsg.DescribeLogDirs:              2,
	kmsg.SASLAuthenticate:             2,
	kmsg.CreatePartitions:             3,
	kmsg.DeleteGroups:                 2,
	kmsg.IncrementalAlterConfigs:      1,
	kmsg.AlterPartitionAssignments:    0,
	kmsg.ListPartitionReassignments:   0,
	kmsg.OffsetDelete:                 0,
	kmsg.DescribeClientQuotas:         1,
	kmsg.AlterClientQuotas:            1,
	kmsg.DescribeUserSCRAMCredentials: 0,
	kmsg.AlterUserSCRAMCredentials:    0,
	kmsg.DescribeProducers:            0,
	kmsg.DescribeTransactions:         0,
	kmsg.ListTransactions:             0,
}

func versions() *kversion.Versions {
	all := &kversion.Versions{}
	for key, highest := range requests {
		all.SetMaxKeyVersion(key.Int16(), highest)
	}
	return all
}
