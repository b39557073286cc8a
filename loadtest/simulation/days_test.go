package simulation

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// A payment can be returned for 90 days, and not on the next one. Nobody runs between the returns, the
// broker neither: its clients would ask for months. After seven days it forgets the engines' offsets.
func TestReturnsWithin90Days(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		written := func() int64 { return s.written(stream.Settlements) }
		payment := mix.NewGenerator(population, s.random).Payment(mix.Accepted, time.Now())
		s.order(payment.First.Value)
		s.eventually("its report", func() bool { return written() > 0 })
		settled := time.Now()
		for _, days := range []int{1, 5, 89, 91} {
			down := time.Until(settled.AddDate(0, 0, days))
			s.stop(s.engine(0), down)
			s.stop(s.banks(), down)
			s.client.Close()
			s.broker.restart(down - time.Second)
			s.connect()
			s.ready(s.banks(), s.engine(0))
			now, before := time.Now(), written()
			r := mix.Return{ID: pix.NewReturnID(payment.Payee.ISPB, now, s.random), Original: payment.Name, AmountCentavos: 1, Reason: pix.ReturnReasons[0]}
			s.order(r.Message(now).Value)
			s.eventually("the report of a return", func() bool { return written() > before })
		}
		if summary := s.verdict(); summary.Returned != 3 || summary.ReturnsRejected["DT05"] != 1 {
			s.t.Errorf("%d returns settled and %v were rejected; three are within 90 days, one is not", summary.Returned, summary.ReturnsRejected)
		}
	})
}
