package simulation

import (
	"net/http"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/stream"
)

// The broker dies while an engine looks at a batch that cannot be read, and has paused its partition.
// The engine loses the partition, gets it again, and must read on.
func TestPauseEndsWithItsAssignment(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("plain", 20, 600, duringFaults...)
		for i := range 6 {
			time.Sleep(3 * time.Second)
			for partition := range int32(partitions) {
				batch := hostile.Garbage(time.Now().UnixMilli()).Encode()
				if _, err := hostile.Produce(s.ends, s.client, stream.Payments, partition, batch); err != nil {
					s.t.Error(err)
				}
				s.planted.Add(nil)
			}
			time.Sleep(time.Duration(i) * s.latency) // each time a little later after the batches
			s.broker.kill(500 * time.Millisecond)
		}
		load.wait(0.5)
		s.verdict()
	})
}

// A transaction hangs while the broker dies, so the end of its partition has records that nobody may
// read. The front door must not take them for orders that wait: it would be shut for good.
func TestAnAbortedTransactionShutsNoDoor(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		door := s.open()
		s.send("plain", 20, 100).wait(1) // into every partition
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.fault(senderFaults, "hanging transaction", nil, 5*time.Second)
		}()
		time.Sleep(2 * time.Second)
		s.broker.kill(500 * time.Millisecond)
		<-over
		s.pass(70*time.Second, 80*time.Second) // the timeout of the transaction is over
		s.eventually("nothing left to take", func() bool { return s.metric(door, "pix_untaken_seconds") == 0 })
		if code, said := s.ask("10000001", http.MethodPost, "/v1/payments", onePayment(2)); code != http.StatusOK {
			s.t.Errorf("a payment after the transaction: %d %s", code, said)
		}
	})
}
