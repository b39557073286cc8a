package simulation

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const memberUnknown = "member unknown"

// requestFaults happen to some requests to Kafka, whoever sends them.
var requestFaults = []fault{
	{"not the leader", answering(kerr.NotLeaderForPartition, kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets)},
	{"no leader", answering(kerr.LeaderNotAvailable, kmsg.Produce, kmsg.ListOffsets)},
	{"not the coordinator", answering(kerr.NotCoordinator, kmsg.OffsetCommit, kmsg.Heartbeat, kmsg.JoinGroup,
		kmsg.SyncGroup)},
	{"coordinator loads", answering(kerr.CoordinatorLoadInProgress, kmsg.OffsetCommit, kmsg.Heartbeat, kmsg.JoinGroup,
		kmsg.SyncGroup)},
	{"no coordinator", answering(kerr.CoordinatorNotAvailable, kmsg.FindCoordinator, kmsg.OffsetCommit, kmsg.Heartbeat,
		kmsg.JoinGroup)},
	{memberUnknown, answering(kerr.UnknownMemberID, kmsg.Heartbeat, kmsg.OffsetCommit)},
	{"appended and an error", answering(kerr.NotEnoughReplicasAfterAppend, kmsg.Produce)},
	{"appended and timed out", answering(kerr.RequestTimedOut, kmsg.Produce)},
	{"too few replicas", answering(kerr.NotEnoughReplicas, kmsg.Produce)},
	{"committed and timed out", answering(kerr.RequestTimedOut, kmsg.OffsetCommit)},
	{"offsets cannot be fetched", controlling(kmsg.OffsetFetch.Int16(), refuseOffsets)},
	{"requests are lost", controlling(everyKey, func(*rand.Rand, kmsg.Request) (kmsg.Response, error) {
		return nil, errLost
	})},
	{"requests take long", func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		var mu sync.Mutex
		w.broker.setDelay(func() time.Duration {
			mu.Lock()
			defer mu.Unlock()

			if random.IntN(10) > 0 {
				return 0
			}

			return between(random, 0, 2*time.Second)
		})
		time.Sleep(hold)
		w.broker.setDelay(nil)
	}},
}

// errLost closes the connection that a request came on.
var errLost = errors.New("the request is lost")

// answering makes the broker answer some requests with an error. Those with an error that says so
// have had their effect, the others none.
func answering(err *kerr.Error, keys ...kmsg.Key) func(*world, *service, *rand.Rand, time.Duration) {
	return func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		var mu sync.Mutex
		handle := w.broker.now().Fault(kfake.Fault{Keys: keys, Err: err, Count: -1, When: func(kmsg.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(3) == 0
		}})
		time.Sleep(hold)
		handle.Remove()
	}
}

const everyKey = -1 // of kfake

// controlling answers some requests in place of the broker, or ends their connections by an error.
func controlling(key int16, answer func(*rand.Rand, kmsg.Request) (kmsg.Response, error)) func(*world, *service,
	*rand.Rand, time.Duration) {
	return func(w *world, _ *service, random *rand.Rand, hold time.Duration) {
		cluster, end := w.broker.now(), time.Now().Add(hold)
		cluster.ControlKey(key, func(request kmsg.Request) (kmsg.Response, error, bool) { // one at a time
			if time.Now().After(end) {
				cluster.DropControl()
				return nil, nil, false
			}
			cluster.KeepControl()

			if random.IntN(10) > 2 {
				return nil, nil, false
			}
			response, err := answer(random, request)

			return response, err, true
		})
		time.Sleep(hold)
	}
}

// refuseOffsets answers for each group as a whole, as real brokers do. kfake's own faults answer for
// each partition.
func refuseOffsets(random *rand.Rand, request kmsg.Request) (kmsg.Response, error) {
	asked := request.(*kmsg.OffsetFetchRequest)
	response := asked.ResponseKind().(*kmsg.OffsetFetchResponse)
	code := []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress,
		kerr.CoordinatorNotAvailable}[random.IntN(3)].Code
	response.ErrorCode = code

	for _, g := range asked.Groups {
		group := kmsg.NewOffsetFetchResponseGroup()
		group.Group, group.ErrorCode = g.Group, code
		response.Groups = append(response.Groups, group)
	}

	return response, nil
}
