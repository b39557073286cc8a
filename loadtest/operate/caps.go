package operate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"
)

// The bank that has joined is capped: no load pays from it, so each centavo is known.
const (
	longWindow  = "15m" // nothing that a step pays leaves it before the end
	shortWindow = 2 * time.Minute
	shownWithin = 30 * time.Second // a metric is read once a second, by whoever has time for it
	oneReal     = 100              // centavos
)

// producers are the processes of the two front doors.
var producers = [2]string{stack.Producer, stack.SecondProducer}

// neighbour is another customer of the bank that joins.
var neighbour = client.Account{ISPB: joins, Branch: "0001", Number: "3"}

// ofBranch returns the customer of a branch of another bank, whose bank behaves as the sandbox says.
func (h *house) ofBranch(branch string) client.Account {
	return client.Account{ISPB: h.bank(1), Branch: branch, Number: "1"}
}

// ends pays from the capped bank at a front door, and fails unless that ends so ("": it settles).
func (h *house) ends(ctx context.Context, door int, to client.Account, centavos int64, reason string) (client.PaymentState, error) {
	state, err := h.send(ctx, door, joined, to, centavos)
	if err == nil && state.ReasonCode != reason {
		err = fmt.Errorf("payment %s of %d centavos from %s to %s was %s %s, and must end with %q", state.EndToEndID, centavos, joined, to, state.Status, state.ReasonCode, reason)
	}
	return state, err
}

// capPayment caps a single payment.
func (h *house) capPayment(ctx context.Context) (string, error) {
	const limit = 3 * oneReal
	if _, err := h.liquida(ctx, joins, "account", "open", neighbour.String()); err != nil {
		return "", err
	}
	if _, err := h.onParticipant(ctx, "participant", "cap", joins, "payment", plain(limit)); err != nil {
		return "", err
	}
	acted := time.Now()
	last, err := bites(ctx, acted, bitesWithin, h.ending(h.customer(0, 0), limit+1, "", "AM13"))
	if err != nil {
		return "", err
	}
	pause(ctx, time.Until(acted.Add(bitesWithin))) // the next payment may be the other engine's
	for _, c := range []struct {
		to       client.Account
		centavos int64
		reason   string
	}{{h.customer(0, 0), limit, ""}, {neighbour, limit + 1, "AM13"}, {neighbour, limit, ""}} {
		if _, err := h.ends(ctx, 1, c.to, c.centavos, c.reason); err != nil {
			return "", err
		}
	}
	if _, err := h.onParticipant(ctx, "participant", "cap", joins, "payment", "none"); err != nil {
		return "", err
	}
	lifted, err := bites(ctx, time.Now(), bitesWithin, h.ending(h.customer(0, 0), limit+1, "AM13", ""))
	return fmt.Sprintf("AM13 above it, not at it; last payment by the rule before begun %.2f s after the cap, %.2f s after its end (%v)", last.Seconds(), lifted.Seconds(), bitesWithin), err
}

// ending returns a try for bites: it pays from the capped bank, and has the effect once that ends so.
func (h *house) ending(to client.Account, centavos int64, before, then string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		state, err := h.send(ctx, 0, joined, to, centavos)
		if err == nil && state.ReasonCode != before && state.ReasonCode != then {
			err = fmt.Errorf("payment %s of %d centavos from %s was %s %s", state.EndToEndID, centavos, joined, state.Status, state.ReasonCode)
		}
		return state.ReasonCode == then, err
	}
}

// plain writes an amount as liquida reads it.
func plain(centavos int64) string { return fmt.Sprintf("%d.%02d", centavos/100, centavos%100) }

// outflows returns the caps on outflow of the capped bank at a front door, and which is in force.
func (h *house) outflows(ctx context.Context, door int) (inForce, other client.OutflowCap, err error) {
	api, err := h.api(door, joins)
	if err != nil {
		return inForce, other, err
	}
	p, err := api.Participant(ctx, joins)
	if err == nil && len(p.OutflowCaps) != len(ledger.Windows) {
		err = fmt.Errorf("the caps of %s are %+v", joins, p.OutflowCaps)
	}
	if err != nil {
		return inForce, other, err
	}
	now := slices.IndexFunc(p.OutflowCaps, func(c client.OutflowCap) bool { return c.When == ledger.WindowAt(time.Now()).String() })
	return p.OutflowCaps[now], p.OutflowCaps[1-now], nil
}

// leave sets the caps on outflow of the capped bank, so that each leaves so much. Each step begins
// like that, and owes nothing to those before. No step lasts from day into night.
func (h *house) leave(ctx context.Context, centavos int64, window string) error {
	for ledger.WindowAt(time.Now()) != ledger.WindowAt(time.Now().Add(time.Minute)) {
		if pause(ctx, time.Second); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	one, two, err := h.outflows(ctx, 0)
	if err != nil {
		return err
	}
	for _, c := range []client.OutflowCap{one, two} {
		if _, err := h.onParticipant(ctx, "participant", "cap", joins, c.When, plain(c.CapCentavos-c.LeftCentavos+centavos), "--window", window); err != nil {
			return err
		}
	}
	return h.shows(ctx, centavos)
}

// shows waits until API and metrics of both front doors say that so much is left of the cap in force.
func (h *house) shows(ctx context.Context, centavos int64) error {
	for door := range h.doors {
		said := ""
		_, err := bites(ctx, time.Now(), shownWithin, func(ctx context.Context) (bool, error) {
			c, _, err := h.outflows(ctx, door)
			if err != nil {
				return false, err
			}
			text, err := meter.Get(ctx, h.TelemetryURL(producers[door])+"/metrics")
			if err != nil {
				return false, err
			}
			series := regexp.MustCompile(fmt.Sprintf(`(?m)^pix_outflow_left_centavos\{ispb="%s",window="%s"\} (\S+)$`, joins, c.When)).FindSubmatch(text)
			if series == nil {
				said = "the metric is missing"
				return false, nil
			}
			left, err := strconv.ParseFloat(string(series[1]), 64)
			said = fmt.Sprintf("the API says %d, the metric %v", c.LeftCentavos, left)
			return c.LeftCentavos == centavos && left == float64(centavos), err
		})
		if err != nil {
			return fmt.Errorf("front door %d must say that %d centavos are left of the cap of %s, and %s: %w", door, centavos, joins, said, err)
		}
	}
	return nil
}

// raceCap sends payments of 1.00 from the capped bank through both front doors at once. So many must
// settle, and the others end with LQ12.
func (h *house) raceCap(ctx context.Context, tries, settle int) error {
	states := make([]client.PaymentState, tries)
	answers, err := h.race(joins, tries, func(i int, _ *client.Client) (err error) {
		states[i], err = h.send(ctx, i%2, joined, h.customer(i%Banks, 0), oneReal)
		return err
	})
	if err := errors.Join(append(answers, err)...); err != nil {
		return err
	}
	settled, capped := 0, 0
	for _, state := range states {
		switch state.ReasonCode {
		case "":
			settled++
		case "LQ12":
			capped++
		default:
			return fmt.Errorf("payment %s was %s %s", state.EndToEndID, state.Status, state.ReasonCode)
		}
	}
	if settled != settle {
		return fmt.Errorf("of %d payments of 1.00 at once %d settled and %d were refused: the cap left %d.00", tries, settled, capped, settle)
	}
	return nil
}

// refusals counts payments that an engine has refused with LQ12.
func (h *house) refusals(ctx context.Context, engine int) (int, error) {
	text, err := meter.Get(ctx, h.TelemetryURL(stack.EngineName(engine))+"/metrics")
	if err != nil {
		return 0, err
	}
	counted := regexp.MustCompile(`(?m)^pix_payments_total\{reason="LQ12",status="RJCT"\} (\d+)$`).FindSubmatch(text)
	if counted == nil {
		return 0, nil
	}
	return strconv.Atoi(string(counted[1]))
}

// capOutflow caps what leaves the bank, and lets payments race for it.
func (h *house) capOutflow(ctx context.Context) (string, error) {
	const tries, affordable, more = 40, 20, 5
	for _, window := range ledger.Windows { // the least there is
		if _, err := h.onParticipant(ctx, "participant", "cap", joins, window.String(), "0.01", "--window", longWindow); err != nil {
			return "", err
		}
	}
	acted := time.Now()
	last, err := bites(ctx, acted, bitesWithin, h.ending(h.customer(0, 0), oneReal, "", "LQ12"))
	if err != nil {
		return "", err
	}
	pause(ctx, time.Until(acted.Add(bitesWithin))) // both engines
	if err := h.leave(ctx, affordable*oneReal, longWindow); err != nil {
		return "", err
	}
	_, spare, err := h.outflows(ctx, 0)
	if err != nil {
		return "", err
	}
	var refused [engines]int
	for i := range engines {
		if refused[i], err = h.refusals(ctx, i); err != nil {
			return "", err
		}
	}
	if err := h.raceCap(ctx, tries, affordable); err != nil {
		return "", err
	}
	if err := h.shows(ctx, 0); err != nil {
		return "", err
	}
	for i := range engines { // one of them may have been the faster, and refused none
		for try := 0; ; try++ {
			now, err := h.refusals(ctx, i)
			if err == nil && now == refused[i] && try == tries {
				err = fmt.Errorf("engine %d refused none of them, and none of %d more: payments must go through both engines", i, tries)
			}
			if err != nil {
				return "", err
			}
			if now > refused[i] {
				break
			}
			if _, err := h.ends(ctx, 0, h.customer(0, 0), oneReal, "LQ12"); err != nil {
				return "", err
			}
		}
	}
	if _, now, err := h.outflows(ctx, 1); err != nil || now != spare {
		return "", errors.Join(err, fmt.Errorf("the cap that is not in force was %+v, and is %+v", spare, now))
	}
	// Neither what stays within the bank nor a return counts.
	if _, err := h.ends(ctx, 0, neighbour, oneReal, ""); err != nil {
		return "", err
	}
	received, err := h.settles(ctx, h.customer(0, 0), joined)
	if err != nil {
		return "", err
	}
	if err := h.givesBack(ctx, received, client.Settled); err != nil {
		return "", err
	}
	// Raised, it opens at once; a payment that its bank rejects gives back what it took.
	if err := h.leave(ctx, more*oneReal, longWindow); err != nil {
		return "", err
	}
	if _, err := h.ends(ctx, 1, h.ofBranch(sandbox.BlockedBranch), more*oneReal, "AC06"); err != nil {
		return "", err
	}
	if err := h.raceCap(ctx, 2*more, more); err != nil {
		return "", err
	}
	return fmt.Sprintf("of %d payments of 1.00 at once %d settled, of %d more %d: the cap, and no centavo more; it first bit on what began after %.2f s (%v)", tries, affordable, 2*more, more, last.Seconds(), bitesWithin), nil
}

// hold begins a payment that its bank never answers, and returns once it is held: from then on until the
// deadline its money is neither here nor there.
func (h *house) hold(ctx context.Context, centavos int64) (client.PaymentState, error) {
	api, err := h.api(0, joins)
	if err != nil {
		return client.PaymentState{}, err
	}
	state, err := api.Pay(ctx, client.Payment{Payer: joined, Payee: h.ofBranch(sandbox.SilentBranch), AmountCentavos: centavos}, 0)
	for err == nil {
		var p client.Participant
		if p, err = api.Participant(ctx, joins); err == nil && p.Reserve.PendingOutCentavos == centavos {
			return state, nil
		}
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	return state, err
}

// over waits until a held payment ends with AB03.
func (h *house) over(ctx context.Context, held client.PaymentState) error {
	api, err := h.api(0, joins)
	if err != nil {
		return err
	}
	state, err := api.Follow(ctx, held.EndToEndID, func(client.PaymentState) {})
	if err == nil && state.ReasonCode != "AB03" {
		err = fmt.Errorf("payment %s to a silent bank was %s %s", state.EndToEndID, state.Status, state.ReasonCode)
	}
	return err
}

// lower lowers a cap below what payments hold, and takes out liquidity meanwhile.
func (h *house) lower(ctx context.Context) (string, error) {
	const free, held, left = 5 * oneReal, 9 * oneReal, 4 * oneReal
	if err := h.leave(ctx, free+held, longWindow); err != nil {
		return "", err
	}
	payment, err := h.hold(ctx, held)
	if err != nil {
		return "", err
	}
	if err := h.liquidityOut(ctx); err != nil {
		return "", err
	}
	if err := h.shows(ctx, free); err != nil {
		return "", err
	}
	now, _, err := h.outflows(ctx, 0)
	if err != nil {
		return "", err
	}
	lowered := now.CapCentavos - free - (held - left)
	if _, err := h.onParticipant(ctx, "participant", "cap", joins, now.When, plain(lowered), "--window", longWindow); err != nil {
		return "", err
	}
	if _, err := h.ends(ctx, 1, h.customer(0, 0), 1, "LQ12"); err != nil {
		return "", fmt.Errorf("at once: %w", err)
	}
	if err := h.over(ctx, payment); err != nil {
		return "", err
	}
	pause(ctx, bitesWithin) // producers take back what the hold still had
	if err := h.shows(ctx, left); err != nil {
		return "", err
	}
	if _, err := h.ends(ctx, 0, h.customer(0, 0), left+1, "LQ12"); err != nil {
		return "", err
	}
	if _, err := h.ends(ctx, 1, h.customer(0, 0), left, ""); err != nil {
		return "", err
	}
	return fmt.Sprintf("what was free (%s) was gone at once; %s of the %s that a payment held are left after it was voided; liquidity went out down to what is held", plain(free), plain(left), plain(held)), nil
}

// liquidityOut takes all out of the capped bank's reserve that no payment holds, tries to take more,
// and puts it in again.
func (h *house) liquidityOut(ctx context.Context) error {
	api, err := h.api(1, keys.CentralBank)
	if err != nil {
		return err
	}
	p, err := api.Participant(ctx, joins)
	if err != nil {
		return err
	}
	if p.Reserve.PendingOutCentavos == 0 || p.Reserve.AvailableCentavos != p.Reserve.PostedCentavos-p.Reserve.PendingOutCentavos {
		return fmt.Errorf("the reserve of %s is %+v: a payment must hold some of it, and the rest must be available", joins, p.Reserve)
	}
	available := p.Reserve.AvailableCentavos
	for _, c := range []struct {
		what, id string
		act      client.ParticipantAct
		status   int
	}{
		{"liquidity out of what is held", "out-held", client.ParticipantAct{Act: client.LiquidityOut, AmountCentavos: available + 1}, http.StatusUnprocessableEntity},
		{"the same again", "out-held", client.ParticipantAct{Act: client.LiquidityOut, AmountCentavos: available + 1}, http.StatusConflict},
		{"less under an id that was refused", "out-held", client.ParticipantAct{Act: client.LiquidityOut, AmountCentavos: 1}, http.StatusConflict},
		{"", "out-free", client.ParticipantAct{Act: client.LiquidityOut, AmountCentavos: available}, 0},
		{"one centavo more", "out-more", client.ParticipantAct{Act: client.LiquidityOut, AmountCentavos: 1}, http.StatusUnprocessableEntity},
		{"", "in-again", client.ParticipantAct{Act: client.LiquidityIn, AmountCentavos: available}, 0},
		{"a refused act, once there is enough", "out-more", client.ParticipantAct{Act: client.LiquidityOut, AmountCentavos: 1}, http.StatusConflict},
	} {
		_, err := api.ActOnParticipant(ctx, joins, c.id, c.act)
		if c.status != 0 {
			err = wantRefused(c.what, err, c.status)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// capSuspended suspends the capped bank, and sets its cap meanwhile. From then on what it pays counts
// for the shortest window only.
func (h *house) capSuspended(ctx context.Context) (string, error) {
	const left = 2 * oneReal
	if _, err := h.onParticipant(ctx, "participant", "suspend", joins); err != nil {
		return "", err
	}
	if _, err := bites(ctx, time.Now(), bitesWithin, h.ending(neighbour, oneReal, "", "DS27")); err != nil { // no cap counts it
		return "", err
	}
	pause(ctx, bitesWithin) // both engines
	if err := h.leave(ctx, left, shortWindow.String()); err != nil {
		return "", err
	}
	for i := range 20 { // the cap does not pay for what is refused
		if _, err := h.ends(ctx, i%2, h.customer(0, 0), left, "DS27"); err != nil {
			return "", err
		}
	}
	if err := h.shows(ctx, left); err != nil {
		return "", err
	}
	if _, err := h.onParticipant(ctx, "participant", "resume", joins); err != nil {
		return "", err
	}
	back, err := bites(ctx, time.Now(), bitesWithin, h.ending(neighbour, oneReal, "DS27", ""))
	if err != nil {
		return "", err
	}
	pause(ctx, bitesWithin)
	if _, err := h.ends(ctx, 0, h.customer(0, 0), left+1, "LQ12"); err != nil {
		return "", err
	}
	h.leaves = time.Now()
	if _, err := h.ends(ctx, 1, h.customer(0, 0), left, ""); err != nil {
		return "", err
	}
	return fmt.Sprintf("DS27 takes nothing of the cap, and the cap that was set meanwhile is in force after it; last refused %.2f s after its end (%v)", back.Seconds(), bitesWithin), h.shows(ctx, 0)
}

// capLoaded caps a bank that pays all the time, while caps race through both front doors.
func (h *house) capLoaded(ctx context.Context) (string, error) {
	const tries, each = 20, 5
	bank := h.bank(3)
	var before [engines]int
	for i := range engines {
		var err error
		if before[i], err = h.refusals(ctx, i); err != nil {
			return "", err
		}
	}
	send := func(i int, api *client.Client) error {
		limit := int64(1 + i/2)
		act := client.ParticipantAct{Act: []string{client.DayCap, client.NightCap}[i%4/2], CapCentavos: &limit, WindowSeconds: int(shortWindow.Seconds())} // both at each door
		_, err := api.ActOnParticipant(ctx, bank, fmt.Sprintf("cap-%d", i), act)
		return err
	}
	for range 2 { // the second time they change nothing
		answers, err := h.race(keys.CentralBank, tries, send)
		if err := errors.Join(append(answers, err)...); err != nil {
			return "", err
		}
	}
	acts, err := h.actsOn(ctx, bank)
	if err != nil {
		return "", err
	}
	last := map[string]int64{}
	for _, act := range acts {
		if act.CapCentavos != nil {
			last[act.Act] = *act.CapCentavos
		}
	}
	for door := range h.doors {
		api, err := h.api(door, bank)
		if err != nil {
			return "", err
		}
		var said []client.OutflowCap
		if _, err := bites(ctx, time.Now(), bitesWithin, func(ctx context.Context) (bool, error) {
			p, err := api.Participant(ctx, bank)
			said = p.OutflowCaps
			return len(said) == 2 && said[0].CapCentavos == last[said[0].When+"-cap"] && said[1].CapCentavos == last[said[1].When+"-cap"], err
		}); err != nil {
			return "", fmt.Errorf("front door %d says %+v, the last acts are %v: %w", door, said, last, err)
		}
	}
	for i := range engines {
		for now := before[i]; now < before[i]+each; {
			if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
				return "", context.Cause(ctx)
			}
			if now, err = h.refusals(ctx, i); err != nil {
				return "", err
			}
		}
	}
	for _, window := range ledger.Windows {
		if _, err := h.onParticipant(ctx, "participant", "cap", bank, window.String(), "none"); err != nil {
			return "", err
		}
	}
	lifted, err := bites(ctx, time.Now(), bitesWithin, h.paying(h.customer(3, 3), h.customer(0, 3), "LQ12", ""))
	return fmt.Sprintf("%d caps raced, each sent twice: the ledger's last is in force; both engines refused the load; last refused %.2f s after its end (%v)", tries, lifted.Seconds(), bitesWithin), err
}

// leaveWindow waits until what the capped bank paid last has left its window.
func (h *house) leaveWindow(ctx context.Context) (string, error) {
	var now client.OutflowCap
	for now.LeftCentavos == 0 {
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		var err error
		if now, _, err = h.outflows(ctx, 1); err != nil {
			return "", err
		}
	}
	took := time.Since(h.leaves)
	if took < shortWindow {
		return "", fmt.Errorf("a payment left its window of %v after %v", shortWindow, took)
	}
	if _, err := h.ends(ctx, 0, h.customer(0, 0), now.LeftCentavos+1, "LQ12"); err != nil {
		return "", err
	}
	if _, err := h.ends(ctx, 1, h.customer(0, 0), now.LeftCentavos, ""); err != nil {
		return "", err
	}
	return fmt.Sprintf("it came back %.1f s after the payment had begun, whose window is %v", took.Seconds(), shortWindow), h.shows(ctx, 0)
}
