package main

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/web"
)

// participants answers what banks have at the central bank, and whether their books agree.
type participants struct {
	*reads
	funded atomic.Pointer[sandbox.Population] // nil until the ledger's marker was seen; it never changes
}

// participant is the body of GET /v1/participants/{ispb}: all of one instant.
type participant struct {
	ISPB    string     `json:"ispb"`
	Reserve balance    `json:"reserve"`
	Transit balance    `json:"transit"`
	Books   *threeLegs `json:"three_leg_invariant,omitempty" doc:"Left out where the funding is not known."`
}

// threeLegs is the law that reserve and transit together keep what the bank was funded
// with less what its customers were given.
type threeLegs struct {
	FundedCentavos     int64 `json:"funded_centavos"`
	DepositsCentavos   int64 `json:"deposits_centavos"`
	DifferenceCentavos int64 `json:"difference_centavos" doc:"reserve + transit - (funded - deposits)"`
	Holds              bool  `json:"holds"`
}

// participantPage is the body of GET /v1/participants.
type participantPage struct {
	Participants []participant `json:"participants" nullable:"false"`
	NextCursor   string        `json:"next_cursor,omitempty"`
}

// ServeHTTP answers GET /v1/participants/{ispb}.
func (p *participants) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("ispb")
	psp, err := pix.ParseISPB(text)
	if err != nil {
		invalid("", "ispb", text, pix.ReasonMalformed, err.Error()).Write(w)
		return
	}
	found, problem := p.read(r.Context(), []pix.ISPB{psp})
	if problem == nil && len(found) == 0 {
		problem = &web.Problem{Type: web.Kind("unknown-participant"), Title: "Unknown participant", Status: http.StatusNotFound, Field: "ispb", Value: text,
			Code: pix.ReasonUnknownPayerPSP.String(), Detail: "no participant has this ISPB"}
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	web.WriteJSON(w, http.StatusOK, found[0])
}

// list answers GET /v1/participants, in the order in which they joined.
func (p *participants) list(w http.ResponseWriter, r *http.Request) {
	if answer, problem := p.pageAt(r); problem != nil {
		problem.Write(w)
	} else {
		web.WriteJSON(w, http.StatusOK, answer)
	}
}

func (p *participants) pageAt(r *http.Request) (*participantPage, *web.Problem) {
	limit, cursor, problem := p.pageOf(r)
	if problem != nil {
		return nil, problem
	}
	limit = min(limit, p.config.IDsMax/2) // two accounts each, in one look-up
	filter := tb.QueryFilter{Code: uint16(ledger.Reserve), Ledger: ledger.Ledger, Limit: uint32(limit + 1)}
	if cursor != 0 {
		filter.TimestampMin = cursor + 1
	}
	reserves, problem := query(r.Context(), p.reads, func(c tigerbeetle.Client) ([]tb.Account, error) { return c.QueryAccounts(filter) })
	if problem != nil {
		return nil, problem
	}
	answer := &participantPage{Participants: []participant{}}
	if len(reserves) > limit {
		reserves = reserves[:limit]
		answer.NextCursor = strconv.FormatUint(reserves[limit-1].Timestamp, 10)
	}
	psps := make([]pix.ISPB, len(reserves))
	for i, reserve := range reserves {
		_, named := ledger.UnpackAccount(reserve.ID)
		psps[i] = named.ISPB
	}
	if len(psps) > 0 {
		if answer.Participants, problem = p.read(r.Context(), psps); problem != nil {
			return nil, problem
		}
	}
	return answer, nil
}

// read returns those of the banks that take part, all in one look-up: only then do
// reserve and transit belong to one instant.
func (p *participants) read(ctx context.Context, psps []pix.ISPB) ([]participant, *web.Problem) {
	// Before the balances: only where the marker stands is all funding in them.
	population, problem := p.population(ctx)
	if problem != nil {
		return nil, problem
	}
	var ids []tb.Uint128
	for _, psp := range psps {
		ids = append(ids, ledger.ReserveAccount(psp), ledger.TransitAccount(psp))
	}
	found, problem := p.accounts.ask(ctx, ids)
	if problem != nil {
		return nil, problem
	}
	byID := make(map[tb.Uint128]tb.Account, len(found))
	for _, account := range found {
		byID[account.ID] = account
	}
	answer := []participant{}
	for _, psp := range psps {
		reserve, ok := byID[ledger.ReserveAccount(psp)]
		if !ok {
			continue
		}
		transit := byID[ledger.TransitAccount(psp)]
		one := participant{ISPB: string(psp), Reserve: balanceOf(reserve), Transit: balanceOf(transit)}
		if bank, ok := bankOf(population, psp); ok {
			law := threeLegs{FundedCentavos: int64(population.ReserveCentavos), DepositsCentavos: depositsOf(population, bank)}
			law.DifferenceCentavos = posted(reserve) + posted(transit) - (law.FundedCentavos - law.DepositsCentavos)
			law.Holds = law.DifferenceCentavos == 0
			one.Books = &law
		}
		answer = append(answer, one)
	}
	return answer, nil
}

// population returns what bootstrap funded, or nobody while it has not finished.
func (p *participants) population(ctx context.Context) (sandbox.Population, *web.Problem) {
	if known := p.funded.Load(); known != nil {
		return *known, nil
	}
	markers, problem := p.transfers.ask(ctx, []tb.Uint128{ledger.MarkerID})
	if problem != nil || len(markers) == 0 {
		return sandbox.Population{}, problem
	}
	population := populationOf(ledger.MarkerOf(markers[0].UserData128, markers[0].UserData64))
	p.funded.Store(&population)
	return population, nil
}

func populationOf(marker ledger.Marker) sandbox.Population {
	return sandbox.Population{Banks: int(marker.Banks), Customers: int(marker.Customers),
		DepositCentavos: marker.DepositCentavos, ReserveCentavos: marker.ReserveCentavos}
}

// bankOf returns which bank of the population has an ISPB.
func bankOf(p sandbox.Population, psp pix.ISPB) (int, bool) {
	number, err := strconv.Atoi(string(psp))
	first, _ := strconv.Atoi(string(p.Bank(0)))
	bank := number - first
	return bank, err == nil && bank >= 0 && bank < p.Banks
}
