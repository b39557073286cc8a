package engine

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// assigned takes over partitions. Before the first of their orders is fetched, it asks for
// the present end of the responses with an explicit call, and begins to read there. An end
// that the client resolves later could miss a response.
func (e *Engine) assigned(ctx context.Context, client *kgo.Client, assignment map[string][]int32) {
	numbers := assignment[stream.Payments]
	e.metrics.Rebalances.WithLabelValues("assigned").Inc()

	if len(numbers) > 0 && !e.own(ctx, client, numbers) {
		return
	}
	e.telemetry.Health.Report(needGroup, nil)
	e.log.Info("partitions assigned", zap.Int32s("new", numbers), zap.Int("owned", len(e.partitions())))
}

// looksMax is how often commits may be outside of the log before the engine believes it: a
// broker that has just become the leader may not know the end for a moment.
const looksMax = 5

func (e *Engine) own(ctx context.Context, client *kgo.Client, numbers []int32) bool {
	var ends kadm.ListedOffsets
	var found kept

	for looks := 1; ; looks++ {
		err := func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()

			if ends, err = stream.Ends(ctx, kadm.NewClient(client), stream.AuthorizationResponses); err != nil {
				return err
			}

			if err = e.reaches(numbers, ends); err != nil {
				return err
			}
			found, err = e.findFinished(ctx)

			return err
		}()
		if _, final := errors.AsType[*origin.Mismatch](err); final {
			e.fail(err)
			return false
		}

		if err == nil {
			if err = found.outside(e.logNumber, numbers); err != nil && looks > looksMax {
				e.fail(err)
				return false
			}
		}

		if err == nil {
			break
		}
		e.log.Warn("cannot find out what is finished in new partitions; trying again", zap.Error(err))

		if !host.Sleep(ctx, 200*time.Millisecond) {
			return false
		}
	}
	responses := map[int32]kgo.Offset{}

	for _, number := range numbers {
		end, _ := ends.Lookup(stream.AuthorizationResponses, number)
		responses[number] = kgo.NewOffset().At(end.Offset)

		b, next, h := found.bounds[number], found.bounds[number].Start, stream.Hint{Taken: -1}
		if done, known := found.commits[number]; known {
			next, h = done.next, stream.ReadHint(done.next, done.hint)
		} else if b.Start < b.End && e.logNumber == 1 { // dead letters of a log that was given up have its offsets
			var err error
			if next, h, err = e.reported(ctx, number, b); err != nil {
				return false
			}
		}
		_, named := e.named.Load(number)
		p := newPartition(&e.common, e, number, h, named)
		from := max(next, min(overtakenBelow(h, int64(e.config.WorkingMax)), b.Stable))
		p.orders = newPosition(client, stream.Payments, number, from)
		p.responses = newPosition(e.direct, stream.AuthorizationResponses, number, end.Offset)
		p.offsets.resume(next)
		e.ownedMu.Lock()
		if from > next { // before others see p: a range that they overtake comes after this one
			p.waited.ends = []endSeen{{time.Now().Add(-e.config.Deadline), b.Stable}} // unknown, but long
			e.setAside(p, stream.Span{From: next, To: from})
		}
		e.owned[number] = p
		e.metrics.Partitions.Set(float64(len(e.owned)))
		e.ownedMu.Unlock()
		go p.run()
	}
	stream.Together(client, stream.Payments)
	stream.Together(e.direct, stream.AuthorizationResponses)
	e.direct.AddConsumePartitions(map[string]map[int32]kgo.Offset{stream.AuthorizationResponses: responses})

	return true
}

// revoked hands partitions over to another engine.
func (e *Engine) revoked(ctx context.Context, _ *kgo.Client, revocation map[string][]int32) {
	e.metrics.Rebalances.WithLabelValues("revoked").Inc()
	e.handOver(ctx, e.find(revocation[stream.Payments]))
	e.log.Info("partitions handed over", zap.Int32s("revoked", revocation[stream.Payments]))
}

// handOver ends the work on partitions. What is in flight gets a moment to finish, what is
// finished is committed, and the next owner begins the rest again.
func (e *Engine) handOver(ctx context.Context, partitions []*partition) {
	for _, p := range partitions {
		p.overtaken.close()
	}
	e.drain(ctx, partitions, e.config.RevokeDrain)

	if err := e.commit(ctx, partitions, lastCommit); err != nil {
		e.log.Warn("cannot commit while handing partitions over; their records will be delivered again and absorbed",
			zap.Error(err))
	}
	e.release(partitions)
}

// lost drops partitions that another engine may own by now. It commits nothing.
func (e *Engine) lost(_ context.Context, _ *kgo.Client, loss map[string][]int32) {
	e.metrics.Rebalances.WithLabelValues("lost").Inc()
	partitions := e.find(loss[stream.Payments])
	e.committing <- struct{}{}

	for _, p := range partitions {
		p.committedLast = true
	}
	<-e.committing
	e.release(partitions)
	e.telemetry.Health.Report(needGroup,
		errors.New("this engine sent no heartbeat for a whole session and lost its partitions"))
	e.log.Warn("partitions lost: no heartbeat for a whole session", zap.Int32s("lost", loss[stream.Payments]))
}

// leaveGroup ends the membership of an engine that stops in order. The client does this only
// for members without an instance id: one with an id may come back, and the others would
// wait until its session ends. The request names the member id, so that a fenced engine
// cannot evict its successor.
func (e *Engine) leaveGroup(ctx context.Context, member string) {
	if e.config.InstanceID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = stream.EngineGroup
	leaving := kmsg.NewLeaveGroupRequestMember()
	leaving.MemberID, leaving.InstanceID = member, &e.config.InstanceID
	request.Members = append(request.Members, leaving)

	response, err := request.RequestWith(ctx, e.direct)
	if err == nil {
		err = kerr.ErrorForCode(response.ErrorCode)
		for _, left := range response.Members {
			err = errors.Join(err, kerr.ErrorForCode(left.ErrorCode))
		}
	}

	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		e.log.Warn("cannot leave the group; the other engines take over once this one's session has ended",
			zap.Error(err))
	}
}

func (e *Engine) find(numbers []int32) []*partition {
	var found []*partition

	for _, number := range numbers {
		if p := e.partition(number); p != nil {
			found = append(found, p)
		}
	}

	return found
}

// drain waits until nothing is in flight in the partitions, at most for patience.
func (e *Engine) drain(ctx context.Context, partitions []*partition, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	for _, p := range partitions {
		drained := make(chan struct{})
		p.inbox.put(event{kind: drain, drained: drained})

		select {
		case <-drained:
		case <-ctx.Done():
		case <-e.failed.Done():
		}
	}
}

// release ends partitions and drops what is in flight in them. An engine that stops and the
// client that loses partitions may both release one: the first ends it, both wait for its end.
func (e *Engine) release(partitions []*partition) {
	numbers := make([]int32, 0, len(partitions))
	e.ownedMu.Lock()
	for _, p := range partitions {
		if e.owned[p.number] == p {
			numbers = append(numbers, p.number)
			delete(e.owned, p.number)
			p.release()
		}
	}
	e.metrics.Partitions.Set(float64(len(e.owned)))
	e.ownedMu.Unlock()
	e.direct.RemoveConsumePartitions(map[string][]int32{stream.AuthorizationResponses: numbers})

	for _, p := range partitions {
		<-p.done

		if p.overtaken.reading() != nil {
			e.overtakenReader.RemoveConsumePartitions(map[string][]int32{stream.Payments: {p.number}})
		}
	}
}
