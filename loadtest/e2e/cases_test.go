package e2e

import "testing"

// Every case of the mix ends as it must, without faults and without excuses.
func TestEveryCase(t *testing.T) {
	s := plain.startFresh(t)
	result := s.load(500, 3000, "--mix", "demo").wait()
	if result.Dropped != 0 {
		t.Errorf("%d sends were dropped", result.Dropped)
	}
	s.settledAtLeast(result, 0.9)
	verdict := s.audit()
	if verdict.Summary.Settled != result.Settled {
		t.Errorf("the load saw %d payments settle, the audit %d", result.Settled, verdict.Summary.Settled)
	}
	rejected := 0
	for _, n := range verdict.Summary.ReturnsRejected {
		rejected += n
	}
	if result.Returned == 0 || verdict.Summary.Returned != result.Returned || rejected != result.ReturnsRejected {
		t.Errorf("the load saw %d returns settle and %d rejected, the audit %d and %v", result.Returned, result.ReturnsRejected, verdict.Summary.Returned, verdict.Summary.ReturnsRejected)
	}
}
