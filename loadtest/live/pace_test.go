package live

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

// Whatever requests take, they take no more than the share. One that only waited behind others counts little.
func TestPaceKeepsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{share: 0.05}
		// costs returns what a request takes of the ledger's time: so long the next one waits for its share.
		costs := func(took func()) time.Duration {
			before := time.Now()
			if p.free.After(before) {
				before = p.free
			}
			took()

			return time.Duration(float64(p.free.Sub(before)) * p.share)
		}
		began, spent := time.Now(), time.Duration(0)

		for i := range 1000 {
			kit.Must(t, p.await(t.Context()))
			onItsWay := time.Duration(i%7) * time.Millisecond
			time.Sleep(onItsWay)
			spent += costs(func() { p.took(onItsWay, 10*i) })
		}
		kit.Must(t, p.await(t.Context()))

		if share := spent.Seconds() / time.Since(began).Seconds(); share > 0.05 || share < 0.04 {
			t.Errorf("it took %.3f of the time, its share is 0.05", share)
		}
		p.tookSmall(200 * time.Millisecond)

		if cost := costs(func() {
			p.took(201*time.Millisecond, 100)
		}); cost.Round(time.Microsecond) != time.Millisecond {
			t.Errorf("a request of 201 ms counts %v, while a small one is 200 ms on its way", cost)
		}
	})
}
