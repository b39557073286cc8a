// Package act does acts of administration: those of the central bank on participants, and those of
// participants on the accounts of their customers. The ledger is the register of acts. An act's ids
// are a function of who acts and of the id that the caller gives it, so repeating a done act
// changes nothing.
package act

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"golang.org/x/time/rate"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

// Config bounds the acts. Engines and producers read all of them, so whoever floods them takes from
// everybody.
type Config struct {
	RateMax     int `env:"ACT_RATE_MAX" envDefault:"50" range:"1 to 10000" help:"acts per second of each participant, and of the central bank; above it 429"`
	DayMax      int `env:"ACTS_PER_DAY_MAX" envDefault:"250000" range:"100 to 100000000" help:"acts of a participant in a day at one producer, counted from its start, because every start reads all; above it 429"`
	BurstMax    int `env:"ACT_BURST_MAX" envDefault:"100" range:"1 to 10000" help:"acts that a participant may send at once after a silence"`
	NotOpenMax  int `env:"ACCOUNTS_NOT_OPEN_MAX" envDefault:"1000000" range:"1 to 100000000" help:"blocked or closed accounts of a participant, about 100 bytes of memory each; above it 409"`
	InFlightMax int `env:"ACTS_IN_FLIGHT_MAX" envDefault:"64" range:"1 to 10000" help:"acts that wait for the ledger; above it 429"`
}

// Acts serves the requests that act.
type Acts struct {
	config  Config
	ledger  *query.Ledger
	permits *web.Pool // a permit for each request that the ledger has not answered
	turns   sync.Map  // turns by holder
}

// turns bound the acts of a holder.
type turns struct{ second, day *rate.Limiter }

// New does not wait for the ledger.
func New(config Config, ledger *query.Ledger, pools *web.Pools) *Acts {
	return &Acts{config: config, ledger: ledger, permits: pools.Pool("acts", "ACTS_IN_FLIGHT_MAX", config.InFlightMax)}
}

// request is a valid act of a caller.
type request struct {
	holder, id string
	act        ledger.Act
	creates    []tb.Account // before the act. The first keeps the act's record, so that no other act creates it
}

func (q request) record() tb.Uint128 { return ledger.ActRecordID(q.holder, q.id) }

// receive reads the body of a request that acts, and the act's id.
func (a *Acts) receive(r *http.Request, body any) (id string, problem *web.Problem) {
	if problem := a.takeTurn(access.Of(r)); problem != nil { // before any work
		return "", problem
	}

	id = r.PathValue("actId")
	if err := ledger.CheckActID(id); err != nil {
		return id, field.Invalid("", "act_id", id, pix.ReasonMalformed, err.Error())
	}

	return id, field.ReadJSON(r.Body, body)
}

func (a *Acts) takeTurn(who access.Caller) *web.Problem {
	of, known := a.turns.Load(who.Holder)
	if !known {
		of, _ = a.turns.LoadOrStore(who.Holder, turns{
			rate.NewLimiter(rate.Limit(a.config.RateMax), a.config.BurstMax),
			rate.NewLimiter(rate.Limit(float64(a.config.DayMax)/secondsOfDay), a.config.DayMax),
		})
	}
	problem := &web.Problem{Type: web.Kind("too-often"), Title: "Too often", Status: http.StatusTooManyRequests,
		Detail: who.Name() + " acts too often: nothing was done, send it again after a pause"}

	switch {
	case !of.(turns).second.Allow():
		problem.RetryAfter = time.Second
		problem.Rule = fmt.Sprintf("at most %d acts a second (ACT_RATE_MAX), %d at once (ACT_BURST_MAX)",
			a.config.RateMax, a.config.BurstMax)
	case !of.(turns).day.Allow():
		problem.RetryAfter = time.Minute
		problem.Rule = fmt.Sprintf("at most %d acts a day (ACTS_PER_DAY_MAX)", a.config.DayMax)
	default:
		return nil
	}

	return problem
}

const secondsOfDay = 24 * 60 * 60

// invalid is the response to a wrong value.
func invalid(name string, value any, rule string) *web.Problem {
	problem := field.Invalid("", name, value, pix.ReasonMalformed, "it must be "+rule)
	problem.Rule = rule
	return problem
}

// do does an act, unless it was done before, and returns it as it stands in the ledger. Nothing is
// written before the ledger has said that it knows nothing of the act.
func (a *Acts) do(ctx context.Context, q request) (query.Act, *web.Problem) {
	if done, there, problem := a.before(ctx, q); there || problem != nil {
		return done, problem
	}

	accounts, problem := a.accounts(ctx, q)
	if problem != nil {
		return query.Act{}, problem
	}

	if problem := tooMuch(q, accounts); problem != nil {
		return query.Act{}, problem
	}

	if problem := a.permitted(ctx, q.act); problem != nil {
		return query.Act{}, problem
	}

	if problem := a.create(ctx, q); problem != nil {
		return query.Act{}, problem
	}

	result, problem := a.write(ctx, q, accounts)
	if problem != nil {
		return query.Act{}, problem
	}

	switch {
	case result.OK(), result.Exists():
		done, there, problem := a.before(ctx, q)
		if !there && problem == nil { // the money's id exists, and is of something else
			problem = used(q)
		}

		return done, unknownFate(q, problem)
	case result.Status == tb.TransferExceedsCredits:
		return query.Act{}, short(q)
	case result.Status == tb.TransferIDAlreadyFailed:
		return query.Act{}, burnt(q)
	}

	return query.Act{}, &web.Problem{Type: web.Kind("act-refused"), Title: "The ledger refuses the act",
		Status: http.StatusConflict, Field: "act_id", Value: q.id,
		Detail: fmt.Sprintf("the ledger says %v: nothing was done; tell the operator", result.Status)}
}

// permitted returns a problem if the register as it is now does not permit a new act.
func (a *Acts) permitted(ctx context.Context, act ledger.Act) *web.Problem {
	switch {
	case act.Kind == ledger.Deposit || act.Kind == ledger.Withdrawal || act.Kind == ledger.AccountBlocked ||
		act.Kind == ledger.AccountClosed:
		state, problem := a.ledger.Register()
		if problem != nil {
			return problem
		}

		if act.Kind.MovesMoney() {
			return query.NotOpen(state, "account", act.Account)
		}

		return a.tooManyNotOpen(state, act)
	case act.Kind.HasDigest():
		state, problem := a.ledger.NewestRegister(ctx) // a key named a moment ago may be revoked
		if problem != nil {
			return problem
		}

		return digestRefused(state, act)
	default:
		return nil
	}
}

// before returns the act if the ledger has it already, or the response if its id was used for
// something else.
func (a *Acts) before(ctx context.Context, q request) (done query.Act, there bool, problem *web.Problem) {
	found, problem := a.ledger.FindTransfers(ctx, []tb.Uint128{q.record()})
	if problem != nil || len(found) == 0 {
		return done, false, problem
	}

	act, at, err := ledger.ActOf(found[0])
	if err != nil || act != q.act {
		return done, false, used(q)
	}

	return query.ActOf(found[0], act, at), true, nil
}

// accounts returns the accounts of the act's bank by their ids. It fails if one is missing that the
// act needs: a transfer whose account is missing would burn its id.
func (a *Acts) accounts(ctx context.Context, q request) (map[tb.Uint128]tb.Account, *web.Problem) {
	if q.act.Kind != ledger.Joined {
		joined, problem := a.ledger.HasJoined(ctx, q.act.Bank)
		if problem == nil && !joined {
			problem = query.UnknownParticipant(string(q.act.Bank))
		}

		if problem != nil {
			return nil, problem
		}
	}
	ids := []tb.Uint128{ledger.RegisterAccount, ledger.AllowanceAccount(q.act.Bank, ledger.Day),
		ledger.AllowanceAccount(q.act.Bank, ledger.Night),
		ledger.TransitAccount(q.act.Bank), ledger.IssuanceAccount}

	customer := q.act.Kind.OfAccount() && q.act.Kind != ledger.AccountOpened
	if customer {
		ids = append(ids, ledger.CustomerAccount(q.act.Account))
	}

	accounts, problem := a.ledger.FindAccounts(ctx, ids...)
	if problem != nil {
		return nil, problem
	}
	_, registered := accounts[ledger.RegisterAccount]

	window, capped := q.window()
	if _, there := accounts[ledger.AllowanceAccount(q.act.Bank, window)]; !registered || capped && !there {
		return nil, &web.Problem{Type: web.Kind("no-register"), Title: "No register",
			Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Detail: "nothing was done: the ledger has no register of acts; run bootstrap, which adds it to an older ledger"}
	}

	if customer {
		if _, there := accounts[ledger.CustomerAccount(q.act.Account)]; !there {
			return nil, query.UnknownAccount(q.act.Account)
		}
	}

	return accounts, nil
}

// create creates the accounts of an act. If another act has created the first one, it says so.
func (a *Acts) create(ctx context.Context, q request) *web.Problem {
	if len(q.creates) == 0 {
		return nil
	}

	results, problem := write(ctx, a, q, func(c tigerbeetle.Client) ([]tb.AccountEventResult, error) {
		return c.CreateAccounts(q.creates)
	})
	if problem != nil {
		return problem
	}

	for _, result := range results {
		// imported: the ledger compares no more
		if wanted := q.creates[result.Index]; result.Result == tb.AccountExistsWithDifferentFlags {
			found, problem := a.ledger.FindAccounts(ctx, wanted.ID)
			if problem != nil {
				return unknownFate(q, problem)
			}

			if is := found[wanted.ID]; is.AccountFlags().Imported {
				result.Result = tb.AccountExists
				if is.UserData128 != wanted.UserData128 || is.UserData64 != wanted.UserData64 {
					result.Result = tb.AccountExistsWithDifferentUserData128
				}
			}
		}

		switch {
		case result.Result == tb.AccountExists:
		case result.Index == 0 &&
			(result.Result == tb.AccountExistsWithDifferentUserData128 ||
				result.Result == tb.AccountExistsWithDifferentUserData64):
			return taken(q)
		default:
			return &web.Problem{Type: web.Kind("act-refused"), Title: "The ledger refuses the act",
				Status: http.StatusConflict, Field: "act_id", Value: q.id,
				Detail: fmt.Sprintf("the ledger says %v to %s: the act was not done; tell the operator", result.Result,
					ledger.AccountName(q.creates[result.Index].ID))}
		}
	}

	return nil
}

// adjustmentsMax is how often an act tries to adjust an allowance that others adjust, too.
const adjustmentsMax = 20

// write writes the act. Of a cap on outflow the chain also adjusts the allowance. If another adjustment
// came first, the whole chain fails, and is made again.
func (a *Acts) write(ctx context.Context, q request, accounts map[tb.Uint128]tb.Account) (ledger.Result, *web.Problem) {
	for range adjustmentsMax {
		chain := ledger.AppendAct(nil, q.holder, q.id, q.act)

		acted := len(chain)
		if window, capped := q.window(); capped {
			chain = ledger.GrantOf(accounts[ledger.AllowanceAccount(q.act.Bank, window)]).AppendAdjustment(chain,
				q.act.Centavos)
		}

		results, problem := write(ctx, a, q, func(c tigerbeetle.Client) ([]tb.TransferEventResult, error) {
			return c.CreateTransfers(chain)
		})
		if problem != nil {
			return ledger.Result{}, problem
		}

		if result := ledger.ResultOf(chain, 0, results); !result.Exists() || result.Index < acted {
			return result, nil
		}

		if accounts, problem = a.accounts(ctx, q); problem != nil {
			return ledger.Result{}, problem
		}
	}

	return ledger.Result{}, &web.Problem{Type: web.Kind("busy"), Title: "The allowance changes too fast",
		Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail: "nothing was done: others adjust the bank's allowance all the time; send the same again"}
}

// window returns the window of an act that sets a cap on outflow.
func (q request) window() (window ledger.Window, capped bool) {
	if q.act.Kind == ledger.NightCapped {
		window = ledger.Night
	}

	return window, q.act.WindowSeconds > 0 && q.act.Centavos > 0
}

func used(q request) *web.Problem {
	return &web.Problem{Type: web.Kind("act-id-used"), Title: "The id was used", Status: http.StatusConflict,
		Field: "act_id", Value: q.id,
		Rule: "an id that names one act forever",
		Detail: "the ledger has another act of " + q.holder +
			" under this id: nothing was done; give a new act its own id"}
}

func short(q request) *web.Problem {
	from := "the reserve of " + string(q.act.Bank)
	if q.act.Kind == ledger.Withdrawal {
		from = "account " + q.act.Account.String()
	}

	return &web.Problem{Type: web.Kind("act-refused"), Title: "Not enough", Status: http.StatusUnprocessableEntity,
		Field: "amount_centavos", Value: q.act.Centavos,
		Rule:   "at most what is available: posted less what payments under way hold",
		Detail: from + " does not have so much: nothing was done, and the ledger takes this act_id no more; try again with a new one"}
}

// tooMuch refuses what would bring a balance near to 2^63 centavos, where answers, statements and metrics end.
func tooMuch(q request, accounts map[tb.Uint128]tb.Account) *web.Problem {
	var owed tb.Account
	var most int64
	var of string

	switch q.act.Kind {
	case ledger.Deposit: // what transit owes is what customers have
		owed, most, of = accounts[ledger.TransitAccount(q.act.Bank)], ledger.CustomersCentavosMax,
			"the customers of "+string(q.act.Bank)+" together"
	case ledger.LiquidityIn:
		owed, most, of = accounts[ledger.IssuanceAccount], ledger.ReservesCentavosMax, "all reserves together"
	default:
		return nil
	}

	has := ledger.Less(owed.DebitsPosted, owed.CreditsPosted)
	if has <= most-q.act.Centavos {
		return nil
	}

	return &web.Problem{Type: web.Kind("act-refused"), Title: "Too much", Status: http.StatusUnprocessableEntity,
		Field: "amount_centavos", Value: q.act.Centavos,
		Rule:   fmt.Sprintf("at most %d centavos in %s", most, of),
		Detail: fmt.Sprintf("%s have %d: nothing was done, and the act_id may be used again", of, has)}
}

func burnt(q request) *web.Problem {
	return &web.Problem{Type: web.Kind("act-refused"), Title: "The act was refused before", Status: http.StatusConflict,
		Field: "act_id", Value: q.id,
		Rule:   "a new try needs a new id",
		Detail: "the ledger has refused this act once, because there was not enough money: nothing was done; try again with a new act_id"}
}

// taken is the response to an act that creates what is there.
func taken(q request) *web.Problem {
	problem := &web.Problem{Type: web.Kind("act-refused"), Title: "It is there", Status: http.StatusConflict,
		Field: "ispb", Value: q.act.Bank,
		Rule: "a participant joins once", Detail: "it is a participant already: nothing was done"}
	if q.act.Kind == ledger.AccountOpened {
		problem.Field, problem.Value, problem.Rule = "account", field.AccountOf(q.act.Account),
			"an account is opened once; reopen opens one that was blocked or closed"
		problem.Detail = "the account exists already, and another act opened it: nothing was done"
	}

	return problem
}

// write sends a request that writes.
func write[O any](ctx context.Context, a *Acts, q request,
	send func(tigerbeetle.Client) ([]O, error)) ([]O, *web.Problem) {
	results, problem := query.Ask(ctx, a.ledger, a.permits, send)
	if problem != nil && problem.Status == http.StatusTooManyRequests { // it was not sent
		return nil, problem
	}

	return results, unknownFate(q, problem)
}

// unknownFate turns the response to a question that got no answer, after something was written or
// may have been, into that of an act that may have been done. It never says that nothing was done.
func unknownFate(q request, problem *web.Problem) *web.Problem {
	if problem == nil || problem.Status != http.StatusServiceUnavailable &&
		problem.Status != http.StatusTooManyRequests {
		return problem
	}

	return &web.Problem{Type: web.Kind("unknown-fate"), Title: "Fate unknown", Status: http.StatusServiceUnavailable,
		RetryAfter: time.Second, Field: "act_id", Value: q.id,
		Detail: "the ledger did not answer in time, or another question of the caller had its turn, and the act may have been done or not: send the same again with this act_id, which is safe"}
}
