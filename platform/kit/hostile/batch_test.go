package hostile

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A broker that refuses a batch has not taken it. After other errors nobody knows.
func TestPlantedCountsWhatTheBrokerMayHaveTaken(t *testing.T) {
	var planted Planted
	for _, err := range []error{
		nil, nil,
		kerr.CorruptMessage, fmt.Errorf("refused: %w", kerr.NotEnoughReplicas),
		kerr.RequestTimedOut, fmt.Errorf("appended: %w", kerr.NotEnoughReplicasAfterAppend),
		errors.New("no connection"),
	} {
		planted.Add(err)
	}

	for letters, fits := range map[int]bool{1: false, 2: true, 5: true, 6: false} {
		if problem := planted.Problem(letters); (problem == "") != fits {
			t.Errorf("%d dead letters: %q", letters, problem)
		}
	}
}
