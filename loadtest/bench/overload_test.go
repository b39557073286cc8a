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
	o := &offer{began: began, ends: began.Add(4 * time.Second), settled: []load.Second{{Settled: 100}, {Settled: 50}, {Settled: 10}, {Settled: 20}}, late: 7,
		refusals: load.NewRecorder(), latency: load.NewRecorder(), firstRefusal: began.Add(1500 * time.Millisecond), last: began.Add(3500 * time.Millisecond), rejected: 30}
	o.offered.Store(1000)
	o.accepted.Store(200)
	f := o.run(row{}, "", 40, 1, 1).figures
	if f[overloadFigures]["settled_beside_refusals"] != 15 || f[overloadFigures]["settled"] != 187 || f[runFigures]["per_second"] != 45 || f[overloadFigures]["refused"] != 15 {
		t.Errorf("%+v", f)
	}
	o.callers = &callers{}
	if f := o.run(row{}, "", 40, 1, 1).figures; f[overloadFigures]["refused"] != 200 {
		t.Errorf("%+v", f)
	}
}
