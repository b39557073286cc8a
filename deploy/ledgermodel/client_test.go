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

// TestHoldsExpireInVirtualTime shows that a hold of a minute costs no time, and gives its money
// back.
func TestHoldsExpireInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := New().Connect(nil)
		one, two := tb.ToUint128(1), tb.ToUint128(2)
		if failed, err := client.CreateAccounts([]tb.Account{{ID: one, Ledger: 1, Code: 1}, {ID: two, Ledger: 1, Code: 1}}); err != nil || len(failed) > 0 {
			t.Fatal(failed, err)
		}
		hold := tb.Transfer{ID: one, DebitAccountID: one, CreditAccountID: two, Amount: tb.ToUint128(5), Timeout: 60, Ledger: 1, Code: 1, Flags: tb.TransferFlags{Pending: true}.ToUint16()}
		if failed, err := client.CreateTransfers([]tb.Transfer{hold}); err != nil || len(failed) > 0 {
			t.Fatal(failed, err)
		}
		held := func() tb.Uint128 {
			accounts, err := client.LookupAccounts([]tb.Uint128{one})
			if err != nil {
				t.Fatal(err)
			}
			return accounts[0].DebitsPending
		}
		time.Sleep(59 * time.Second)
		if held() != tb.ToUint128(5) {
			t.Error("the hold ended early")
		}
		time.Sleep(2 * time.Second)
		if held() != (tb.Uint128{}) {
			t.Error("the hold did not end")
		}
		post := tb.Transfer{ID: two, PendingID: one, Amount: numberMax.uint128(), Flags: tb.TransferFlags{PostPendingTransfer: true}.ToUint16()}
		if failed, err := client.CreateTransfers([]tb.Transfer{post}); err != nil || len(failed) != 1 || failed[0].Result != tb.TransferPendingTransferExpired {
			t.Error(failed, err)
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
	if _, err := client.LookupTransfers(make([]tb.Uint128, EventsMax+1)); !errors.Is(err, tberrors.ErrMaximumBatchSizeExceeded{}) {
		t.Errorf("a request of %d ids: %v", EventsMax+1, err)
	}
}

func TestWhatIsNotModelledPanics(t *testing.T) {
	client := New().Connect(nil)
	defer func() {
		if recover() == nil {
			t.Error("change events: it was answered")
		}
	}()
	_, _ = client.GetChangeEvents(tb.ChangeEventsFilter{})
}

// TestNoServiceImportsTheModel looks at everything that the programs are built from.
func TestNoServiceImportsTheModel(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./services/producer", "./services/clearing-engine", "./services/bank-simulator", "./client/liquida", "./deploy/cmd/...")
	list.Dir = "../.."
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "/ledgermodel") {
		t.Error("a program is built with the ledger's model")
	}
}

// TestACloneGoesOnAlone shows that ledger and clone answer alike, have one state, and then change
// alone: by a transfer, by a burnt id, by an expiry.
func TestACloneGoesOnAlone(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	l := New()
	one, two := tb.ToUint128(1), tb.ToUint128(2)
	create := func(l *Ledger, transfer tb.Transfer) {
		if _, err := l.ConnectAt(clock).CreateTransfers([]tb.Transfer{transfer}); err != nil {
			t.Fatal(err)
		}
	}
	if failed, err := l.ConnectAt(clock).CreateAccounts([]tb.Account{{ID: one, Ledger: 1, Code: 1}, {ID: two, Ledger: 1, Code: 1}}); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	hold := tb.Transfer{ID: one, DebitAccountID: one, CreditAccountID: two, Amount: tb.ToUint128(5), Timeout: 60, Ledger: 1, Code: 1, Flags: tb.TransferFlags{Pending: true}.ToUint16()}
	create(l, hold)
	for name, change := range map[string]func(*Ledger){
		"a transfer": func(l *Ledger) {
			create(l, tb.Transfer{ID: two, PendingID: one, Flags: tb.TransferFlags{VoidPendingTransfer: true}.ToUint16()})
		},
		"a burnt id": func(l *Ledger) {
			create(l, tb.Transfer{ID: two, DebitAccountID: one, CreditAccountID: tb.ToUint128(3), Ledger: 1, Code: 1})
		},
		"an expiry": func(l *Ledger) {
			now = now.Add(time.Hour)
			_, _ = l.ConnectAt(clock).LookupTransfers([]tb.Uint128{one})
			now = now.Add(-time.Hour)
		},
	} {
		before := string(l.AppendState(nil))
		clone := l.Clone()
		if string(clone.AppendState(nil)) != before {
			t.Errorf("%s: the clone has another state", name)
		}
		change(clone)
		if string(clone.AppendState(nil)) == before {
			t.Errorf("%s: the clone did not change", name)
		}
		if string(l.AppendState(nil)) != before {
			t.Errorf("%s: the ledger changed with its clone", name)
		}
	}
}
