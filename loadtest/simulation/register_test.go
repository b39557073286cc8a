package simulation

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/audit"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// A bank is suspended in the middle of a load, and resumed. Meanwhile its payments are refused, and
// those of others are not. The audit compares each with the register. Of its returns, the engine's
// TestASuspendedBank judges one by one.
func TestSuspensionUnderLoad(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 800, pix.ReasonInactivePSP)
		bank := population.Bank(s.random.IntN(population.Banks))
		s.act(ledger.Act{Kind: ledger.Suspended, Bank: bank})
		s.pass(3*time.Second, 4*time.Second)
		s.act(ledger.Act{Kind: ledger.Resumed, Bank: bank})

		if load.wait(0.3) == 0 {
			s.t.Error("no payment was refused because of the suspension")
		}

		summary := s.verdict()
		if summary.ReasonsChecked["DS27"] == 0 || summary.NotChecked[audit.RefusalsWith+"DS27"] > 0 {
			s.t.Errorf("DS27 was checked %d times, and not checked %d times", summary.ReasonsChecked["DS27"],
				summary.NotChecked[audit.RefusalsWith+"DS27"])
		}
	})
}

// A cap on outflow bites in the middle of a load, is lowered, raised and lifted: above it, payments to
// other banks are refused, and leg 4 counts the others. The audit recomputes each allowance.
func TestCapsUnderLoad(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		s.open() // its monitor brings allowances to their caps
		load := s.send("demo", 20, 1600, load.ActReasons...)
		s.pass(5*time.Second, 10*time.Second)
		s.play("cap on payments", 10*time.Second)
		atCap := mix.NewGenerator(population, s.random).Payment(mix.Accepted, time.Now())
		s.act(ledger.Act{Kind: ledger.PaymentCapped, Bank: atCap.Payer.ISPB,
			Centavos: int64(atCap.First.AmountCentavos)})
		s.order(atCap.First.Value)
		s.pass(3*time.Second, 4*time.Second)
		s.act(ledger.Act{Kind: ledger.PaymentCapped, Bank: atCap.Payer.ISPB}) // lifts it
		s.play("cap on outflow", 20*time.Second)
		load.wait(0.3)

		summary := s.verdict()
		for _, reason := range []string{"AM13", "LQ12"} {
			if summary.ReasonsChecked[reason] == 0 || summary.NotChecked[audit.RefusalsWith+reason] > 0 {
				s.t.Errorf("%s was checked %d times, and not checked %d times", reason, summary.ReasonsChecked[reason],
					summary.NotChecked[audit.RefusalsWith+reason])
			}
		}

		if summary.Capped == 0 {
			s.t.Error("no payment was held with leg 4")
		}
	})
}

// An order that is accepted by night and held by day counts against the cap of the day. The audit says of which
// window each leg 4 must be.
func TestACapIsOfTheWindowOfTheHold(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		now := time.Now().In(pix.SaoPaulo)

		dawn := time.Date(now.Year(), now.Month(), now.Day(), 6, 0, 0, 0, pix.SaoPaulo)
		if dawn.Before(now) {
			dawn = dawn.AddDate(0, 0, 1)
		}
		time.Sleep(time.Until(dawn.Add(-time.Minute)))
		s.start(1)

		bank := population.Bank(s.random.IntN(population.Banks))
		for _, kind := range []ledger.ActKind{ledger.DayCapped, ledger.NightCapped} {
			s.act(ledger.Act{Kind: kind, Bank: bank, Centavos: ledger.ActCentavosMax,
				WindowSeconds: ledger.WindowSecondsMin})
		}
		time.Sleep(time.Until(dawn.Add(-12 * time.Second)))
		s.stop(s.engine(0), 20*time.Second)
		load := s.send("settling", 20, 200)
		s.ready(s.engine(0))
		load.wait(0.9)

		if summary := s.verdict(); summary.Capped == 0 {
			s.t.Error("no payment was held with leg 4")
		}
	})
}
