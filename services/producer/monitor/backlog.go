package monitor

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/producer/overload"
)

// Backlog publishes how far the engines are behind.
type Backlog struct {
	admin                *kadm.Client
	log                  *zap.Logger
	uncommitted, untaken ages
	taken                map[int32]int64 // by partition, what engines have said
	last                 overload.Reading
	observe              func(overload.Reading)
	own                  func([]int32)

	lag, seconds *prometheus.GaugeVec
	ends         *prometheus.GaugeVec
}

// sample is the end of a partition at an instant.
type sample struct {
	at  time.Time
	end int64
}

// samplesMax bounds the samples of a partition that is never committed.
const samplesMax = 1000

// ages measures the age of the oldest record of each partition that is not done.
type ages map[int32][]sample // ends that are not done, oldest first

// NewBacklog registers the metrics. It calls observe with each reading, and own with the partitions in which
// engines have committed.
func NewBacklog(client *kgo.Client, t *telemetry.Telemetry, observe func(overload.Reading),
	own func([]int32)) *Backlog {
	perPartition := func(name, help string, labels ...string) *prometheus.GaugeVec {
		gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append(labels, "partition"))
		t.Registry.MustRegister(gauge)
		return gauge
	}

	return &Backlog{
		admin: kadm.NewClient(client), log: t.Log, uncommitted: ages{}, untaken: ages{}, taken: map[int32]int64{},
		observe: observe, own: own,
		ends: perPartition("pix_topic_end_offset",
			"Records ever written to a partition. The rate is the offered load.", "topic"),
		lag: perPartition("pix_lag_records",
			"Records of pix.payments above the committed offset. A payment that waits for its bank holds the offset back, so finished ones above it count too."),
		seconds: perPartition("pix_lag_seconds",
			"Age of the oldest uncommitted record of pix.payments, to within one BOOKS_INTERVAL. After a start of this process it begins at 0."),
	}
}

// restInterval is how far readings are apart, at least, while no order comes and none is open.
const restInterval = time.Second

// Publish reads and publishes until ctx ends.
func (b *Backlog) Publish(ctx context.Context, every time.Duration) {
	pause := every
	repeat(ctx, &pause, b.log, "cannot read the backlog", func(ctx context.Context) error {
		before := b.last

		err := b.read(ctx)
		if pause = every; err == nil && b.last.Open == 0 && b.last.All == before.All {
			pause = restInterval
		}

		return err
	})
}

func (b *Backlog) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// Committed offsets before ends: in the other order a lag could be negative.
	committed, err := b.admin.FetchOffsets(ctx, stream.EngineGroup)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // no engine has ever run
		return err
	}
	var owned []int32

	for number, commit := range committed[stream.Payments] {
		if commit.Err == nil && commit.At >= 0 && stream.IsHint(commit.Metadata) { // not somebody else's
			owned = append(owned, number)
		}
	}
	b.own(owned)

	ends, err := b.admin.ListEndOffsets(ctx, stream.Payments, stream.Settlements, stream.DeadLetters)
	if err != nil {
		return err
	}
	now := time.Now()
	reading := overload.Reading{At: now}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			return
		}
		partition := strconv.Itoa(int(end.Partition))
		b.ends.WithLabelValues(end.Topic, partition).Set(float64(end.Offset))

		if end.Topic != stream.Payments {
			return
		}
		commit, _ := committed.Lookup(end.Topic, end.Partition)
		done := max(0, commit.At) // 0 without a commit
		reading.Open, reading.All = reading.Open+end.Offset-done, reading.All+end.Offset
		b.lag.WithLabelValues(partition).Set(float64(end.Offset - done))
		b.seconds.WithLabelValues(partition).Set(b.uncommitted.age(end.Partition, now, done, end.Offset).Seconds())

		if at, known := b.takenOf(end, committed); known {
			reading.Age = max(reading.Age, b.untaken.age(end.Partition, now, at, end.Offset))
			reading.Taken, reading.Ends = reading.Taken+at, reading.Ends+end.Offset
		}
	})
	b.last = reading
	b.observe(reading)

	return nil
}

// takenOf returns the offset up to which engines have taken the records of a partition. A
// silent bank does not hold it back, as it does the committed offset. It is not known before
// the first commit of an engine that says it.
func (b *Backlog) takenOf(end kadm.ListedOffset, committed kadm.OffsetResponses) (int64, bool) {
	commit, ok := committed.Lookup(end.Topic, end.Partition)
	if !ok || commit.At < 0 {
		return 0, false
	}

	taken := stream.ReadHint(commit.At, commit.Metadata).Taken
	if taken < 0 {
		return 0, false
	}

	if before := b.taken[end.Partition]; before <= end.Offset { // otherwise it is another log
		taken = max(taken, before) // a new owner begins below what its predecessor had taken
	}
	b.taken[end.Partition] = taken

	return taken, true
}

// age returns how long ago the first record above done was seen.
func (a ages) age(partition int32, now time.Time, done, end int64) time.Duration {
	kept := a[partition]
	for len(kept) > 0 && kept[0].end <= done {
		kept = kept[1:]
	}

	for len(kept) > 0 && kept[len(kept)-1].end > end { // it is another log: nobody takes what was in the one before
		kept = kept[:len(kept)-1]
	}

	if end > done && (len(kept) == 0 || end > kept[len(kept)-1].end) {
		if len(kept) == samplesMax { // keep the oldest sample and every second one
			half := make([]sample, 0, samplesMax)
			for i := 0; i < len(kept); i += 2 {
				half = append(half, kept[i])
			}
			kept = half
		}
		kept = append(kept, sample{now, end})
	}

	a[partition] = kept
	if len(kept) == 0 {
		return 0
	}

	return now.Sub(kept[0].at)
}
