package e2e

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
)

// bitesWithin is how long after an act something may still begin that the act forbids.
const bitesWithin = 2 * time.Second

// With two engines a bank pays up to its cap and no centavo more, and gets back what was rejected.
func TestCaps(t *testing.T) {
	s := start(t, 2)
	centralBank := s.liquida(s.ProducerURL(), keys.CentralBank)
	const payer, payee, neighbour, blocked = "10000001/0001/1", "10000002/0001/1", "10000001/0001/2", "10000002/9003/1"
	// bound sets both caps on outflow of a bank, so that the time of the day does not count.
	bound := func(bank, amount string) {
		t.Helper()
		for _, window := range []string{"day", "night"} {
			centralBank("participant", "cap", bank, window, amount).Is(t, exitDone, "books agree")
		}
		time.Sleep(bitesWithin) // nobody begins anything by older rules after it
	}
	pay := func(from, to, amount string) (says string) {
		got := s.liquida(s.ProducerURL(), from[:8])("pay", from, to, amount)
		return got.Out + got.Err
	}
	expect := func(to, amount, says string) {
		t.Helper()
		if got := pay(payer, to, amount); !strings.Contains(got, says) {
			t.Errorf("%s to %s: %s, want %q", amount, to, got, says)
		}
	}

	centralBank("participant", "cap", "10000001", "payment", "3.00").Is(t, exitDone, "cap on a payment BRL 3.00")
	bound("10000001", "5.00")
	expect(payee, "3.01", "rejected AM13")
	expect(neighbour, "3.01", "rejected AM13")
	expect(payee, "3.00", "settled")
	expect(payee, "2.01", "rejected LQ12")
	expect(neighbour, "2.50", "settled") // it does not leave the bank
	expect(blocked, "2.00", "rejected AC06")
	expect(payee, "2.00", "settled")
	expect(payee, "0.01", "rejected LQ12")
	bound("10000001", "5.01")
	expect(payee, "0.01", "settled")
	expect(payee, "0.01", "rejected LQ12")
	bound("10000001", "none")
	expect(payee, "3.00", "settled")

	// All at once, to both engines.
	bound("10000003", "7.00")
	var all sync.WaitGroup
	var settled, refused atomic.Int32
	for range 12 {
		all.Go(func() {
			switch got := pay("10000003/0001/1", payee, "1.00"); {
			case strings.Contains(got, "settled"):
				settled.Add(1)
			case strings.Contains(got, "rejected LQ12"):
				refused.Add(1)
			default:
				t.Error(got)
			}
		})
	}
	all.Wait()
	if settled.Load() != 7 || refused.Load() != 5 {
		t.Errorf("%d of 12 payments of 1.00 settled and %d were refused under a cap of 7.00", settled.Load(), refused.Load())
	}
	if summary := s.audit().Summary; summary.Capped != 11 || summary.ReasonsChecked["LQ12"] != 8 || summary.ReasonsChecked["AM13"] != 2 {
		t.Errorf("the audit has seen %d payments with leg 4, and %v", summary.Capped, summary.ReasonsChecked)
	}
}
