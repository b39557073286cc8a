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
		p := &pace{share: 0.05, began: time.Now()}
		began := time.Now()
		for i := range 1000 {
			kit.Must(t, p.await(t.Context()))
			onItsWay := time.Duration(i%7) * time.Millisecond
			time.Sleep(onItsWay)
			p.took(onItsWay, 10*i)
		}
		kit.Must(t, p.await(t.Context()))
		if share := p.spent.Seconds() / time.Since(began).Seconds(); share > 0.05 || share < 0.04 {
			t.Errorf("it took %.3f of the time, its share is 0.05", share)
		}
		p.tookSmall(200 * time.Millisecond)
		before := p.spent
		p.took(201*time.Millisecond, 100)
		if cost := p.spent - before; cost != time.Millisecond {
			t.Errorf("a request of 201 ms counts %v, while a small one is 200 ms on its way", cost)
		}
	})
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
