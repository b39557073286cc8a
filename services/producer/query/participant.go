package query

import (
	"context"
	"encoding/hex"
	"net/http"
	"strconv"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/field"
)

// Participant is the body of GET /v1/participants/{ispb}. All balances are of one instant.
type Participant struct {
	ISPB               string       `json:"ispb"`
	State              string       `json:"state" enum:"active,suspended,unregistered" doc:"Payments from and to a suspended participant are rejected, and returns by it."`
	PaymentCapCentavos int64        `json:"payment_cap_centavos,omitempty" doc:"The most that one payment may be. Left out where there is no cap."`
	OutflowCaps        []OutflowCap `json:"outflow_caps,omitempty" nullable:"false" doc:"The caps on what it pays to other participants. Left out where there are none."`
	Keys               []string     `json:"keys,omitempty" nullable:"false" doc:"The digests of its keys in use: the first 48 hexadecimal digits of their SHA-256."`
	Seals              []Seal       `json:"seals,omitempty" nullable:"false" doc:"The secrets with which it seals its responses."`
	Reserve            Balance      `json:"reserve"`
	Transit            Balance      `json:"transit"`
	Books              *ThreeLegs   `json:"three_leg_invariant,omitempty" doc:"Left out on a ledger without books accounts."`
}

// Seal is the fingerprint of a secret with which a bank seals its responses.
type Seal struct {
	Digest  string `json:"digest" doc:"The first 48 hexadecimal digits of its SHA-256."`
	Revoked bool   `json:"revoked" doc:"What is sealed with it is forged."`
}

// OutflowCap is a cap on outflow within a window of time.
type OutflowCap struct {
	When          string `json:"when" enum:"day,night" doc:"When it is in force: from 06:00 to 20:00 in São Paulo, or from 20:00 to 06:00."`
	CapCentavos   int64  `json:"cap_centavos"`
	WindowSeconds int    `json:"window_seconds" doc:"What was paid counts for so long."`
	LeftCentavos  int64  `json:"left_centavos" doc:"What may be paid at this instant."`
}

// ThreeLegs is the law of a bank's books: reserve + transit = books, to which every act adds what
// it moves.
type ThreeLegs struct {
	BooksCentavos      int64 `json:"books_centavos"`
	DifferenceCentavos int64 `json:"difference_centavos" doc:"reserve + transit - books"`
	Holds              bool  `json:"holds"`
}

// ParticipantPage is the body of GET /v1/participants.
type ParticipantPage struct {
	Participants []Participant `json:"participants" nullable:"false"`
	NextCursor   string        `json:"next_cursor,omitempty"`
	Issuance     Issuance      `json:"issuance"`
}

// Issuance is the law of central-bank money: what issuance has paid to reserves, less what came back, is
// what bootstrap and the acts on liquidity say. A forged transfer beside a forged deposit keeps the
// books of its bank, and breaks this.
type Issuance struct {
	IssuedCentavos     int64 `json:"issued_centavos" doc:"What all reserves together were paid."`
	DifferenceCentavos int64 `json:"difference_centavos" doc:"issued less what bootstrap and acts on liquidity brought in"`
	Holds              bool  `json:"holds"`
}

// ISPBOf returns the participant that the path names.
func ISPBOf(r *http.Request) (pix.ISPB, *web.Problem) {
	text := r.PathValue("ispb")

	psp, err := pix.ParseISPB(text)
	if err != nil {
		return psp, field.Invalid("", "ispb", text, pix.ReasonMalformed, err.Error())
	}

	return psp, nil
}

// Participant answers GET /v1/participants/{ispb}.
func (l *Ledger) Participant(r *http.Request) (Participant, *web.Problem) {
	psp, problem := ISPBOf(r)
	if problem != nil {
		return Participant{}, problem
	}

	return l.ParticipantNow(r.Context(), psp)
}

// ParticipantNow returns a participant.
func (l *Ledger) ParticipantNow(ctx context.Context, psp pix.ISPB) (Participant, *web.Problem) {
	found, problem := l.participantsOf(ctx, []pix.ISPB{psp})
	if problem == nil && len(found) == 0 {
		problem = UnknownParticipant(string(psp))
	}

	if problem != nil {
		return Participant{}, problem
	}

	return found[0], nil
}

// UnknownParticipant is the response about a participant that the ledger does not have.
func UnknownParticipant(ispb string) *web.Problem {
	return &web.Problem{Type: web.Kind("unknown-participant"), Title: "Unknown participant",
		Status: http.StatusNotFound, Field: "ispb", Value: ispb,
		Code: pix.ReasonUnknownPayerPSP.String(), Detail: "no participant has this ISPB"}
}

// Participants answers GET /v1/participants, in the order in which the accounts were opened.
func (l *Ledger) Participants(r *http.Request) (*ParticipantPage, *web.Problem) {
	limit, cursor, problem := l.pageOf(r)
	if problem != nil {
		return nil, problem
	}
	limit = min(limit, l.config.IDsMax/len(accountsOf("")))

	found, problem := query(r.Context(), l, reserves(cursor+1, limit+1))
	if problem != nil {
		return nil, problem
	}
	page := &ParticipantPage{}

	if len(found) > limit {
		found = found[:limit]
		page.NextCursor = strconv.FormatUint(found[limit-1].Timestamp, 10)
	}

	psps := make([]pix.ISPB, len(found))
	for i, reserve := range found {
		_, named := ledger.UnpackAccount(reserve.ID)
		psps[i] = named.ISPB
	}

	if page.Participants, problem = l.participantsOf(r.Context(), psps); problem == nil {
		page.Issuance, problem = l.issuance(r.Context())
	}

	return page, problem
}

// issuance compares issuance with the acts. One that came between the two questions looks like a
// difference: after one it asks again.
func (l *Ledger) issuance(ctx context.Context) (is Issuance, problem *web.Problem) {
	state, problem := l.Register()
	for range 3 {
		if problem != nil {
			return is, problem
		}

		var accounts map[tb.Uint128]tb.Account
		if accounts, problem = l.FindAccounts(ctx, ledger.IssuanceAccount); problem != nil {
			return is, problem
		}
		issuance := accounts[ledger.IssuanceAccount]
		is.IssuedCentavos = -Posted(issuance)

		is.DifferenceCentavos = Unacted(issuance, state)
		if is.Holds = is.DifferenceCentavos == 0; is.Holds {
			return is, nil
		}
		state, problem = l.NewestRegister(ctx)
	}

	return is, problem
}

// Unacted returns what issuance has paid beyond what bootstrap and the acts of a state brought to reserves.
func Unacted(issuance tb.Account, state *register.State) int64 {
	population, unacted := populationOf(issuance.UserData128, issuance.UserData64), -Posted(issuance)
	for _, p := range state.Participants() {
		unacted -= p.LiquidityCentavos
		if _, first := population.BankNumber(p.ISPB); first {
			unacted -= int64(population.ReserveCentavos)
		}
	}

	return unacted
}

// accountsOf returns the accounts of a bank. One look-up reads them: only then are they of one instant.
func accountsOf(psp pix.ISPB) []tb.Uint128 {
	return []tb.Uint128{ledger.ReserveAccount(psp), ledger.TransitAccount(psp), ledger.BooksAccount(psp),
		ledger.AllowanceAccount(psp, ledger.Day), ledger.AllowanceAccount(psp, ledger.Night)}
}

// participantsOf returns those of the banks that exist.
func (l *Ledger) participantsOf(ctx context.Context, psps []pix.ISPB) ([]Participant, *web.Problem) {
	var ids []tb.Uint128
	for _, psp := range psps {
		ids = append(ids, accountsOf(psp)...)
	}

	accounts, problem := l.FindAccounts(ctx, ids...)
	if problem != nil {
		return nil, problem
	}

	state, problem := l.Register()
	if problem != nil {
		return nil, problem
	}
	participants := []Participant{}

	for _, psp := range psps {
		if _, there := accounts[ledger.ReserveAccount(psp)]; there {
			participants = append(participants, participantOf(psp, accounts, state.Participant(psp)))
		}
	}

	return participants, nil
}

// participantOf returns a bank by its accounts and what the register says of it: nil if it never joined.
func participantOf(psp pix.ISPB, accounts map[tb.Uint128]tb.Account, registered *register.Participant) Participant {
	reserve, transit := accounts[ledger.ReserveAccount(psp)], accounts[ledger.TransitAccount(psp)]

	one := Participant{ISPB: string(psp), State: "unregistered", Reserve: balanceOf(reserve),
		Transit: balanceOf(transit)}
	if books, there := accounts[ledger.BooksAccount(psp)]; there {
		difference := Difference(reserve, transit, books)
		one.Books = &ThreeLegs{BooksCentavos: Posted(books), DifferenceCentavos: difference, Holds: difference == 0}
	}

	if registered == nil {
		return one
	}

	one.State, one.PaymentCapCentavos = "active", registered.PaymentCapCentavos
	if registered.Suspended {
		one.State = "suspended"
	}

	for _, key := range registered.Keys {
		one.Keys = append(one.Keys, hex.EncodeToString(key[:]))
	}

	for _, seal := range registered.Seals {
		one.Seals = append(one.Seals, Seal{hex.EncodeToString(seal.Fingerprint[:]), seal.Revoked})
	}

	for window, capped := range registered.Outflow {
		if capped.Centavos > 0 {
			grant := ledger.GrantOf(accounts[ledger.AllowanceAccount(psp, ledger.Window(window))])
			one.OutflowCaps = append(one.OutflowCaps,
				OutflowCap{When: ledger.Window(window).String(), CapCentavos: capped.Centavos,
					WindowSeconds: int(capped.WindowSeconds), LeftCentavos: grant.Left(capped.Centavos)})
		}
	}

	return one
}

// PopulationOf returns the population that the marker describes.
func PopulationOf(transfer tb.Transfer) sandbox.Population {
	return populationOf(transfer.UserData128, transfer.UserData64)
}

func populationOf(userData128 tb.Uint128, userData64 uint64) sandbox.Population {
	marker := ledger.MarkerOf(userData128, userData64)
	return sandbox.Population{Banks: int(marker.Banks), Customers: int(marker.Customers),
		DepositCentavos: marker.DepositCentavos, ReserveCentavos: marker.ReserveCentavos}
}
