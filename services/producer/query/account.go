package query

import (
	"context"
	"net/http"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/field"
)

// AccountBalance is the body of GET /v1/accounts/{ispb}/{branch}/{number}.
type AccountBalance struct {
	ISPB   string `json:"ispb"`
	Branch string `json:"branch"`
	Number string `json:"number"`
	State  string `json:"state" enum:"open,blocked,closed" doc:"What its bank says: nothing leaves an account that is not open, and the bank takes nothing in for it."`
	Balance
}

// Balance is what an account holds at one instant.
type Balance struct {
	PostedCentavos     int64 `json:"posted_centavos" doc:"What is in it."`
	PendingOutCentavos int64 `json:"pending_out_centavos" doc:"The part that payments under way hold."`
	PendingInCentavos  int64 `json:"pending_in_centavos" doc:"What payments under way would add."`
	AvailableCentavos  int64 `json:"available_centavos" doc:"Posted less what is held."`
}

func balanceOf(a tb.Account) Balance {
	none := tb.Uint128{}

	return Balance{
		PostedCentavos: Posted(a), PendingOutCentavos: ledger.Less(a.DebitsPending, none),
		PendingInCentavos: ledger.Less(a.CreditsPending, none),
		AvailableCentavos: ledger.Less(a.CreditsPosted, ledger.Sum(a.DebitsPosted, a.DebitsPending)),
	}
}

// Posted returns the posted credits less the posted debits of an account, in centavos.
func Posted(a tb.Account) int64 {
	return ledger.Less(a.CreditsPosted, a.DebitsPosted)
}

// Difference returns what a bank's reserve and transit hold together, less what its books say. It
// is exact whatever the balances are.
func Difference(reserve, transit, books tb.Account) int64 {
	return ledger.Less(ledger.Sum(reserve.CreditsPosted, transit.CreditsPosted, books.DebitsPosted),
		ledger.Sum(reserve.DebitsPosted, transit.DebitsPosted, books.CreditsPosted))
}

// Account answers GET /v1/accounts/{ispb}/{branch}/{number}.
func (l *Ledger) Account(r *http.Request) (AccountBalance, *web.Problem) {
	named, problem := AccountIn(r)
	if problem != nil {
		return AccountBalance{}, problem
	}

	return l.AccountNow(r.Context(), named)
}

// AccountNow returns a customer's account.
func (l *Ledger) AccountNow(ctx context.Context, named pix.Account) (AccountBalance, *web.Problem) {
	id := ledger.CustomerAccount(named)

	accounts, problem := l.FindAccounts(ctx, id)
	if problem != nil {
		return AccountBalance{}, problem
	}

	account, there := accounts[id]
	if !there {
		return AccountBalance{}, UnknownAccount(named)
	}

	state, problem := l.Register()
	if problem != nil {
		return AccountBalance{}, problem
	}

	return accountBalanceOf(account, state), nil
}

var accountStates = [...]string{register.Open: "open", register.Blocked: "blocked", register.Closed: "closed"}

func accountBalanceOf(account tb.Account, state *register.State) AccountBalance {
	_, named := ledger.UnpackAccount(account.ID)
	return AccountBalance{string(named.ISPB), named.Branch, named.Number, accountStates[state.Account(named)],
		balanceOf(account)}
}

// NotOpen returns nil for an account that is open, as far as its bank has said.
func NotOpen(state *register.State, name string, account pix.Account) *web.Problem {
	is := state.Account(account)
	if is == register.Open {
		return nil
	}

	return &web.Problem{Type: web.Kind("account-not-open"), Title: "The account is not open",
		Status: http.StatusUnprocessableEntity, Field: name, Value: field.AccountOf(account),
		Rule:   "an account that is open",
		Detail: "its bank has " + accountStates[is] + " the account: nothing was done; reopen it first"}
}

// AccountIn returns the account in the path.
func AccountIn(r *http.Request) (pix.Account, *web.Problem) {
	named := field.Account{ISPB: r.PathValue("ispb"), Branch: r.PathValue("branch"), Number: r.PathValue("number")}
	if err := named.Pix().Validate(); err != nil {
		return pix.Account{}, field.Invalid("", "account", named, pix.ReasonMalformed, err.Error())
	}

	return named.Pix(), nil
}

// UnknownAccount is the response about an account that the ledger does not have.
func UnknownAccount(named pix.Account) *web.Problem {
	return &web.Problem{Type: web.Kind("unknown-account"), Title: "Unknown account", Status: http.StatusNotFound,
		Field: "account", Value: field.AccountOf(named),
		Code:   pix.ReasonPayeeMissing.String(),
		Detail: "the ledger has no such account: correct ispb, branch and number"}
}
