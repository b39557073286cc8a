package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
)

// steps are what the clearing house goes through, in this order.
var steps = []step{
	{"a clearing house starts", (*house).start},
	{"a sixth bank joins, and is paid and pays", (*house).join},
	{"its accounts are blocked, closed and reopened", (*house).accounts},
	{"single payments of the sixth bank are capped", (*house).capPayment},
	{"its outflow is capped, and payments race for it", (*house).capOutflow},
	{"its cap is lowered below what is held", (*house).lower},
	{"it is suspended, and its cap changes meanwhile", (*house).capSuspended},
	{"a bank is capped while it pays all the time", (*house).capLoaded},
	{"a bank is suspended and resumed", (*house).suspend},
	{"a key is rotated while it is used", (*house).rotate},
	{"a bank is suspended while every engine is frozen", (*house).freeze},
	{"one act is sent 40 times through two front doors", (*house).repeat},
	{"two amounts race for one act id", (*house).conflict},
	{"two front doors register one bank", (*house).registerTwice},
	{"suspensions and resumptions race", (*house).reorder},
	{"withdrawals race for one deposit", (*house).overdraw},
	{"everybody tries what is not theirs", (*house).trespass},
	{"what was paid under a cap leaves its window", (*house).leaveWindow},
	{"the load ends", (*house).endLoad},
	{"the audit replays it all", audits(pix.ReasonInactivePSP, pix.ReasonAboveCap, pix.ReasonOutflowCapped)},
}

// Banks and accounts of the steps. joins has opened joined, twin is registered by two at once.
const joins, twin = "10000006", "10000007"

var joined = client.Account{ISPB: joins, Branch: "0001", Number: "1"}

func (h *house) join(ctx context.Context) (string, error) {
	began := time.Now()
	var acts [2]client.Act
	for i := range acts {
		done, err := h.onParticipant(ctx, "participant", "register", joins, "--id", "ticket-1")
		if err != nil {
			return "", err
		}
		acts[i] = done.Act
	}
	if acts[0].ID != acts[1].ID || !acts[0].At.Equal(acts[1].At) {
		return "", fmt.Errorf("registered twice under one id: %+v and %+v", acts[0], acts[1])
	}
	if _, err := h.liquida(ctx, keys.CentralBank, "key", "make", joins, h.absolute(h.keyFile(joins))); err != nil {
		return "", err
	}
	if _, err := h.onParticipant(ctx, "key", "name", joins, h.absolute(h.keyFile(joins))); err != nil {
		return "", err
	}
	var said bytes.Buffer
	if err := h.Run(ctx, &said, &said, "bootstrap", "participant", joins); err != nil {
		return "", fmt.Errorf("%w: %s", err, said.Bytes())
	}
	if _, err := h.onParticipant(ctx, "participant", "liquidity", "in", joins, "1000000.00"); err != nil {
		return "", err
	}
	for range 2 { // the same again changes nothing
		if _, err := h.liquida(ctx, joins, "account", "open", joined.String(), "--id", "open-1"); err != nil {
			return "", err
		}
	}
	if _, err := h.liquida(ctx, joins, "account", "deposit", joined.String(), "1000.00"); err != nil {
		return "", err
	}
	if _, err := h.settles(ctx, h.customer(0, 0), joined); err != nil {
		return "", err
	}
	if _, err := h.settles(ctx, joined, h.customer(1, 0)); err != nil {
		return "", err
	}
	took := time.Since(began)
	if took > joinedWithin {
		return "", fmt.Errorf("it took %.1f s from the first command to the second payment: %v are promised", took.Seconds(), joinedWithin)
	}
	return fmt.Sprintf("%.1f s from its registration to its second payment (%v)", took.Seconds(), joinedWithin), nil
}

func (h *house) accounts(ctx context.Context) (string, error) {
	var slowest time.Duration
	for _, c := range []struct{ command, reason string }{{"block", "AC06"}, {"close", "AC07"}} {
		for _, act := range []struct{ command, before, then string }{{c.command, "", c.reason}, {"reopen", c.reason, ""}} {
			if _, err := h.liquida(ctx, joins, "account", act.command, joined.String()); err != nil {
				return "", err
			}
			acted := time.Now()
			if act.command != "reopen" {
				_, err := h.pay(ctx, joined, h.customer(0, 0))
				if err := wantRefused("a payment from an account after "+act.command, err, http.StatusUnprocessableEntity); err != nil {
					return "", err
				}
			}
			last, err := bites(ctx, acted, bitesWithin, h.paying(h.customer(0, 0), joined, act.before, act.then))
			if err != nil {
				return "", fmt.Errorf("%s: %w", act.command, err)
			}
			slowest = max(slowest, last)
		}
	}
	return fmt.Sprintf("AC06, AC07; last payment that ended as before begun %.2f s after the act (%v)", slowest.Seconds(), bitesWithin), nil
}

func (h *house) suspend(ctx context.Context) (string, error) {
	bank, other := h.customer(1, 1), h.customer(0, 1)
	to, err := h.settles(ctx, other, bank)
	if err != nil {
		return "", err
	}
	from, err := h.settles(ctx, bank, other)
	if err != nil {
		return "", err
	}
	done, err := h.onParticipant(ctx, "participant", "suspend", bank.ISPB)
	if err != nil {
		return "", err
	}
	acted := time.Now()
	for _, way := range [][2]client.Account{{other, bank}, {bank, other}} {
		if _, err := bites(ctx, acted, bitesWithin, h.paying(way[0], way[1], "", "DS27")); err != nil {
			return "", err
		}
	}
	pause(ctx, time.Until(acted.Add(bitesWithin))) // the return may be of another engine than the payments
	if err := h.givesBack(ctx, to, client.Rejected); err != nil {
		return "", err
	}
	if err := h.givesBack(ctx, from, client.Settled); err != nil { // stolen money comes back
		return "", err
	}
	pause(ctx, time.Until(acted.Add(2*bitesWithin)))
	resumed, err := h.onParticipant(ctx, "participant", "resume", bank.ISPB)
	if err != nil {
		return "", err
	}
	acted = time.Now()
	back := time.Duration(0)
	for _, way := range [][2]client.Account{{other, bank}, {bank, other}} {
		last, err := bites(ctx, acted, bitesWithin, h.paying(way[0], way[1], "DS27", ""))
		if err != nil {
			return "", err
		}
		back = max(back, last)
	}
	last, err := h.lastHoldOfPayments(ctx, bank.ISPB, done.Act.At, resumed.Act.At)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("last payment begun %.2f s after the act (%v), last refused %.2f s after its end (%v); a return to it settled", last.Seconds(), bitesWithin, back.Seconds(), bitesWithin), nil
}

// givesBack gives back a payment, which must end so.
func (h *house) givesBack(ctx context.Context, payment client.PaymentState, end string) error {
	api, err := h.api(0, payment.Payee.ISPB)
	if err != nil {
		return err
	}
	state, err := api.GiveBack(ctx, client.ReturnOrder{OriginalEndToEndID: payment.EndToEndID, AmountCentavos: 50, ReasonCode: "MD06"}, stepWithin)
	if err == nil && state.Status != end {
		err = fmt.Errorf("the return of %s by %s was %s %s, and must be %s", payment.EndToEndID, payment.Payee.ISPB, state.Status, state.ReasonCode, end)
	}
	return err
}

// lastHoldOfPayments is lastHold, and fails above what is promised.
func (h *house) lastHoldOfPayments(_ context.Context, bank string, suspended, resumed time.Time) (time.Duration, error) {
	last, err := h.lastHold(bank, suspended, resumed)
	if err == nil && last > bitesWithin {
		err = fmt.Errorf("a payment of %s was begun %.2f s after its suspension: %v are promised", bank, last.Seconds(), bitesWithin)
	}
	return last, err
}

func (h *house) absolute(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path // liquida says what is wrong with it
	}
	return absolute
}

func (h *house) rotate(ctx context.Context) (string, error) {
	bank := h.bank(2)
	oldFile, newFile := filepath.Join(h.config.Dir, "old-key"), filepath.Join(h.config.Dir, "new-key")
	old, err := client.ReadKey(h.keyFile(bank))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(oldFile, []byte(old+"\n"), 0o600); err != nil {
		return "", err
	}
	// The holder makes it, names it with the old one, and only the digest travels.
	if _, err := h.liquida(ctx, bank, "key", "make", bank, h.absolute(newFile)); err != nil {
		return "", err
	}
	if _, err := h.liquida(ctx, bank, "key", "name", bank, h.absolute(newFile)); err != nil {
		return "", err
	}
	named := time.Now()
	key, err := client.ReadKey(newFile)
	if err != nil {
		return "", err
	}
	known, err := h.bitesAtBothDoors(ctx, named, key, bank, true)
	if err != nil {
		return "", fmt.Errorf("the new key: %w", err)
	}
	using, stopUsing := context.WithCancel(ctx)
	defer stopUsing()
	users := h.use(using, key, bank)

	streamed := make(chan error, 1)
	streaming, stopStream := context.WithCancel(ctx)
	defer stopStream()
	stream, err := client.New(h.doors[0], old)
	if err != nil {
		return "", err
	}
	go func() {
		streamed <- stream.Settlements(streaming, bank, "end", func(client.Settlement, string) (bool, error) { return false, nil })
	}()
	pause(ctx, time.Second)
	select {
	case err := <-streamed:
		return "", fmt.Errorf("the old key's stream ended before the key was revoked: %w", err)
	default:
	}
	if err := os.Rename(newFile, h.keyFile(bank)); err != nil { // the simulator reads it again
		return "", err
	}
	if _, err := h.liquida(ctx, bank, "key", "revoke", bank, h.absolute(oldFile)); err != nil {
		return "", err
	}
	revoked := time.Now()
	refused, err := h.bitesAtBothDoors(ctx, revoked, old, bank, false)
	if err != nil {
		return "", fmt.Errorf("the revoked key: %w", err)
	}
	select {
	case err := <-streamed:
		if err := wantRefused("the stream of the revoked key", err, http.StatusUnauthorized); err != nil {
			return "", err
		}
	case <-time.After(time.Until(revoked.Add(endsWithin))):
		return "", fmt.Errorf("the stream of the revoked key goes on after %v", endsWithin)
	}
	ended := time.Since(revoked)
	pause(ctx, 2*time.Second)
	stopUsing()
	requests, err := users()
	if err != nil {
		return "", fmt.Errorf("one who uses the new key: %w", err)
	}
	return fmt.Sprintf("%d requests with the new key, 0 failed; known after %.2f s (%v), the old one last taken after %.2f s (%v), its stream ended after %.2f s (%v)",
		requests, known.Seconds(), bitesWithin, refused.Seconds(), bitesWithin, ended.Seconds(), endsWithin), nil
}

// bitesAtBothDoors is bites for a key, which is known or not in the end.
func (h *house) bitesAtBothDoors(ctx context.Context, acted time.Time, key, bank string, known bool) (last time.Duration, err error) {
	for door := range h.doors {
		api, err := client.New(h.doors[door], key)
		if err != nil {
			return 0, err
		}
		took, err := bites(ctx, acted, bitesWithin, func(ctx context.Context) (bool, error) {
			_, err := api.Participant(ctx, bank)
			if err != nil && !refusedWith(err, http.StatusUnauthorized) {
				return false, err
			}
			return (err == nil) == known, nil
		})
		if err != nil {
			return 0, err
		}
		last = max(last, took)
	}
	return last, nil
}

// use reads and pays with a key at both front doors, with no second try, until ctx ends. The result
// returns how many requests there were, and what failed.
func (h *house) use(ctx context.Context, key, bank string) (ended func() (requests int64, err error)) {
	var all sync.WaitGroup
	var requests atomic.Int64
	var failed atomic.Pointer[error]
	for door := range h.doors {
		all.Go(func() {
			api, err := client.New(h.doors[door], key)
			for ; err == nil && ctx.Err() == nil; pause(ctx, 20*time.Millisecond) {
				api.RetryFor = 0
				if _, err = api.Participant(context.WithoutCancel(ctx), bank); err == nil {
					_, err = api.Pay(context.WithoutCancel(ctx), client.Payment{Payer: h.customer(2, 2), Payee: h.customer(0, 2), AmountCentavos: 1}, 0)
				}
				requests.Add(2)
			}
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	return func() (int64, error) {
		all.Wait()
		if err := failed.Load(); err != nil {
			return requests.Load(), *err
		}
		return requests.Load(), nil
	}
}

func (h *house) freeze(ctx context.Context) (_ string, err error) {
	bank := h.bank(3)
	frozen := time.Now()
	for i := range engines {
		if err := h.Pause(stack.EngineName(i)); err != nil {
			return "", err
		}
	}
	defer func() {
		for i := range engines { // also after an error: a frozen process does not stop in order
			err = errors.Join(err, h.Resume(stack.EngineName(i)))
		}
	}()
	suspended, err := h.onParticipant(ctx, "participant", "suspend", bank)
	if err != nil {
		return "", err
	}
	pause(ctx, frozenFor)
	for i := range engines {
		if err := h.Resume(stack.EngineName(i)); err != nil {
			return "", err
		}
	}
	h.frozen = append(h.frozen, audit.Interval{From: frozen, To: time.Now()})
	// The backlog is behind them when a payment of this bank is refused.
	if _, err := bites(ctx, time.Now(), stepWithin, h.paying(h.customer(0, 3), h.customer(3, 3), "AB03", "DS27")); err != nil {
		return "", err
	}
	if err := h.progress(ctx, int64(h.config.Rate)); err != nil {
		return "", err
	}
	resumed, err := h.onParticipant(ctx, "participant", "resume", bank)
	if err != nil {
		return "", err
	}
	last, err := h.lastHoldOfPayments(ctx, bank, suspended.Act.At, resumed.Act.At)
	if err != nil {
		return "", err
	}
	if _, err := bites(ctx, time.Now(), bitesWithin, h.paying(h.customer(0, 3), h.customer(3, 3), "DS27", "")); err != nil {
		return "", err
	}
	return fmt.Sprintf("frozen for %v; last payment begun %.2f s after the act (%v)", frozenFor, last.Seconds(), bitesWithin), nil
}

func (h *house) repeat(ctx context.Context) (string, error) {
	const tries, centavos = 40, 12_345
	bank := h.bank(4)
	before, err := h.books(ctx, bank)
	if err != nil {
		return "", err
	}
	acts := make([]client.Act, tries)
	answers, err := h.race(keys.CentralBank, tries, func(i int, api *client.Client) error {
		done, err := api.ActOnParticipant(ctx, bank, "repeated", client.ParticipantAct{Act: client.LiquidityIn, AmountCentavos: centavos})
		acts[i] = done.Act
		return err
	})
	if err := errors.Join(append(answers, err)...); err != nil {
		return "", err
	}
	for _, act := range acts {
		if act.ID != acts[0].ID || !act.At.Equal(acts[0].At) {
			return "", fmt.Errorf("one act has two answers: %+v and %+v", acts[0], act)
		}
	}
	after, err := h.books(ctx, bank)
	if err == nil && after != before+centavos {
		err = fmt.Errorf("the books of %s rose by %d centavos, and must by %d", bank, after-before, centavos)
	}
	return fmt.Sprintf("%d equal answers; the money moved once", tries), err
}

func (h *house) conflict(ctx context.Context) (string, error) {
	const rounds = 10
	bank := h.bank(4)
	for round := range rounds {
		id := fmt.Sprintf("conflict-%d", round)
		before, err := h.books(ctx, bank)
		if err != nil {
			return "", err
		}
		amounts := [2]int64{100, 200}
		answers, err := h.race(keys.CentralBank, 8, func(i int, api *client.Client) error {
			_, err := api.ActOnParticipant(ctx, bank, id, client.ParticipantAct{Act: client.LiquidityIn, AmountCentavos: amounts[i%2]})
			return err
		})
		if err != nil {
			return "", err
		}
		winner := 0
		if answers[0] != nil {
			winner = 1
		}
		for i, answer := range answers {
			switch {
			case i%2 == winner && answer != nil:
				return "", fmt.Errorf("%s: the same act is done, and not: %w", id, answer)
			case i%2 != winner:
				if err := wantRefused(id+" for another amount", answer, http.StatusConflict); err != nil {
					return "", err
				}
			}
		}
		after, err := h.books(ctx, bank)
		if err == nil && after != before+amounts[winner] {
			err = fmt.Errorf("%s: the books rose by %d centavos, and must by %d", id, after-before, amounts[winner])
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d times 8 requests: one amount moved once, the other got 409", rounds), nil
}

func (h *house) registerTwice(ctx context.Context) (string, error) {
	const tries = 8
	answers, err := h.race(keys.CentralBank, tries, func(i int, api *client.Client) error {
		_, err := api.ActOnParticipant(ctx, twin, fmt.Sprintf("twin-%d", i), client.ParticipantAct{Act: client.Register})
		return err
	})
	if err != nil {
		return "", err
	}
	done := 0
	for _, answer := range answers {
		if answer == nil {
			done++
		} else if err := wantRefused("a second registration", answer, http.StatusConflict); err != nil {
			return "", err
		}
	}
	acts, err := h.actsOn(ctx, twin)
	if err == nil && (done != 1 || len(acts) != 1) {
		err = fmt.Errorf("%s was registered %d times, and has the acts %+v", twin, done, acts)
	}
	return fmt.Sprintf("of %d acts, each with its own id, one was done; the others got 409", tries), err
}

func (h *house) reorder(ctx context.Context) (string, error) {
	const tries = 20
	bank := h.bank(4)
	suspendsAndResumes := func(i int) client.ParticipantAct {
		return client.ParticipantAct{Act: []string{client.Suspend, client.Resume}[(i/2)%2]} // both at each door
	}
	send := func(i int, api *client.Client) error {
		_, err := api.ActOnParticipant(ctx, bank, fmt.Sprintf("order-%d", i), suspendsAndResumes(i))
		return err
	}
	answers, err := h.race(keys.CentralBank, tries, send)
	if err := errors.Join(append(answers, err)...); err != nil {
		return "", err
	}
	acted := time.Now()
	acts, err := h.actsOn(ctx, bank)
	if err != nil {
		return "", err
	}
	if !slices.IsSortedFunc(acts, func(a, b client.Act) int { return a.At.Compare(b.At) }) {
		return "", fmt.Errorf("the acts on %s are not in the order of their times", bank)
	}
	state, reason, other := "active", "", "DS27"
	if acts[len(acts)-1].Act == client.Suspend {
		state, reason, other = "suspended", "DS27", ""
	}
	for door := range h.doors {
		api, err := h.api(door, keys.CentralBank)
		if err != nil {
			return "", err
		}
		if _, err := bites(ctx, acted, bitesWithin, func(ctx context.Context) (bool, error) {
			p, err := api.Participant(ctx, bank)
			return p.State == state, err
		}); err != nil {
			return "", fmt.Errorf("front door %d: %w", door, err)
		}
	}
	if _, err := bites(ctx, acted, bitesWithin, h.paying(h.customer(0, 4), h.customer(4, 4), other, reason)); err != nil {
		return "", err
	}
	if _, err := h.onParticipant(ctx, "participant", "resume", bank); err != nil {
		return "", err
	}
	if _, err := bites(ctx, time.Now(), bitesWithin, h.paying(h.customer(0, 4), h.customer(4, 4), "DS27", "")); err != nil {
		return "", err
	}
	// All of them again, which were done before: nobody is suspended by an old act.
	answers, err = h.race(keys.CentralBank, tries, send)
	if err := errors.Join(append(answers, err)...); err != nil {
		return "", err
	}
	pause(ctx, bitesWithin)
	if _, err := h.settles(ctx, h.customer(0, 4), h.customer(4, 4)); err != nil {
		return "", fmt.Errorf("after old acts were sent again: %w", err)
	}
	again, err := h.actsOn(ctx, bank)
	if err == nil && len(again) != len(acts)+1 {
		err = fmt.Errorf("%d acts became %d: sending them again must add none", len(acts)+1, len(again))
	}
	return fmt.Sprintf("after %d acts front doors and engines go by the ledger's last (%s); sent again, they change nothing", tries, state), err
}

func (h *house) overdraw(ctx context.Context) (string, error) {
	const tries, affordable, centavos = 10, 5, 10_000
	account := client.Account{ISPB: joins, Branch: "0001", Number: "2"}
	api, err := h.api(1, joins)
	if err != nil {
		return "", err
	}
	withdraw := client.AccountAct{Act: client.Withdraw, AmountCentavos: centavos}
	for _, early := range []struct {
		what   string
		status int
		act    client.AccountAct
		id     string
	}{
		{"a withdrawal before the account is opened", http.StatusNotFound, withdraw, "out-unopened"},
		{"", 0, client.AccountAct{Act: client.Open}, "open-2"},
		{"a withdrawal before the deposit", http.StatusUnprocessableEntity, withdraw, "out-early"},
		{"", 0, client.AccountAct{Act: client.Deposit, AmountCentavos: affordable * centavos}, "in"},
		{"the withdrawal that was refused before, again", http.StatusConflict, withdraw, "out-early"},
	} {
		_, err := api.ActOnAccount(ctx, account, early.id, early.act)
		if early.status != 0 {
			err = wantRefused(early.what, err, early.status)
		}
		if err != nil {
			return "", err
		}
	}
	out := func(i int, api *client.Client) error {
		_, err := api.ActOnAccount(ctx, account, fmt.Sprintf("out-%d", i), withdraw)
		return err
	}
	answers, err := h.race(joins, tries, out)
	if err != nil {
		return "", err
	}
	again, err := h.race(joins, tries, out)
	if err != nil {
		return "", err
	}
	done := 0
	for i, answer := range answers {
		if answer == nil {
			done++
			err = again[i]
		} else {
			err = errors.Join(wantRefused("a withdrawal of what is not there", answer, http.StatusUnprocessableEntity), wantRefused("the same again", again[i], http.StatusConflict))
		}
		if err != nil {
			return "", err
		}
	}
	balance, err := api.Balance(ctx, account)
	if err == nil && (done != affordable || balance.PostedCentavos != 0) {
		err = fmt.Errorf("%d withdrawals were done, and %d centavos are left", done, balance.PostedCentavos)
	}
	return fmt.Sprintf("of %d withdrawals %d were done, which emptied the account; a refused id stays refused", tries, done), err
}

// trespass tries each act from the wrong side. Nothing may be written.
func (h *house) trespass(ctx context.Context) (string, error) {
	bank, victim := h.bank(0), h.bank(1)
	before, err := h.actsOn(ctx, "")
	if err != nil {
		return "", err
	}
	tries := 0
	amount := int64(100)
	for _, act := range []client.ParticipantAct{
		{Act: client.Register}, {Act: client.Suspend}, {Act: client.Resume}, {Act: client.LiquidityIn, AmountCentavos: 100}, {Act: client.LiquidityOut, AmountCentavos: 100},
		{Act: client.PaymentCap, CapCentavos: &amount}, {Act: client.DayCap, CapCentavos: &amount, WindowSeconds: 3600}, {Act: client.NightCap, CapCentavos: &amount, WindowSeconds: 3600},
		{Act: client.NameKey, Digest: anyDigest}, {Act: client.RevokeKey, Digest: anyDigest}, {Act: client.NameSeal, Digest: anyDigest}, {Act: client.RevokeSeal, Digest: anyDigest},
	} {
		api, err := h.api(tries%2, bank)
		if err != nil {
			return "", err
		}
		tries++
		_, err = api.ActOnParticipant(ctx, victim, fmt.Sprintf("trespass-%d", tries), act)
		if err := wantRefused(bank+" on "+victim+": "+act.Act, err, http.StatusForbidden); err != nil {
			return "", err
		}
	}
	for _, caller := range []string{bank, keys.CentralBank} {
		for _, act := range []client.AccountAct{{Act: client.Open}, {Act: client.Block}, {Act: client.Close}, {Act: client.Reopen}, {Act: client.Deposit, AmountCentavos: 100}, {Act: client.Withdraw, AmountCentavos: 100}} {
			api, err := h.api(tries%2, caller)
			if err != nil {
				return "", err
			}
			tries++
			_, err = api.ActOnAccount(ctx, h.customer(1, 5), fmt.Sprintf("trespass-%d", tries), act)
			if err := wantRefused(caller+" on an account of "+victim+": "+act.Act, err, http.StatusForbidden); err != nil {
				return "", err
			}
		}
	}
	after, err := h.actsOn(ctx, "")
	if err == nil && len(after) != len(before) {
		err = fmt.Errorf("there were %d acts, and are %d", len(before), len(after))
	}
	return fmt.Sprintf("%d acts on others got 403, and nothing was written", tries), err
}

// anyDigest is a digest of nothing.
const anyDigest = "0123456789abcdef0123456789abcdef0123456789abcdef"
