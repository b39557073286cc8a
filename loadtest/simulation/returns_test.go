package simulation

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Many returns of the same payments, together far more than was paid, are sent twice to random
// partitions. So two engines clear them at the same time without knowing of each other, and die
// at every step meanwhile. No more is given back than was paid, and every return has its one
// outcome.
func TestReturnsRace(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		generator := mix.NewGenerator(population, s.random)
		var settled []mix.Payment
		ids := map[string]bool{}

		for i := range 20 {
			payment := generator.Payment([]mix.Case{mix.Accepted, mix.SameBank}[i%2], time.Now())
			s.order(payment.First.Value)
			settled, ids[payment.Name] = append(settled, payment), true
		}
		s.reported(ids)
		returns := 0

		giveBack := func() {
			for _, payment := range settled {
				back := s.returnOf(payment, 1+s.random.Uint64N(max(2, payment.First.AmountCentavos/2)))
				ids[back.ReturnId] = true
				returns++
				s.order(encode(back), encode(back))
			}
			s.pass(0, 2*time.Second)
		}

		// Every step of the first engine is where it dies, while returns are in flight.
		for _, step := range engineSteps {
			s.engine(0).kill(restartTime, step+":1")

			const most = 20
			for n := 0; !s.noted(s.engine(0).name + " dies at " + step + ":1"); n++ {
				if n == most {
					s.t.Fatalf("%s did not die at %s", s.engine(0).name, step)
				}
				giveBack()
			}
		}
		s.ready(s.engine(0))

		s.reported(ids)

		summary := s.verdict()
		if summary.Returns != returns || summary.Returned < len(settled) {
			s.t.Errorf("%d returns, %d settled; %d were sent, and at least one of each payment must have settled",
				summary.Returns, summary.Returned, returns)
		}

		if summary.ReturnsRejected["AM09"] == 0 {
			s.t.Errorf("no return was refused because it was too much: %v", summary.ReturnsRejected)
		}
	})
}

// returnOf gives back a part of a payment.
func (s *scenario) returnOf(of mix.Payment, centavos uint64) *pixv1.ReturnOrder {
	now := time.Now()

	return &pixv1.ReturnOrder{
		ReturnId: pix.NewReturnID(of.Payee.ISPB, now, s.random).String(), OriginalEndToEndId: of.Name,
		AmountCentavos:   centavos,
		ReasonCode:       pix.ReturnReasons[s.random.IntN(len(pix.ReturnReasons))].String(),
		AcceptedAtUnixMs: now.UnixMilli(),
	}
}

func encode(back *pixv1.ReturnOrder) []byte {
	value, err := (&pixv1.PaymentOrder{ReturnOrder: back}).MarshalVT()
	if err != nil {
		panic(err)
	}

	return value
}

// reported waits for a report of each id.
func (s *scenario) reported(ids map[string]bool) {
	s.t.Helper()
	s.eventually("reports of all", func() bool {
		time.Sleep(time.Second)
		err := s.each(stream.Settlements, func(r *kgo.Record) error {
			var report pixv1.SettlementReport
			err := report.UnmarshalVT(r.Value)
			delete(ids, report.EndToEndId)

			return err
		})

		return err == nil && len(ids) == 0
	})
}
