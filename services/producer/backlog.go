package main

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
)

// backlog publishes how far the engines are behind, seen from outside: it tells the truth
// also while no engine runs.
type backlog struct {
	admin *kadm.Client
	log   *zap.Logger
	// samples of a partition's end that are not committed yet, oldest first.
	samples map[int32][]sample

	lag, seconds *prometheus.GaugeVec
	ends         *prometheus.GaugeVec
}

// sample is the end of a partition at an instant.
type sample struct {
	at  time.Time
	end int64
}

// samplesMax bounds what is kept of a partition that is never committed.
const samplesMax = 1000

func newBacklog(client *kgo.Client, t *telemetry.Telemetry) *backlog {
	perPartition := func(name, help string, labels ...string) *prometheus.GaugeVec {
		gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append(labels, "partition"))
		t.Registry.MustRegister(gauge)
		return gauge
	}
	return &backlog{
		admin: kadm.NewClient(client), log: t.Log, samples: map[int32][]sample{},
		ends:    perPartition("pix_topic_end_offset", "Records ever written to a partition; its rate is what is offered.", "topic"),
		lag:     perPartition("pix_lag_records", "Records of pix.payments above the committed offset. One payment that waits for its bank holds the offset, so the finished ones above it count too."),
		seconds: perPartition("pix_lag_seconds", "Age of the oldest record of pix.payments that is not committed, to within one BOOKS_INTERVAL; after a start of this process, since then."),
	}
}

// publish reads and publishes until ctx ends.
func (b *backlog) publish(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	failing := false
	for {
		err := b.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			b.log.Warn("cannot read the backlog", zap.Error(err))
		}
		failing = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *backlog) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// Committed before ended: the other way round a lag could come out negative.
	committed, err := b.admin.FetchOffsetsForTopics(ctx, stream.EngineGroup, stream.Payments)
	if err != nil {
		return err
	}
	ends, err := b.admin.ListEndOffsets(ctx, stream.Payments, stream.Settlements, stream.DeadLetters)
	if err != nil {
		return err
	}
	now := time.Now()
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			return
		}
		partition := strconv.Itoa(int(end.Partition))
		b.ends.WithLabelValues(end.Topic, partition).Set(float64(end.Offset))
		if end.Topic != stream.Payments {
			return
		}
		done := int64(0)
		if commit, ok := committed.Lookup(end.Topic, end.Partition); ok && commit.At > 0 {
			done = commit.At
		}
		b.lag.WithLabelValues(partition).Set(float64(end.Offset - done))
		b.seconds.WithLabelValues(partition).Set(b.age(end.Partition, now, done, end.Offset).Seconds())
	})
	return nil
}

// age is how long ago the first record above done was written, as far as was seen.
func (b *backlog) age(partition int32, now time.Time, done, end int64) time.Duration {
	kept := b.samples[partition]
	for len(kept) > 0 && kept[0].end <= done {
		kept = kept[1:]
	}
	switch {
	case end <= done:
	case len(kept) == 0 || end > kept[len(kept)-1].end:
		if len(kept) == samplesMax { // a coarser view of a long backlog, its beginning kept
			half := make([]sample, 0, samplesMax)
			for i := 0; i < len(kept); i += 2 {
				half = append(half, kept[i])
			}
			kept = half
		}
		kept = append(kept, sample{now, end})
	}
	b.samples[partition] = kept
	if len(kept) == 0 {
		return 0
	}
	return now.Sub(kept[0].at)
}
