package live

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

// Whatever is asked for, it takes no more than the share.
func TestPaceKeepsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{share: 0.05}
		began, spent := time.Now(), time.Duration(0)

		for i := range 1000 {
			kit.Must(t, p.await(t.Context()))
			time.Sleep(time.Duration(i%7) * time.Millisecond) // on its way
			p.took(10 * i)
			spent += requestCost + time.Duration(10*i)*transferCost
		}
		kit.Must(t, p.await(t.Context()))

		if share := spent.Seconds() / time.Since(began).Seconds(); share > 0.05 || share < 0.04 {
			t.Errorf("it took %.3f of the time, its share is 0.05", share)
		}
	})
}
