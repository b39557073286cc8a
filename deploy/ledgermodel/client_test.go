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
		client.Cut(true, true) // what waits is not forgotten
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
