package engine

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
)

// A partition that is handed over frees all the room of its records: of those in the inbox,
// of those whose dead letter is on its way, and of those in flight. If some room stayed
// taken, an engine would fetch less after each rebalance, and in the end nothing.
func TestAPartitionHandedOverLeavesTheRoomEmpty(t *testing.T) {
	c := &common{room: newRoom(1000, 1000, 1<<20), config: &Config{ReturnsPerSecond: 1}}
	c.metrics = newMetrics(prometheus.NewRegistry(), c.room, newParticipants(4, 0.25), newShares(1, 4))
	p := newPartition(c, nil, 3, stream.Hint{Base: 10, Spans: []stream.Span{{From: 11, To: 12}}}, true)
	var records []*kgo.Record
	for offset := range int64(5) {
		records = append(records, &kgo.Record{Partition: 3, Offset: 10 + offset, Value: make([]byte, 100)})
	}
	p.admit(records)
	if payments, bytes := c.room.inFlight(); payments != 5 || bytes != 500 {
		t.Fatalf("5 records of 100 bytes take %d payments and %d bytes", payments, bytes)
	}
	p.offsets.track(10, 10)
	p.finish(records[0])          // ended
	if !p.offsets.track(11, 11) { // known as finished
		t.Fatal("the hint is not used")
	}
	p.free(records[1])
	p.offsets.track(12, 12)
	p.deadLetters++ // its dead letter is not acknowledged; the others are still in the inbox
	p.forget()
	if payments, bytes := c.room.inFlight(); payments != 0 || bytes != 0 {
		t.Errorf("%d payments and %d bytes stay in the room forever", payments, bytes)
	}
}

// With slow banks nearly all payments in flight wait for them: the room for the others must
// not shrink, and not grow when the banks are quick.
func TestPaymentsThatWaitForTheirBankLeaveTheRoomForTheOthers(t *testing.T) {
	r := newRoom(100, 10, 1<<20)
	for waiting := 0; waiting <= 90; waiting += 10 {
		if left := r.wait(t.Context()); left != 10 {
			t.Fatalf("room for %d while %d wait for their bank, want 10", left, waiting)
		}
		r.take(10, 1)
		if r.left() != 0 {
			t.Fatalf("room for %d beside 10 that do not wait", r.left())
		}
		r.awaitBank(10)
	}
	if r.left() != 0 {
		t.Errorf("room for %d beside 100 in flight", r.left())
	}
	r.awaitBank(-50) // answered
	r.free(10, 1)
	if r.left() != -30 {
		t.Errorf("room for %d with 40 that do not wait", r.left())
	}
}

// A bank's share ends with what holds it, and one bank's share leaves the others theirs.
func TestSharesAreBounded(t *testing.T) {
	s := newShares(2, 3)
	one, two, three := holder{bank: "1"}, holder{bank: "2"}, holder{bank: "3"}
	for place := range 3 {
		if took := s.take(one); took != (place < 2) {
			t.Errorf("a bank may take two places: place %d, %t", place+1, took)
		}
	}
	if !s.usedUp(one) {
		t.Error("its share is used up")
	}
	if !s.take(two) || s.take(three) || !s.usedUp(three) {
		t.Error("all banks may take three places")
	}
	s.add(one, 1) // a dead letter must be sent
	s.add(one, -3)
	if !s.take(three) || len(s.taken) != 2 || s.all != 2 {
		t.Errorf("after all, %d places of %v are taken", s.all, s.taken)
	}
}
