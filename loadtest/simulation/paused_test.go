package simulation

import (
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
