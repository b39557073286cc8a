package main

import (
	"math"
	"net/http"
	"strconv"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// accounts answers what customers own and what moved it.
type accounts struct{ *reads }

// accountBalance is the body of GET /v1/accounts/{ispb}/{branch}/{number}.
type accountBalance struct {
	ISPB               string `json:"ispb"`
	Branch             string `json:"branch"`
	Number             string `json:"number"`
	PostedCentavos     int64  `json:"posted_centavos" doc:"What is in it."`
	PendingOutCentavos int64  `json:"pending_out_centavos" doc:"The part that payments under way hold."`
	PendingInCentavos  int64  `json:"pending_in_centavos" doc:"What payments under way would add."`
	AvailableCentavos  int64  `json:"available_centavos" doc:"Posted less what is held."`
}

// balance is what an account holds at one instant.
type balance struct {
	PostedCentavos     int64 `json:"posted_centavos" doc:"What is in it."`
	PendingOutCentavos int64 `json:"pending_out_centavos" doc:"The part that payments under way hold."`
	PendingInCentavos  int64 `json:"pending_in_centavos" doc:"What payments under way would add."`
	AvailableCentavos  int64 `json:"available_centavos" doc:"Posted less what is held."`
}

func balanceOf(a tb.Account) balance {
	held := ledger.Centavos(a.DebitsPending)
	return balance{PostedCentavos: posted(a), PendingOutCentavos: held, PendingInCentavos: ledger.Centavos(a.CreditsPending), AvailableCentavos: posted(a) - held}
}

// ServeHTTP answers GET /v1/accounts/{ispb}/{branch}/{number}.
func (a accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	named, problem := accountIn(r)
	if problem == nil {
		var found []tb.Account
		if found, problem = a.accounts.ask(r.Context(), []tb.Uint128{ledger.CustomerAccount(named)}); problem == nil {
			if len(found) == 1 {
				b := balanceOf(found[0])
				web.WriteJSON(w, http.StatusOK, accountBalance{string(named.ISPB), named.Branch, named.Number, b.PostedCentavos, b.PendingOutCentavos, b.PendingInCentavos, b.AvailableCentavos})
				return
			}
			problem = unknownAccount(named)
		}
	}
	problem.Write(w)
}

// statement is the body of GET /v1/accounts/{ispb}/{branch}/{number}/statement.
type statement struct {
	Lines      []statementLine `json:"lines" nullable:"false" doc:"Newest first."`
	NextCursor string          `json:"next_cursor,omitempty" doc:"Asks for older lines; left out when there are none."`
}

// statementLine is one movement. What a payment holds and never resolves is released by
// the ledger at its expiry, which makes no line.
type statementLine struct {
	At             time.Time `json:"at" doc:"By the ledger's clock."`
	Kind           string    `json:"kind" enum:"held,posted,released"`
	Direction      string    `json:"direction" enum:"debit,credit"`
	AmountCentavos int64     `json:"amount_centavos"`
	Code           uint16    `json:"code" doc:"Kind and leg: 1 a payment out, 3 a payment in, 9 funding, 11 a return out, 13 a return in."`
	EndToEndID     string    `json:"end_to_end_id,omitempty"`
	ReturnID       string    `json:"return_id,omitempty"`
	ReasonCode     string    `json:"reason_code,omitempty"`
}

// statement answers GET /v1/accounts/{ispb}/{branch}/{number}/statement.
func (a accounts) statement(w http.ResponseWriter, r *http.Request) {
	if answer, problem := a.statementOf(r); problem != nil {
		problem.Write(w)
	} else {
		web.WriteJSON(w, http.StatusOK, answer)
	}
}

func (a accounts) statementOf(r *http.Request) (*statement, *web.Problem) {
	named, problem := accountIn(r)
	if problem != nil {
		return nil, problem
	}
	limit, cursor, problem := a.pageOf(r)
	if problem != nil {
		return nil, problem
	}
	filter := tb.AccountFilter{
		AccountID: ledger.CustomerAccount(named), Limit: uint32(limit + 1), // one more tells whether there are more
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32(),
	}
	if cursor != 0 {
		filter.TimestampMax = cursor - 1
	}
	found, problem := query(r.Context(), a.reads, func(c tigerbeetle.Client) ([]tb.Transfer, error) { return c.GetAccountTransfers(filter) })
	if problem != nil {
		return nil, problem
	}
	if len(found) == 0 { // no movement, or no account
		known, problem := a.accounts.ask(r.Context(), []tb.Uint128{filter.AccountID})
		if problem != nil {
			return nil, problem
		}
		if len(known) == 0 {
			return nil, unknownAccount(named)
		}
	}
	answer := &statement{Lines: []statementLine{}}
	if len(found) > limit {
		found = found[:limit]
		answer.NextCursor = strconv.FormatUint(found[limit-1].Timestamp, 10)
	}
	for _, transfer := range found {
		answer.Lines = append(answer.Lines, lineOf(transfer, filter.AccountID))
	}
	return answer, nil
}

func lineOf(transfer tb.Transfer, of ledger.AccountID) statementLine {
	line := statementLine{At: time.Unix(0, int64(transfer.Timestamp)).UTC(), Kind: "posted", Direction: "credit",
		AmountCentavos: ledger.Centavos(transfer.Amount), Code: transfer.Code, ReasonCode: pix.Reason(transfer.UserData32).String()}
	if transfer.DebitAccountID == of {
		line.Direction = "debit"
	}
	switch flags := transfer.TransferFlags(); {
	case flags.Pending:
		line.Kind = "held"
	case flags.VoidPendingTransfer:
		line.Kind = "released"
	}
	if transfer.Code >= ledger.CodeLeg1 && transfer.Code <= ledger.CodeLeg3 {
		if id, err := ledger.EndToEndIDOf(transfer); err == nil {
			line.EndToEndID = id.String()
		}
	}
	if transfer.Code >= ledger.CodeReturnLeg1 && transfer.Code <= ledger.CodeReturnLeg3 {
		if id, err := ledger.ReturnIDOf(transfer); err == nil {
			line.ReturnID = id.String()
		}
	}
	return line
}

// pageOf reads limit and cursor of a request; cursor 0 is the first page.
func (r *reads) pageOf(request *http.Request) (limit int, cursor uint64, problem *web.Problem) {
	values := request.URL.Query()
	limit = min(100, r.config.PageMax)
	if text := values.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > r.config.PageMax {
			return 0, 0, invalid("", "limit", text, pix.ReasonMalformed, "it must be from 1 to "+strconv.Itoa(r.config.PageMax)+" (PAGE_MAX)")
		}
	}
	if text := values.Get("cursor"); text != "" {
		var err error
		if cursor, err = strconv.ParseUint(text, 10, 64); err != nil || cursor < 2 || cursor > math.MaxInt64 {
			return 0, 0, invalid("", "cursor", text, pix.ReasonMalformed, "it must be a next_cursor of an earlier answer")
		}
	}
	return limit, cursor, nil
}

// accountIn reads the account that the path names.
func accountIn(r *http.Request) (pix.Account, *web.Problem) {
	named := account{r.PathValue("ispb"), r.PathValue("branch"), r.PathValue("number")}
	if err := named.pix().Validate(); err != nil {
		return pix.Account{}, invalid("", "account", named, pix.ReasonMalformed, err.Error())
	}
	return named.pix(), nil
}

func unknownAccount(named pix.Account) *web.Problem {
	return &web.Problem{Type: web.Kind("unknown-account"), Title: "Unknown account", Status: http.StatusNotFound, Field: "account", Value: accountOf(named),
		Code: pix.ReasonPayeeMissing.String(), Detail: "the ledger has no such account: correct ispb, branch and number"}
}
