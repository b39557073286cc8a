package client

import (
	"context"
	"crypto/rand"
	"iter"
	"net/url"
	"time"
)

// The acts of the central bank on a participant, and of a participant on its own account.
const (
	Register     = "register"
	Suspend      = "suspend"
	Resume       = "resume"
	LiquidityIn  = "liquidity-in"
	LiquidityOut = "liquidity-out"
	PaymentCap   = "payment-cap"
	DayCap       = "day-cap"
	NightCap     = "night-cap"
	NameKey      = "name-key" // and RevokeKey: a participant does them, too, on itself
	RevokeKey    = "revoke-key"
	NameSeal     = "name-seal"
	RevokeSeal   = "revoke-seal"

	Open     = "open"
	Block    = "block"
	Close    = "close"
	Reopen   = "reopen"
	Deposit  = "deposit"
	Withdraw = "withdraw"
)

// ParticipantAct is an act on a participant.
type ParticipantAct struct {
	Act            string `json:"act"`
	AmountCentavos int64  `json:"amount_centavos,omitempty"` // of LiquidityIn and LiquidityOut
	CapCentavos    *int64 `json:"cap_centavos,omitempty"`    // of caps; 0 lifts the cap
	WindowSeconds  int    `json:"window_seconds,omitempty"`  // of DayCap and NightCap, unless the cap is lifted
	// of a key or a seal: the first 48 hexadecimal digits of its SHA-256
	Digest string `json:"digest,omitempty"`
}

// AccountAct is an act on a customer's account.
type AccountAct struct {
	Act            string `json:"act"`
	AmountCentavos int64  `json:"amount_centavos,omitempty"` // of Deposit and Withdraw
}

// Act is an act that was done. Its id and time are the ledger's.
type Act struct {
	ID             string    `json:"id"`
	At             time.Time `json:"at"`
	Participant    string    `json:"participant"`
	Act            string    `json:"act"`
	By             string    `json:"by"` // an ISPB, or central-bank
	Account        *Account  `json:"account,omitempty"`
	AmountCentavos int64     `json:"amount_centavos,omitempty"`
	CapCentavos    *int64    `json:"cap_centavos,omitempty"`
	WindowSeconds  int       `json:"window_seconds,omitempty"`
	Digest         string    `json:"digest,omitempty"`
}

// ParticipantActDone is an act that was done, and the participant as it is now.
type ParticipantActDone struct {
	Act         Act         `json:"act"`
	Participant Participant `json:"participant"`
}

// AccountActDone is an act that was done, and the account as it is now.
type AccountActDone struct {
	Act     Act            `json:"act"`
	Account AccountBalance `json:"account"`
}

// ActPage is a page of acts, oldest first. NextCursor asks for what comes after it, also later.
type ActPage struct {
	Acts       []Act  `json:"acts"`
	NextCursor string `json:"next_cursor"`
}

// AccountPage is a page of the accounts that a participant has opened.
type AccountPage struct {
	Accounts   []AccountBalance `json:"accounts"`
	NextCursor string           `json:"next_cursor,omitempty"`
}

// NewActID returns the identity of an act. Store it before sending, to repeat the act after a crash.
func NewActID() string { return rand.Text() }

// ActOnParticipant does an act under an id until it is acknowledged, so that it is done once,
// whatever breaks. With an *UnknownFate it may have been done or not.
func (c *Client) ActOnParticipant(ctx context.Context, ispb, actID string,
	act ParticipantAct) (done ParticipantActDone, err error) {
	err = c.submit(ctx, call{operation: opActOnParticipant, values: []string{ispb, actID}, body: act}, actID, &done)
	return done, err
}

// ActOnAccount does an act on a customer's account, as ActOnParticipant does one on a participant.
func (c *Client) ActOnAccount(ctx context.Context, account Account, actID string,
	act AccountAct) (done AccountActDone, err error) {
	err = c.submit(ctx, call{operation: opActOnAccount, values: append(account.path(), actID), body: act}, actID, &done)
	return done, err
}

// Acts yields pages of the acts on a participant, or on all of them if ispb is empty, oldest first, from
// a cursor on (empty: from the first). Each page has the cursor after it: go on from there to follow
// them. It ends after the newest, or after an error.
func (c *Client) Acts(ctx context.Context, ispb, cursor string) iter.Seq2[ActPage, error] {
	return func(yield func(ActPage, error) bool) {
		for {
			ask := call{operation: opActs, query: url.Values{}}
			if ispb != "" {
				ask.operation, ask.values = opParticipantActs, []string{ispb}
			}

			if cursor != "" {
				ask.query.Set("cursor", cursor)
			}

			page, err := get[ActPage](ctx, c, ask)
			if !yield(page, err) || err != nil || page.NextCursor == cursor {
				return
			}
			cursor = page.NextCursor
		}
	}
}

// Accounts yields the accounts that a participant has opened, in that order. It ends after an error.
func (c *Client) Accounts(ctx context.Context, ispb string) iter.Seq2[AccountBalance, error] {
	return pages(0, func(query url.Values) ([]AccountBalance, string, error) {
		page, err := get[AccountPage](ctx, c, call{operation: opAccounts, values: []string{ispb}, query: query})
		return page.Accounts, page.NextCursor, err
	})
}
