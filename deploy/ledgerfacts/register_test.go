package ledgerfacts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/telemetry"
)

// openRegister creates the account of the register, once.
var openRegister = sync.OnceValue(func() error {
	return createAccounts(ledger.NewAccount(ledger.RegisterAccount))
})

// newParticipant creates a PSP that has joined.
func newParticipant(t testing.TB, reserve uint64) pix.ISPB {
	t.Helper()
	psp := newPSP(t, reserve)
	kit.Must(t, openRegister())
	kit.Must(t, createAccounts(ledger.NewAccount(ledger.BooksAccount(psp))))
	for _, act := range []ledger.Act{{Kind: ledger.Opening, Centavos: int64(reserve)}, {Kind: ledger.Joined}} {
		act.Bank = psp
		if result := do(t, "join-"+string(psp), act); !result.OK() {
			t.Fatalf("%s: %+v", act.Kind, result)
		}
	}
	return psp
}

// do does an act of the central bank.
func do(t testing.TB, id string, act ledger.Act) ledger.Result {
	t.Helper()
	act.ByCentralBank = true
	kit.Must(t, act.Validate())
	return shared.write(t, ledger.AppendAct(nil, keys.CentralBank, id, act))
}

func follow(t *testing.T, client tigerbeetle.Client, pageMax int) (*register.Register, *telemetry.Telemetry) {
	t.Helper()
	tel, err := telemetry.Start("test", telemetry.Config{LogLevel: "error", Address: "127.0.0.1:0"}, host.System())
	kit.Must(t, err)
	r := register.New(client, pageMax, tel)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		tel.Stop()
	})
	return r, tel
}

func awaitFresh(t *testing.T, r *register.Register, what string, met func(*register.State) bool) {
	t.Helper()
	kit.Await(t, what, func() (bool, string) {
		state, fresh := r.Current()
		return fresh && met(state), fmt.Sprintf("fresh %v, read to %d", fresh, state.ReadTo)
	})
}

// reserve + transit = books, in one look-up.
func checkBooks(t *testing.T, psp pix.ISPB, want int64) {
	t.Helper()
	found, err := client.LookupAccounts([]tb.Uint128{ledger.ReserveAccount(psp), ledger.TransitAccount(psp), ledger.BooksAccount(psp)})
	if err != nil || len(found) != 3 {
		t.Fatal(found, err)
	}
	posted := func(a tb.Account) int64 { return ledger.Less(a.CreditsPosted, a.DebitsPosted) }
	if money, books := posted(found[0])+posted(found[1]), posted(found[2]); money != books || books != want {
		t.Errorf("reserve and transit of %s are %d, its books %d, want %d", psp, money, books, want)
	}
}

// Each act is taken once, moves its money and its mirror together, and followers see it.
func TestActs(t *testing.T) {
	psp := newParticipant(t, 1_000_000)
	account := newCustomer(t, psp, 0)
	for i, c := range []struct {
		act   ledger.Act
		books int64
	}{
		{ledger.Act{Kind: ledger.AccountOpened, Account: account}, 1_000_000},
		{ledger.Act{Kind: ledger.LiquidityIn, Centavos: 500}, 1_000_500},
		{ledger.Act{Kind: ledger.Deposit, Account: account, Centavos: 70}, 1_000_430},
		{ledger.Act{Kind: ledger.Withdrawal, Account: account, Centavos: 20}, 1_000_450},
		{ledger.Act{Kind: ledger.LiquidityOut, Centavos: 450}, 1_000_000},
		{ledger.Act{Kind: ledger.Suspended}, 1_000_000},
		{ledger.Act{Kind: ledger.PaymentCapped, Centavos: 7}, 1_000_000},
		{ledger.Act{Kind: ledger.DayCapped, Centavos: 8, WindowSeconds: 3600}, 1_000_000},
		{ledger.Act{Kind: ledger.NightCapped, Centavos: 9, WindowSeconds: 120}, 1_000_000},
		{ledger.Act{Kind: ledger.AccountBlocked, Account: account}, 1_000_000},
		{ledger.Act{Kind: ledger.KeyNamed, Digest: ledger.ActDigest{1}}, 1_000_000},
		{ledger.Act{Kind: ledger.KeyNamed, Digest: ledger.ActDigest{2}}, 1_000_000},
		{ledger.Act{Kind: ledger.KeyRevoked, Digest: ledger.ActDigest{1}}, 1_000_000},
		{ledger.Act{Kind: ledger.SealNamed, Digest: ledger.ActDigest{3}}, 1_000_000},
		{ledger.Act{Kind: ledger.SealRevoked, Digest: ledger.ActDigest{3}}, 1_000_000},
	} {
		id := fmt.Sprintf("%s-%d", psp, i)
		c.act.Bank = psp
		for try := range 2 {
			result := do(t, id, c.act)
			if want := tb.TransferExists; try == 0 && !result.OK() || try == 1 && (result.Status != want || result.Index != 0) {
				t.Errorf("try %d of %s: %+v", try, c.act.Kind, result)
			}
			checkBooks(t, psp, c.books)
		}
		other := c.act
		other.Kind = ledger.AccountClosed
		other.Account, other.Centavos, other.WindowSeconds, other.Digest = account, 0, 0, ledger.ActDigest{}
		if result := do(t, id, other); !c.act.Kind.MovesMoney() && !result.Exists() || result.Status == tb.TransferExists || c.act.Kind.MovesMoney() && result.OK() {
			t.Errorf("another act with the id of %s: %+v", c.act.Kind, result)
		}
	}
	// With the server's largest page, and with pages that are full.
	for _, pageMax := range []int{8189, 1, 2} {
		r, _ := follow(t, client, pageMax)
		awaitFresh(t, r, "all acts", func(s *register.State) bool {
			return s.Participant(psp) != nil && len(s.Participant(psp).Seals) == 1 && s.Participant(psp).Seals[0].Revoked
		})
		state, _ := r.Current()
		p := state.Participant(psp)
		if !p.Suspended || !state.Suspended(psp) || p.PaymentCapCentavos != 7 || p.Outflow != [2]register.Cap{{Centavos: 8, WindowSeconds: 3600}, {Centavos: 9, WindowSeconds: 120}} ||
			!slices.Equal(p.Keys, []ledger.ActDigest{{2}}) || state.Account(account) != register.Blocked {
			t.Errorf("the register says %+v, and %d of the account", p, state.Account(account))
		}
		if state.Participant("99999999") != nil || state.Suspended("99999999") {
			t.Error("a bank that never joined is in the register")
		}
	}
}

// An act that the ledger refuses leaves nothing but its burnt id.
func TestRefusedActs(t *testing.T) {
	psp := newParticipant(t, 100)
	act := ledger.Act{Kind: ledger.LiquidityOut, Bank: psp, Centavos: 101}
	for _, want := range []tb.CreateTransferResult{tb.TransferExceedsCredits, tb.TransferIDAlreadyFailed} {
		if result := do(t, "too-much-"+string(psp), act); result.Status != want || result.Index != 0 {
			t.Errorf("got %+v, want %s of the money", result, want)
		}
		checkBooks(t, psp, 100)
		if result := do(t, "in-"+string(psp), ledger.Act{Kind: ledger.LiquidityIn, Bank: psp, Centavos: 50}); !result.OK() && !result.Exists() {
			t.Error(result)
		}
		if result := do(t, "out-"+string(psp), ledger.Act{Kind: ledger.LiquidityOut, Bank: psp, Centavos: 50}); !result.OK() && !result.Exists() {
			t.Error(result)
		}
	}
	// Money that is held does not leave the reserve.
	payer := newCustomer(t, psp, 60)
	held := newPaymentBetween(t, payer, newCustomer(t, newPSP(t, 0), 0))
	held.content.AmountCentavos = 60
	if result := shared.write(t, held.reserve()); !result.OK() {
		t.Fatal(result)
	}
	if result := do(t, "held-"+string(psp), ledger.Act{Kind: ledger.LiquidityOut, Bank: psp, Centavos: 41}); result.Status != tb.TransferExceedsCredits {
		t.Errorf("41 of 100 with 60 held: %+v", result)
	}
}

// Acts, repeated and racing from several doors, in any order: each is done once, and all followers
// agree with the ledger's order.
func TestRacingActs(t *testing.T) {
	psp := newParticipant(t, 1000)
	var doors sync.WaitGroup
	for door := range 4 {
		doors.Go(func() {
			for _, i := range rand.Perm(20) {
				act := ledger.Act{Kind: []ledger.ActKind{ledger.Suspended, ledger.Resumed, ledger.LiquidityIn}[i%3], Bank: psp}
				if act.Kind.MovesMoney() {
					act.Centavos = int64(i)
				}
				if result := do(t, fmt.Sprintf("race-%s-%d", psp, i), act); !result.OK() && result.Status != tb.TransferExists {
					t.Errorf("door %d, act %d: %+v", door, i, result)
				}
			}
		})
	}
	doors.Wait()
	checkBooks(t, psp, 1000+2+5+8+11+14+17)
	records, err := client.GetAccountTransfers(tb.AccountFilter{AccountID: ledger.BooksAccount(psp), Limit: 8189,
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()})
	if err != nil || len(records) != 22 {
		t.Fatalf("%d records, %v; want an opening, a join and 20 acts", len(records), err)
	}
	suspended := false
	for _, record := range records {
		act, _, err := ledger.ActOf(record)
		if err != nil {
			t.Error(err)
		}
		suspended = act.Kind == ledger.Suspended || suspended && act.Kind != ledger.Resumed
	}
	r, _ := follow(t, client, 7)
	state, err := r.Reach(t.Context(), records[len(records)-1].Timestamp)
	if err != nil || state.Suspended(psp) != suspended {
		t.Errorf("suspended: %v, want %v (%v)", state.Suspended(psp), suspended, err)
	}
}

// What is in the register's account and no act counts as nothing, and stops nobody.
func TestARecordThatIsNoAct(t *testing.T) {
	psp := newParticipant(t, 0)
	if err := createTransfers(
		tb.Transfer{ID: tb.ID(), DebitAccountID: ledger.RegisterAccount, CreditAccountID: ledger.BooksAccount(psp), Ledger: ledger.Books, Code: 99},
		tb.Transfer{ID: tb.ID(), DebitAccountID: ledger.BooksAccount(psp), CreditAccountID: ledger.RegisterAccount, Ledger: ledger.Books, Code: uint16(ledger.Suspended), UserData32: 1},
	); err != nil {
		t.Fatal(err)
	}
	if result := do(t, "after-"+string(psp), ledger.Act{Kind: ledger.PaymentCapped, Bank: psp, Centavos: 5}); !result.OK() {
		t.Fatal(result)
	}
	r, _ := follow(t, client, 8189)
	awaitFresh(t, r, "the act behind it", func(s *register.State) bool {
		return s.Participant(psp) != nil && s.Participant(psp).PaymentCapCentavos == 5
	})
	if state, _ := r.Current(); state.Suspended(psp) {
		t.Error("a record backwards has suspended a bank")
	}
}

// stalled is a client whose reading of the register waits while it is held.
type stalled struct {
	tigerbeetle.Client
	hold sync.RWMutex
}

func (s *stalled) GetAccountTransfers(filter tb.AccountFilter) ([]tb.Transfer, error) {
	found, err := s.Client.GetAccountTransfers(filter) // asked now, answered late
	s.hold.RLock()
	defer s.hold.RUnlock()
	return found, err
}

// Freshness counts from before the question: an answer that comes late makes nothing fresh.
func TestAStaleRegister(t *testing.T) {
	psp := newParticipant(t, 0)
	client := &stalled{Client: client}
	r, tel := follow(t, client, 8189)
	joined := func(s *register.State) bool { return s.Participant(psp) != nil }
	awaitFresh(t, r, "the bank", joined)
	kit.Await(t, "readiness", func() (bool, string) {
		problem := tel.Health.Problems()[register.Need]
		return problem == "", problem
	})

	client.hold.Lock()
	held := time.Now()
	var last time.Time
	kit.Await(t, "stale", func() (bool, string) {
		before := time.Now()
		_, fresh := r.Current()
		if fresh {
			last = before
		}
		return !fresh, "fresh"
	})
	if took := last.Sub(held); took > 2*time.Second {
		t.Errorf("fresh until %v after the last answer", took)
	}
	kit.Await(t, "an unmet need", func() (bool, string) {
		return tel.Health.Problems()[register.Need] != "", "it is met"
	})
	if result := do(t, "late-"+string(psp), ledger.Act{Kind: ledger.Suspended, Bank: psp}); !result.OK() {
		t.Fatal(result)
	}
	if state, fresh := r.Current(); fresh || state.Suspended(psp) {
		t.Errorf("fresh %v, suspended %v without an answer", fresh, state.Suspended(psp))
	}
	client.hold.Unlock()
	awaitFresh(t, r, "the suspension", func(s *register.State) bool { return s.Suspended(psp) })
	if problem := tel.Health.Problems()[register.Need]; problem != "" {
		t.Error(problem)
	}
}

// Whoever has written an act can read it.
func TestReach(t *testing.T) {
	psp := newParticipant(t, 0)
	r, _ := follow(t, client, 8189)
	for i := range 5 {
		if result := do(t, fmt.Sprintf("reach-%s-%d", psp, i), ledger.Act{Kind: ledger.PaymentCapped, Bank: psp, Centavos: int64(i + 1)}); !result.OK() {
			t.Fatal(result)
		}
		found, err := client.LookupTransfers([]tb.Uint128{ledger.ActRecordID(keys.CentralBank, fmt.Sprintf("reach-%s-%d", psp, i))})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		state, err := r.Reach(t.Context(), found[0].Timestamp)
		if err != nil || state.Participant(psp).PaymentCapCentavos != int64(i+1) {
			t.Fatalf("act %d: %+v, %v", i, state.Participant(psp), err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Reach(ctx, 1<<62); err == nil {
		t.Error("an act of the future was reached")
	}
}
