package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/stream"
)

// connectProducer makes a client for what partitions send.
func (e *Engine) connectProducer(name string) (*kgo.Client, error) {
	return stream.Connect(e.config.Stream, e.on.Dial, name, e.telemetry,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		e.config.Stream.Reads(stream.AuthorizationResponses),
		// A payment has at most one request, report or dead letter on its way at a time;
		// with twice that, producing never blocks a partition.
		kgo.MaxBufferedRecords(2*e.config.InFlightMax+forgedInFlightMax),
		// A topic that is lost may come back. Until then nothing is begun: see watchTopics.
		kgo.UnknownTopicRetries(-1),
	)
}

// watchTopics watches all topics until ctx ends. While one is missing, or while what it kept is gone,
// nothing is fetched.
func (e *Engine) watchTopics(ctx context.Context) {
	stream.Watch(ctx, e.direct, e.telemetry, stream.Watched{
		Topics:     stream.TopicNames(),
		Closed:     func(why error) { e.room.Close(why != nil) },
		Renewed:    func(topic string) { e.beginAnew(ctx, topic) },
		Partitions: e.found,
	})
}

// found takes the number of partitions that all topics have. The group's leader assigns no others, so it
// must assign again when there are more.
func (e *Engine) found(partitions int32) {
	if before := e.whole.Swap(partitions); before == 0 || before >= partitions {
		return
	}
	e.log.Info("all topics have more partitions", zap.Int32("partitions", partitions))
	e.grown.Store(true)
}

// assignGrown lets the group assign partitions that were added.
func (e *Engine) assignGrown() {
	if e.grown.CompareAndSwap(true, false) {
		e.group.ForceMetadataRefresh()
		e.group.ForceRebalance()
	}
}

// beginAnew goes on with an authorization topic that was made anew or cut. What banks were asked or have
// said may be gone with it, so all of them are asked again.
func (e *Engine) beginAnew(ctx context.Context, topic string) {
	switch topic {
	case stream.AuthorizationRequests: // the client of before would never write to the new topic
		e.asking.Load().Close() // first: its successor has the same metrics

		client, err := e.connectProducer("clearing-engine-asking")
		if err != nil {
			e.fail(err)
			return
		}
		e.asking.Store(client)
	case stream.AuthorizationResponses:
		if !e.readAnew(ctx) {
			return
		}
	}

	for _, p := range e.partitions() {
		p.inbox.put(event{kind: askAgain})
	}
}

// readAnew reads the responses from their present ends on: what is asked again is answered behind them.
func (e *Engine) readAnew(ctx context.Context) bool {
	ends, err := stream.Ends(ctx, kadm.NewClient(e.direct), stream.AuthorizationResponses)
	for ; err != nil; ends, err = stream.Ends(ctx, kadm.NewClient(e.direct), stream.AuthorizationResponses) {
		e.log.Warn("cannot list the ends of the new topic; trying again", zap.Error(err))

		if !host.Sleep(ctx, time.Second/2) {
			return false
		}
	}
	e.ownedMu.RLock()
	defer e.ownedMu.RUnlock()
	from := map[int32]kgo.Offset{}
	e.direct.PurgeTopicsFromConsuming(stream.AuthorizationResponses)

	for number, p := range e.owned {
		if end, ok := ends.Lookup(stream.AuthorizationResponses, number); ok {
			p.responses.restart(end.Offset)
			from[number] = kgo.NewOffset().At(end.Offset)
		}
	}
	e.direct.AddConsumePartitions(map[string]map[int32]kgo.Offset{stream.AuthorizationResponses: from})

	return true
}

// reaches returns an error while a partition has none of its number in another topic, or while this engine
// does not know it: a client fails what is sent to a partition that it does not know.
func (e *Engine) reaches(numbers []int32, responses kadm.ListedOffsets) error {
	sent := map[string]*kgo.Client{stream.AuthorizationRequests: e.asking.Load(), stream.Settlements: e.direct,
		stream.DeadLetters: e.direct, stream.Checkpoints: e.direct}

	for _, number := range numbers {
		if _, ok := responses.Lookup(stream.AuthorizationResponses, number); !ok {
			return fmt.Errorf("topic %s has no partition %d: a response would not find its engine; run bootstrap",
				stream.AuthorizationResponses, number)
		}

		for topic, client := range sent {
			first, _, _ := client.PartitionLeader(topic, 0)
			// before anything was sent, the client knows none
			if leader, _, _ := client.PartitionLeader(topic, number); first >= 0 && leader < 0 {
				client.ForceMetadataRefresh()
				return fmt.Errorf("this engine does not know partition %d of %s yet", number, topic)
			}
		}
	}

	return nil
}

// wholeBalancer assigns no partition that one of the topics lacks: a question or an outcome would find no
// partition there. What is in it waits until the topic has it.
type wholeBalancer struct {
	kgo.GroupBalancer
	whole *atomic.Int32
}

func (b wholeBalancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (
	kgo.GroupMemberBalancer, map[string]struct{}, error) {
	balancer, topics, err := b.GroupBalancer.MemberBalancer(members)
	return wholeMembers{balancer, b.whole}, topics, err
}

type wholeMembers struct {
	kgo.GroupMemberBalancer
	whole *atomic.Int32
}

func (m wholeMembers) BalanceOrError(topics map[string]int32) (kgo.IntoSyncAssignment, error) {
	topics[stream.Payments] = min(topics[stream.Payments], m.whole.Load())
	if of, ok := m.GroupMemberBalancer.(kgo.GroupMemberBalancerOrError); ok {
		return of.BalanceOrError(topics)
	}

	return m.Balance(topics), nil
}
