package client

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// preferMax is how long the API is asked to hold its answer; longer waits follow the events.
const preferMax = 10 * time.Second

// UnknownFate is the error of a payment, or a return, that may or may not have been made.
type UnknownFate struct {
	EndToEndID string // or the return's id
	Err        error  // of the last try
}

func (e *UnknownFate) Error() string {
	return fmt.Sprintf("%v\nThe fate of %s is unknown: send the same again with this id, which is safe, or ask for its status", e.Err, e.EndToEndID)
}
func (e *UnknownFate) Unwrap() error { return e.Err }

// NewEndToEndID makes the identity of a payment that is sent within 12 hours. Who writes it
// down before sending can send the same payment again after a crash.
func NewEndToEndID(payer Account) (string, error) {
	if _, err := ParseAccount(payer.String()); err != nil { // the id is made of it
		return "", fmt.Errorf("payer: %w", err)
	}
	return pix.NewEndToEndID(pix.ISPB(payer.ISPB), time.Now(), random).String(), nil
}

// Pay sends a payment until it is acknowledged, each time with the same EndToEndId, which
// is made first when there is none: so it is made once, whatever breaks. It then waits so
// long for the outcome; the state returned is not final when that was too short, and
// Accepted when wait is 0. An *UnknownFate says that no try was acknowledged, though one may have been taken.
func (c *Client) Pay(ctx context.Context, payment Payment, wait time.Duration) (PaymentState, error) {
	if payment.EndToEndID == "" {
		var err error
		if payment.EndToEndID, err = NewEndToEndID(payment.Payer); err != nil {
			return PaymentState{}, err
		}
	}
	until := time.Now().Add(wait)
	var state PaymentState
	if open, err := c.ask(ctx, call{operation: opPay, body: payment}.held(wait), &state); err != nil {
		if open {
			err = &UnknownFate{payment.EndToEndID, err}
		}
		return PaymentState{EndToEndID: payment.EndToEndID, Status: Unknown}, err
	}
	return awaitEnd(ctx, "payment "+state.EndToEndID, state, until, func(ctx context.Context) (PaymentState, error) {
		return c.Follow(ctx, state.EndToEndID, nil)
	})
}

// held asks to hold the answer of a call for the outcome.
func (c call) held(wait time.Duration) call {
	if wait = min(wait, preferMax).Truncate(time.Second); wait > 0 {
		c.longer = wait
		c.header = map[string]string{"Prefer": fmt.Sprintf("wait=%d", wait/time.Second)}
	}
	return c
}

// awaitEnd follows what was taken to its end, or for so long.
func awaitEnd[S outcome](ctx context.Context, what string, state S, until time.Time, follow func(context.Context) (S, error)) (S, error) {
	if state.Final() || !time.Now().Before(until) {
		return state, nil
	}
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	seen, err := follow(waiting)
	if seen.reached() != "" {
		state = seen
	}
	if err == nil || !time.Now().Before(until) && ctx.Err() == nil { // only the wait is over
		return state, nil
	}
	return state, fmt.Errorf("%s was taken, but its outcome was not seen: %w", what, err)
}

// Payment asks what became of a payment. An error that NotFound tells: the ledger does not
// know it (yet).
func (c *Client) Payment(ctx context.Context, endToEndID string) (PaymentState, error) {
	var state PaymentState
	_, err := c.ask(ctx, call{operation: opPayment, values: []string{endToEndID}}, &state)
	return state, err
}

// GiveBack sends a return as Pay does a payment. Its id names the bank that gives back, the
// payee's of the original: to make one, the original is asked for.
func (c *Client) GiveBack(ctx context.Context, order ReturnOrder, wait time.Duration) (ReturnState, error) {
	if order.ReturnID == "" {
		original, err := c.Payment(ctx, order.OriginalEndToEndID)
		if err == nil && original.Payee == nil {
			err = fmt.Errorf("payment %s was refused before money was held: there is nothing to give back", order.OriginalEndToEndID)
		}
		if err != nil {
			return ReturnState{}, err
		}
		order.ReturnID = pix.NewReturnID(pix.ISPB(original.Payee.ISPB), time.Now(), random).String()
	}
	until := time.Now().Add(wait)
	var state ReturnState
	if open, err := c.ask(ctx, call{operation: opGiveBack, body: order}.held(wait), &state); err != nil {
		if open {
			err = &UnknownFate{order.ReturnID, err}
		}
		return ReturnState{ReturnID: order.ReturnID, Status: Unknown}, err
	}
	return awaitEnd(ctx, "return "+state.ReturnID, state, until, func(ctx context.Context) (ReturnState, error) {
		return c.FollowReturn(ctx, state.ReturnID, nil)
	})
}

// Return asks what became of a return, as Payment does of a payment.
func (c *Client) Return(ctx context.Context, returnID string) (ReturnState, error) {
	var state ReturnState
	_, err := c.ask(ctx, call{operation: opReturn, values: []string{returnID}}, &state)
	return state, err
}

// Balance asks what an account holds.
func (c *Client) Balance(ctx context.Context, account Account) (AccountBalance, error) {
	var balance AccountBalance
	_, err := c.ask(ctx, call{operation: opAccount, values: account.path()}, &balance)
	return balance, err
}

func (a Account) path() []string { return []string{a.ISPB, a.Branch, a.Number} }

// Statement yields what moved an account, newest first, asking for page after page of at
// most so many lines (0: as many as the server likes); it ends after an error.
func (c *Client) Statement(ctx context.Context, account Account, page int) iter.Seq2[StatementLine, error] {
	return pages(page, func(query url.Values) ([]StatementLine, string, error) {
		var statement Statement
		_, err := c.ask(ctx, call{operation: opStatement, values: account.path(), query: query}, &statement)
		return statement.Lines, statement.NextCursor, err
	})
}

// Participants yields all participants; it ends after an error.
func (c *Client) Participants(ctx context.Context) iter.Seq2[Participant, error] {
	return pages(0, func(query url.Values) ([]Participant, string, error) {
		var page ParticipantPage
		_, err := c.ask(ctx, call{operation: opParticipants, query: query}, &page)
		return page.Participants, page.NextCursor, err
	})
}

// Participant asks for one.
func (c *Client) Participant(ctx context.Context, ispb string) (Participant, error) {
	var participant Participant
	_, err := c.ask(ctx, call{operation: opParticipant, values: []string{ispb}}, &participant)
	return participant, err
}

func pages[V any](limit int, ask func(url.Values) ([]V, string, error)) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		query := url.Values{}
		if limit > 0 {
			query.Set("limit", strconv.Itoa(limit))
		}
		for {
			values, next, err := ask(query)
			if err != nil {
				yield(*new(V), err)
				return
			}
			for _, value := range values {
				if !yield(value, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

// random may be used by many goroutines: its source is the process's own.
var random = rand.New(processSource{})

type processSource struct{}

func (processSource) Uint64() uint64 { return rand.Uint64() }
