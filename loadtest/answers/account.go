package answers

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// reading is what a client read of an account's statement, page by page from the newest line on.
type reading struct {
	account  pix.Account
	asked    time.Time // the first page
	lines    []statementLine
	complete bool // to the oldest line
}

// statementLine is a line of a statement.
type statementLine struct {
	At             time.Time `json:"at"`
	Kind           string    `json:"kind"`
	Direction      string    `json:"direction"`
	AmountCentavos int64     `json:"amount_centavos"`
	Code           uint16    `json:"code"`
	EndToEndID     string    `json:"end_to_end_id"`
	ReturnID       string    `json:"return_id"`
	ReasonCode     string    `json:"reason_code"`
}

func (l statementLine) String() string {
	return fmt.Sprintf("%s %s %s %d code %d %s%s %s", l.At.UTC().Format(time.RFC3339Nano), l.Kind, l.Direction, l.AmountCentavos, l.Code, l.EndToEndID, l.ReturnID, l.ReasonCode)
}

// parseStatement reads a page.
func parseStatement(text []byte) (lines []statementLine, next string, err error) {
	var page struct {
		Lines      []statementLine `json:"lines"`
		NextCursor string          `json:"next_cursor"`
	}
	err = json.Unmarshal(text, &page)
	return page.Lines, page.NextCursor, err
}

// takeReading takes a statement.
func (j *Judge) takeReading(r reading) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdict.Statements++
	j.verdict.StatementLines += len(r.lines)
	j.readings = append(j.readings, r)
}

// takeBalance takes a balance.
func (j *Judge) takeBalance(b balance) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdict.Balances++
	j.balances = append(j.balances, b)
}

// concludeAccounts compares statements and balances with the ledger. Transfers only come, so what
// the ledger says at the end also says how each account was at any time before.
func (j *Judge) concludeAccounts(client tigerbeetle.Client) error {
	truth := map[pix.Account]past{}
	find := func(account pix.Account) (past, error) {
		p, known := truth[account]
		if known {
			return p, nil
		}
		own := ledger.CustomerAccount(account)
		transfers, err := allOf(own, client.GetAccountTransfers, func(t tb.Transfer) uint64 { return t.Timestamp })
		p = pastOf(transfers, own)
		truth[account] = p
		return p, err
	}
	for _, r := range j.readings {
		p, err := find(r.account)
		if err != nil {
			return err
		}
		j.concludeReading(r, p.lines)
	}
	for _, b := range j.balances {
		p, err := find(b.account)
		if err != nil {
			return err
		}
		j.concludeBalance(b, p.levels)
	}
	return nil
}

// allOf returns what the ledger has of an account, oldest first.
func allOf[T any](account ledger.AccountID, page func(tb.AccountFilter) ([]T, error), at func(T) uint64) (all []T, err error) {
	filter := tb.AccountFilter{AccountID: account, Limit: eventsMax, Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()}
	for {
		found, err := page(filter)
		if err != nil {
			return nil, fmt.Errorf("the ledger does not tell the history of %s: %w", ledger.AccountName(account), err)
		}
		all = append(all, found...)
		if len(found) < eventsMax {
			return all, nil
		}
		filter.TimestampMin = at(found[len(found)-1]) + 1
	}
}

func lineOf(transfer tb.Transfer, of ledger.AccountID) statementLine {
	line := statementLine{
		At: time.Unix(0, int64(transfer.Timestamp)).UTC(), Kind: "posted", Direction: "credit", AmountCentavos: ledger.Centavos(transfer.Amount), //nolint:gosec // Unix time
		Code: transfer.Code, ReasonCode: pix.Reason(transfer.UserData32).String(),
	}
	if transfer.DebitAccountID == of {
		line.Direction = "debit"
	}
	if flags := transfer.TransferFlags(); flags.Pending {
		line.Kind = "held"
	} else if flags.VoidPendingTransfer {
		line.Kind = "released"
	}
	switch transfer.Code {
	case 1, 2, 3:
		if id, err := ledger.EndToEndIDOf(transfer); err == nil {
			line.EndToEndID = id.String()
		}
	case 11, 12, 13:
		if id, err := ledger.ReturnIDOf(transfer); err == nil {
			line.ReturnID = id.String()
		}
	}
	return line
}

func accountName(account pix.Account) string {
	return fmt.Sprintf("%s/%s/%s", account.ISPB, account.Branch, account.Number)
}

// concludeReading requires the lines of the ledger from the newest line that was told, in the same
// order and without a gap. Only lines that came after the question may be newer.
func (j *Judge) concludeReading(r reading, truth []statementLine) {
	subject := "statement of " + accountName(r.account) + ", asked " + r.asked.UTC().Format(timeOfDay)
	newer := len(truth)
	if len(r.lines) > 0 {
		newer = max(0, slices.IndexFunc(truth, func(l statementLine) bool { return !l.At.After(r.lines[0].At) }))
	}
	if newer > 0 && truth[newer-1].At.Before(r.asked.Add(-j.tolerance)) {
		j.contradict(subject, "a line is missing that was there before the question", truth[newer-1].String(), "")
		return
	}
	truth = truth[newer:]
	for i, line := range r.lines {
		if i == len(truth) {
			j.contradict(subject, "the ledger has no such line", "", line.String())
			return
		}
		if line.String() != truth[i].String() {
			j.contradict(subject, "a line is missing, repeated or wrong", "the ledger has "+truth[i].String(), "it says "+line.String())
			return
		}
	}
	if r.complete && len(r.lines) < len(truth) {
		j.contradict(subject, fmt.Sprintf("it ends %d lines too early", len(truth)-len(r.lines)), "the next line is "+truth[len(r.lines)].String(), "")
	}
}
