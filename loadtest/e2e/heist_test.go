package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// How a bank is robbed, and what caps it.
const (
	thieves     = 16 // connections, each with its next payment as soon as the last one is accepted
	undisturbed = 5 * time.Second
	loot        = 1_000_000  // centavos of each payment
	heistCap    = 10_000_000 // centavos in each window
)

// heist is a robbery: the key of the first bank is stolen, twice.
type heist struct {
	*operation
	bank  string
	mules []client.Account
	key   string // the stolen one

	mu       sync.Mutex
	payments []client.Payment // accepted
	robbing  context.CancelFunc
	thieving sync.WaitGroup
	accepted atomic.Int64

	lost, lostCapped, returned int64 // centavos
}

// TestHeist robs a bank, without a cap and with one, and prints what is lost.
func TestHeist(t *testing.T) {
	h := &heist{operation: operate(t, append([]pix.Reason{pix.ReasonPayerShort}, actReasons...)), bank: string(population.Bank(0))}
	for bank := 1; bank < population.Banks; bank++ {
		for number := range 5 {
			mule := client.Account{ISPB: string(population.Bank(bank)), Branch: "0001", Number: strconv.Itoa(666_001 + number)}
			h.act(mule, "open", client.AccountAct{Act: client.Open})
			h.mules = append(h.mules, mule)
		}
	}
	h.carryOut([]step{
		{"a stolen key drains a bank, until it is suspended", h.drain},
		{"the key is revoked", h.revoke},
		{"other banks give back what is still there", h.giveBack},
		{"a new key, and the bank is resumed", h.recover},
		{"the new key is stolen, too, but there is a cap", h.drainCapped},
		{"the key is revoked, and the cap lifted", h.lift},
		{"load and audit judge", func() string { return h.judge(pix.ReasonInactivePSP, pix.ReasonOutflowCapped) }},
	})
	fmt.Printf("lost without a cap %s, given back %s; lost with a cap of %s: %s\n", pix.Reais(h.lost), pix.Reais(h.returned), pix.Reais(heistCap), pix.Reais(h.lostCapped))
	refused := h.result.GoodRejected
	fmt.Printf("refused of %d honest payments: %d by the cap, all of the robbed bank (LQ12); %d by its suspension, from and to it (DS27)\n",
		h.result.Sent, refused[pix.ReasonOutflowCapped.String()], refused[pix.ReasonInactivePSP.String()])
}

func (h *heist) act(account client.Account, id string, act client.AccountAct) {
	h.t.Helper()
	_, err := h.api(0, account.ISPB).ActOnAccount(h.t.Context(), account, id+"-"+account.Number, act)
	h.must(err)
}

// rob pays with the robbed bank's key, as fast as the front doors take it, until stolen.
func (h *heist) rob() {
	var err error
	h.key, err = client.ReadKey(h.keyPath(h.bank))
	h.must(err)
	h.accepted.Store(0)
	ctx, cancel := context.WithCancel(context.Background())
	h.robbing = cancel
	h.t.Cleanup(cancel)
	for thief := range thieves {
		api := h.with(thief%2, h.key)
		api.RetryFor = 0
		h.thieving.Go(func() {
			for i := thief; ctx.Err() == nil; i += thieves {
				payment := client.Payment{Payer: customer(0, i%(population.Customers/population.Banks)), Payee: h.mules[i%len(h.mules)], AmountCentavos: loot}
				state, err := api.Pay(context.WithoutCancel(ctx), payment, 0)
				if err != nil { // refused
					time.Sleep(20 * time.Millisecond)
					continue
				}
				payment.EndToEndID = state.EndToEndID
				h.accepted.Add(1)
				h.mu.Lock()
				h.payments = append(h.payments, payment)
				h.mu.Unlock()
			}
		})
	}
}

// stolen ends the robbery, and returns what the mules have when all that was accepted has ended.
func (h *heist) stolen() (sum int64) {
	h.robbing()
	h.thieving.Wait()
	centralBank := h.api(0, keys.CentralBank)
	h.within(5*time.Minute, "all that the thief has paid ends", func() bool {
		for _, payment := range h.payments[max(0, len(h.payments)-20*thieves):] {
			state, err := centralBank.Payment(h.t.Context(), payment.EndToEndID)
			if client.NotFound(err) || err == nil && !state.Final() {
				return false
			}
			h.must(err)
		}
		held := int64(0)
		sum = 0
		for _, mule := range h.mules {
			balance := h.balance(mule)
			sum, held = sum+balance.PostedCentavos, held+balance.PendingInCentavos
		}
		return held == 0
	})
	return sum
}

func (h *heist) balance(account client.Account) client.AccountBalance {
	balance, err := h.api(0, account.ISPB).Balance(h.t.Context(), account)
	h.must(err)
	return balance
}

func (h *heist) drain() string {
	h.rob()
	began := time.Now()
	time.Sleep(time.Until(began.Add(undisturbed)))
	suspended := h.onParticipant("participant", "suspend", h.bank).Act.At
	time.Sleep(2 * bitesWithin)
	last := h.lastHold(h.bank, suspended, time.Now())
	if h.lost = h.stolen(); h.lost == 0 {
		h.t.Error("nothing was stolen")
	}
	return fmt.Sprintf("%s in %v with %d payments; last payment begun %.2f s after the suspension (%v)", pix.Reais(h.lost), undisturbed, h.accepted.Load(), last.Seconds(), bitesWithin)
}

func (h *heist) revoke() string {
	h.onParticipant("key", "revoke", h.bank, h.keyPath(h.bank))
	return fmt.Sprintf("last taken %.2f s after (%v)", h.known(time.Now(), h.key, h.bank, false).Seconds(), bitesWithin)
}

// giveBack gives back what is still there: the mules took half of it out.
func (h *heist) giveBack() string {
	left, there := map[client.Account]int64{}, int64(0)
	for _, mule := range h.mules {
		posted := h.balance(mule).PostedCentavos
		left[mule] = posted / 2 / loot * loot
		there += left[mule]
		if out := posted - left[mule]; out > 0 {
			h.act(mule, "out", client.AccountAct{Act: client.Withdraw, AmountCentavos: out})
		}
	}
	centralBank := h.api(0, keys.CentralBank)
	var givers sync.WaitGroup
	permits := make(chan struct{}, thieves)
	for _, payment := range h.payments {
		if h.returned == there {
			break
		}
		if left[payment.Payee] == 0 {
			continue
		}
		state, err := centralBank.Payment(h.t.Context(), payment.EndToEndID)
		h.must(err)
		if state.Status != client.Settled {
			continue
		}
		left[payment.Payee] -= loot
		h.returned += loot
		api := h.api(0, payment.Payee.ISPB)
		permits <- struct{}{}
		givers.Go(func() {
			defer func() { <-permits }()
			state, err := api.GiveBack(h.t.Context(), client.ReturnOrder{OriginalEndToEndID: payment.EndToEndID, AmountCentavos: loot, ReasonCode: "FR01"}, 5*time.Minute)
			if err != nil || state.Status != client.Settled {
				h.t.Errorf("the return of %s was %s %s: %v", payment.EndToEndID, state.Status, state.ReasonCode, err)
			}
		})
	}
	givers.Wait()
	if h.returned != there {
		h.t.Errorf("%s were there, and %s were given back", pix.Reais(there), pix.Reais(h.returned))
	}
	return fmt.Sprintf("%s with %d returns to the suspended bank; the mules had taken out the rest", pix.Reais(h.returned), h.returned/loot)
}

func (h *heist) recover() string {
	h.newKey(h.bank)
	h.onParticipant("participant", "resume", h.bank)
	last := h.bites(time.Now(), h.paying(customer(0, 1), customer(1, 1), "DS27", ""))
	return fmt.Sprintf("honest customers pay; last refused %.2f s after (%v)", last.Seconds(), bitesWithin)
}

func (h *heist) cap(arguments ...string) {
	for _, window := range ledger.Windows {
		h.onParticipant(append([]string{"participant", "cap", h.bank, window.String()}, arguments...)...)
	}
}

func (h *heist) drainCapped() string {
	before := int64(0)
	for _, mule := range h.mules {
		before += h.balance(mule).PostedCentavos
	}
	h.cap(fmt.Sprintf("%d.00", heistCap/100), "--window", "2m")
	time.Sleep(bitesWithin)
	h.rob()
	time.Sleep(undisturbed)
	h.lostCapped = h.stolen() - before
	if h.lostCapped == 0 || h.lostCapped > heistCap {
		h.t.Errorf("%s were stolen, and the cap is %s", pix.Reais(h.lostCapped), pix.Reais(heistCap))
	}
	return fmt.Sprintf("%s of %s in %v, with %d payments", pix.Reais(h.lostCapped), pix.Reais(heistCap), undisturbed, h.accepted.Load())
}

func (h *heist) lift() string {
	says := h.revoke()
	h.newKey(h.bank)
	h.cap("none")
	last := h.bites(time.Now(), h.paying(customer(0, 1), customer(1, 1), "LQ12", ""))
	return fmt.Sprintf("%s; last honest payment refused %.2f s after the cap was lifted (%v)", says, last.Seconds(), bitesWithin)
}
