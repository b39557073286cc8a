package simulation

import "testing"

// What is ready is ready: no payment waits for the end of a fetch that has nothing to do with it, and not even the
// first of a partition, whose log gets its name in the ledger.
func TestTheFirstPaymentsWaitForNothing(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)

		load := s.send("settling", 5, 60)
		load.wait(1)

		const most = 200 // ms: a fetch that finds nothing lasts 1,000
		for _, latency := range load.result.Latencies {
			if latency.Max > most {
				s.t.Errorf("%s: one took %.0f ms, at most %d", latency.Kind, latency.Max, most)
			}
		}
		s.verdict()
	})
}
