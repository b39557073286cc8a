package query

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/field"
)

// Act is an act of administration that was done.
type Act struct {
	ID             string         `json:"id" doc:"The ledger's id of its record: 32 hexadecimal digits. It is a function of who acts and of act_id."`
	At             time.Time      `json:"at" doc:"By the ledger's clock. The acts' order by it is the history."`
	Participant    string         `json:"participant"`
	Act            string         `json:"act" doc:"Its name in a request, or opening: what bootstrap brought to a participant."`
	By             string         `json:"by" doc:"Who did it: an ISPB, or central-bank."`
	Account        *field.Account `json:"account,omitempty"`
	AmountCentavos int64          `json:"amount_centavos,omitempty" doc:"What it moved. Below 0 only of an opening."`
	CapCentavos    *int64         `json:"cap_centavos,omitempty" nullable:"false" doc:"0: the cap was lifted."`
	WindowSeconds  int            `json:"window_seconds,omitempty"`
	Digest         string         `json:"digest,omitempty" doc:"Of a key or a seal: 48 hexadecimal digits."`
}

// ActNames are the names of acts in requests and responses.
var ActNames = map[ledger.ActKind]string{
	ledger.Joined: "register", ledger.Suspended: "suspend", ledger.Resumed: "resume",
	ledger.PaymentCapped: "payment-cap", ledger.DayCapped: "day-cap", ledger.NightCapped: "night-cap",
	ledger.LiquidityIn: "liquidity-in", ledger.LiquidityOut: "liquidity-out",
	ledger.AccountOpened: "open", ledger.AccountBlocked: "block", ledger.AccountClosed: "close",
	ledger.AccountReopened: "reopen",
	ledger.Deposit:         "deposit", ledger.Withdrawal: "withdraw",
	ledger.KeyNamed: "name-key", ledger.KeyRevoked: "revoke-key", ledger.SealNamed: "name-seal",
	ledger.SealRevoked: "revoke-seal",
	ledger.Opening:     "opening",
}

// ActOf returns an act as responses show it.
func ActOf(record tb.Transfer, act ledger.Act, at time.Time) Act {
	id := record.ID.BigInt()

	shown := Act{ID: fmt.Sprintf("%032x", &id), At: at, Participant: string(act.Bank), Act: ActNames[act.Kind],
		By: string(act.Bank), WindowSeconds: int(act.WindowSeconds)}
	if act.ByCentralBank {
		shown.By = keys.CentralBank
	}

	switch {
	case act.Kind.Caps():
		shown.CapCentavos = &act.Centavos
	case act.Kind.HasDigest():
		shown.Digest = hex.EncodeToString(act.Digest[:])
	default:
		shown.AmountCentavos = act.Centavos
	}

	if act.Kind.OfAccount() {
		shown.Account = new(field.AccountOf(act.Account))
	}

	return shown
}

// ActPage is the body of GET /v1/acts and GET /v1/participants/{ispb}/acts.
type ActPage struct {
	Acts       []Act  `json:"acts" nullable:"false" doc:"Oldest first."`
	NextCursor string `json:"next_cursor" doc:"Asks for what comes after this page, now or later."`
}

// Acts answers GET /v1/acts.
func (l *Ledger) Acts(r *http.Request) (*ActPage, *web.Problem) {
	return l.acts(r, ledger.RegisterAccount, func(now *register.State) uint64 { return now.ReadTo })
}

// ParticipantActs answers GET /v1/participants/{ispb}/acts.
func (l *Ledger) ParticipantActs(r *http.Request) (*ActPage, *web.Problem) {
	psp, problem := l.participantIn(r)
	if problem != nil {
		return nil, problem
	}

	return l.acts(r, ledger.BooksAccount(psp), func(now *register.State) uint64 {
		if p := now.Participant(psp); p != nil {
			return p.ActedTo
		}

		return math.MaxUint64
	})
}

// participantIn returns the participant in the path, which is there. It asks the ledger about one that the
// register does not know yet.
func (l *Ledger) participantIn(r *http.Request) (pix.ISPB, *web.Problem) {
	psp, problem := ISPBOf(r)
	if problem != nil {
		return psp, problem
	}

	if state, _ := l.register.Current(); state.Participant(psp) != nil {
		return psp, nil
	}

	found, problem := l.FindAccounts(r.Context(), ledger.ReserveAccount(psp))
	if problem == nil && len(found) == 0 {
		problem = UnknownParticipant(string(psp))
	}

	return psp, problem
}

// acts returns the acts of an account of the register, from a cursor on. last is the ledger's timestamp of
// the last one in the register. It is no use to ask for later ones while the register is fresh. So whoever
// follows acts costs the ledger nothing: five banks that did so once a second were half of its reads.
func (l *Ledger) acts(r *http.Request, of ledger.AccountID,
	last func(*register.State) uint64) (*ActPage, *web.Problem) {
	limit, cursor, problem := l.pageOf(r)
	if problem != nil {
		return nil, problem
	}

	if state, fresh := l.register.Current(); fresh && cursor >= last(state) {
		return &ActPage{Acts: []Act{}, NextCursor: strconv.FormatUint(max(cursor, cursorMin), 10)}, nil
	}
	filter := tb.AccountFilter{AccountID: of, Limit: uint32(limit), TimestampMin: cursor + 1,
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()}

	ctx := r.Context()
	if limit <= ledger.ReadObjects && l.pages.take(access.Of(r).Name()) {
		ctx = Paying(ctx)
	}

	found, problem := query(ctx, l, transfersOf(filter))
	if problem != nil {
		return nil, problem
	}

	page := &ActPage{Acts: []Act{}, NextCursor: strconv.FormatUint(max(cursor, cursorMin), 10)}
	for i := range found {
		page.NextCursor = strconv.FormatUint(found[i].Timestamp, 10)
		if act, at, err := ledger.ActOf(found[i]); err == nil { // else of a later version, or forged: the audit says so
			page.Acts = append(page.Acts, ActOf(found[i], act, at))
		}
	}

	return page, nil
}

// A bank that starts takes nothing in before it has read which accounts are blocked, and all who pay it wait, and
// ask. So some pages of acts are no reads: in its part of those, a bank would wait behind what waits for it.
const (
	pagesMax   = 10 // a second, of all callers
	pagesOfOne = 2  // a second, of a caller
	// pageCallersMax bounds the memory. Then all begin anew.
	pageCallersMax = 10_000
)

// actPages counts the pages of acts that are no reads.
type actPages struct {
	all *rate.Limiter
	mu  sync.Mutex
	of  map[string]*rate.Limiter
}

func newActPages() *actPages {
	return &actPages{all: rate.NewLimiter(pagesMax, pagesMax), of: map[string]*rate.Limiter{}}
}

// take reports whether a caller may have such a page now.
func (p *actPages) take(caller string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	if len(p.of) >= pageCallersMax {
		clear(p.of)
	}

	if p.of[caller] == nil {
		p.of[caller] = rate.NewLimiter(pagesOfOne, pagesOfOne)
	}

	return p.of[caller].Allow() && p.all.Allow()
}

// Register returns the state of the register, which is fresh.
func (l *Ledger) Register() (*register.State, *web.Problem) {
	if state, fresh := l.register.Current(); fresh {
		return state, nil
	}

	return nil, &web.Problem{Type: web.Kind("register-away"), Title: "The register cannot be read",
		Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Detail: "nothing was sent or done: who is suspended and what is blocked was not read for 2 s; try again later"}
}

// NewestRegister returns a state of the register that was asked for after the call.
func (l *Ledger) NewestRegister(ctx context.Context) (*register.State, *web.Problem) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()

	state, err := l.register.Newer(ctx)
	if err != nil {
		return nil, ledgerAway(l.config.Timeout)
	}

	return state, nil
}

// Reach waits until Register holds an act of this ledger time.
func (l *Ledger) Reach(ctx context.Context, at time.Time) *web.Problem {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()

	if _, err := l.register.Reach(ctx, uint64(at.UnixNano())); err != nil {
		return ledgerAway(l.config.Timeout)
	}

	return nil
}

// HasJoined reports whether a bank is a participant. It asks the ledger about one that the register
// does not know yet.
func (l *Ledger) HasJoined(ctx context.Context, psp pix.ISPB) (bool, *web.Problem) {
	if state, _ := l.register.Current(); state.Participant(psp) != nil {
		return true, nil
	}
	filter := tb.AccountFilter{AccountID: ledger.BooksAccount(psp), Code: uint16(ledger.Joined), Limit: 1,
		Flags: tb.AccountFilterFlags{Credits: true}.ToUint32()}
	found, problem := query(ctx, l, transfersOf(filter))

	return len(found) > 0, problem
}

// FindAccounts returns those of the accounts that exist, by their ids.
func (l *Ledger) FindAccounts(ctx context.Context, ids ...tb.Uint128) (map[tb.Uint128]tb.Account, *web.Problem) {
	found, problem := l.accounts.find(ctx, ids)

	accounts := make(map[tb.Uint128]tb.Account, len(found))
	for _, account := range found {
		accounts[account.ID] = account
	}

	return accounts, problem
}

// FindTransfers returns those of the transfers that exist.
func (l *Ledger) FindTransfers(ctx context.Context, ids []tb.Uint128) ([]tb.Transfer, *web.Problem) {
	return l.transfers.find(ctx, ids)
}

// AccountPage is the body of GET /v1/participants/{ispb}/accounts.
type AccountPage struct {
	Accounts   []AccountBalance `json:"accounts" nullable:"false" doc:"In the order in which they were opened."`
	NextCursor string           `json:"next_cursor,omitempty"`
}

// OpenedBy returns the account to create when a participant opens one: the ledger keeps which act
// did it, so that no other act can.
func OpenedBy(account pix.Account, record tb.Uint128) tb.Account {
	opened := ledger.NewAccount(ledger.CustomerAccount(account))
	opened.UserData128, opened.UserData64 = record, account.ISPB.Pack()
	return opened
}

// OpenedAccounts answers GET /v1/participants/{ispb}/accounts, from the acts that opened them.
func (l *Ledger) OpenedAccounts(r *http.Request) (*AccountPage, *web.Problem) {
	psp, problem := l.participantIn(r)
	if problem != nil {
		return nil, problem
	}

	limit, cursor, problem := l.pageOf(r)
	if problem != nil {
		return nil, problem
	}
	filter := tb.AccountFilter{AccountID: ledger.BooksAccount(psp), Code: uint16(ledger.AccountOpened),
		TimestampMin: cursor + 1, Limit: uint32(limit + 1),
		Flags: tb.AccountFilterFlags{Credits: true}.ToUint32()}

	records, problem := query(r.Context(), l, transfersOf(filter))
	if problem != nil {
		return nil, problem
	}
	page := &AccountPage{Accounts: []AccountBalance{}}

	if len(records) > limit {
		records = records[:limit]
		page.NextCursor = strconv.FormatUint(records[limit-1].Timestamp, 10)
	}
	var ids []tb.Uint128

	for _, record := range records {
		if act, _, err := ledger.ActOf(record); err == nil { // else of a later version, or forged: the audit says so
			ids = append(ids, ledger.CustomerAccount(act.Account))
		}
	}

	accounts, problem := l.FindAccounts(r.Context(), ids...)
	if problem != nil {
		return nil, problem
	}

	state, problem := l.Register()
	if problem != nil {
		return nil, problem
	}

	for _, id := range ids {
		if account, there := accounts[id]; there { // else the act is forged
			page.Accounts = append(page.Accounts, accountBalanceOf(account, state))
		}
	}

	return page, nil
}

// cursorMin is a cursor before everything: those of requests begin there.
const cursorMin = 2
