package engine

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// What is finished is kept twice. The group has the commits, and any member of a group can write them.
// The checkpoints are the engines' own: they also say which ledger it was, and what was surely in it. A
// checkpoint is written before its commit, so a commit of an engine is never ahead of what the topics say
// of the ledger.

// kept is what the topics say is finished.
type kept struct {
	commits map[int32]commitment // of partitions for which an engine has said it
	bounds  map[int32]stream.Bounds
}

// findFinished reads what engines have finished, and compares topics and ledger: it returns a Mismatch if they
// do not belong together. Of a partition's checkpoint and its commit, the higher one counts: an engine of
// an earlier version writes no checkpoints, and one that was fenced may have written an old one. The commit of another
// member says nothing.
func (e *Engine) findFinished(ctx context.Context) (k kept, err error) {
	k.commits = map[int32]commitment{}

	committed, err := origin.Commits(ctx, e.direct)
	if err != nil {
		return k, err
	}

	var found origin.Found
	if found, err = origin.CheckLedger(ctx, e.direct, e.ledger); err != nil {
		return k, err
	}

	k.bounds = found.Bounds // after the commits: an end that was read before could be below one of them
	for number, checkpoint := range found.Checkpoints {
		if checkpoint.Log == found.Log && checkpoint.Offset >= 0 {
			k.commits[number] = commitment{checkpoint.Offset, checkpoint.Hint}
		}
	}

	for number, o := range committed {
		switch own, known := k.commits[number]; {
		case !stream.IsHint(o.Metadata):
			e.log.Warn("the group has a commit that is not of an engine: it counts for nothing",
				zap.Int32("partition", number), zap.Int64("offset", o.At), zap.String("metadata", o.Metadata),
				zap.Bool("checkpoint", known))
			e.metrics.Commits.WithLabelValues("foreign").Inc()
		case !known || o.At > own.next:
			k.commits[number] = commitment{o.At, o.Metadata}
		}
	}

	return k, nil
}

// outside returns a Mismatch if what is finished is not between the bounds of its partition.
func (k kept) outside(log uint32, numbers []int32) error {
	for _, number := range numbers {
		d, known := k.commits[number]
		if b := k.bounds[number]; known && (d.next < b.Start || d.next > b.End) {
			return origin.Mismatched(log,
				"engines have finished all below offset %d of %s, partition %d, and the partition has the offsets %d to %d",
				d.next, stream.Payments, number, b.Start, b.End)
		}
	}

	return nil
}

// commitRest is the longest time between two commits while no partition moves: one may have to be made again.
const commitRest = time.Second

// commitRegularly commits what is finished. If nothing is since a pulse, it renews the checkpoint of one partition:
// what the ledger held a pulse ago is then missing in an older copy, although no payment came. One is enough, because
// whoever compares reads those of all.
func (e *Engine) commitRegularly(ctx context.Context) {
	failing := false

	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(host.Next(commitRest)):
		case <-e.moved:
			if !host.Sleep(ctx, e.config.CommitInterval) { // more is finished meanwhile
				return
			}
		}

		err := e.commit(ctx, e.partitions(), moreFollow)
		if (err != nil) != failing && ctx.Err() == nil {
			failing = err != nil
			if failing {
				e.log.Warn("cannot commit offsets; they are committed later", zap.Error(err))
			} else {
				e.log.Info("offset commits healthy again")
			}
		}
	}
}

// No commit of a partition follows its last one: it could overtake the commit of the next
// owner and undo it.
const (
	moreFollow = false
	lastCommit = true
)

// commit commits the finished prefix of each partition, with a hint of what is finished
// above it. After a failure it commits nothing.
func (e *Engine) commit(ctx context.Context, partitions []*partition, isLast bool) error {
	e.committing <- struct{}{}
	defer func() { <-e.committing }()

	if err := context.Cause(e.failed); err != nil {
		return err
	}
	renew := !isLast && e.pulsed.Swap(false)
	checkpoints := map[int32]origin.Checkpoint{}
	say := func(p *partition) {
		checkpoints[p.number] = origin.Checkpoint{Ledger: e.identity, Log: e.logNumber, Offset: p.commitment.next,
			Hint: p.commitment.hint}
	}
	var committing []*partition
	var first *partition // that has said anything

	for _, p := range partitions {
		if p.committedLast {
			continue
		}
		p.committedLast = isLast

		if c, changed := p.offsets.toCommit(); changed {
			p.commitment = c
			committing = append(committing, p)
			say(p)
		}

		if p.commitment != (commitment{}) && (first == nil || p.number < first.number) {
			first = p
		}
	}

	if renew && len(checkpoints) == 0 && first != nil {
		say(first)
	}

	if len(checkpoints) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	started := time.Now()

	err := e.writeCheckpoints(ctx, checkpoints)
	if err == nil && len(committing) > 0 {
		err = e.commitToGroup(ctx, committing)
	}
	e.metrics.CommitSeconds.Observe(time.Since(started).Seconds())

	if err != nil {
		e.metrics.Commits.WithLabelValues("failed").Inc()

		for _, p := range committing {
			p.offsets.again()
		}
		e.pulsed.CompareAndSwap(false, renew)

		return err
	}
	e.metrics.Commits.WithLabelValues("ok").Inc()
	e.crash.Pass(afterCommit)

	return nil
}

// writeCheckpoints says of partitions what is finished, and what the ledger surely holds by now.
func (e *Engine) writeCheckpoints(ctx context.Context, checkpoints map[int32]origin.Checkpoint) error {
	seen := e.witness.seen(e.writer.Latest()) // after what is finished
	for number, checkpoint := range checkpoints {
		checkpoint.Seen = seen
		checkpoints[number] = checkpoint
	}

	return origin.WriteCheckpoints(ctx, e.direct, checkpoints)
}

func (e *Engine) commitToGroup(ctx context.Context, partitions []*partition) error {
	commit, metadata := map[int32]kgo.EpochOffset{}, map[int32]string{}
	for _, p := range partitions {
		commit[p.number], metadata[p.number] = kgo.EpochOffset{Epoch: -1, Offset: p.commitment.next}, p.commitment.hint
	}
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			for i := range request.Topics[t].Partitions {
				partition := &request.Topics[t].Partitions[i]
				hint := metadata[partition.Partition]
				partition.Metadata = &hint
			}
		}

		return nil
	})

	return stream.Commit(ctx, e.group, stream.Payments, commit)
}

// restoreCommits commits again where the group has lost an engine's commit, or has that of another member: one that has
// just lost a partition may commit less, after its owner.
func (e *Engine) restoreCommits(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	committed, err := origin.Commits(ctx, e.direct)
	if err != nil {
		return // the commits themselves say so
	}

	e.committing <- struct{}{}
	defer func() { <-e.committing }()

	for _, p := range e.partitions() {
		if at := committed[p.number]; !stream.IsHint(at.Metadata) || at.At < p.commitment.next {
			p.offsets.again()
		}
	}
}
