package engine

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/clearing-engine/metrics"
	"github.com/liquida/liquida/services/clearing-engine/payment"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// A partition that is handed over frees all the room of its records: of those in the inbox,
// of those whose dead letter is on its way, and of those in flight; and the places of shares, and
// the questions. If some stayed taken, an engine would fetch less after each rebalance, and in the
// end nothing.
func TestAPartitionHandedOverLeavesTheRoomEmpty(t *testing.T) {
	c := &common{room: room.New(room.Limits{Payments: 1000, Working: 1000, Bytes: 1 << 20}, time.Now()),
		config: &Config{ReturnsPerSecond: 1}, on: host.System()}
	c.metrics = metrics.New(prometheus.NewRegistry(), c.room, chainNames[chainReserve:])
	p := newPartition(c, nil, 3, stream.Hint{Base: 10, Spans: []stream.Span{{From: 11, To: 12}}}, true)

	var records []*kgo.Record
	for offset := range int64(5) {
		records = append(records, &kgo.Record{Partition: 3, Offset: 10 + offset, Value: make([]byte, 100)})
	}
	p.admit(records)

	if payments, bytes := c.room.InFlight(); payments != 5 || bytes != 500 {
		t.Fatalf("5 records of 100 bytes take %d payments and %d bytes", payments, bytes)
	}
	p.offsets.track(10, 10)
	p.finish(records[0]) // ended

	if !p.offsets.track(11, 11) { // known as finished
		t.Fatal("the hint is not used")
	}
	p.free(records[1])
	p.offsets.track(12, 12)
	p.deadLetters++ // its dead letter is not acknowledged; the others are still in the inbox
	p.room.AddToShare("10000001")
	asked := &flight{payment: payment.Payment{Order: pix.Order{ID: lawID, Content: lawContent}}}
	asked.question = p.room.Ask(&asked.payment.Order, payeeOf(&asked.payment.Order), time.Now())
	p.flights[lawID] = asked
	p.forget()

	if taken := c.room.Taken(); taken != "" {
		t.Errorf("this stays in the room forever: %s", taken)
	}
}
