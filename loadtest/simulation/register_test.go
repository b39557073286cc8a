package simulation

import (
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// A bank is suspended in the middle of a load, and resumed. Meanwhile its payments are refused, and its
// returns; those of others are not, and what was stolen from it comes back. The audit compares each
// with the register.
func TestSuspensionUnderLoad(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		reported := s.reports()
		load := s.send("demo", 20, 800, pix.ReasonInactivePSP)
		generator := mix.NewGenerator(population, s.random)
		var settled []mix.Payment
		ids := map[string]bool{}
		for range 40 {
			payment := generator.Payment(mix.Accepted, time.Now())
			s.order(payment.First.Value)
			settled, ids[payment.Name] = append(settled, payment), true
		}
		reported(ids)
		bank := population.Bank(s.random.IntN(population.Banks))
		s.act(ledger.Suspended, bank)
		s.pass(6*time.Second, 8*time.Second)
		byBank, toBank := 0, 0
		for _, payment := range settled {
			back := &pixv1.ReturnOrder{
				ReturnId: pix.NewReturnID(payment.Payee.ISPB, time.Now(), s.random).String(), OriginalEndToEndId: payment.Name,
				AmountCentavos: payment.First.AmountCentavos, ReasonCode: pix.ReturnReasons[0].String(), AcceptedAtUnixMs: time.Now().UnixMilli(),
			}
			value, err := (&pixv1.PaymentOrder{ReturnOrder: back}).MarshalVT()
			if err != nil {
				s.t.Fatal(err)
			}
			s.order(value)
			ids[back.ReturnId] = true
			switch bank {
			case payment.Payee.ISPB:
				byBank++
			case payment.Payer.ISPB:
				toBank++
			}
		}
		reported(ids)
		s.act(ledger.Resumed, bank)
		s.pass(6*time.Second, 8*time.Second)
		if result := load.wait(0.3); excused(result) == 0 {
			s.t.Error("no payment was refused because of the suspension")
		}
		summary := s.verdict()
		if summary.ReasonsChecked["DS27"] == 0 || summary.ReasonsUnchecked["DS27"] > 0 {
			s.t.Errorf("DS27 was checked %d times, and not checked %d times", summary.ReasonsChecked["DS27"], summary.ReasonsUnchecked["DS27"])
		}
		if byBank == 0 || toBank == 0 || summary.ReturnsRejected["DS27"] < byBank || summary.Returned < len(settled)-byBank {
			s.t.Errorf("%d returns by the suspended bank, %d to it: %d were refused with DS27, %d settled", byBank, toBank, summary.ReturnsRejected["DS27"], summary.Returned)
		}
	})
}

// Money comes and goes while payments flow: each act has its mirror in the books.
func TestMoneyComesAndGoesUnderLoad(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 400)
		for range 3 {
			s.play("liquidity", time.Second)
			s.play("deposit", time.Second)
		}
		s.play("bank that joins", 0)
		s.play("blocked account", time.Second)
		load.wait(0.3)
		if summary := s.verdict(); summary.Acts["liquidity in"] != 4 || summary.Acts["liquidity out"] != 3 {
			s.t.Errorf("the audit saw the acts %v", summary.Acts)
		}
	})
}

// An engine is frozen while a bank is suspended. When it goes on, it begins nothing by what it read before.
func TestAFrozenEngineAcrossASuspension(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 40, 1600, append(duringFaults, load.ActReasons...)...)
		for range 3 {
			s.pass(6*time.Second, 10*time.Second)
			bank := population.Bank(s.random.IntN(population.Banks))
			over := s.late()
			resume := s.anyEngine().pause()
			s.act(ledger.Suspended, bank)
			s.pass(8*time.Second, 10*time.Second)
			resume()
			over()
			s.pass(8*time.Second, 10*time.Second)
			s.act(ledger.Resumed, bank)
		}
		load.wait(0.1)
		s.verdict()
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
		s.payAtCap()
		s.play("cap on outflow", 20*time.Second)
		load.wait(0.3)
		summary := s.verdict()
		for _, reason := range []string{"AM13", "LQ12"} {
			if summary.ReasonsChecked[reason] == 0 || summary.ReasonsUnchecked[reason] > 0 {
				s.t.Errorf("%s was checked %d times, and not checked %d times", reason, summary.ReasonsChecked[reason], summary.ReasonsUnchecked[reason])
			}
		}
		if summary.Capped == 0 {
			s.t.Error("no payment was held with leg 4")
		}
	})
}

// payAtCap sends a payment of just its bank's cap on payments.
func (s *scenario) payAtCap() {
	s.t.Helper()
	payment := mix.NewGenerator(population, s.random).Payment(mix.Accepted, time.Now())
	act := ledger.Act{Kind: ledger.PaymentCapped, Bank: payment.Payer.ISPB, Centavos: int64(payment.First.AmountCentavos), ByCentralBank: true}
	for _, centavos := range []int64{act.Centavos, 0} { // 0 lifts it
		act.Centavos = centavos
		if err := s.operator(s.random, 0).Do(act); err != nil {
			s.t.Error(err)
		}
		s.pass(3*time.Second, 4*time.Second)
		if centavos > 0 {
			s.order(payment.First.Value)
		}
		s.pass(3*time.Second, 4*time.Second)
	}
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
			act := ledger.Act{Kind: kind, Bank: bank, Centavos: ledger.ActCentavosMax, WindowSeconds: ledger.WindowSecondsMin, ByCentralBank: true}
			if err := s.operator(s.random, 0).Do(act); err != nil {
				s.t.Error(err)
			}
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

// A capped bank is suspended, and resumed: its cap stays, and what is refused takes nothing of it.
func TestASuspendedBankKeepsItsCap(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 1200, load.ActReasons...)
		bank := population.Bank(s.random.IntN(population.Banks))
		kind := ledger.DayCapped + ledger.ActKind(ledger.WindowAt(time.Now()))
		capped := ledger.Act{Kind: kind, Bank: bank, Centavos: 2_000_000 + s.random.Int64N(1_000_000), WindowSeconds: ledger.WindowSecondsMin, ByCentralBank: true}
		do := func(act ledger.Act) {
			if err := s.operator(s.random, 0).Do(act); err != nil {
				s.t.Error(err)
			}
			s.pass(8*time.Second, 10*time.Second)
		}
		do(capped)
		do(ledger.Act{Kind: ledger.Suspended, Bank: bank, ByCentralBank: true})
		do(ledger.Act{Kind: ledger.Resumed, Bank: bank, ByCentralBank: true})
		capped.Centavos = 0
		do(capped)
		load.wait(0.3)
		if summary := s.verdict(); summary.Capped == 0 || summary.ReasonsChecked["DS27"] == 0 {
			s.t.Errorf("%d payments were held with leg 4; refusals %v", summary.Capped, summary.ReasonsChecked)
		}
	})
}
