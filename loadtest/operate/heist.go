package operate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
)

// How the bank is robbed, and what caps it.
const (
	thieves     = 16 // connections, each with its next payment as soon as the last one is accepted
	undisturbed = 5 * time.Second
	loot        = 1_000_000 // centavos of each payment
	mulesOfBank = 5
	lastOnes    = 20 * thieves // accepted payments: when these have ended, all have

	capCentavos = 10_000_000 // in each window
	capText     = "100000.00"
	capWindow   = "2m"
)

// heistReasons are the reasons with which a robbery may make an honest payment end.
var heistReasons = []pix.Reason{pix.ReasonInactivePSP, pix.ReasonPayeePSPSilent, pix.ReasonTooLate, pix.ReasonPayerShort, pix.ReasonOutflowCapped}

// heist is a robbery: the key of the first bank is stolen, twice.
type heist struct {
	house *house
	mules []client.Account

	key      string // the stolen one
	robbing  context.CancelFunc
	thieving sync.WaitGroup
	accepted atomic.Int64
	refused  atomic.Int64
	mu       sync.Mutex
	payments []client.Payment // accepted

	lost, lostCapped, returned int64 // centavos
}

// Heist plays a robbery, without a cap and with one, and stops at the first step that fails.
func Heist(ctx context.Context, config Config) error {
	t := &heist{}
	part := func(do func(context.Context, *house) (string, error)) func(*house, context.Context) (string, error) {
		return func(h *house, ctx context.Context) (string, error) {
			t.house = h
			return do(ctx, h)
		}
	}
	if err := run(ctx, config, heistReasons, []step{
		{"a clearing house starts", (*house).start},
		{"mules open accounts at the other banks", part(t.openMules)},
		{"a stolen key drains a bank, until it is suspended", part(t.drain)},
		{"the key is revoked", part(t.revoke)},
		{"other banks give back what is still there", part(t.giveBack)},
		{"a new key, and the bank is resumed", part(t.recover)},
		{"the new key is stolen, too, but there is a cap", part(t.drainCapped)},
		{"the key is revoked, and the cap lifted", part(t.end)},
		{"the load ends", (*house).endLoad},
		{"the audit replays it all", audits(pix.ReasonInactivePSP, pix.ReasonOutflowCapped)},
	}); err != nil {
		return err
	}
	fmt.Fprintf(config.Out, "lost without a cap %s, given back %s; lost with a cap of %s in %s: %s\n", reais(t.lost), reais(t.returned), reais(capCentavos), capWindow, reais(t.lostCapped))
	refused := t.house.load.GoodRejected
	fmt.Fprintf(config.Out, "refused of %d honest payments: %d by the cap, all of the robbed bank (LQ12); %d by its suspension, from and to it (DS27)\n",
		t.house.load.Sent, refused[pix.ReasonOutflowCapped.String()], refused[pix.ReasonInactivePSP.String()])
	return nil
}

func reais(centavos int64) string { return fmt.Sprintf("BRL %d.%02d", centavos/100, centavos%100) }

func (t *heist) openMules(ctx context.Context, h *house) (string, error) {
	for bank := 1; bank < Banks; bank++ {
		api, err := h.api(0, h.bank(bank))
		if err != nil {
			return "", err
		}
		for number := range mulesOfBank {
			mule := client.Account{ISPB: h.bank(bank), Branch: "0001", Number: fmt.Sprint(666_001 + number)}
			if _, err := api.ActOnAccount(ctx, mule, "open-"+mule.Number, client.AccountAct{Act: client.Open}); err != nil {
				return "", err
			}
			t.mules = append(t.mules, mule)
		}
	}
	return fmt.Sprintf("%d accounts at %d banks", len(t.mules), Banks-1), nil
}

// rob begins to pay with the robbed bank's key, as fast as the front doors take it, until stop.
func (t *heist) rob(h *house) error {
	key, err := client.ReadKey(h.keyFile(h.bank(0)))
	if err != nil {
		return err
	}
	t.key = key
	t.accepted.Store(0)
	t.refused.Store(0)
	ctx, cancel := context.WithCancel(context.Background())
	t.robbing = cancel
	for thief := range thieves {
		api, err := client.New(h.doors[thief%2], key)
		if err != nil {
			return err
		}
		api.RetryFor = 0
		t.thieving.Go(func() {
			for i := thief; ctx.Err() == nil; i += thieves {
				payment := client.Payment{Payer: h.customer(0, i%(h.config.Population.Customers/Banks)), Payee: t.mules[i%len(t.mules)], AmountCentavos: loot}
				state, err := api.Pay(context.WithoutCancel(ctx), payment, 0)
				if err == nil {
					t.accepted.Add(1)
					payment.EndToEndID = state.EndToEndID
					t.mu.Lock()
					t.payments = append(t.payments, payment)
					t.mu.Unlock()
					continue
				}
				t.refused.Add(1)
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	return nil
}

// stop ends the robbery, and returns what the mules have when all that was accepted has ended.
func (t *heist) stop(ctx context.Context, h *house) (int64, error) {
	t.robbing()
	t.thieving.Wait()
	for {
		held := int64(0)
		var sum int64
		for _, mule := range t.mules {
			balance, err := h.balance(ctx, mule)
			if err != nil {
				return 0, err
			}
			sum += balance.PostedCentavos
			held += balance.PendingInCentavos
		}
		open, err := t.open(ctx, h)
		if err != nil || held == 0 && open == 0 {
			return sum, err
		}
		if pause(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

func (h *house) balance(ctx context.Context, account client.Account) (client.AccountBalance, error) {
	api, err := h.api(0, account.ISPB)
	if err != nil {
		return client.AccountBalance{}, err
	}
	return api.Balance(ctx, account)
}

// open returns how many of the last payments have not ended.
func (t *heist) open(ctx context.Context, h *house) (open int, err error) {
	api, err := h.api(0, keys.CentralBank)
	if err != nil {
		return 0, err
	}
	for _, payment := range t.payments[max(0, len(t.payments)-lastOnes):] {
		state, err := api.Payment(ctx, payment.EndToEndID)
		switch {
		case client.NotFound(err), err == nil && !state.Final():
			open++
		case err != nil:
			return 0, err
		}
	}
	return open, nil
}

// tryAll does with the stolen key what must not help a thief.
func (t *heist) tryAll(ctx context.Context, h *house) (int, error) {
	api, err := client.New(h.doors[1], t.key)
	if err != nil {
		return 0, err
	}
	mule, bank := t.mules[0], h.bank(0)
	cap0, tries := int64(0), 0
	for _, act := range []client.ParticipantAct{{Act: client.LiquidityIn, AmountCentavos: loot}, {Act: client.DayCap, CapCentavos: &cap0}, {Act: client.NightCap, CapCentavos: &cap0}, {Act: client.Resume}} {
		tries++
		_, err := api.ActOnParticipant(ctx, bank, fmt.Sprintf("thief-%d-%d", time.Now().UnixNano(), tries), act)
		if err := wantRefused("a thief's "+act.Act, err, http.StatusForbidden); err != nil {
			return tries, err
		}
	}
	for _, act := range []client.AccountAct{{Act: client.Deposit, AmountCentavos: loot}, {Act: client.Withdraw, AmountCentavos: loot}} {
		tries++
		_, err := api.ActOnAccount(ctx, mule, fmt.Sprintf("thief-%d-%d", time.Now().UnixNano(), tries), act)
		if err := wantRefused("a thief's "+act.Act+" at another bank", err, http.StatusForbidden); err != nil {
			return tries, err
		}
	}
	// A return goes to whoever paid, and is never more than that.
	received, err := h.settles(ctx, h.customer(1, 3), h.customer(0, 3))
	if err != nil {
		return tries, err
	}
	for _, back := range []struct {
		centavos int64
		end      string
	}{{received.AmountCentavos + 1, client.Rejected}, {received.AmountCentavos, client.Settled}} {
		tries++
		state, err := api.GiveBack(ctx, client.ReturnOrder{OriginalEndToEndID: received.EndToEndID, AmountCentavos: back.centavos, ReasonCode: "MD06"}, stepWithin)
		if err == nil && state.Status != back.end {
			err = fmt.Errorf("a thief's return of %d of %d centavos was %s %s, and must be %s", back.centavos, received.AmountCentavos, state.Status, state.ReasonCode, back.end)
		}
		if err != nil {
			return tries, err
		}
	}
	// A deposit at the robbed bank is its own business: it makes its customer rich, and nobody else.
	_, err = api.ActOnAccount(ctx, h.customer(0, 0), fmt.Sprintf("thief-%d", time.Now().UnixNano()), client.AccountAct{Act: client.Deposit, AmountCentavos: loot})
	return tries, err
}

func (t *heist) drain(ctx context.Context, h *house) (string, error) {
	bank := h.bank(0)
	if err := t.rob(h); err != nil {
		return "", err
	}
	began := time.Now()
	tries, err := t.tryAll(ctx, h)
	if err != nil {
		return "", err
	}
	pause(ctx, time.Until(began.Add(undisturbed)))
	done, err := h.onParticipant(ctx, "participant", "suspend", bank)
	if err != nil {
		return "", err
	}
	pause(ctx, 2*bitesWithin)
	last, err := h.lastHoldOfPayments(ctx, bank, done.Act.At, time.Now())
	if err != nil {
		return "", err
	}
	// The thief goes on, and nothing comes of it.
	if t.lost, err = t.stop(ctx, h); err == nil && t.lost == 0 {
		err = errors.New("nothing was stolen")
	}
	return fmt.Sprintf("%s in %v with %d payments; %d other tries gave nothing; last payment begun %.2f s after the suspension (%v)", reais(t.lost), undisturbed, t.accepted.Load(), tries, last.Seconds(), bitesWithin), err
}

func (t *heist) revoke(ctx context.Context, h *house) (string, error) {
	bank := h.bank(0)
	if _, err := h.onParticipant(ctx, "key", "revoke", bank, h.absolute(h.keyFile(bank))); err != nil {
		return "", err
	}
	last, err := h.bitesAtBothDoors(ctx, time.Now(), t.key, bank, false)
	return fmt.Sprintf("last taken %.2f s after (%v)", last.Seconds(), bitesWithin), err
}

// giveBack gives back what is still there: the mules took half of it out.
func (t *heist) giveBack(ctx context.Context, h *house) (string, error) {
	left := map[client.Account]int64{}
	there := int64(0)
	for _, mule := range t.mules {
		balance, err := h.balance(ctx, mule)
		if err != nil {
			return "", err
		}
		keeps := balance.PostedCentavos / 2 / loot * loot
		if out := balance.PostedCentavos - keeps; out > 0 {
			api, err := h.api(0, mule.ISPB)
			if err != nil {
				return "", err
			}
			if _, err := api.ActOnAccount(ctx, mule, "out-"+mule.Number, client.AccountAct{Act: client.Withdraw, AmountCentavos: out}); err != nil {
				return "", err
			}
		}
		left[mule] = keeps
		there += keeps
	}
	api, err := h.api(0, keys.CentralBank)
	if err != nil {
		return "", err
	}
	var backs []client.Payment
	for _, payment := range t.payments {
		if int64(len(backs))*loot == there {
			break
		}
		if left[payment.Payee] == 0 {
			continue
		}
		state, err := api.Payment(ctx, payment.EndToEndID)
		if err != nil {
			return "", err
		}
		if state.Status == client.Settled {
			left[payment.Payee] -= loot
			backs = append(backs, payment)
		}
	}
	failed := make([]error, thieves)
	var all sync.WaitGroup
	for giver := range thieves {
		all.Go(func() {
			for i := giver; i < len(backs) && failed[giver] == nil; i += thieves {
				failed[giver] = h.givesBackAll(ctx, backs[i])
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return "", err
	}
	t.returned = int64(len(backs)) * loot
	if t.returned != there {
		return "", fmt.Errorf("%s were there, and %s were given back", reais(there), reais(t.returned))
	}
	return fmt.Sprintf("%s with %d returns to the suspended bank; the mules had taken out the rest", reais(t.returned), len(backs)), nil
}

func (h *house) givesBackAll(ctx context.Context, payment client.Payment) error {
	api, err := h.api(0, payment.Payee.ISPB)
	if err != nil {
		return err
	}
	state, err := api.GiveBack(ctx, client.ReturnOrder{OriginalEndToEndID: payment.EndToEndID, AmountCentavos: payment.AmountCentavos, ReasonCode: "FR01"}, stepWithin)
	if err == nil && state.Status != client.Settled {
		err = fmt.Errorf("the return of %s was %s %s", payment.EndToEndID, state.Status, state.ReasonCode)
	}
	return err
}

// newKey makes and names another key of the robbed bank, which its programs then use.
func (t *heist) newKey(ctx context.Context, h *house, name string) error {
	bank, file := h.bank(0), h.absolute(filepath.Join(h.config.Dir, name))
	if _, err := h.liquida(ctx, keys.CentralBank, "key", "make", bank, file); err != nil {
		return err
	}
	if _, err := h.onParticipant(ctx, "key", "name", bank, file); err != nil {
		return err
	}
	key, err := client.ReadKey(file)
	if err != nil {
		return err
	}
	if _, err := h.bitesAtBothDoors(ctx, time.Now(), key, bank, true); err != nil {
		return err
	}
	return os.Rename(file, h.keyFile(bank))
}

func (t *heist) recover(ctx context.Context, h *house) (string, error) {
	if err := t.newKey(ctx, h, "second-key"); err != nil {
		return "", err
	}
	return t.resumes(ctx, h)
}

func (t *heist) resumes(ctx context.Context, h *house) (string, error) {
	if _, err := h.onParticipant(ctx, "participant", "resume", h.bank(0)); err != nil {
		return "", err
	}
	last, err := bites(ctx, time.Now(), bitesWithin, h.paying(h.customer(0, 1), h.customer(1, 1), "DS27", ""))
	return fmt.Sprintf("honest customers pay; last refused %.2f s after (%v)", last.Seconds(), bitesWithin), err
}

func (t *heist) drainCapped(ctx context.Context, h *house) (string, error) {
	bank := h.bank(0)
	var before int64
	for _, mule := range t.mules {
		balance, err := h.balance(ctx, mule)
		if err != nil {
			return "", err
		}
		before += balance.PostedCentavos
	}
	for _, when := range []string{"day", "night"} {
		if _, err := h.onParticipant(ctx, "participant", "cap", bank, when, capText, "--window", capWindow); err != nil {
			return "", err
		}
	}
	pause(ctx, bitesWithin)
	if err := t.rob(h); err != nil {
		return "", err
	}
	began := time.Now()
	alerted, err := h.nearCap(ctx, began)
	if err != nil {
		return "", err
	}
	pause(ctx, time.Until(began.Add(undisturbed)))
	after, err := t.stop(ctx, h)
	if err != nil {
		return "", err
	}
	t.lostCapped = after - before
	api, err := h.api(0, keys.CentralBank)
	if err != nil {
		return "", err
	}
	p, err := api.Participant(ctx, bank)
	if err != nil {
		return "", err
	}
	if t.lostCapped == 0 || t.lostCapped > capCentavos {
		return "", fmt.Errorf("%s were stolen, and the cap is %s", reais(t.lostCapped), reais(capCentavos))
	}
	if len(p.OutflowCaps) != 2 {
		return "", fmt.Errorf("the caps of %s are %+v", bank, p.OutflowCaps)
	}
	return fmt.Sprintf("%s of %s in %v, with %d payments; after %.2f s the metric was below what OutflowNearCap asks for; left of the cap %s", reais(t.lostCapped), reais(capCentavos), undisturbed, t.accepted.Load(), alerted.Seconds(), reais(min(p.OutflowCaps[0].LeftCentavos, p.OutflowCaps[1].LeftCentavos))), nil
}

// outflowLeft finds what is left of a cap on outflow, in a producer's metrics.
var outflowLeft = regexp.MustCompile(`(?m)^pix_outflow_left_centavos\{[^}]*\} (\S+)$`)

// nearCap waits until the metric says what the alert OutflowNearCap waits for: less than a tenth of a cap
// is left. It returns how long after the beginning.
func (h *house) nearCap(ctx context.Context, began time.Time) (time.Duration, error) {
	for {
		text, err := meter.Get(ctx, h.TelemetryURL(stack.Producer)+"/metrics")
		if err != nil {
			return 0, err
		}
		for _, found := range outflowLeft.FindAllStringSubmatch(string(text), -1) {
			if left, err := strconv.ParseFloat(found[1], 64); err == nil && left < capCentavos/10 {
				return time.Since(began), nil
			}
		}
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
}

func (t *heist) end(ctx context.Context, h *house) (string, error) {
	bank := h.bank(0)
	revoked, err := t.revoke(ctx, h)
	if err != nil {
		return "", err
	}
	if err := t.newKey(ctx, h, "third-key"); err != nil {
		return "", err
	}
	for _, when := range []string{"day", "night"} {
		if _, err := h.onParticipant(ctx, "participant", "cap", bank, when, "none"); err != nil {
			return "", err
		}
	}
	last, err := bites(ctx, time.Now(), bitesWithin, h.paying(h.customer(0, 1), h.customer(1, 1), "LQ12", ""))
	return fmt.Sprintf("%s; last honest payment refused %.2f s after the cap was lifted (%v)", revoked, last.Seconds(), bitesWithin), err
}
