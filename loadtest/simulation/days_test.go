package simulation

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// A payment can be returned for 90 days. This shows some of them: months of an idle broker cost
// minutes, and after seven days it forgets offsets. Nobody else runs meanwhile.
func TestReturnsAfterDays(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		reports := int64(0)
		reported := func() { // asks, because a consumer would fetch for days
			s.t.Helper()
			reports++
			s.eventually("its report", func() bool { return s.written(stream.Settlements) == reports })
		}
		payment := mix.NewGenerator(population, s.random).Payment(mix.Accepted, time.Now())
		s.order(payment.First.Value)
		reported()
		for _, down := range []time.Duration{24*time.Hour + time.Minute, 4 * 24 * time.Hour} {
			s.stop(s.engine(0), down)
			s.stop(s.banks(), down)
			time.Sleep(down)
			s.ready(s.banks(), s.engine(0))
			now := time.Now()
			r := mix.Return{ID: pix.NewReturnID(payment.Payee.ISPB, now, s.random), Original: payment.Name, AmountCentavos: 1, Reason: pix.ReturnReasons[0]}
			s.order(r.Message(now).Value)
			reported()
		}
		if summary := s.verdict(); summary.Returned != 2 {
			s.t.Errorf("%d returns settled and %v were rejected; both are within 90 days", summary.Returned, summary.ReturnsRejected)
		}
	})
}
