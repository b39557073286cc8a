package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// bitesWithin is what docs/operating.md promises: so long after an act something may still begin that the act forbids.
const bitesWithin = 2 * time.Second

// How a bank is robbed, and what caps it.
const (
	thieves     = 16 // connections, each with its next payment as soon as the last one is accepted
	undisturbed = 5 * time.Second
	loot        = 1_000_000  // centavos of each payment
	heistCap    = 10_000_000 // centavos in each window
)

// actReasons are the reasons with which the acts of a heist may make a good payment end.
var actReasons = append([]pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonTooLate, pix.ReasonPastDeadline,
	pix.ReasonPayerShort}, load.ActReasons...)

// heist is a clearing house with two front doors, whose people act on it while payments flow: a bank joins, and the key
// of the first bank is stolen, twice.
type heist struct {
	*system
	doors     [2]string
	ledger    tigerbeetle.Client
	bank      string // whose key is stolen
	stolenKey string
	mules     []client.Account

	mu       sync.Mutex
	payments []client.Payment // accepted
	robbing  context.CancelFunc
	thieving sync.WaitGroup
	accepted atomic.Int64

	lost, lostCapped int64 // centavos
}

// TestHeist has a bank join, and robs another one, without a cap and with one. It prints what is lost, and for each
// step what it measured and, in brackets, what is promised.
func TestHeist(t *testing.T) {
	h := &heist{system: start(t, 2), bank: string(population.Bank(0))}
	second, err := h.AddProducer(t.Context())
	h.must(err)
	h.doors, h.ledger = [2]string{h.ProducerURL(), second}, h.ledgerClient()

	var allowed []string
	for _, reason := range actReasons {
		allowed = append(allowed, reason.String())
	}
	load := h.load(30, 30*90, "--mix", "demo", "--allow", strings.Join(allowed, ","))
	load.progress(60)

	for bank := 1; bank < population.Banks; bank++ {
		for number := range 5 {
			mule := client.Account{ISPB: string(population.Bank(bank)), Branch: "0001",
				Number: strconv.Itoa(666_001 + number)}
			h.act(mule, "open", client.AccountAct{Act: client.Open})
			h.mules = append(h.mules, mule)
		}
	}

	for _, step := range []struct {
		name string
		do   func() string
	}{
		{"a sixth bank joins, and is paid and pays", h.join},
		{"a stolen key drains a bank, until it is suspended", h.drain},
		{"the key is revoked", h.revoke},
		{"a new key, and the bank is resumed", h.recover},
		{"the new key is stolen, too, but there is a cap", h.drainCapped},
		{"the key is revoked, and the cap lifted", h.lift},
	} {
		began := time.Now()
		measured := step.do()
		fmt.Printf("%5.1f s  %-48s %s\n", time.Since(began).Seconds(), step.name, measured)
	}

	result, verdict := load.wait(), h.audit()
	for _, reason := range []pix.Reason{pix.ReasonInactivePSP, pix.ReasonOutflowCapped} {
		if verdict.Summary.ReasonsChecked[reason.String()] == 0 {
			t.Errorf("no payment was refused with %s: what asks for it met nothing", reason)
		}
	}
	fmt.Printf("lost without a cap %s; lost with a cap of %s: %s\n", pix.Reais(h.lost), pix.Reais(heistCap),
		pix.Reais(h.lostCapped))
	fmt.Printf("refused of %d honest payments: %d by the cap, all of the robbed bank (LQ12); %d by its suspension, from and to it (DS27)\n",
		result.Sent, result.GoodRejected[pix.ReasonOutflowCapped.String()],
		result.GoodRejected[pix.ReasonInactivePSP.String()])
}

// with returns a client of a front door.
func (h *heist) with(door int, key string) *client.Client {
	h.t.Helper()
	api, err := client.New(h.doors[door], key)
	h.must(err)

	return api
}

// keyPath is where the programs of a caller find its key.
func (h *heist) keyPath(caller string) string {
	path, err := filepath.Abs(filepath.Join(filepath.Dir(h.AnswerKeysFile()), "keys", caller))
	h.must(err)
	return path
}

// does runs liquida, which must succeed.
func (h *heist) does(caller string, arguments ...string) (said string) {
	h.t.Helper()

	got := h.liquida(h.doors[0], caller)(arguments...)
	if got.Code != 0 {
		h.t.Fatalf("liquida %v: %s%s", arguments, got.Out, got.Err)
	}

	return got.Out
}

// onParticipant runs liquida as the central bank.
func (h *heist) onParticipant(arguments ...string) (done client.ParticipantActDone) {
	h.t.Helper()
	h.must(json.Unmarshal([]byte(h.does(keys.CentralBank, append(arguments, "--json")...)), &done))
	return done
}

// customer returns a customer of a bank of the population.
func customer(bank, i int) client.Account {
	a := population.Customer(bank + i*population.Banks)
	return client.Account{ISPB: string(a.ISPB), Branch: a.Branch, Number: a.Number}
}

// bites tries until an act has its effect. It returns how long after the act the last try began that it
// had no effect on, and fails the test if that is longer than what is promised.
func (h *heist) bites(acted time.Time, try func() (effect bool)) (last time.Duration) {
	h.t.Helper()

	for ; ; time.Sleep(20 * time.Millisecond) {
		began := time.Since(acted)

		if try() {
			return last
		}

		if last = began; began > bitesWithin {
			h.t.Fatalf("the act has no effect on what began %.2f s after it: %v are promised", began.Seconds(),
				bitesWithin)
		}
	}
}

// settling is a try for bites: payments of 1.00 end with a reason before the act has its effect, and settle then.
func (h *heist) settling(from, to client.Account, before string) func() bool {
	return func() bool {
		state, err := h.api(from.ISPB).Pay(h.t.Context(), client.Payment{Payer: from, Payee: to, AmountCentavos: 100},
			5*time.Minute)
		h.must(err)

		if state.Status != client.Settled && (before == "" || state.ReasonCode != before) {
			h.t.Fatalf("payment %s from %s to %s was %s %s", state.EndToEndID, from, to, state.Status, state.ReasonCode)
		}

		return state.Status == client.Settled
	}
}

// known is bites for a key, which both front doors know in the end, or not.
func (h *heist) known(key string, known bool) (last time.Duration) {
	h.t.Helper()
	acted := time.Now()

	for door := range h.doors {
		api := h.with(door, key)
		last = max(last, h.bites(acted, func() bool {
			_, err := api.Participant(h.t.Context(), h.bank)
			if problem := new(client.Problem); err != nil &&
				(!errors.As(err, &problem) || problem.Status != http.StatusUnauthorized) {
				h.t.Errorf("the answer must be 401, and is %v", err)
			}

			return (err == nil) == known
		}))
	}

	return last
}

// lastHold returns how long after a suspension money of a payment was last held for the bank. Both times are the
// ledger's.
func (h *heist) lastHold(suspended time.Time) (last time.Duration) {
	h.t.Helper()

	for _, code := range []uint16{ledger.CodeLeg1, ledger.CodeLeg3} {
		found, err := h.ledger.GetAccountTransfers(tb.AccountFilter{
			AccountID: ledger.TransitAccount(pix.ISPB(h.bank)), Code: code, TimestampMin: uint64(suspended.UnixNano()) + 1, Limit: 8189, //nolint:gosec // after 1970
			Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32(),
		})
		h.must(err)

		for _, transfer := range found {
			if transfer.TransferFlags().Pending {
				last = max(last, time.Unix(0, int64(transfer.Timestamp)).Sub(suspended)) //nolint:gosec // after 1970
			}
		}
	}

	if last > bitesWithin {
		h.t.Errorf("a payment of %s was begun %.2f s after its suspension: %v are promised", h.bank, last.Seconds(),
			bitesWithin)
	}

	return last
}

func (h *heist) join() string {
	began := time.Now()
	joined := client.Account{ISPB: "10000006", Branch: "0001", Number: "1"}
	h.onParticipant("participant", "register", joined.ISPB)
	h.does(keys.CentralBank, "key", "make", joined.ISPB, h.keyPath(joined.ISPB))
	h.does(keys.CentralBank, "key", "name", joined.ISPB, h.keyPath(joined.ISPB))

	var said bytes.Buffer
	if err := h.Run(h.t.Context(), &said, &said, "bootstrap", "participant", joined.ISPB); err != nil {
		h.t.Fatalf("%v: %s", err, said.Bytes())
	}
	h.onParticipant("participant", "liquidity", "in", joined.ISPB, "1000000.00")
	h.does(joined.ISPB, "account", "open", joined.String())
	h.does(joined.ISPB, "account", "deposit", joined.String(), "1000.00")
	h.settling(customer(0, 0), joined, "")()
	h.settling(joined, customer(1, 0), "")()

	return fmt.Sprintf("%.1f s from its registration to its second payment", time.Since(began).Seconds())
}

func (h *heist) act(account client.Account, id string, act client.AccountAct) {
	h.t.Helper()
	_, err := h.api(account.ISPB).ActOnAccount(h.t.Context(), account, id+"-"+account.Number, act)
	h.must(err)
}

// rob pays with the robbed bank's key, as fast as the front doors take it, until stolen.
func (h *heist) rob() {
	h.stolenKey = h.key(h.bank)
	h.accepted.Store(0)
	ctx, cancel := context.WithCancel(context.Background())
	h.robbing = cancel
	h.t.Cleanup(cancel)

	for thief := range thieves {
		api := h.with(thief%2, h.stolenKey)
		api.RetryFor = 0
		h.thieving.Go(func() {
			for i := thief; ctx.Err() == nil; i += thieves {
				payment := client.Payment{Payer: customer(0, i%(population.Customers/population.Banks)),
					Payee: h.mules[i%len(h.mules)], AmountCentavos: loot}

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
	centralBank := h.api(keys.CentralBank)
	kit.AwaitWithin(h.t, 5*time.Minute, "all that the thief has paid ends", func() (bool, string) {
		for _, payment := range h.payments[max(0, len(h.payments)-20*thieves):] {
			state, err := centralBank.Payment(h.t.Context(), payment.EndToEndID)
			if client.NotFound(err) || err == nil && !state.Final() {
				return false, payment.EndToEndID + " is open"
			}
			h.must(err)
		}
		held := int64(0)
		sum = 0

		for _, mule := range h.mules {
			balance := h.balance(mule)
			sum, held = sum+balance.PostedCentavos, held+balance.PendingInCentavos
		}

		return held == 0, pix.Reais(held) + " are held"
	})

	return sum
}

func (h *heist) balance(account client.Account) client.AccountBalance {
	balance, err := h.api(account.ISPB).Balance(h.t.Context(), account)
	h.must(err)
	return balance
}

func (h *heist) drain() string {
	h.rob()
	time.Sleep(undisturbed)
	suspended := h.onParticipant("participant", "suspend", h.bank).Act.At
	time.Sleep(2 * bitesWithin)

	last := h.lastHold(suspended)
	if h.lost = h.stolen(); h.lost == 0 {
		h.t.Error("nothing was stolen")
	}

	return fmt.Sprintf("%s in %v with %d payments; last payment begun %.2f s after the suspension (%v)",
		pix.Reais(h.lost), undisturbed, h.accepted.Load(), last.Seconds(), bitesWithin)
}

func (h *heist) revoke() string {
	h.onParticipant("key", "revoke", h.bank, h.keyPath(h.bank))
	return fmt.Sprintf("last taken %.2f s after (%v)", h.known(h.stolenKey, false).Seconds(), bitesWithin)
}

// newKey makes and names another key of the bank, which its programs then use. Only its digest travels.
func (h *heist) newKey() {
	file := filepath.Join(h.t.TempDir(), "key")
	h.does(keys.CentralBank, "key", "make", h.bank, file)
	h.onParticipant("key", "name", h.bank, file)
	key, err := client.ReadKey(file)
	h.must(err)
	h.known(key, true)
	h.must(os.Rename(file, h.keyPath(h.bank)))
}

func (h *heist) recover() string {
	h.newKey()
	h.onParticipant("participant", "resume", h.bank)
	last := h.bites(time.Now(), h.settling(customer(0, 1), customer(1, 1), "DS27"))

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

	return fmt.Sprintf("%s of %s in %v, with %d payments", pix.Reais(h.lostCapped), pix.Reais(heistCap), undisturbed,
		h.accepted.Load())
}

func (h *heist) lift() string {
	says := h.revoke()
	h.newKey()
	h.cap("none")
	last := h.bites(time.Now(), h.settling(customer(0, 1), customer(1, 1), "LQ12"))

	return fmt.Sprintf("%s; last honest payment refused %.2f s after the cap was lifted (%v)", says, last.Seconds(),
		bitesWithin)
}
