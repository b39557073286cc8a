package bench

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/load"
)

// Refused batches did nothing: they are offered, not accepted. The second in which the refusals begin does not
// count for what settles beside them, nor what settles after the load.
func TestOverloadIsSummedUp(t *testing.T) {
	began := time.Now()
	o := &offer{began: began, ends: began.Add(4 * time.Second), settled: []int{100, 50, 10, 20}, late: 7,
		refusals: load.NewRecorder(), latency: load.NewRecorder(), firstRefusal: began.Add(1500 * time.Millisecond),
		last: began.Add(3500 * time.Millisecond), rejected: 30}
	o.offered.Store(1000)
	o.accepted.Store(200)
	run := &Run{figures: map[figure]float64{}}
	of := func(name string) float64 { return run.figures[figure{overloadFigures, name}] }
	o.sumUp(run)

	if of("settled_beside_refusals") != 15 || of("settled") != 187 || run.figures[perSecond] != 45 ||
		of("refused") != 15 {
		t.Errorf("%+v", run.figures)
	}

	o.callers = &load.Callers{}
	if o.sumUp(run); of("refused") != 200 {
		t.Errorf("%+v", run.figures)
	}
}
