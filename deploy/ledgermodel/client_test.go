package ledgermodel

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tberrors "github.com/tigerbeetle/tigerbeetle-go/pkg/errors"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// TestAClientThatIsCutOff shows that a request which was cut waits, that a reply which was cut has
// taken effect, and that a closed client ends its requests.
func TestAClientThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		observer := l.Connect(nil)
		client := l.Connect(func() time.Duration { return 2 * time.Millisecond })
		create := func(id uint64) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := client.CreateAccounts([]tb.Account{{ID: tb.ToUint128(id), Ledger: 1, Code: 1}})
				done <- err
			}()

			return done
		}
		there := func(id uint64) bool {
			found, err := observer.LookupAccounts([]tb.Uint128{tb.ToUint128(id)})
			return err == nil && len(found) == 1
		}
		ended := func(done <-chan error) bool {
			time.Sleep(time.Hour)
			return len(done) == 1
		}

		client.Cut(true, false)

		first := create(1)
		if ended(first) || there(1) {
			t.Error("a request went through a cut")
		}
		client.Heal()

		if !ended(first) || !there(1) {
			t.Error("a request did not go on after the cut")
		}
		client.Cut(false, true)

		second := create(2)
		if ended(second) || !there(2) {
			t.Error("a reply went through a cut, or its request was not carried out")
		}
		client.Close()

		if !ended(second) || !errors.Is(<-second, tberrors.ErrClientClosed{}) {
			t.Error("a closed client's request did not end with an error")
		}

		if _, err := client.LookupAccounts(nil); !errors.Is(err, tberrors.ErrClientClosed{}) {
			t.Errorf("a closed client answered: %v", err)
		}
	})
}

// A request that waits is not forgotten when the network is cut once more.
func TestHealEndsEveryCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := New().Connect(nil)
		client.Cut(true, true)
		answered := make(chan error)
		go func() { answered <- client.Nop() }()
		synctest.Wait()
		client.Cut(true, true)
		client.Heal()

		select {
		case err := <-answered:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			t.Fatal("no answer")
		}
	})
}

// TestARequestHasItsLimit compares nothing: the server's limit is a case of ledgerfacts.
func TestARequestHasItsLimit(t *testing.T) {
	client := New().Connect(nil)
	if _, err := client.LookupTransfers(make([]tb.Uint128, EventsMax+1)); !errors.Is(err,
		tberrors.ErrMaximumBatchSizeExceeded{}) {
		t.Errorf("a request of %d ids: %v", EventsMax+1, err)
	}
}

func TestWhatIsNotModelledPanics(t *testing.T) {
	one, two := tb.ToUint128(1), tb.ToUint128(2)

	transfer := func(change func(*tb.Transfer)) func(*Client) {
		t := tb.Transfer{ID: one, DebitAccountID: one, CreditAccountID: two, Ledger: 1, Code: 1}
		change(&t)
		return func(c *Client) { _, _ = c.CreateTransfers([]tb.Transfer{t}) }
	}
	for name, ask := range map[string]func(*Client){
		"change events":         func(c *Client) { _, _ = c.GetChangeEvents(tb.ChangeEventsFilter{}) },
		"an account without id": func(c *Client) { _, _ = c.CreateAccounts([]tb.Account{{Ledger: 1, Code: 1}}) },
		"a filter by user data": func(c *Client) { _, _ = c.GetAccountTransfers(tb.AccountFilter{UserData64: 1}) },
		"a transfer to itself":  transfer(func(t *tb.Transfer) { t.CreditAccountID = one }),
		"a chain that is open": transfer(func(t *tb.Transfer) {
			t.Flags = tb.TransferFlags{Linked: true}.ToUint16()
		}),
		"a closing transfer": transfer(func(t *tb.Transfer) {
			t.Flags = tb.TransferFlags{ClosingDebit: true}.ToUint16()
		}),
		"another ledger number":  transfer(func(t *tb.Transfer) { t.Ledger = 2 }),
		"a time without imports": transfer(func(t *tb.Transfer) { t.Timestamp = 1 }),
	} {
		func() {
			client := New().Connect(nil)
			_, _ = client.CreateAccounts([]tb.Account{{ID: one, Ledger: 1, Code: 1}, {ID: two, Ledger: 1, Code: 1}})
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it was answered", name)
				}
			}()
			ask(client)
		}()
	}
}

// TestNoServiceImportsTheModel looks at everything that the programs are built from.
func TestNoServiceImportsTheModel(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./services/producer", "./services/clearing-engine",
		"./services/bank-simulator", "./client/liquida", "./deploy/cmd/...")
	list.Dir = "../.."

	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	if strings.Contains(string(out), "/ledgermodel") {
		t.Error("a program is built with the ledger's model")
	}
}

// TestACloneGoesOnAlone shows that ledger and clone have one state, and then change alone: by a transfer, a burnt id,
// and an expiry.
func TestACloneGoesOnAlone(t *testing.T) {
	var now time.Time
	l, one, two := New(), tb.ToUint128(1), tb.ToUint128(2)
	create := func(l *Ledger, t tb.Transfer, flags tb.TransferFlags) {
		t.Flags = flags.ToUint16()
		_, _ = l.ConnectAt(func() time.Time { return now }).CreateTransfers([]tb.Transfer{t})
	}
	_, _ = l.Connect(nil).CreateAccounts([]tb.Account{{ID: one, Ledger: 1, Code: 1}, {ID: two, Ledger: 1, Code: 1}})
	now = time.Now()
	hold := tb.Transfer{ID: one, DebitAccountID: one, CreditAccountID: two, Amount: tb.ToUint128(5), Timeout: 60,
		Ledger: 1, Code: 1}
	create(l, hold, tb.TransferFlags{Pending: true})
	states := map[string]bool{}

	for name, change := range map[string]func(*Ledger){
		"a transfer": func(l *Ledger) {
			create(l, tb.Transfer{ID: two, PendingID: one}, tb.TransferFlags{VoidPendingTransfer: true})
		},
		"a burnt id": func(l *Ledger) {
			create(l, tb.Transfer{ID: two, DebitAccountID: one, CreditAccountID: tb.ToUint128(3), Ledger: 1, Code: 1},
				tb.TransferFlags{})
		},
		"an expiry": func(l *Ledger) {
			l.request(uint64(now.Add(time.Hour).UnixNano()), 0, func(uint64) any { return nil })
		},
		"nothing": func(*Ledger) {},
	} {
		before, clone := string(l.AppendState(nil)), l.Clone()
		change(clone)

		if string(l.AppendState(nil)) != before {
			t.Errorf("%s: the ledger changed with its clone", name)
		}
		states[string(clone.AppendState(nil))] = true
	}

	if len(states) != 4 || !states[string(l.AppendState(nil))] {
		t.Errorf("three changes and none make %d states", len(states))
	}
}
