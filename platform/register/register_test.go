package register

import (
	"testing"
	"time"
)

// A ledger that answers after more than an interval is asked again at once. Otherwise the register would be stale, and
// nothing new would begin, for half of the time.
func TestASlowAnswerCostsNoFurtherWait(t *testing.T) {
	for range 1000 { // at any instant of a second
		if wait := untilNext(time.Now().Add(-interval - time.Millisecond)); wait != pause {
			t.Fatalf("%v after a slow answer, want %v", wait, pause)
		}

		if wait := untilNext(time.Now()); wait < pause || wait > interval {
			t.Fatalf("%v after a quick answer, want %v to %v", wait, pause, interval)
		}
		time.Sleep(time.Millisecond)
	}
}
