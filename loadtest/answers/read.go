package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// read reads the state of a payment or return. It reports whether there was an answer.
func (c *Clients) read(ctx context.Context, id pix.EndToEndID) bool {
	from := time.Now()
	status, text, err := c.ask(ctx, call{holder: string(id.Payer()), method: http.MethodGet, path: statePath(id)})
	if unavailable(status, err) {
		return false
	}
	c.see(id, status, text, Span{From: from, To: time.Now()})
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
	defer c.following.Add(-1)
	if c.following.Add(1) > followedMax {
		return
	}
	for !c.stream(ctx, id) {
		if !again(ctx) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.unread = append(c.unread, id)
			return
		}
	}
}

// readToTheEnd reads the events of a payment that has ended. They must say so.
func (c *Clients) readToTheEnd(ctx context.Context, id pix.EndToEndID) {
	ctx, cancel := context.WithTimeout(ctx, finishMax)
	defer cancel()
	for !c.stream(ctx, id) {
		if !again(ctx) {
			c.refuse("%s: it has ended, and after %v its events do not say so", id, finishMax)
			return
		}
	}
}

// stream reads one stream of events. It reports whether the payment has ended.
func (c *Clients) stream(ctx context.Context, id pix.EndToEndID) (ended bool) {
	patience := ctx
	ctx, cancel := context.WithTimeout(ctx, streamFor)
	defer cancel()
	from := time.Now()
	response, err := c.do(ctx, &c.streams, call{holder: string(id.Payer()), method: http.MethodGet, path: "/v1/payments/" + id.String() + "/events"})
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		if !unavailable(response.StatusCode, nil) {
			c.refuse("%s: GET events: %d", id, response.StatusCode)
			return true
		}
		return false
	}
	var before *answer
	_ = events(io.LimitReader(response.Body, answerMax), func(_, data string) bool {
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
// up now and then, and sometimes loses its last steps.
func (c *Clients) followOn(ctx context.Context, bank pix.ISPB, random *rand.Rand) {
	for ctx.Err() == nil {
		_ = c.follow(ctx, bank, time.Duration(1+random.Int64N(int64(streamFor))), func() bool { return false })
		if random.IntN(4) == 0 {
			c.Judge.lose(bank, random.IntN(recentMax/2))
		}
		again(ctx)
	}
}

// followToTheEnd follows the settlements of a participant until it knows all, or for finishMax.
func (c *Clients) followToTheEnd(ctx context.Context, bank pix.ISPB) {
	ctx, cancel := context.WithTimeout(ctx, finishMax)
	defer cancel()
	for c.Judge.untold(bank) > 0 {
		_ = c.follow(ctx, bank, requestTimeout, func() bool { return c.Judge.untold(bank) == 0 })
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
	get := call{holder: string(bank), method: http.MethodGet, path: "/v1/settlements?participant=" + string(bank)}
	if at := c.Judge.position(bank); at != "" {
		get.header = map[string]string{"Last-Event-ID": at}
	}
	response, err := c.do(ctx, &c.streams, get)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		if !unavailable(response.StatusCode, nil) {
			c.refuse("settlements of %s: %d", bank, response.StatusCode)
		}
		return fmt.Errorf("its status is %s", response.Status)
	}
	stopped := false
	err = events(response.Body, func(id, data string) bool {
		if data == "" {
			c.Judge.passed(bank, id)
		} else if err := c.Judge.tell(bank, id, data); err != nil {
			c.refuse("settlements of %s: the event %q: %v", bank, data, err)
			return false
		}
		stopped = enough()
		return !stopped
	})
	if err != nil && ctx.Err() == nil { // a producer that ends a stream itself does so in order
		c.refuseInCalm("settlements of %s: the stream breaks off: %v", bank, err)
	}
	if !stopped {
		return errors.New("the stream breaks off")
	}
	return nil
}

var pageLimits = []int{1, 2, 3, 5, 7, 20, 100}

// pagesMax bounds a reading of a statement while payments flow.
const pagesMax = 20

// readStatement reads the statement of an account page by page, at most so many (0: all). It
// reports whether it was answered.
func (c *Clients) readStatement(ctx context.Context, account pix.Account, limit, pages int) bool {
	r := reading{account: account, asked: time.Now()}
	cursor := ""
	for page := 1; ; page++ {
		path := fmt.Sprintf("/v1/accounts/%s/statement?limit=%d", accountName(account), limit)
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		status, text, err := c.ask(ctx, call{holder: string(account.ISPB), method: http.MethodGet, path: path})
		for unavailable(status, err) && again(ctx) {
			status, text, err = c.ask(ctx, call{holder: string(account.ISPB), method: http.MethodGet, path: path})
		}
		if unavailable(status, err) {
			return false
		}
		lines, next, err := parseStatement(text)
		if status != http.StatusOK || err != nil || len(lines) > limit {
			c.refuse("%s: %d: %d lines (%v)", path, status, len(lines), err)
			return true
		}
		r.lines = append(r.lines, lines...)
		if r.complete = next == ""; r.complete || page == pages || next == cursor { // the same page for ever is judged, too
			c.Judge.takeReading(r)
			return true
		}
		cursor = next
	}
}

// readBalance reads the balance of an account. It reports whether it was answered.
func (c *Clients) readBalance(ctx context.Context, account pix.Account) bool {
	b := balance{account: account, Span: Span{From: time.Now()}}
	status, text, err := c.ask(ctx, call{holder: string(account.ISPB), method: http.MethodGet, path: "/v1/accounts/" + accountName(account)})
	if unavailable(status, err) {
		return false
	}
	b.To = time.Now()
	if err := json.Unmarshal(text, &b); status != http.StatusOK || err != nil {
		c.refuse("balance of %s: %d: %s (%v)", accountName(account), status, text, err)
		return true
	}
	c.Judge.takeBalance(b)
	return true
}

// readParticipants gives reserve, transit and books of all participants, which are of one instant, to the
// judge.
func (c *Clients) readParticipants(ctx context.Context) {
	status, text, err := c.ask(ctx, call{method: http.MethodGet, path: fmt.Sprintf("/v1/participants?limit=%d", min(c.Population.Banks, 1000))})
	if unavailable(status, err) {
		return
	}
	type held struct {
		Posted int64 `json:"posted_centavos"`
	}
	var page struct {
		Participants []struct {
			ISPB             pix.ISPB
			Reserve, Transit held
			Books            struct {
				Centavos int64 `json:"books_centavos"`
				Holds    bool
			} `json:"three_leg_invariant"`
		}
	}
	if err := json.Unmarshal(text, &page); status != http.StatusOK || err != nil {
		c.refuse("participants: %d: %s (%v)", status, text, err)
		return
	}
	funds := make([]int64, len(page.Participants))
	for i, p := range page.Participants {
		if p.ISPB != c.Population.Bank(i) || !p.Books.Holds {
			c.refuse("participants: the books of %s do not hold, or it is in another's place: %s", p.ISPB, text)
			return
		}
		funds[i] = p.Reserve.Posted + p.Transit.Posted - p.Books.Centavos
	}
	if len(funds) == c.Population.Banks {
		c.Judge.TakeFunds(funds)
	}
}
