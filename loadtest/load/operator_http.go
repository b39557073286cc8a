package load

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/ledger"
)

// actNames are what the HTTP API calls the acts of an Operator.
var actNames = map[ledger.ActKind]string{
	ledger.Joined: client.Register, ledger.Suspended: client.Suspend, ledger.Resumed: client.Resume,
	ledger.PaymentCapped: client.PaymentCap, ledger.DayCapped: client.DayCap, ledger.NightCapped: client.NightCap,
	ledger.LiquidityIn: client.LiquidityIn, ledger.LiquidityOut: client.LiquidityOut,
	ledger.AccountOpened: client.Open, ledger.AccountBlocked: client.Block, ledger.AccountClosed: client.Close,
	ledger.AccountReopened: client.Reopen,
	ledger.Deposit:         client.Deposit, ledger.Withdrawal: client.Withdraw, ledger.KeyNamed: client.NameKey,
}

// ActAt does an act at a front door, and the same again.
func ActAt(api *client.Client, id string, act ledger.Act) error {
	first, firstAt, err := put(api, id, act)
	if err != nil {
		return err
	}

	again, againAt, err := put(api, id, act)
	if err != nil {
		return err
	}

	switch refusable := act.Kind.MovesMoney() || act.Kind == ledger.Joined || act.Kind == ledger.AccountOpened; {
	case first == http.StatusOK && again == http.StatusOK && firstAt.Equal(againAt):
		return nil
	case refusable && (first == http.StatusUnprocessableEntity || first == http.StatusConflict) &&
		again == http.StatusConflict:
		return nil // not enough money; or it is there, by an act before
	}

	return fmt.Errorf("%s of %s: the HTTP API responds %d (%v), and %d (%v) to the same again", act.Kind, act.Bank,
		first, firstAt, again, againAt)
}

// put sends an act until it is acknowledged, and returns the status of the response and the act's time.
// It is not cut short: what was begun must be undone.
func put(api *client.Client, id string, act ledger.Act) (status int, at time.Time, err error) {
	ctx := context.Background()

	if act.Kind.OfAccount() {
		account := client.Account{ISPB: string(act.Account.ISPB), Branch: act.Account.Branch,
			Number: act.Account.Number}
		var done client.AccountActDone
		done, err = api.ActOnAccount(ctx, account, id,
			client.AccountAct{Act: actNames[act.Kind], AmountCentavos: act.Centavos})
		at = done.Act.At
	} else {
		body := client.ParticipantAct{Act: actNames[act.Kind], WindowSeconds: int(act.WindowSeconds)}
		switch {
		case act.Kind.Caps():
			body.CapCentavos = &act.Centavos
		case act.Kind.HasDigest():
			body.Digest = hex.EncodeToString(act.Digest[:])
		default:
			body.AmountCentavos = act.Centavos
		}
		var done client.ParticipantActDone
		done, err = api.ActOnParticipant(ctx, string(act.Bank), id, body)
		at = done.Act.At
	}

	if problem := new(client.Problem); errors.As(err, &problem) && !client.TryAgain(err) {
		return problem.Status, at, nil
	}

	return http.StatusOK, at, err
}
