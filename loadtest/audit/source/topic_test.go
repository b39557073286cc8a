package source

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/stream"
)

const fetchKey = 1

// fakeTopics returns topics of a broker that is not real.
func fakeTopics(t *testing.T, partitions int32, names ...string) (*kfake.Cluster, *Topics) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, names...))
	kit.Must(t, err)
	t.Cleanup(cluster.Close)
	opened, err := OpenTopics(
		[]kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())},
		stream.Config{}.Behind)
	kit.Must(t, err)
	t.Cleanup(opened.Close)

	return cluster, opened
}

func produceOne(t *testing.T, client *kgo.Client, topic string, partition int32) {
	kit.Must(t, client.ProduceSync(t.Context(),
		&kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")}).FirstErr())
}

// A client that leaves out records, and begins at a batch too large to unpack, must not make the reader pass over both.
func TestRecordsBeforeABombAreRead(t *testing.T) {
	cluster, topics := fakeTopics(t, 1, Answers)
	topics.kafka = append(topics.kafka, kgo.MaxDecompressBatchBytes(1<<20))

	for range 3 { // each a batch
		produceOne(t, topics.client, Answers, 0)
	}
	bomb, err := hostile.Bomb(time.Now().UnixMilli(), 2<<20, kgo.CodecGzip)
	kit.Must(t, err)
	kit.Must(t, kit.ErrorOf(hostile.Produce(t.Context(), topics.client, Answers, 0, bomb.Encode())))
	produceOne(t, topics.client, Answers, 0)
	b, err := topics.BoundsOf(t.Context(), Answers)
	kit.Must(t, err)
	left := leap(cluster, 1, 3)
	var offsets []int64

	err = topics.ReadAll(t.Context(), Answers, b, func(r Record) {
		offsets = append(offsets, r.Offset)
	}, nil, Unreadable)
	if last := b.Ends[Answers][0].Offset - 1; err != nil || *left != 0 ||
		!slices.Equal(offsets, []int64{0, 1, 2, last}) {
		t.Errorf("read %v, %v, with %d leaps left: want the first three and %d", offsets, err, *left, last)
	}
}

// leap makes a client of a reader begin at an offset, in place of one below it, so many times. It returns how often it
// still will.
func leap(cluster *kfake.Cluster, times int, to int64) *int {
	cluster.ControlKey(fetchKey, func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()

		for i := range request.(*kmsg.FetchRequest).Topics {
			for j := range request.(*kmsg.FetchRequest).Topics[i].Partitions {
				of := &request.(*kmsg.FetchRequest).Topics[i].Partitions[j]
				// of the reader, not of who looks
				if request.(*kmsg.FetchRequest).MaxBytes > 2*stream.MessageBytesMax && times > 0 &&
					of.FetchOffset < to {
					times--
					of.FetchOffset = to
				}
			}
		}

		return nil, nil, false
	})

	return &times
}

// What a client gets begins behind what it asked for. The broker has what is between, or it does not.
func TestNoRecordIsLeftOut(t *testing.T) {
	cluster, topics := fakeTopics(t, 1, Answers)

	const count = 10
	for range count { // each a batch
		produceOne(t, topics.client, Answers, 0)
	}
	read := func(gone func(Record)) (offsets []int64, err error) {
		b, err := topics.BoundsOf(t.Context(), Answers)
		kit.Must(t, err)
		b.Starts[Answers][0] = kadm.ListedOffset{Topic: Answers} // as it was when the audit began
		err = topics.ReadAll(t.Context(), Answers, b, func(r Record) {
			offsets = append(offsets, r.Offset)
		}, gone, nil)

		return offsets, err
	}
	leaps := leap(cluster, 3, 7)

	offsets, err := read(nil)
	if err != nil || len(offsets) != count || offsets[0] != 0 || *leaps != 0 {
		t.Errorf("read %v, %v, and %d leaps are left: want every record once", offsets, err, *leaps)
	}
	kit.Must(t, kit.ErrorOf(
		topics.admin.DeleteRecords(t.Context(), kadm.Offsets{Answers: {0: {Topic: Answers, At: 4}}})))

	if offsets, err := read(nil); err == nil ||
		!strings.Contains(err.Error(), "partition 0: the records from offset 0 to 3 are gone") {
		t.Errorf("read %v, %v", offsets, err)
	}
	var first []int64

	offsets, err = read(func(r Record) { first = append(first, r.Offset) })
	if err != nil || len(offsets) != count-4 || len(first) != 1 || first[0] != 4 {
		t.Errorf("read %v, %v, gone before %v", offsets, err, first)
	}
}

// An order of an aborted transaction has no record for anybody, also in front of a batch that no client can
// read: the engine says of the second one only that it could not.
func TestAnAbortedOrderHidesNothingBehindIt(t *testing.T) {
	_, topics := fakeTopics(t, 1, Payments)
	aborted, err := kgo.NewClient(append(topics.kafka, kgo.TransactionalID("aborted"))...)
	kit.Must(t, err)
	defer aborted.Close()
	kit.Must(t, aborted.BeginTransaction())
	produceOne(t, aborted, Payments, 0)
	kit.Must(t, kit.ErrorOf(
		hostile.Produce(t.Context(), topics.client, Payments, 0,
			hostile.Garbage(time.Now().UnixMilli()).Encode())))
	kit.Must(t, aborted.EndTransaction(t.Context(), kgo.TryAbort))
	produceOne(t, topics.client, Payments, 0)
	b, err := topics.BoundsOf(t.Context(), Payments)
	kit.Must(t, err)
	var offsets []int64

	said := func(_ int32, offset int64) (next int64, known bool) {
		if offset != 1 {
			return 0, false
		}
		next, aborted, err := topics.unreadable(t.Context(), topics.client, Payments, 0, 1)

		return next, err == nil && !aborted
	}
	if err := topics.ReadAll(t.Context(), Payments, b, func(r Record) {
		offsets = append(offsets, r.Offset)
	}, nil, PassSaid(said)); err != nil || !slices.Equal(offsets, []int64{b.Ends[Payments][0].Offset - 1}) {
		t.Errorf("read %v, %v: want the last one", offsets, err)
	}
}
