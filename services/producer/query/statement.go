package query

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/field"
)

// Statement is the body of GET /v1/accounts/{ispb}/{branch}/{number}/statement.
type Statement struct {
	Lines      []StatementLine `json:"lines" nullable:"false" doc:"Newest first."`
	NextCursor string          `json:"next_cursor,omitempty" doc:"Asks for older lines; left out when there are none."`
}

// StatementLine is one movement. A hold that expires makes no line: the ledger releases the
// money by itself.
type StatementLine struct {
	At             time.Time `json:"at" doc:"By the ledger's clock."`
	Kind           string    `json:"kind" enum:"held,posted,released"`
	Direction      string    `json:"direction" enum:"debit,credit"`
	AmountCentavos int64     `json:"amount_centavos"`
	Code           uint16    `json:"code" doc:"Kind and leg: 1 a payment out, 3 a payment in, 9 funding, 11 a return out, 13 a return in, 44 a deposit, 45 a withdrawal."`
	EndToEndID     string    `json:"end_to_end_id,omitempty"`
	ReturnID       string    `json:"return_id,omitempty"`
	ReasonCode     string    `json:"reason_code,omitempty"`
}

// Statement answers GET /v1/accounts/{ispb}/{branch}/{number}/statement.
func (l *Ledger) Statement(r *http.Request) (*Statement, *web.Problem) {
	named, problem := AccountIn(r)
	if problem != nil {
		return nil, problem
	}

	limit, cursor, problem := l.pageOf(r)
	if problem != nil {
		return nil, problem
	}

	filter := tb.AccountFilter{AccountID: ledger.CustomerAccount(named),
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32()}
	if cursor != 0 {
		filter.TimestampMax = cursor - 1
	}
	ctx, cancel := context.WithTimeout(r.Context(), l.config.Timeout) // for all requests together
	defer cancel()

	var found []tb.Transfer
	for missing := limit + 1; missing > 0; missing = limit + 1 - len(found) { // one more, to know whether others follow
		filter.Limit = uint32(min(missing, ledger.ReadObjects))

		some, problem := query(ctx, l, transfersOf(filter))
		if problem != nil {
			return nil, problem
		}

		found = append(found, some...)
		if len(some) < int(filter.Limit) {
			break
		}
		filter.TimestampMax = some[len(some)-1].Timestamp - 1
	}

	if len(found) == 0 { // no movement, or no account
		known, problem := l.accounts.find(ctx, []tb.Uint128{filter.AccountID})
		if problem != nil {
			return nil, problem
		}

		if len(known) == 0 {
			return nil, UnknownAccount(named)
		}
	}
	page := &Statement{Lines: []StatementLine{}}

	if len(found) > limit {
		found = found[:limit]
		page.NextCursor = strconv.FormatUint(found[limit-1].Timestamp, 10)
	}

	for _, transfer := range found {
		page.Lines = append(page.Lines, lineOf(transfer, filter.AccountID))
	}

	return page, nil
}

func lineOf(transfer tb.Transfer, of ledger.AccountID) StatementLine {
	line := StatementLine{At: time.Unix(0, int64(transfer.Timestamp)).UTC(), Kind: "posted", Direction: "credit",
		AmountCentavos: ledger.Centavos(transfer.Amount), Code: transfer.Code,
		ReasonCode: pix.Reason(transfer.UserData32).String()}
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

// pageOf returns limit and cursor of a request. Cursor 0 is the first page.
func (l *Ledger) pageOf(r *http.Request) (limit int, cursor uint64, problem *web.Problem) {
	values := r.URL.Query()
	limit = min(100, l.config.PageMax)

	if text := values.Get("limit"); text != "" { // an empty one has been refused
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > l.config.PageMax {
			return 0, 0, field.Invalid("", "limit", text, pix.ReasonMalformed,
				"it must be from 1 to "+strconv.Itoa(l.config.PageMax)+" (PAGE_MAX)")
		}
	}

	if text := values.Get("cursor"); text != "" {
		var err error
		if cursor, err = strconv.ParseUint(text, 10, 64); err != nil || cursor < 2 || cursor > math.MaxInt64 {
			return 0, 0, field.Invalid("", "cursor", text, pix.ReasonMalformed,
				"it must be a next_cursor of an earlier response")
		}
	}

	return limit, cursor, nil
}
