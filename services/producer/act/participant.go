package act

import (
	"net/http"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/query"
)

// ParticipantAct is the body of PUT /v1/participants/{ispb}/acts/{actId}.
type ParticipantAct struct {
	Act            string  `json:"act" enum:"register,suspend,resume,liquidity-in,liquidity-out,payment-cap,day-cap,night-cap"`
	AmountCentavos uint64  `json:"amount_centavos,omitempty" required:"false" maximum:"1000000000000000" doc:"Of liquidity-in and liquidity-out: at least 1."`
	CapCentavos    *uint64 `json:"cap_centavos,omitempty" required:"false" nullable:"false" maximum:"1000000000000000" doc:"Of the caps. 0 lifts the cap."`
	WindowSeconds  uint64  `json:"window_seconds,omitempty" required:"false" doc:"Of day-cap and night-cap: how long a payment counts, 120 to 86400. Left out when the cap is lifted."`
}

// ParticipantActDone is the response: the act, and the participant as it is now.
type ParticipantActDone struct {
	Act         query.Act         `json:"act"`
	Participant query.Participant `json:"participant"`
}

// participantActs are the acts on a participant.
var participantActs = []ledger.ActKind{ledger.Joined, ledger.Suspended, ledger.Resumed, ledger.LiquidityIn, ledger.LiquidityOut,
	ledger.PaymentCapped, ledger.DayCapped, ledger.NightCapped}

const (
	amountRule = "an integer from 1 to 1000000000000000 (10^15)"
	capRule    = "an integer from 0, which lifts the cap, to 1000000000000000 (10^15)"
	windowRule = "an integer from 120 to 86400"
)

// OnParticipant serves PUT /v1/participants/{ispb}/acts/{actId}.
func (a *Acts) OnParticipant(w http.ResponseWriter, r *http.Request) {
	done, problem := a.onParticipant(r)
	if problem != nil {
		problem.Write(w)
		return
	}
	web.WriteJSON(w, http.StatusOK, done)
}

func (a *Acts) onParticipant(r *http.Request) (done ParticipantActDone, problem *web.Problem) {
	var body ParticipantAct
	id, problem := a.receive(r, &body)
	if problem != nil {
		return done, problem
	}
	q := request{holder: keys.CentralBank, id: id, act: ledger.Act{ByCentralBank: true}}
	if q.act.Bank, problem = query.ISPBOf(r); problem != nil {
		return done, problem
	}
	if problem = body.fill(&q.act); problem != nil {
		return done, problem
	}
	if q.act.Kind == ledger.Joined {
		q.creates = accountsOfParticipant(q)
	}
	if done.Act, problem = a.do(r.Context(), q); problem != nil {
		return done, problem
	}
	if problem = a.ledger.Reach(r.Context(), done.Act.At); problem != nil {
		return done, problem
	}
	done.Participant, problem = a.ledger.ParticipantNow(r.Context(), q.act.Bank)
	return done, problem
}

// accountsOfParticipant returns the accounts of a bank that joins.
func accountsOfParticipant(q request) []tb.Account {
	psp := q.act.Bank
	books := ledger.NewAccount(ledger.BooksAccount(psp))
	books.UserData128 = q.record()
	accounts := []tb.Account{books}
	for _, id := range []tb.Uint128{ledger.ReserveAccount(psp), ledger.TransitAccount(psp), ledger.AllowanceAccount(psp, ledger.Day), ledger.AllowanceAccount(psp, ledger.Night)} {
		accounts = append(accounts, ledger.NewAccount(id))
	}
	return accounts
}

// fill sets what the body says of an act, or says what is wrong with it.
func (b *ParticipantAct) fill(act *ledger.Act) (problem *web.Problem) {
	if act.Kind, problem = kindOf(b.Act, participantActs); problem != nil {
		return problem
	}
	outflow := act.Kind == ledger.DayCapped || act.Kind == ledger.NightCapped
	switch {
	case !act.Kind.MovesMoney() && b.AmountCentavos != 0:
		return invalid("amount_centavos", b.AmountCentavos, "left out: "+b.Act+" moves no money")
	case !act.Kind.Caps() && b.CapCentavos != nil:
		return invalid("cap_centavos", *b.CapCentavos, "left out: "+b.Act+" sets no cap")
	case !outflow && b.WindowSeconds != 0:
		return invalid("window_seconds", b.WindowSeconds, "left out: "+b.Act+" has no window")
	case act.Kind.MovesMoney():
		return setAmount(act, b.AmountCentavos)
	case !act.Kind.Caps():
		return nil
	case b.CapCentavos == nil:
		return invalid("cap_centavos", nil, capRule)
	case *b.CapCentavos > ledger.ActCentavosMax:
		return invalid("cap_centavos", *b.CapCentavos, capRule)
	}
	act.Centavos = int64(*b.CapCentavos)
	if !outflow {
		return nil
	}
	if act.Centavos == 0 && b.WindowSeconds == 0 {
		b.WindowSeconds = ledger.WindowSecondsMin
	}
	if b.WindowSeconds < ledger.WindowSecondsMin || b.WindowSeconds > ledger.WindowSecondsMax {
		return invalid("window_seconds", b.WindowSeconds, windowRule)
	}
	act.WindowSeconds = uint32(b.WindowSeconds)
	return nil
}

// setAmount sets what an act moves.
func setAmount(act *ledger.Act, centavos uint64) *web.Problem {
	if centavos < 1 || centavos > ledger.ActCentavosMax {
		return invalid("amount_centavos", centavos, amountRule)
	}
	act.Centavos = int64(centavos)
	return nil
}
