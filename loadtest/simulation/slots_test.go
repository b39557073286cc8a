package simulation

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// A payment has 64 slots for its returns. When all of them are used, a further return is refused, also
// by engines that died meanwhile and read the slots again.
func TestTheSlotsOfAPaymentAreUsedUp(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		const more = 3
		generator := mix.NewGenerator(population, s.random)
		payment := generator.Payment(mix.Accepted, time.Now())
		for payment.First.AmountCentavos < ledger.ReturnSlots+more {
			payment = generator.Payment(mix.Accepted, time.Now())
		}
		s.order(payment.First.Value)
		s.eventually("its report", func() bool { return s.written(stream.Settlements) > 0 })
		reported := s.reports()
		ids := map[string]bool{}
		for i := range ledger.ReturnSlots + more {
			now := time.Now()
			r := mix.Return{ID: pix.NewReturnID(payment.Payee.ISPB, now, s.random), Original: payment.Name, AmountCentavos: 1, Reason: pix.ReturnReasons[0]}
			value := r.Message(now).Value
			s.order(value, value)
			ids[r.ID.String()] = true
			s.pass(50*time.Millisecond, 200*time.Millisecond) // more at once have too many of one payment: LQ11
			if i == ledger.ReturnSlots/2 {
				s.anyEngine().kill(restartTime, "")
			}
		}
		reported(ids)
		summary := s.verdict()
		if summary.Returned != ledger.ReturnSlots || summary.ReturnsRejected["LQ06"] != more || summary.ReasonsChecked["LQ06"] != more {
			s.t.Errorf("%d returns settled, %v were rejected, %v checked: %d must settle, and %d be rejected with LQ06",
				summary.Returned, summary.ReturnsRejected, summary.ReasonsChecked, ledger.ReturnSlots, more)
		}
	})
}
