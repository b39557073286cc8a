package main

import (
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Epochs of a fetch session, as clients ask for them.
const (
	newSession int32 = 0
	noSession  int32 = -1
)

// declineSessions gives nobody a fetch session, as Apache Kafka does when it has no slot left for one.
// kfake fills a response of a session with the partitions that gave something last time, and looks at
// the others if there is room left. One of these may wait for as long as others have records: for
// minutes under load. Apache Kafka and Redpanda look at the others first. A client without a session
// lists all partitions in each request, each time with another one at the front.
func declineSessions(cluster *kfake.Cluster) {
	cluster.ControlKey(kmsg.Fetch.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		fetch := request.(*kmsg.FetchRequest)
		if fetch.SessionEpoch == newSession {
			fetch.SessionID, fetch.SessionEpoch = 0, noSession
		}

		return nil, nil, false
	})
}
