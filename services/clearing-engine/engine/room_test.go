package engine

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A partition that is handed over frees all the room of its records: of those in the inbox,
// of those whose dead letter is on its way, and of those in flight. If some room stayed
// taken, an engine would fetch less after each rebalance, and in the end nothing.
func TestAPartitionHandedOverLeavesTheRoomEmpty(t *testing.T) {
	e := &Engine{room: newRoom(1000, 1<<20)}
	e.metrics = newMetrics(prometheus.NewRegistry(), e.room, newParticipants(1, nil))
	p := newPartition(e, 3, hint{base: 10, spans: []span{{11, 12}}})
	var records []*kgo.Record
	for offset := range int64(5) {
		records = append(records, &kgo.Record{Partition: 3, Offset: 10 + offset, Value: make([]byte, 100)})
	}
	p.admit(records)
	if payments, bytes := e.room.inFlight(); payments != 5 || bytes != 500 {
		t.Fatalf("5 records of 100 bytes take %d payments and %d bytes", payments, bytes)
	}
	p.offsets.track(10)
	p.finish(records[0])      // ended
	if !p.offsets.track(11) { // known as finished
		t.Fatal("the hint is not used")
	}
	p.free(records[1])
	p.offsets.track(12)
	p.deadLetters++ // its dead letter is not acknowledged; the others are still in the inbox
	p.forget()
	if payments, bytes := e.room.inFlight(); payments != 0 || bytes != 0 {
		t.Errorf("%d payments and %d bytes stay in the room for ever", payments, bytes)
	}
}
