package client

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"time"
)

// preferMax is how long the API is asked to wait before it responds. Longer waits follow the events.
const preferMax = 10 * time.Second

// UnknownFate is the error of a payment or return that may or may not have been made.
type UnknownFate struct {
	EndToEndID string // or the id of the return
	Err        error  // of the last try
}

func (e *UnknownFate) Error() string {
	if nothingDone(e.Err) { // the last try; but for an earlier one this error would say all
		return fmt.Sprintf("%v\nBut an earlier try may have been taken, so the fate of %s is unknown: send the same again with this id, which is safe, or read its status",
			e.Err, e.EndToEndID)
	}

	return fmt.Sprintf("%v\nThe fate of %s is unknown: send the same again with this id, which is safe, or read its status",
		e.Err, e.EndToEndID)
}
func (e *UnknownFate) Unwrap() error { return e.Err }

// NewEndToEndID returns the identity of a payment that will be sent within 12 hours. Store it
// before sending, to send the same payment again after a crash.
func NewEndToEndID(payer Account) (string, error) {
	if _, err := ParseAccount(payer.String()); err != nil { // the id holds the ISPB
		return "", fmt.Errorf("payer: %w", err)
	}

	return newID("E", payer.ISPB), nil
}

// Pay sends a payment until it is acknowledged, each time with the same EndToEndId, so that it
// is made once, whatever breaks. It creates an EndToEndId if there is none. Then it waits for
// the outcome: the state is not final if wait was too short, and Accepted if wait is 0. With an
// *UnknownFate no try was acknowledged, but one may have been accepted. With an error for which
// OtherContent is true, the id belongs to another payment, and this one is not made.
func (c *Client) Pay(ctx context.Context, payment Payment, wait time.Duration) (PaymentState, error) {
	if payment.EndToEndID == "" {
		var err error
		if payment.EndToEndID, err = NewEndToEndID(payment.Payer); err != nil {
			return PaymentState{}, err
		}
	}
	id := payment.EndToEndID
	unknown := PaymentState{EndToEndID: id, Status: Unknown}

	return send(ctx, c, call{operation: opPay, body: payment}, opPaymentEvents, id, wait, unknown, payment.Is)
}

// send sends an order until it is acknowledged, and waits for the outcome of its content. unknown is its
// state before that.
func send[S outcome](
	ctx context.Context, c *Client, post call, events operation, id string, wait time.Duration, unknown S,
	is func(S) bool,
) (S, error) {
	until := time.Now().Add(wait)

	var accepted S
	if err := c.submit(ctx, post.held(wait), id, &accepted); err != nil {
		return unknown, err
	}

	state, err := awaitEnd(ctx, c, events, id, accepted, until)
	if err != nil || accepted.Final() || !state.Final() || is(state) {
		return state, err
	}
	// What is followed is the id. It may belong to other content, and a refusal does not show which: the
	// API compares what is sent with what the ledger knows, and takes only the same.
	var again S
	if _, err := c.ask(ctx, post, &again); OtherContent(err) {
		return unknown, err
	} else if err != nil {
		return accepted, fmt.Errorf("%s was accepted, but its outcome was not seen: %w", id, err)
	}

	return state, nil
}

// held asks the API to wait for the outcome before it responds.
func (c call) held(wait time.Duration) call {
	if wait = min(wait, preferMax).Truncate(time.Second); wait > 0 {
		c.longer = wait
		c.header = map[string]string{"Prefer": fmt.Sprintf("wait=%d", wait/time.Second)}
	}

	return c
}

// awaitEnd follows the events of an accepted payment or return until it ends, or until a time.
func awaitEnd[S outcome](
	ctx context.Context, c *Client, events operation, id string, state S, until time.Time,
) (S, error) {
	if state.Final() || !time.Now().Before(until) {
		return state, nil
	}
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()

	seen, err := followStates[S](waiting, c, call{operation: events, values: []string{id}}, nil)
	if seen.reached() != "" {
		state = seen
	}

	if err == nil || !time.Now().Before(until) && ctx.Err() == nil { // only the wait is over
		return state, nil
	}

	return state, fmt.Errorf("%s was accepted, but its outcome was not seen: %w", id, err)
}

// Payment returns the state of a payment. With an error for which NotFound is true, the ledger
// does not know the payment (yet).
func (c *Client) Payment(ctx context.Context, endToEndID string) (PaymentState, error) {
	return get[PaymentState](ctx, c, call{operation: opPayment, values: []string{endToEndID}})
}

// GiveBack sends a return, as Pay sends a payment. The return's id names the bank that gives
// back: to create one, GiveBack reads the original and takes the payee's bank.
func (c *Client) GiveBack(ctx context.Context, order ReturnOrder, wait time.Duration) (ReturnState, error) {
	if order.ReturnID == "" {
		original, err := c.Payment(ctx, order.OriginalEndToEndID)
		if err == nil && original.Payee == nil {
			err = fmt.Errorf("payment %s was refused before money was held: there is nothing to give back",
				order.OriginalEndToEndID)
		}

		if err != nil {
			return ReturnState{}, err
		}
		order.ReturnID = newID("D", original.Payee.ISPB)
	}
	id := order.ReturnID
	unknown := ReturnState{ReturnID: id, Status: Unknown}

	return send(ctx, c, call{operation: opGiveBack, body: order}, opReturnEvents, id, wait, unknown, order.Is)
}

// Return returns the state of a return, as Payment does for a payment.
func (c *Client) Return(ctx context.Context, returnID string) (ReturnState, error) {
	return get[ReturnState](ctx, c, call{operation: opReturn, values: []string{returnID}})
}

// Balance returns the balance of an account.
func (c *Client) Balance(ctx context.Context, account Account) (AccountBalance, error) {
	return get[AccountBalance](ctx, c, call{operation: opAccount, values: account.path()})
}

func (a Account) path() []string { return []string{a.ISPB, a.Branch, a.Number} }

// Statement yields the movements of an account, newest first, in pages of at most this many
// lines (0: the server decides). It ends after an error.
func (c *Client) Statement(ctx context.Context, account Account, page int) iter.Seq2[StatementLine, error] {
	return pages(page, func(query url.Values) ([]StatementLine, string, error) {
		page, err := get[Statement](ctx, c, call{operation: opStatement, values: account.path(), query: query})
		return page.Lines, page.NextCursor, err
	})
}

// Participants yields all participants. It ends after an error.
func (c *Client) Participants(ctx context.Context) iter.Seq2[Participant, error] {
	return pages(0, func(query url.Values) ([]Participant, string, error) {
		page, err := get[ParticipantPage](ctx, c, call{operation: opParticipants, query: query})
		return page.Participants, page.NextCursor, err
	})
}

// Issuance returns whether the acts explain all central-bank money.
func (c *Client) Issuance(ctx context.Context) (Issuance, error) {
	page, err := get[ParticipantPage](ctx, c, call{operation: opParticipants, query: url.Values{"limit": {"1"}}})
	return page.Issuance, err
}

// Participant returns one participant.
func (c *Client) Participant(ctx context.Context, ispb string) (Participant, error) {
	return get[Participant](ctx, c, call{operation: opParticipant, values: []string{ispb}})
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
