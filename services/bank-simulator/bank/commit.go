package bank

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/stream"
)

func (b *bank) assigned(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
	stream.Together(client, stream.AuthorizationRequests)
	b.mu.Lock()
	for _, number := range assigned[stream.AuthorizationRequests] {
		b.partitions[number] = newPartition()
	}
	owned := len(b.partitions)
	b.mu.Unlock()
	b.t.Health.Report(assignmentNeed, nil)
	b.t.Log.Info("partitions assigned", zap.Int("owned", owned))
}

// revoked commits what is finished. Responses under way still go out, and the next owner of
// the partition repeats them.
func (b *bank) revoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, b.config.SessionTimeout)
	defer cancel()

	if err := b.commit(ctx, revoked[stream.AuthorizationRequests]); err != nil {
		b.t.Log.Warn("cannot commit revoked partitions; their requests come again", zap.Error(err))
	}
	b.forget(revoked)
}

func (b *bank) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	b.forget(lost)
	b.t.Health.Report(assignmentNeed, errors.New("lost the partitions; joining the group again"))
	b.t.Log.Warn("partitions lost")
}

func (b *bank) forget(gone map[string][]int32) {
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, number := range gone[stream.AuthorizationRequests] {
		delete(b.partitions, number)
	}
}

func (b *bank) commitRegularly() {
	for host.Sleep(b.background, host.Next(b.config.CommitInterval)) {
		if err := b.commit(b.background, nil); err != nil && b.background.Err() == nil {
			b.rarely.Warn("cannot commit; trying again", zap.Error(err))
		}
	}
}

// commit commits the finished prefix of these partitions; nil means of all.
func (b *bank) commit(ctx context.Context, numbers []int32) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	moved := map[int32]kgo.EpochOffset{}
	b.mu.Lock()
	if numbers == nil {
		numbers = slices.Collect(maps.Keys(b.partitions))
	}

	for _, number := range numbers {
		if p := b.partitions[number]; p != nil && p.committable() > p.committed {
			moved[number] = kgo.EpochOffset{Epoch: -1, Offset: p.committable()}
		}
	}
	b.mu.Unlock()

	if len(moved) == 0 {
		return nil
	}

	if err := stream.Commit(ctx, b.client, stream.AuthorizationRequests, moved); err != nil {
		return err
	}
	b.mu.Lock()
	for number, to := range moved {
		if p := b.partitions[number]; p != nil {
			p.committed = to.Offset
		}
	}
	b.mu.Unlock()
	b.crash.Pass(afterCommit)

	return nil
}
