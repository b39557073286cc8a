package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/rebuild"
)

// losesLedger reports whether the ledger of a seed's world is lost once, and built again: that of one in four.
func losesLedger(seed uint64) bool { return chance(seed, 1<<32+6).IntN(4) == 0 }

// builtLedger returns a client of the world's ledger, whichever it is. While it is being built again, it waits.
func (w *world) builtLedger() *ledgermodel.Client {
	for {
		w.mu.Lock()
		l, rebuilding := w.ledger, w.rebuilding
		w.mu.Unlock()

		if !rebuilding {
			return l.Connect(nil)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// loseLedger loses the ledger in an instant, at some time before an end, and builds it again: from the archive, or from
// a copy of a minute before, in which holds are open. All others are there already, and wait.
func (w *world) loseLedger(random *rand.Rand, within time.Duration) {
	older := w.ledger
	time.Sleep(between(random, 0, within))

	if fromCopy := random.IntN(2) == 0; fromCopy {
		older = w.ledger.Clone()
		time.Sleep(between(random, 0, time.Minute))
	}
	defer w.late()()
	lost, fresh := w.ledger, ledgermodel.New()
	w.mu.Lock()
	w.ledger, w.rebuilding = fresh, true
	w.mu.Unlock()

	for _, s := range w.archivers() {
		s.takesBooks(nil) // an older copy would begin an archive in the folder of this one
	}

	for _, s := range w.all() {
		if s.name != bankSimulator {
			s.kill(restartTime, "")
		}
	}
	source := rebuild.Source(rebuild.Ledger{Client: older.Connect(nil), EventsMax: 100 + random.IntN(1000)})

	segments := w.archived()
	switch {
	case older == lost && segments > 0:
		source = past.Source{Folder: os.DirFS(w.archiverConfig.Folder)}
		w.note("the ledger is lost; its archive has %d segments", segments)
	default:
		w.archiverConfig.Folder = w.t.TempDir() // the archive is of the lost one
		w.note("the ledger is lost; there is a copy")
	}
	config := parsed(w.t, &bootstrap.Config{})
	config.Partitions, config.EventsMax, config.Population, config.Stream = partitions, 40+random.IntN(500), population,
		w.engineConfig.Stream
	says := prefixed{w, "rebuild"}
	w.insist(random, fresh, func(p bootstrap.Place) error { return p.Rebuild(w.ends, config, source, rebuilt{says}) })
	w.insist(random, fresh, func(p bootstrap.Place) error { return p.Accept(w.ends, config, says) })
	w.redoActs(lost.Connect(nil), fresh.Connect(nil))
	time.Sleep(between(random, 0, 10*time.Second))
	w.insist(random, fresh, func(p bootstrap.Place) error { return p.Confirm(w.ends, config, says) })
	w.note("the ledger is built again")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rebuilding, w.rebuilt = false, true
}

// insist does a step until it succeeds. Brokers may be away, and the first tries may be killed at any request.
func (w *world) insist(random *rand.Rand, at *ledgermodel.Ledger, do func(bootstrap.Place) error) {
	giveUp := time.Now().Add(quietMax)
	pace := w.latency + between(random, 0, 50*time.Millisecond) // so that others have the time to write, if they would

	for try := 0; ; try++ {
		client := at.Connect(func() time.Duration { return pace })
		if try < 2 {
			defer time.AfterFunc(between(random, 0, 2*time.Second), client.Close).Stop()
		}

		err := do(bootstrap.Place{Ledger: client, Kafka: w.client, Dial: w.dialKafka()})
		if err == nil {
			return
		}

		if time.Now().After(giveUp) {
			panic(fmt.Sprintf("the ledger cannot be built again: %v", err)) // nobody can go on
		}
		w.note("rebuild: %v", err)
		time.Sleep(between(random, 0, time.Second))
	}
}

// rebuilt is where a rebuild says what it does. All must come back.
type rebuilt struct{ prefixed }

func (r rebuilt) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "NOT BROUGHT BACK") {
		r.w.t.Errorf("%s", line)
	}

	return r.prefixed.Write(line)
}

// redoActs does again the acts that a ledger lacks, as people do who are asked for them.
func (w *world) redoActs(lost, is *ledgermodel.Client) {
	source := rebuild.Ledger{Client: lost, EventsMax: 1000}
	for chain, err := range source.Chains(context.WithoutCancel(w.ends), 0) {
		if err != nil {
			w.t.Error(err)
			return
		}

		chain = slices.DeleteFunc(chain, func(t tb.Transfer) bool { return t.Code == ledger.CodeAdjustment })
		if len(chain) == 0 {
			continue
		}
		act, _, err := ledger.ActOf(chain[len(chain)-1])

		found, _ := is.LookupTransfers([]tb.Uint128{chain[len(chain)-1].ID})
		if err != nil || len(found) > 0 {
			continue
		}

		for i := range chain {
			t := &chain[i]
			for _, account := range []tb.Uint128{t.DebitAccountID, t.CreditAccountID} {
				_, _ = is.CreateAccounts([]tb.Account{ledger.NewAccount(account)}) // that are there stay
			}
			t.Timestamp, t.Flags = 0, tb.TransferFlags{Linked: i < len(chain)-1}.ToUint16()
		}
		w.note("again: %s of %s", act.Kind, act.Bank)

		for range 10 {
			again := slices.Clone(chain)

			if act.WindowSeconds > 0 && act.Centavos > 0 {
				accounts, _ := is.LookupAccounts(
					[]tb.Uint128{ledger.AllowanceAccount(act.Bank, ledger.Window(act.Kind-ledger.DayCapped))})
				again = ledger.GrantOf(accounts[0]).AppendAdjustment(again, act.Centavos)
			}

			if failed, err := is.CreateTransfers(again); err != nil || len(failed) == 0 {
				break
			}
		}
	}
}
