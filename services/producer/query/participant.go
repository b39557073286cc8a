package query

import (
	"context"
	"net/http"
	"strconv"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/field"
)

// Participant is the body of GET /v1/participants/{ispb}: all of one instant.
type Participant struct {
	ISPB    string     `json:"ispb"`
	Reserve Balance    `json:"reserve"`
	Transit Balance    `json:"transit"`
	Books   *ThreeLegs `json:"three_leg_invariant,omitempty" doc:"Left out where the funding is not known."`
}

// ThreeLegs is the law of a bank's books: reserve + transit = funded - deposits.
type ThreeLegs struct {
	FundedCentavos     int64 `json:"funded_centavos"`
	DepositsCentavos   int64 `json:"deposits_centavos"`
	DifferenceCentavos int64 `json:"difference_centavos" doc:"reserve + transit - (funded - deposits)"`
	Holds              bool  `json:"holds"`
}

// ParticipantPage is the body of GET /v1/participants.
type ParticipantPage struct {
	Participants []Participant `json:"participants" nullable:"false"`
	NextCursor   string        `json:"next_cursor,omitempty"`
}

// Participant serves GET /v1/participants/{ispb}.
func (l *Ledger) Participant(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("ispb")
	psp, err := pix.ParseISPB(text)
	if err != nil {
		field.Invalid("", "ispb", text, pix.ReasonMalformed, err.Error()).Write(w)
		return
	}
	found, problem := l.participantsOf(r.Context(), []pix.ISPB{psp})
	if problem == nil && len(found) == 0 {
		problem = unknownParticipant(text)
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	web.WriteJSON(w, http.StatusOK, found[0])
}

func unknownParticipant(ispb string) *web.Problem {
	return &web.Problem{Type: web.Kind("unknown-participant"), Title: "Unknown participant", Status: http.StatusNotFound, Field: "ispb", Value: ispb,
		Code: pix.ReasonUnknownPayerPSP.String(), Detail: "no participant has this ISPB"}
}

// Participants serves GET /v1/participants, in the order in which the accounts were opened.
func (l *Ledger) Participants(w http.ResponseWriter, r *http.Request) {
	if page, problem := l.participantPage(r); problem != nil {
		problem.Write(w)
	} else {
		web.WriteJSON(w, http.StatusOK, page)
	}
}

func (l *Ledger) participantPage(r *http.Request) (*ParticipantPage, *web.Problem) {
	limit, cursor, problem := l.pageOf(r)
	if problem != nil {
		return nil, problem
	}
	limit = min(limit, l.config.IDsMax/2) // two accounts each, in one look-up
	filter := tb.QueryFilter{Code: uint16(ledger.Reserve), Ledger: ledger.Ledger, Limit: uint32(limit + 1)}
	if cursor != 0 {
		filter.TimestampMin = cursor + 1
	}
	reserves, problem := query(r.Context(), l, func(c tigerbeetle.Client) ([]tb.Account, error) { return c.QueryAccounts(filter) })
	if problem != nil {
		return nil, problem
	}
	page := &ParticipantPage{Participants: []Participant{}}
	if len(reserves) > limit {
		reserves = reserves[:limit]
		page.NextCursor = strconv.FormatUint(reserves[limit-1].Timestamp, 10)
	}
	psps := make([]pix.ISPB, len(reserves))
	for i, reserve := range reserves {
		_, named := ledger.UnpackAccount(reserve.ID)
		psps[i] = named.ISPB
	}
	if len(psps) > 0 {
		if page.Participants, problem = l.participantsOf(r.Context(), psps); problem != nil {
			return nil, problem
		}
	}
	return page, nil
}

// participantsOf returns those of the banks that exist. One look-up reads all: only then do
// reserve and transit belong to one instant.
func (l *Ledger) participantsOf(ctx context.Context, psps []pix.ISPB) ([]Participant, *web.Problem) {
	// Before the balances: they hold all funding only where the marker was seen.
	population, problem := l.population(ctx)
	if problem != nil {
		return nil, problem
	}
	var ids []tb.Uint128
	for _, psp := range psps {
		ids = append(ids, ledger.ReserveAccount(psp), ledger.TransitAccount(psp))
	}
	found, problem := l.accounts.find(ctx, ids)
	if problem != nil {
		return nil, problem
	}
	byID := make(map[tb.Uint128]tb.Account, len(found))
	for _, account := range found {
		byID[account.ID] = account
	}
	participants := []Participant{}
	for _, psp := range psps {
		reserve, ok := byID[ledger.ReserveAccount(psp)]
		if !ok {
			continue
		}
		transit := byID[ledger.TransitAccount(psp)]
		one := Participant{ISPB: string(psp), Reserve: balanceOf(reserve), Transit: balanceOf(transit)}
		if bank, ok := population.BankNumber(psp); ok {
			law := ThreeLegs{FundedCentavos: int64(population.ReserveCentavos), DepositsCentavos: int64(population.DepositsOf(bank))}
			law.DifferenceCentavos = Posted(reserve) + Posted(transit) - (law.FundedCentavos - law.DepositsCentavos)
			law.Holds = law.DifferenceCentavos == 0
			one.Books = &law
		}
		participants = append(participants, one)
	}
	return participants, nil
}

// population returns what bootstrap funded. It is empty until bootstrap has finished.
func (l *Ledger) population(ctx context.Context) (sandbox.Population, *web.Problem) {
	if known := l.funded.Load(); known != nil {
		return *known, nil
	}
	markers, problem := l.transfers.find(ctx, []tb.Uint128{ledger.MarkerID})
	if problem != nil || len(markers) == 0 {
		return sandbox.Population{}, problem
	}
	population := PopulationOf(markers[0])
	l.funded.Store(&population)
	return population, nil
}

// PopulationOf returns the population that the marker describes.
func PopulationOf(transfer tb.Transfer) sandbox.Population {
	marker := ledger.MarkerOf(transfer.UserData128, transfer.UserData64)
	return sandbox.Population{Banks: int(marker.Banks), Customers: int(marker.Customers),
		DepositCentavos: marker.DepositCentavos, ReserveCentavos: marker.ReserveCentavos}
}
