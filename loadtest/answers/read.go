package answers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// read reads the state of a payment or return. It reports whether there was an answer.
func (c *Clients) read(ctx context.Context, id pix.EndToEndID) bool {
	status, text, span, err := c.ask(ctx, call{holder: string(id.Payer()), path: statePath(id)})
	if unavailable(status, err) {
		return false
	}
	c.see(id, status, text, span)

	return true
}

// see takes the state of a payment or return.
func (c *Clients) see(id pix.EndToEndID, status int, text []byte, span Span) {
	seen := answer{Span: span, Status: Unknown}

	if status != http.StatusNotFound {
		err := errors.New("it is not a state")
		if status == http.StatusOK {
			seen, err = parseAnswer(text, span)
		}

		if err != nil {
			c.refuse("%s: %d: %s (%v)", id, status, text, err)
			return
		}
	}
	c.Judge.take(id, seen, nil)
}

// followPayment reads the events of a payment until its end, on as many streams as that takes.
func (c *Clients) followPayment(ctx context.Context, id pix.EndToEndID) {
	for !c.stream(ctx, id) && again(ctx) {
	}
}

// stream reads one stream of events. It reports whether the payment has ended.
func (c *Clients) stream(patience context.Context, id pix.EndToEndID) (ended bool) {
	ctx, cancel := context.WithTimeout(patience, streamFor)
	defer cancel()
	from := time.Now()
	var before *answer

	_ = c.followEvents(ctx, call{holder: string(id.Payer()), path: statePath(id) + "/events"},
		func(_, data string) bool {
			if data == "" {
				return true
			}

			now, err := parseAnswer([]byte(data), Span{From: from, To: time.Now()})
			if err != nil {
				c.refuse("%s: the event %q: %v", id, data, err)
				ended = true
				return false
			}
			now.event = true
			c.Judge.take(id, now, before)
			before, ended = &now, now.Status == Ended

			return !ended
		})
	if !ended && patience.Err() == nil {
		c.refuseInCalm("%s: its events break off before its end, or do not come to it within %v", id, streamFor)
	}

	return ended
}

// followOn follows the settlements of a participant until the context ends, as a client that hangs
// up now and then, and sometimes loses what it read last.
func (c *Clients) followOn(ctx context.Context, bank pix.ISPB, random *rand.Rand) {
	for ctx.Err() == nil {
		_ = c.follow(ctx, bank, time.Duration(1+random.Int64N(int64(streamFor))), func() bool { return false })
		if random.IntN(4) == 0 {
			c.Judge.lose(bank)
		}
		again(ctx)
	}
}

// followToTheEnd follows the settlements of a participant until it knows all, or for finishMax. To look for what is
// untold after each event would take longer than the events.
func (c *Clients) followToTheEnd(ctx context.Context, bank pix.ISPB) {
	ctx, cancel := context.WithTimeout(ctx, finishMax)
	defer cancel()

	for c.Judge.untold(bank) {
		_ = c.follow(ctx, bank, 2*time.Second, func() bool { return false })
		if !again(ctx) {
			return
		}
	}
}

// follow reads a stream of settlements from where the participant's client is, for a time or until
// it is enough. The error says why it ended otherwise.
func (c *Clients) follow(ctx context.Context, bank pix.ISPB, longest time.Duration, enough func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()

	get := call{holder: string(bank), path: "/v1/settlements?participant=" + string(bank)}
	if at := c.Judge.position(bank); at != "" {
		get.header = map[string]string{"Last-Event-ID": at}
	}

	return c.followEvents(ctx, get, func(id, data string) bool {
		if err := c.Judge.tell(bank, id, data); err != nil {
			c.refuse("settlements of %s: the event %q: %v", bank, data, err)
			return false
		}

		return !enough()
	})
}

var pageLimits = []int{1, 2, 3, 5, 7, 20, 100}

// pagesMax bounds a reading of a statement while payments flow.
const pagesMax = 20

// readStatement reads the statement of an account page by page, at most so many (0: all). It
// reports whether it was answered.
func (c *Clients) readStatement(ctx context.Context, account pix.Account, limit, pages int) bool {
	r := reading{account: account, asked: time.Now()}
	for number, cursor := 1, ""; ; number++ {
		path := fmt.Sprintf("/v1/accounts/%s/statement?limit=%d", account, limit)
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		var page struct {
			Lines []statementLine `json:"lines"`
			Next  string          `json:"next_cursor"`
		}

		_, told, right := c.get(ctx, string(account.ISPB), path, http.StatusOK, &page)
		for !told && again(ctx) {
			_, told, right = c.get(ctx, string(account.ISPB), path, http.StatusOK, &page)
		}

		if !right {
			return told
		}

		if len(page.Lines) > limit {
			c.refuse("%s: %d lines", path, len(page.Lines))
			return true
		}
		r.lines = append(r.lines, page.Lines...)
		// the same page for ever is judged, too
		if r.complete = page.Next == ""; r.complete || number == pages || page.Next == cursor {
			c.Judge.count(toldLines, len(r.lines))
			c.Judge.takeClaim(toldStatements, ledger.CustomerAccount(account), r.conclude)
			return true
		}
		cursor = page.Next
	}
}

// readBalance reads the balance of an account. It reports whether it was answered.
func (c *Clients) readBalance(ctx context.Context, account pix.Account) (told bool) {
	b, right := balance{account: account}, false

	b.Span, told, right = c.get(ctx, string(account.ISPB), "/v1/accounts/"+account.String(), http.StatusOK, &b)
	if right {
		c.Judge.takeClaim(toldBalances, ledger.CustomerAccount(account), b.conclude)
	}

	return told
}

// ReadDays reads the statements of all banks, from the day in which the ledger began until
// now by its own clock.
func (c *Clients) ReadDays(ctx context.Context, client tigerbeetle.Client) error {
	var span [2]time.Time // of the first and the last transfer
	for last := range span {
		found, err := client.QueryTransfers(
			tb.QueryFilter{Ledger: ledger.Ledger, Limit: 1, Flags: tb.QueryFilterFlags{Reversed: last == 1}.ToUint32()})
		if err != nil || len(found) == 0 {
			return fmt.Errorf("the ledger has %d transfers (%w)", len(found), err)
		}
		span[last] = ledgerTime(found[0].Timestamp)
	}

	for _, bank := range c.banks() {
		for day := pix.DayOf(span[0]); day.Begins().Before(span[1]); day = day.Next() {
			until := span[1]
			if ends := day.Next().Begins(); ends.Before(until) {
				until = ends
			}

			text, err := c.readDay(ctx, bank, day, until)
			if err != nil {
				return err
			}
			c.Judge.takeClaim(toldDays, ledger.ReserveAccount(bank), dayReading{bank, day, until, text}.conclude)
		}
	}

	return nil
}

// readDay reads one statement, until it is whole.
func (c *Clients) readDay(ctx context.Context, bank pix.ISPB, day pix.Day, until time.Time) ([]byte, error) {
	get := call{holder: keys.CentralBank, path: fmt.Sprintf("/v1/participants/%s/statements/%v?format=csv&until=%s",
		bank, day, url.QueryEscape(until.Format(time.RFC3339Nano)))}
	for {
		status, text, _, err := c.askOn(ctx, &c.streams, get, dayMax)
		switch {
		case err == nil && status == http.StatusOK:
			return text, nil
		case !unavailable(status, err) && status != http.StatusConflict: // the day ends soon by the ledger's clock
			return nil, fmt.Errorf("%s: %d %s", get.path, status, text)
		}

		if !again(ctx) {
			return nil, fmt.Errorf("%s was not answered: %d %s (%w)", get.path, status, text, cmp.Or(err, context.Cause(ctx)))
		}
	}
}
