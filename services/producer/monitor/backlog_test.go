package monitor

import (
	"testing"
	"time"
)

func TestBacklogAge(t *testing.T) {
	b := ages{}

	began := time.Now()
	for i, step := range []struct {
		done, end int64
		want      time.Duration
	}{
		{0, 0, 0},
		{0, 10, 0},                // first seen now
		{0, 10, 1 * time.Second},  // nothing happens
		{5, 20, 2 * time.Second},  // a part is done, the rest of the first ten is as old
		{10, 30, 1 * time.Second}, // the first ten are done: those of one second ago are the oldest
		{30, 30, 0},
		{30, 31, 0},
		{30, 31, 1 * time.Second},
		{0, 2, 0}, // another log: what nobody took of the one before is gone
		{0, 2, 1 * time.Second},
		{2, 2, 0},
	} {
		if got := b.age(3, began.Add(time.Duration(i)*time.Second), step.done, step.end); got != step.want {
			t.Errorf("step %d: age is %v, want %v", i, got, step.want)
		}
	}
}

// A backlog that only grows keeps its oldest sample, in bounded memory.
func TestBacklogAgeIsBounded(t *testing.T) {
	b := ages{}
	began := time.Now()

	const steps = 10 * samplesMax
	for i := range steps {
		if got, want := b.age(0, began.Add(time.Duration(i)*time.Second), 0, int64(i+1)),
			time.Duration(i)*time.Second; got != want {
			t.Fatalf("step %d: age is %v, want %v", i, got, want)
		}
	}

	if kept := len(b[0]); kept > samplesMax {
		t.Errorf("%d samples are kept, more than %d", kept, samplesMax)
	}
}
