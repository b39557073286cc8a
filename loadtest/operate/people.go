package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// liquida runs a command as its caller does, at the first front door.
func (h *house) liquida(ctx context.Context, caller string, arguments ...string) (string, error) {
	return h.liquidaWith(ctx, h.keyFile(caller), arguments...)
}

func (h *house) liquidaWith(ctx context.Context, keyFile string, arguments ...string) (string, error) {
	var out, problems bytes.Buffer
	file, err := filepath.Abs(keyFile)
	if err != nil {
		return "", err
	}
	if err := h.Run(ctx, &out, &problems, "liquida", append(arguments, "--url", h.doors[0], "--key-file", file)...); err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(problems.Bytes()))
	}
	return out.String(), nil
}

// onParticipant runs liquida as the central bank.
func (h *house) onParticipant(ctx context.Context, arguments ...string) (done client.ParticipantActDone, err error) {
	out, err := h.liquida(ctx, keys.CentralBank, append(arguments, "--json")...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &done)
	}
	return done, err
}

// bank returns the ISPB of a bank of the population.
func (h *house) bank(i int) string { return string(h.config.Population.Bank(i)) }

// customer returns a customer of a bank of the population.
func (h *house) customer(bank, i int) client.Account {
	a := h.config.Population.Customer(bank + i*h.config.Population.Banks)
	return client.Account{ISPB: string(a.ISPB), Branch: a.Branch, Number: a.Number}
}

// pay pays 1.00, as the payer's bank at the first front door, and waits for the end.
func (h *house) pay(ctx context.Context, from, to client.Account) (client.PaymentState, error) {
	return h.send(ctx, 0, from, to, 100)
}

// send pays, as the payer's bank at a front door, and waits for the end.
func (h *house) send(ctx context.Context, door int, from, to client.Account, centavos int64) (client.PaymentState, error) {
	api, err := h.api(door, from.ISPB)
	if err != nil {
		return client.PaymentState{}, err
	}
	state, err := api.Pay(ctx, client.Payment{Payer: from, Payee: to, AmountCentavos: centavos}, stepWithin)
	if err == nil && !state.Final() {
		err = fmt.Errorf("payment %s from %s to %s has no end: %s", state.EndToEndID, from, to, state.Status)
	}
	return state, err
}

// settles pays, and fails unless that settles at the first try.
func (h *house) settles(ctx context.Context, from, to client.Account) (client.PaymentState, error) {
	state, err := h.pay(ctx, from, to)
	if err == nil && state.Status != client.Settled {
		err = fmt.Errorf("payment %s from %s to %s was %s %s", state.EndToEndID, from, to, state.Status, state.ReasonCode)
	}
	return state, err
}

// paying returns a try for bites: it pays, and has the effect once that ends so ("": it settles). Until
// then it must end as before.
func (h *house) paying(from, to client.Account, before, then string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		state, err := h.pay(ctx, from, to)
		if err == nil && state.ReasonCode != before && state.ReasonCode != then {
			err = fmt.Errorf("payment %s from %s to %s was %s %s", state.EndToEndID, from, to, state.Status, state.ReasonCode)
		}
		return state.ReasonCode == then, err
	}
}

// bites tries until an act has its effect. It returns how long after the act the last try began that
// it had no effect on, 0 without one, and fails if that is longer than what is promised.
func bites(ctx context.Context, acted time.Time, within time.Duration, try func(context.Context) (effect bool, err error)) (last time.Duration, err error) {
	for {
		began := time.Since(acted)
		switch effect, err := try(ctx); {
		case err != nil:
			return last, err
		case effect:
			return last, nil
		case began > within:
			return began, fmt.Errorf("it has no effect on what began %.2f s after the act: %v are promised", began.Seconds(), within)
		}
		last = began
		pause(ctx, 20*time.Millisecond)
	}
}

// ledgerPage is the most that the ledger answers.
const ledgerPage = 8189

// lastHold returns how long after an act money of a payment was last held for a bank, before an end; 0
// if it was not. Both times are the ledger's, so nothing else is in what it measures.
func (h *house) lastHold(bank string, acted, end time.Time) (last time.Duration, err error) {
	for _, code := range []uint16{ledger.CodeLeg1, ledger.CodeLeg3} {
		found, err := h.ledger.GetAccountTransfers(tb.AccountFilter{
			AccountID: ledger.TransitAccount(pix.ISPB(bank)), Code: code, TimestampMin: uint64(acted.UnixNano()) + 1, TimestampMax: uint64(end.UnixNano()), Limit: ledgerPage, //nolint:gosec // after 1970
			Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32(),
		})
		if err != nil {
			return 0, err
		}
		if len(found) == ledgerPage {
			return 0, fmt.Errorf("%d or more movements of %s since the act: too many to judge; lower --rate", ledgerPage, bank)
		}
		for _, transfer := range found {
			if transfer.TransferFlags().Pending {
				last = max(last, time.Unix(0, int64(transfer.Timestamp)).Sub(acted)) //nolint:gosec // after 1970
				break
			}
		}
	}
	return last, nil
}

// refusedWith reports whether the API answers with this status.
func refusedWith(err error, status int) bool {
	problem := new(client.Problem)
	return errors.As(err, &problem) && problem.Status == status
}

// wantRefused returns an error unless the API refuses with this status.
func wantRefused(what string, err error, status int) error {
	if err == nil {
		return fmt.Errorf("%s was done, and must get %d %s", what, status, http.StatusText(status))
	}
	if !refusedWith(err, status) {
		return fmt.Errorf("%s: the answer must be %d %s, and is %w", what, status, http.StatusText(status), err)
	}
	return nil
}

// race does something so often at once, at one front door and the other in turn, and returns what each
// try answered.
func (h *house) race(caller string, tries int, do func(i int, api *client.Client) error) ([]error, error) {
	var apis [2]*client.Client
	for door := range apis {
		var err error
		if apis[door], err = h.api(door, caller); err != nil {
			return nil, err
		}
	}
	answers, begin, all := make([]error, tries), make(chan struct{}), sync.WaitGroup{}
	for i := range tries {
		all.Go(func() {
			<-begin
			answers[i] = do(i, apis[i%2])
		})
	}
	close(begin)
	all.Wait()
	return answers, nil
}

// books returns what a bank's books say. Only acts change it, so a load does not disturb.
func (h *house) books(ctx context.Context, bank string) (int64, error) {
	api, err := h.api(0, keys.CentralBank)
	if err != nil {
		return 0, err
	}
	p, err := api.Participant(ctx, bank)
	if err == nil && p.ThreeLegs == nil {
		err = fmt.Errorf("%s has no books", bank)
	}
	if err != nil {
		return 0, err
	}
	return p.ThreeLegs.BooksCentavos, nil
}

// actsOn returns all acts on a bank, oldest first.
func (h *house) actsOn(ctx context.Context, bank string) (acts []client.Act, err error) {
	api, err := h.api(1, keys.CentralBank)
	if err != nil {
		return nil, err
	}
	for page, err := range api.Acts(ctx, bank, "") {
		if err != nil {
			return nil, err
		}
		acts = append(acts, page.Acts...)
	}
	return acts, nil
}
