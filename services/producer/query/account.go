package query

import (
	"net/http"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/field"
)

// AccountBalance is the body of GET /v1/accounts/{ispb}/{branch}/{number}.
type AccountBalance struct {
	ISPB   string `json:"ispb"`
	Branch string `json:"branch"`
	Number string `json:"number"`
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
	held := ledger.Centavos(a.DebitsPending)
	return Balance{PostedCentavos: Posted(a), PendingOutCentavos: held, PendingInCentavos: ledger.Centavos(a.CreditsPending), AvailableCentavos: Posted(a) - held}
}

// Posted returns the posted credits less the posted debits of an account, in centavos.
func Posted(a tb.Account) int64 {
	return ledger.Less(a.CreditsPosted, a.DebitsPosted)
}

// Account serves GET /v1/accounts/{ispb}/{branch}/{number}.
func (l *Ledger) Account(w http.ResponseWriter, r *http.Request) {
	named, problem := accountIn(r)
	if problem == nil {
		var found []tb.Account
		if found, problem = l.accounts.find(r.Context(), []tb.Uint128{ledger.CustomerAccount(named)}); problem == nil {
			if len(found) == 1 {
				web.WriteJSON(w, http.StatusOK, AccountBalance{string(named.ISPB), named.Branch, named.Number, balanceOf(found[0])})
				return
			}
			problem = unknownAccount(named)
		}
	}
	problem.Write(w)
}

// accountIn returns the account in the path.
func accountIn(r *http.Request) (pix.Account, *web.Problem) {
	named := field.Account{ISPB: r.PathValue("ispb"), Branch: r.PathValue("branch"), Number: r.PathValue("number")}
	if err := named.Pix().Validate(); err != nil {
		return pix.Account{}, field.Invalid("", "account", named, pix.ReasonMalformed, err.Error())
	}
	return named.Pix(), nil
}

func unknownAccount(named pix.Account) *web.Problem {
	return &web.Problem{Type: web.Kind("unknown-account"), Title: "Unknown account", Status: http.StatusNotFound, Field: "account", Value: field.AccountOf(named),
		Code: pix.ReasonPayeeMissing.String(), Detail: "the ledger has no such account: correct ispb, branch and number"}
}
