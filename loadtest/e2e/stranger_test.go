package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
)

// Somebody debugs with the engines' group id: its consumer takes partitions from the engine, commits what it
// has read, and goes. Nothing of that counts: every payment ends, and none ends twice.
func TestAStrangerInTheEnginesGroup(t *testing.T) {
	s := start(t, 1)
	load := s.load(100, 3000, duringFaults...)
	load.progress(100)
	for range 2 {
		stranger, err := s.Kafka().Client(
			kgo.ConsumerGroup(stream.EngineGroup), kgo.ConsumeTopics(stream.Payments), kgo.Balancers(kgo.CooperativeStickyBalancer()),
			kgo.SessionTimeout(6*time.Second), kgo.AutoCommitInterval(100*time.Millisecond))
		s.must(err)
		read := 0
		s.eventually("the stranger has read orders", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			read += stranger.PollFetches(ctx).NumRecords()
			return read > 20
		})
		s.must(stranger.CommitUncommittedOffsets(t.Context()))
		stranger.CloseAllowingRebalance()
		load.progress(100)
	}
	load.proven()
}
