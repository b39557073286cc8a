package ledgerfacts

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
)

// Post, void and receipt race for the one verdict: exactly one is written, the others learn that it
// exists, and all the money follows it.
func TestOneVerdictWhoeverRaces(t *testing.T) {
	first := newPayment(t)
	settled := int64(0)
	engines := make([]*engine, 3)
	for i := range engines {
		engines[i] = open(ledger.BatchConfig{EventsMax: 8189, InFlightMax: 1})
		defer engines[i].close()
	}
	for range 40 {
		p := newPaymentBetween(t, first.content.Payer, first.content.Payee)
		p.content.AmountCentavos, p.timeout = 1, 2 // if a receipt wins, the timeout ends the hold
		run(t, step{p.reserve(), ok, 0})
		chains := [][]tb.Transfer{p.post(), p.void(closed), p.receipt(silent)}
		answers := make([]ledger.Result, len(chains))
		var racing sync.WaitGroup
		for i, chain := range chains {
			racing.Go(func() { answers[i] = engines[i].write(t, chain) })
		}
		racing.Wait()
		verdict, found := shared.trace(t, p.id).Verdict()
		if !found {
			t.Fatalf("no verdict after %v", answers)
		}
		for i, want := range []ledger.Verdict{{Settled: true}, {Reason: closed}, {Reason: silent}} {
			want.Time = verdict.Time
			if won := answers[i].OK(); won != (verdict == want) || !won && answers[i].Status != tb.TransferExistsWithDifferentFlags {
				t.Errorf("verdict %+v, and to %+v the ledger answered %s", verdict, want, answers[i].Status)
			}
		}
		if verdict.Settled {
			settled++
		}
	}
	first.waitUntilExpired(t)
	first.checkMoney(t, 0, settled)
}

// Two engines that both believe they own a payment hold its money once.
func TestOnePhase1WhoeverRaces(t *testing.T) {
	one, two := open(ledger.BatchConfig{EventsMax: 8189, InFlightMax: 1}), open(ledger.BatchConfig{EventsMax: 8189, InFlightMax: 1})
	defer one.close()
	defer two.close()
	for range 40 {
		p := newPayment(t)
		var a, b ledger.Result
		var racing sync.WaitGroup
		racing.Go(func() { a = one.write(t, p.reserve()) })
		racing.Go(func() { b = two.write(t, p.reserve()) })
		racing.Wait()
		if a.OK() == b.OK() || !a.OK() && a.Status != tb.TransferExists || !b.OK() && b.Status != tb.TransferExists {
			t.Errorf("%s and %s", a.Status, b.Status)
		}
		p.checkMoney(t, amount, 0)
	}
}

// many makes payments between two customers. Every other one is inside one bank.
func many(t *testing.T, n int) []*payment {
	t.Helper()
	payer := newCustomer(t, newPSP(t, reserve), uint64(n))
	near, far := newCustomer(t, payer.ISPB, 0), newCustomer(t, newPSP(t, reserve), 0)
	payments := make([]*payment, n)
	for i := range payments {
		payments[i] = newPaymentBetween(t, payer, far)
		if i%2 == 0 {
			payments[i].content.Payee = near
		}
		payments[i].content.AmountCentavos = 1
	}
	return payments
}

// all writes a chain for every payment at once; each must succeed.
func all(t *testing.T, b *engine, payments []*payment, chainOf func(*payment) []tb.Transfer) {
	t.Helper()
	replies := make([]chan ledger.Result, len(payments))
	for i, p := range payments {
		replies[i] = make(chan ledger.Result, 1)
		b.writer.Write(replies[i], chainOf(p))
	}
	for i, reply := range replies {
		if answer := receive(t, b, reply); !answer.OK() {
			t.Fatalf("payment %d: %s at %d", i, answer.Status, answer.Index)
		}
	}
}

// Whatever the limits, no chain is cut: a cut chain would get linked_event_chain_open, or leave a
// payment with some of its legs.
func TestBatchesNeverCutAChain(t *testing.T) {
	for name, config := range map[string]ledger.BatchConfig{
		"the smallest requests":   {EventsMax: 8, InFlightMax: 1},
		"several in flight":       {EventsMax: 10, InFlightMax: 4},
		"a pause":                 {EventsMax: 100, InFlightMax: 1, Pause: time.Millisecond},
		"the largest requests":    {EventsMax: 8189, InFlightMax: 1},
		"the default of settings": {EventsMax: 8189, InFlightMax: 1, Pause: 2 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(config)
			defer b.close()
			n := min(6000, 40*config.EventsMax)
			payments := many(t, n)
			all(t, b, payments, (*payment).reserve)
			all(t, b, payments, func(p *payment) []tb.Transfer {
				if p.content.SameBank() {
					return p.post()
				}
				return p.void(silent)
			})
			replies := make([]chan []tb.Transfer, n)
			for i, p := range payments {
				replies[i] = make(chan []tb.Transfer, 1)
				b.reader.Read(replies[i], ledger.AppendTraceIDs(nil, p.id))
			}
			for i, p := range payments {
				trace := ledger.TraceOf(p.id, receive(t, b, replies[i]))
				verdict, found := trace.Verdict()
				if !found || verdict.Settled != p.content.SameBank() || !trace.SameContent(p.id, p.content) {
					t.Fatalf("payment %d: %+v", i, verdict)
				}
			}
			got := balancesOf(t, ledger.CustomerAccount(payments[0].content.Payer), ledger.CustomerAccount(payments[0].content.Payee), ledger.CustomerAccount(payments[1].content.Payee))
			half := int64(n / 2)
			for i, want := range []balance{{half, 0}, {half, 0}, {0, 0}} {
				if got[i] != want {
					t.Errorf("account %d holds %+v, want %+v", i, got[i], want)
				}
			}
		})
	}
}

// A request beyond the server's limit ends the process and names the setting to lower.
func TestTooLargeRequestsFail(t *testing.T) {
	b := open(ledger.BatchConfig{EventsMax: 8190, InFlightMax: 1}) // Validate would reject it
	defer b.close()
	chain := make([]tb.Transfer, 0, 8190)
	for range cap(chain) {
		chain = append(chain, tb.Transfer{ID: tb.ID()})
	}
	b.writer.Write(make(chan ledger.Result, 1), chain)
	b.reader.Read(make(chan []tb.Transfer, 1), make([]tb.Uint128, 8190))
	for range 2 {
		select {
		case err := <-b.failed:
			if !strings.Contains(err.Error(), "8190") || !strings.Contains(err.Error(), "LEDGER_BATCH_EVENTS_MAX must not exceed the server's limit") {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no failure was reported")
		}
	}
}

// Deadlines after a redelivery are measured with the ledger's clock.
func TestTimestampsAreTimes(t *testing.T) {
	p := newPayment(t)
	before := time.Now()
	run(t, step{p.reserve(), ok, 0}, step{p.post(), ok, 0})
	trace := shared.trace(t, p.id)
	verdict, _ := trace.Verdict()
	const clocks = 2 * time.Second
	if trace.HeldAt().Before(before.Add(-clocks)) || verdict.Time.After(time.Now().Add(clocks)) || !trace.HeldAt().Before(verdict.Time) {
		t.Errorf("held at %v, posted at %v, by our clock after %v", trace.HeldAt(), verdict.Time, before)
	}
	if got := trace.ExpiresAt().Sub(trace.HeldAt()); got != longTimeout*time.Second {
		t.Errorf("it expires after %v", got)
	}
}

// The marker is written once, and cannot be written with another content.
func TestMarker(t *testing.T) {
	marker := ledger.Marker{Banks: 5, Customers: 5000, DepositCentavos: 1e12, ReserveCentavos: 1e15}
	first := ok
	found, err := client.LookupTransfers([]tb.Uint128{ledger.MarkerID})
	kit.Must(t, err)
	if len(found) > 0 { // an earlier pass of -count has written it
		first = tb.TransferExists
	}
	other := marker
	other.Banks++
	run(t, step{[]tb.Transfer{marker.Transfer()}, first, 0}, step{[]tb.Transfer{marker.Transfer()}, tb.TransferExists, 0}, step{[]tb.Transfer{other.Transfer()}, tb.TransferExistsWithDifferentUserData64, 0})
	found, err = client.LookupTransfers([]tb.Uint128{ledger.MarkerID})
	if err != nil || len(found) != 1 || ledger.MarkerOf(found[0].UserData128, found[0].UserData64) != marker {
		t.Errorf("%v, %v", found, err)
	}
}

// A probe with a timeout is a hold of zero, which the ledger dates like any transfer, and ends by itself.
func TestAProbeEndsByItself(t *testing.T) {
	probe, err := ledger.ProbeClock(client, time.Now, 1)
	if err != nil || probe.Unfunded {
		t.Fatalf("%+v, %v", probe, err)
	}
	since := uint64(probe.At.UnixNano())
	held, err := client.QueryTransfers(tb.QueryFilter{Code: ledger.CodeClockProbe, TimestampMin: since, Limit: 1})
	if err != nil || len(held) != 1 || !held[0].TransferFlags().Pending || held[0].Amount != (tb.Uint128{}) || held[0].Timestamp != since {
		t.Fatalf("the probe of %d is %+v, %v", since, held, err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		events, err := client.GetChangeEvents(tb.ChangeEventsFilter{TimestampMin: since, Limit: 8000})
		kit.Must(t, err)
		if slices.ContainsFunc(events, func(e tb.ChangeEvent) bool {
			return e.Type == tb.ChangeEventTwoPhaseExpired && e.TransferID == held[0].ID
		}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the probe has not expired 20 s after a timeout of 1 s")
		}
	}
}
