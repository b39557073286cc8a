package audit

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/stream"
)

const fetchKey = 1

// What a client gets begins behind what it asked for. The broker has what is between, or it does not.
func TestNoRecordIsLeftOut(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, answersTopic))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	topics, err := openTopics([]kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, stream.Config{}.Behind)
	if err != nil {
		t.Fatal(err)
	}
	defer topics.close()
	const count = 10
	for range count { // each a batch
		if err := topics.client.ProduceSync(t.Context(), &kgo.Record{Topic: answersTopic, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	read := func(gone func(Record)) (offsets []int64, err error) {
		b, err := topics.boundsOf(t.Context(), answersTopic)
		if err != nil {
			t.Fatal(err)
		}
		b.starts[answersTopic][0] = kadm.ListedOffset{Topic: answersTopic} // as it was when the audit began
		err = topics.readAll(t.Context(), answersTopic, b, func(r Record) { offsets = append(offsets, r.Offset) }, gone, nil)
		return offsets, err
	}
	leaps := 3
	cluster.ControlKey(fetchKey, func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for i := range request.(*kmsg.FetchRequest).Topics {
			for j := range request.(*kmsg.FetchRequest).Topics[i].Partitions {
				of := &request.(*kmsg.FetchRequest).Topics[i].Partitions[j]
				if request.(*kmsg.FetchRequest).MaxBytes > stream.MessageBytesMax && leaps > 0 && of.FetchOffset < 7 { // of the reader, not of who looks
					leaps--
					of.FetchOffset = 7
				}
			}
		}
		return nil, nil, false
	})
	offsets, err := read(nil)
	if err != nil || len(offsets) != count || offsets[0] != 0 || leaps != 0 || topics.leftOut != 3 {
		t.Errorf("read %v, %v, fetched again %d times, and %d leaps are left: want every record once", offsets, err, topics.leftOut, leaps)
	}
	if _, err := topics.admin.DeleteRecords(t.Context(), kadm.Offsets{answersTopic: {0: {Topic: answersTopic, At: 4}}}); err != nil {
		t.Fatal(err)
	}
	if offsets, err := read(nil); err == nil || !strings.Contains(err.Error(), "partition 0: the records from offset 0 to 3 are gone") {
		t.Errorf("read %v, %v", offsets, err)
	}
	var first []int64
	offsets, err = read(func(r Record) { first = append(first, r.Offset) })
	if err != nil || len(offsets) != count-4 || len(first) != 1 || first[0] != 4 {
		t.Errorf("read %v, %v, gone before %v", offsets, err, first)
	}
}
