package act

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

// AccountAct is the body of PUT /v1/accounts/{ispb}/{branch}/{number}/acts/{actId}.
type AccountAct struct {
	Act            string `json:"act" required:"true" enum:"open,block,close,reopen,deposit,withdraw"`
	AmountCentavos uint64 `json:"amount_centavos,omitempty" required:"false" maximum:"1000000000000000" doc:"Of deposit and withdraw: at least 1."`
}

// AccountActDone is the response: the act, and the account as it is now.
type AccountActDone struct {
	Act     query.Act            `json:"act"`
	Account query.AccountBalance `json:"account"`
}

// accountActs are the acts on a customer's account.
var accountActs = []ledger.ActKind{ledger.AccountOpened, ledger.AccountBlocked, ledger.AccountClosed,
	ledger.AccountReopened, ledger.Deposit, ledger.Withdrawal}

// OnAccount answers PUT /v1/accounts/{ispb}/{branch}/{number}/acts/{actId}.
func (a *Acts) OnAccount(r *http.Request) (done AccountActDone, problem *web.Problem) {
	var body AccountAct

	id, problem := a.receive(r, &body)
	if problem != nil {
		return done, problem
	}

	account, problem := query.AccountIn(r)
	if problem != nil {
		return done, problem
	}

	q := request{holder: string(account.ISPB), id: id, act: ledger.Act{Bank: account.ISPB, Account: account}}
	if q.act.Kind, problem = kindOf(body.Act, accountActs); problem != nil {
		return done, problem
	}

	switch {
	case q.act.Kind.MovesMoney():
		problem = setAmount(&q.act, body.AmountCentavos)
	case body.AmountCentavos != 0:
		problem = invalid("amount_centavos", body.AmountCentavos, "left out: "+body.Act+" moves no money")
	case q.act.Kind == ledger.AccountOpened:
		q.creates = []tb.Account{query.OpenedBy(account, q.record())}
	}

	if problem != nil {
		return done, problem
	}

	ctx := query.Paying(r.Context())
	if done.Act, problem = a.do(ctx, q); problem != nil {
		return done, problem
	}

	if problem = a.ledger.Reach(ctx, done.Act.At); problem == nil {
		done.Account, problem = a.ledger.AccountNow(ctx, account)
	}

	return done, unknownFate(q, problem)
}

// tooManyNotOpen returns a problem if a bank blocks or closes one account more than it may.
func (a *Acts) tooManyNotOpen(state *register.State, act ledger.Act) *web.Problem {
	bank := state.Participant(act.Bank)
	if bank == nil || bank.NotOpen < a.config.NotOpenMax || state.Account(act.Account) != register.Open {
		return nil
	}

	return &web.Problem{Type: web.Kind("act-refused"), Title: "Too many are not open", Status: http.StatusConflict,
		Field: "account", Value: field.AccountOf(act.Account),
		Rule: fmt.Sprintf("at most %d accounts of a participant that are blocked or closed (ACCOUNTS_NOT_OPEN_MAX)",
			a.config.NotOpenMax), Detail: "nothing was done: reopen one that need not be closed, or ask the operator for more"}
}

// kindOf returns the act with a name.
func kindOf(name string, kinds []ledger.ActKind) (ledger.ActKind, *web.Problem) {
	var names []string
	for _, kind := range kinds {
		names = append(names, query.ActNames[kind])
	}

	if i := slices.Index(names, name); i >= 0 {
		return kinds[i], nil
	}

	return 0, invalid("act", name, "one of "+strings.Join(names, ", "))
}
