package e2e

import (
	"io"
	"testing"

	"github.com/liquida/liquida/loadtest/audit"
)

// Every case of the mix ends as it must, without faults and without excuses.
func TestEveryCase(t *testing.T) {
	s := start(t, 1)

	result := s.load(500, 3000, "--mix", "demo").wait()
	if result.Dropped != 0 {
		t.Errorf("%d sends were dropped", result.Dropped)
	}

	if result.Settled < result.Sent*9/10 {
		t.Errorf("%d of %d payments settled", result.Settled, result.Sent)
	}
	// The bank simulator is not what is tried: what is asked here must not look like a fault of the engines.
	if err := s.Run(t.Context(), io.Discard, io.Discard, "loadtest", "conform", "--bank", "10000005", "--crowd", "50",
		"--within", "10s"); err != nil {
		t.Logf("the bank simulator does not conform: %v", err)
	}

	verdict := s.audit()
	if verdict.Summary.NotChecked[audit.TrialRequests] < 300 {
		t.Errorf("the audit knows only %d requests of conform", verdict.Summary.NotChecked[audit.TrialRequests])
	}

	if verdict.Summary.Settled != result.Settled {
		t.Errorf("the load saw %d payments settle, the audit %d", result.Settled, verdict.Summary.Settled)
	}

	rejected := 0
	for _, n := range verdict.Summary.ReturnsRejected {
		rejected += n
	}

	if result.Returned == 0 || verdict.Summary.Returned != result.Returned || rejected != result.ReturnsRejected {
		t.Errorf("the load saw %d returns settle and %d rejected, the audit %d and %v", result.Returned,
			result.ReturnsRejected, verdict.Summary.Returned, verdict.Summary.ReturnsRejected)
	}
}
