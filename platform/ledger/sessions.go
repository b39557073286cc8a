package ledger

import (
	"sync"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// sessions is several clients as one. A client sends one request at a time, and each may wait in the ledger
// behind a full request of an engine. So in one session a question waits for all those before it.
type sessions struct {
	mu       sync.Mutex
	sessions []session
	next     int // whose turn it is, of those with as few requests
}

type session struct {
	client   tigerbeetle.Client
	requests int // under way
}

// ConnectSessions is Connect with several sessions.
func ConnectSessions(config Config, count int) (tigerbeetle.Client, error) {
	s := &sessions{}
	for range count {
		client, err := Connect(config)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.sessions = append(s.sessions, session{client: client})
		go func() { // the first request of a session takes half a second
			_, _ = client.LookupAccounts([]tb.Uint128{IssuanceAccount})
		}()
	}
	return s, nil
}

// in asks in the session with the fewest requests. All of them have their turn: the ledger keeps 64 sessions, and
// for each more it evicts the one that was not used for longest.
func in[O any](s *sessions, ask func(tigerbeetle.Client) (O, error)) (O, error) {
	s.mu.Lock()
	least := &s.sessions[s.next]
	for i := range s.sessions {
		if other := &s.sessions[(s.next+i)%len(s.sessions)]; other.requests < least.requests {
			least = other
		}
	}
	s.next = (s.next + 1) % len(s.sessions)
	least.requests++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		least.requests--
	}()
	return ask(least.client)
}

func (s *sessions) CreateAccounts(accounts []tb.Account) ([]tb.AccountEventResult, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.AccountEventResult, error) { return c.CreateAccounts(accounts) })
}

func (s *sessions) CreateTransfers(transfers []tb.Transfer) ([]tb.TransferEventResult, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.TransferEventResult, error) { return c.CreateTransfers(transfers) })
}

func (s *sessions) LookupAccounts(ids []tb.Uint128) ([]tb.Account, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.Account, error) { return c.LookupAccounts(ids) })
}

func (s *sessions) LookupTransfers(ids []tb.Uint128) ([]tb.Transfer, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.Transfer, error) { return c.LookupTransfers(ids) })
}

func (s *sessions) GetAccountTransfers(filter tb.AccountFilter) ([]tb.Transfer, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.Transfer, error) { return c.GetAccountTransfers(filter) })
}

func (s *sessions) GetAccountBalances(filter tb.AccountFilter) ([]tb.AccountBalance, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.AccountBalance, error) { return c.GetAccountBalances(filter) })
}

func (s *sessions) QueryAccounts(filter tb.QueryFilter) ([]tb.Account, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.Account, error) { return c.QueryAccounts(filter) })
}

func (s *sessions) QueryTransfers(filter tb.QueryFilter) ([]tb.Transfer, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.Transfer, error) { return c.QueryTransfers(filter) })
}

func (s *sessions) GetChangeEvents(filter tb.ChangeEventsFilter) ([]tb.ChangeEvent, error) {
	return in(s, func(c tigerbeetle.Client) ([]tb.ChangeEvent, error) { return c.GetChangeEvents(filter) })
}

func (s *sessions) Nop() error {
	_, err := in(s, func(c tigerbeetle.Client) (struct{}, error) { return struct{}{}, c.Nop() })
	return err
}

func (s *sessions) Close() {
	for _, session := range s.sessions {
		session.client.Close()
	}
}
