package query

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/field"
)

// DayStatement is the body of GET /v1/participants/{ispb}/statements/{day}. It holds nothing but
// what the ledger dates before To, so it is the same whenever it is read.
type DayStatement struct {
	DayBalances
	Lines          []DayLine `json:"lines" nullable:"false" doc:"What moved the reserve, oldest first."`
	Counterparties []DaySum  `json:"counterparties" nullable:"false" doc:"Sums by counterparty, in the order of their names."`
}

// DayBalances says whose day it is, and how the reserve stood at both ends: opening + credit - debit
// = closing.
type DayBalances struct {
	Participant     string    `json:"participant"`
	Day             string    `json:"day" doc:"In São Paulo's time."`
	From            time.Time `json:"from" doc:"The first instant of the day, by the ledger's clock."`
	To              time.Time `json:"to" doc:"The first instant after it: of the next day, or until."`
	OpeningCentavos int64     `json:"opening_centavos"`
	CreditCentavos  int64     `json:"credit_centavos" doc:"The sum of all credits."`
	DebitCentavos   int64     `json:"debit_centavos" doc:"The sum of all debits."`
	ClosingCentavos int64     `json:"closing_centavos"`
}

// DayLine is one movement of the reserve.
type DayLine struct {
	At              time.Time `json:"at" doc:"By the ledger's clock."`
	Kind            string    `json:"kind" doc:"payment, return, funding, liquidity, or code and the ledger's transfer code."`
	ID              string    `json:"id" doc:"The EndToEndId of a payment, the id of a return, or the ledger's transfer id: 32 hexadecimal digits."`
	Counterparty    string    `json:"counterparty" doc:"The ISPB of the other bank, or central-bank."`
	Direction       string    `json:"direction" enum:"debit,credit"`
	AmountCentavos  int64     `json:"amount_centavos"`
	BalanceCentavos int64     `json:"balance_centavos" doc:"The reserve after it."`
}

// DaySum is what moved between the participant and a counterparty.
type DaySum struct {
	Counterparty   string `json:"counterparty"`
	Credits        int64  `json:"credits" doc:"How many lines."`
	CreditCentavos int64  `json:"credit_centavos"`
	Debits         int64  `json:"debits" doc:"How many lines."`
	DebitCentavos  int64  `json:"debit_centavos"`
}

// dayRequest is a valid request for a statement.
type dayRequest struct {
	psp    pix.ISPB
	day    pix.Day
	to     time.Time
	format dayFormat
}

func dayRequestOf(r *http.Request) (q dayRequest, problem *web.Problem) {
	wrong := func(name, text, detail string) *web.Problem {
		return field.Invalid("", name, text, pix.ReasonMalformed, detail)
	}

	var err error
	if q.psp, err = pix.ParseISPB(r.PathValue("ispb")); err != nil {
		return q, wrong("ispb", r.PathValue("ispb"), err.Error())
	}

	if q.day, err = pix.ParseDay(r.PathValue("day")); err != nil {
		return q, wrong("day", r.PathValue("day"), err.Error())
	}
	q.to = q.day.Next().Begins()

	values := r.URL.Query()
	if text := values.Get("until"); text != "" {
		until, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || !until.After(q.day.Begins()) || until.After(q.to) {
			return q, wrong("until", text,
				fmt.Sprintf("it must be a time after %s and at most %s, as in RFC 3339", instant(q.day.Begins()),
					instant(q.to)))
		}
		q.to = until.UTC()
	}
	name := cmp.Or(values.Get("format"), "json")

	format, known := dayFormats[name]
	if !known {
		return q, wrong("format", name, "it must be json, csv or camt053")
	}
	q.format = format

	return q, nil
}

// DayStatement serves GET /v1/participants/{ispb}/statements/{day}. It sends the lines as it reads
// them: a day may have millions.
func (l *Ledger) DayStatement(w http.ResponseWriter, r *http.Request) *web.Problem {
	if !r.ProtoAtLeast(1, 1) {
		return &web.Problem{Type: web.Kind("http-version"), Title: "HTTP version not supported",
			Status: http.StatusHTTPVersionNotSupported,
			Detail: "before HTTP/1.1 a response that breaks off looks whole: use HTTP/1.1; a proxy may have to be told to"}
	}
	q, problem := dayRequestOf(r)

	caller := access.Of(r).Name()
	if problem == nil {
		problem = l.days.Take(caller)
	}

	if problem != nil {
		return problem
	}
	defer l.days.Free(caller)
	ctx, done := web.Bound(r.Context(), l.stopping, l.config.DayTimeMax)
	defer done()
	response := &patient{ctx: ctx, to: w, control: http.NewResponseController(w)}

	balances, problem := l.dayBalances(ctx, q)
	if problem == nil {
		web.NoReadDeadline(w)
		w.Header().Set("Content-Type", q.format.mediaType)
		w.Header().Set("Cache-Control", "no-store")
		problem = l.sendDay(ctx, balances, q.format, response)
	}

	if problem != nil && response.began {
		panic(http.ErrAbortHandler) // a broken connection, not the end of a response
	}

	if problem != nil {
		// an error means that there is no deadline
		_ = response.control.SetWriteDeadline(time.Now().Add(dayWriteTimeout))
	}

	return problem
}

// patient gives a client time for each part of a response, instead of for all of it.
type patient struct {
	ctx     context.Context
	to      http.ResponseWriter
	control *http.ResponseController
	began   bool
}

func (p *patient) Write(text []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	p.began = true

	deadline := time.Now().Add(dayWriteTimeout)
	if ends, bounded := p.ctx.Deadline(); bounded && ends.Before(deadline) {
		deadline = ends
	}
	_ = p.control.SetWriteDeadline(deadline) // an error means that there is no deadline

	return p.to.Write(text)
}

const dayWriteTimeout = 10 * time.Second

// dayBalances returns the balances at both ends of a day that is over.
func (l *Ledger) dayBalances(ctx context.Context, q dayRequest) (DayBalances, *web.Problem) {
	id := ledger.ReserveAccount(q.psp)

	found, problem := l.accounts.find(ctx, []tb.Uint128{id})
	switch {
	case problem != nil:
		return DayBalances{}, problem
	case len(found) == 0:
		return DayBalances{}, UnknownParticipant(string(q.psp))
	case !found[0].AccountFlags().History:
		return DayBalances{}, &web.Problem{Type: web.Kind("no-history"), Title: "No history",
			Status: http.StatusConflict, Field: "ispb", Value: q.psp,
			Detail: "the ledger was made by an older version and keeps no history of this reserve, which cannot be added: statements of days need a new ledger"}
	}

	if opened := time.Unix(0, int64(found[0].Timestamp)).UTC(); !q.to.After(opened) {
		return DayBalances{}, &web.Problem{Type: web.Kind("unknown-day"), Title: "Unknown day",
			Status: http.StatusNotFound, Field: "day", Value: q.day.String(),
			Detail: fmt.Sprintf("the reserve was opened at %s: the first day is %v", instant(opened),
				pix.DayOf(opened))}
	}

	if problem := l.unfinished(ctx, q); problem != nil {
		return DayBalances{}, problem
	}
	b := DayBalances{Participant: string(q.psp), Day: q.day.String(), From: q.day.Begins(), To: q.to}

	opening, problem := l.balanceBefore(ctx, id, b.From)
	if problem != nil {
		return b, problem
	}

	closing, problem := l.balanceBefore(ctx, id, b.To)
	if problem != nil {
		return b, problem
	}
	b.OpeningCentavos, b.ClosingCentavos = ledger.Less(opening.CreditsPosted, opening.DebitsPosted),
		ledger.Less(closing.CreditsPosted, closing.DebitsPosted)

	b.CreditCentavos, b.DebitCentavos = ledger.Less(closing.CreditsPosted, opening.CreditsPosted),
		ledger.Less(closing.DebitsPosted, opening.DebitsPosted)
	if max(b.CreditCentavos, b.DebitCentavos) == math.MaxInt64 { // a sum that could only be told wrong
		return b, &web.Problem{Type: web.Kind("beyond-limit"), Title: "Too much", Status: http.StatusConflict,
			Field: "day", Value: q.day.String(),
			Rule:   "less than 9223372036854775807 (2^63-1) centavos of credits, and of debits, in a day",
			Detail: "more moved through the reserve on this day: its statement is not told; read the lines of its accounts"}
	}

	return b, nil
}

// unfinished returns a problem until the ledger's own clock has passed the end of what is asked
// for. Its timestamps only grow, so nothing can be added then; a clock of ours proves nothing, and only
// says when it is worth asking.
func (l *Ledger) unfinished(ctx context.Context, q dayRequest) *web.Problem {
	probe := l.clock.Load()
	if probe == nil {
		return &web.Problem{Type: web.Kind("ledger-away"), Title: "The ledger's time is not known yet",
			Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
			Detail: "the ledger has not answered since this producer started: ask again later"}
	}

	at := probe.At
	if at.Before(q.to) && !l.now().Before(q.to) {
		var problem *web.Problem
		if at, problem = l.probe(ctx); problem != nil {
			return problem
		}
	}

	if !at.Before(q.to) {
		return nil
	}

	return &web.Problem{Type: web.Kind("unfinished-day"), Title: "The day is not over", Status: http.StatusConflict,
		Field: "day", Value: q.day.String(),
		Rule: "a day that is over by the ledger's clock", RetryAfter: min(q.to.Sub(at), dayRetryMax) + time.Second,
		Detail: fmt.Sprintf("what is asked for ends at %s (%v ends at midnight in São Paulo), and the ledger's clock says %s: ask again after that, or for a part of the day with until",
			instant(q.to), q.day, instant(at))}
}

// dayRetryMax bounds Retry-After: a day may be thousands of years away.
const dayRetryMax = 24 * time.Hour

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// balanceBefore returns an account as it was before an instant.
func (l *Ledger) balanceBefore(ctx context.Context, id ledger.AccountID,
	before time.Time) (tb.AccountBalance, *web.Problem) {
	filter := tb.AccountFilter{AccountID: id, TimestampMax: uint64(before.UnixNano()) - 1, Limit: 1,
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32()}

	found, problem := patiently(ctx, l, balancesOf(filter))
	if problem != nil || len(found) == 0 { // none: nothing had moved yet
		return tb.AccountBalance{}, problem
	}

	return found[0], nil
}

// patiently makes an inquiry whenever the reader has its turn, because a statement that has begun cannot be refused:
// ctx bounds it.
func patiently[O any](ctx context.Context, l *Ledger, q inquiry[O]) ([]O, *web.Problem) {
	found, err := ledger.Query(ctx, l.reads, access.From(ctx).Name(), q.limit, true, q.ask)
	if err != nil {
		return nil, l.cutShort()
	}

	if closed := l.Closed(); closed != nil { // it may be another ledger's
		return nil, closed
	}

	return checked(l, q, found)
}

// cutShort is the response to a statement that ended before its first part.
func (l *Ledger) cutShort() *web.Problem {
	return &web.Problem{Type: web.Kind("ledger-away"), Title: "The statement was cut short",
		Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("the ledger did not answer within DAY_STATEMENT_TIME_MAX (%v), or this producer stops: ask again later",
			l.config.DayTimeMax)}
}

// dayPage is how many transfers of a day one request reads. They lie close together in the ledger, so it takes a few
// milliseconds, for which a payment may have to wait.
const dayPage = 4 * ledger.ReadObjects

// sendDay writes a statement page by page, and proves it: its lines sum up to the ledger's balances.
// It flushes each page that others follow; one page that fits the buffer is proved before it is sent.
func (l *Ledger) sendDay(ctx context.Context, balances DayBalances, format dayFormat, response *patient) *web.Problem {
	text := bufio.NewWriterSize(response, 64<<10)
	to := format.write(text)
	to.begin(balances)
	psp := pix.ISPB(balances.Participant)
	filter := tb.AccountFilter{AccountID: ledger.ReserveAccount(psp), Limit: uint32(min(l.config.IDsMax, dayPage)),
		Flags:        tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32(),
		TimestampMin: uint64(balances.From.UnixNano()), TimestampMax: uint64(balances.To.UnixNano()) - 1}
	sums := daySums{balance: balances.OpeningCentavos, by: map[string]*DaySum{}}

	for {
		found, problem := patiently(ctx, l, transfersOf(filter))
		if problem != nil {
			return problem
		}

		for i := range found {
			if line, moved := dayLineOf(&found[i], filter.AccountID); moved {
				sums.add(&line)

				if to.line(line) != nil {
					return l.cutShort()
				}
			}
		}

		if len(found) < int(filter.Limit) {
			break
		}

		if text.Flush() != nil || response.control.Flush() != nil { // a client gives up after a silence
			return l.cutShort()
		}
		filter.TimestampMin = found[len(found)-1].Timestamp + 1
	}

	if err := sums.prove(balances); err != nil {
		l.wrongDays.Inc()
		l.log.Error("a statement of a day is wrong", zap.String("participant", balances.Participant),
			zap.String("day", balances.Day), zap.String("request_id", response.to.Header().Get(web.RequestID)),
			zap.Error(err))

		return &web.Problem{Type: web.Kind("broken-law"), Title: "The statement is wrong",
			Status: http.StatusInternalServerError,
			Detail: "its lines do not lead to the ledger's own balances, so it is not sent: tell the operator; asking again does not help"}
	}

	if to.end(balances, sums.sorted()) != nil || text.Flush() != nil {
		return l.cutShort()
	}

	return nil
}

// dayLineOf returns the line of a transfer, if it moved the reserve: holds and their releases do
// not, nor do receipts and marks.
func dayLineOf(t *tb.Transfer, reserve ledger.AccountID) (line DayLine, moved bool) {
	flags := t.TransferFlags()
	if flags.Pending || flags.VoidPendingTransfer || t.Amount == (tb.Uint128{}) {
		return line, false
	}
	line = DayLine{At: time.Unix(0, int64(t.Timestamp)).UTC(), AmountCentavos: ledger.Centavos(t.Amount)}
	id := t.ID.BigInt()
	line.ID = fmt.Sprintf("%032x", &id)

	switch t.Code {
	case ledger.CodeLeg2:
		line.Kind = "payment"
		if named, err := ledger.EndToEndIDOf(*t); err == nil {
			line.ID = named.String()
		}
	case ledger.CodeReturnLeg2:
		line.Kind = "return"
		if named, err := ledger.ReturnIDOf(*t); err == nil {
			line.ID = named.String()
		}
	case ledger.CodeFunding:
		line.Kind = "funding"
	case uint16(ledger.LiquidityIn), uint16(ledger.LiquidityOut):
		line.Kind = "liquidity"
	default:
		line.Kind = "code " + strconv.Itoa(int(t.Code))
	}
	other := t.DebitAccountID

	line.Direction = "credit"
	if other == reserve {
		line.Direction, other = "debit", t.CreditAccountID
	}

	switch kind, of := ledger.UnpackAccount(other); kind {
	case ledger.Reserve:
		line.Counterparty = string(of.ISPB)
	case ledger.Issuance:
		line.Counterparty = keys.CentralBank
	default:
		line.Counterparty = ledger.AccountName(other)
	}

	return line, true
}

// daySums adds lines up.
type daySums struct {
	balance, credit, debit int64
	by                     map[string]*DaySum
}

// add counts a line, and sets its balance.
func (s *daySums) add(line *DayLine) {
	sum := s.by[line.Counterparty]
	if sum == nil {
		sum = &DaySum{Counterparty: line.Counterparty}
		s.by[line.Counterparty] = sum
	}

	if line.Direction == "credit" {
		sum.Credits++
		sum.CreditCentavos += line.AmountCentavos
		s.credit += line.AmountCentavos
		s.balance += line.AmountCentavos
	} else {
		sum.Debits++
		sum.DebitCentavos += line.AmountCentavos
		s.debit += line.AmountCentavos
		s.balance -= line.AmountCentavos
	}
	line.BalanceCentavos = s.balance
}

// prove compares the lines with the ledger's own history of the reserve.
func (s *daySums) prove(b DayBalances) error {
	if s.balance == b.ClosingCentavos && s.credit == b.CreditCentavos && s.debit == b.DebitCentavos {
		return nil
	}

	return fmt.Errorf("broken law: the lines credit %d, debit %d and lead from %d to %d centavos; the reserve was credited %d, debited %d and closed with %d",
		s.credit, s.debit, b.OpeningCentavos, s.balance, b.CreditCentavos, b.DebitCentavos, b.ClosingCentavos)
}

func (s *daySums) sorted() []DaySum {
	sums := []DaySum{}
	for _, name := range slices.Sorted(maps.Keys(s.by)) {
		sums = append(sums, *s.by[name])
	}

	return sums
}
