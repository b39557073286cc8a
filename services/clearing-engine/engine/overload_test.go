package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Offered 3.6 times what the ledger can do, the engine settles on: what cannot end in time is
// refused and not begun. Without that, everything is begun shortly before its deadline, and
// nothing settles.
func TestOverloadLeavesNoSecondsWithoutSettlements(t *testing.T) {
	inWorld(t, func(w *world) {
		w.banks = time.Second
		defer w.bank()()
		const capacity, offered, lasts = 20, 72, 120 // payments a second; seconds
		w.ledger.pace = time.Second / (capacity * 6) // a payment has 6 transfers
		e := w.start(func(c *Config) { c.InFlightMax, c.InFlightPSPShare = 100, 1 })
		w.await("the engine", func() bool { return w.members() == 1 })
		began := time.Now()

		for range lasts {
			for range offered {
				w.pay()
			}
			time.Sleep(time.Until(began.Add(time.Since(began).Truncate(time.Second) + time.Second)))
		}
		w.await("the end", func() bool { return w.committed() == offered*lasts })
		count, per20Seconds := map[string]int{}, [lasts / 20]int{}

		for _, record := range w.records(stream.Settlements) {
			report := &pixv1.SettlementReport{}
			if err := report.UnmarshalVT(record.Value); err != nil {
				t.Fatal(err)
			}

			count[report.ReasonCode]++
			if i := int(record.Timestamp.Sub(began) / (20 * time.Second)); report.Status == settled &&
				i < len(per20Seconds) {
				per20Seconds[i]++
			}
		}
		// What is refused takes little of the capacity: younger orders overtake it. The worst of these
		// times has some three quarters of the capacity, by chance a little less.
		for i, n := range per20Seconds {
			if n < 20*capacity*2/3 {
				t.Errorf("from second %d on, %d payments settled in 20 s; %v", 20*i, n, per20Seconds)
			}
		}

		if count["LQ10"] == 0 || count["AB03"]+count["LQ13"] > offered*lasts/100 {
			t.Errorf("outcomes: %v", count)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// An order that could not end in time is refused only if the ledger knows nothing of it. If an
// earlier engine held its money, it settles.
func TestARedeliveryIsNotTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start()
		w.ledger.set(func() { w.ledger.pace = 2 * time.Second })
		w.pay()
		w.await("a slow payment", func() bool { return len(w.reports()) == 1 })
		w.ledger.set(func() { w.ledger.pace = 0 })
		orders := []*pixv1.PaymentOrder{w.order(), w.order(), w.order()}

		known, unknown, young := orders[0], orders[1], orders[2]
		if _, err := w.ledger.CreateTransfers(
			ledger.AppendReserve(nil, pix.EndToEndID([]byte(known.EndToEndId)), pix.Content{
				Payer: pix.AccountIn(known.Payer), Payee: pix.AccountIn(known.Payee),
				AmountCentavos: known.AmountCentavos},
				60)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		young.AcceptedAtUnixMs = time.Now().UnixMilli()

		for _, order := range orders {
			w.send(order.EndToEndId, order)
		}
		w.await("the reports", func() bool { return len(w.reports()) == 4 })

		for order, want := range map[*pixv1.PaymentOrder]string{known: "", unknown: "LQ10", young: ""} {
			if report := w.reports()[order.EndToEndId][0]; report.ReasonCode != want {
				t.Errorf("the report is %v, want %q", report, want)
			}
		}

		if found, _ := w.ledger.LookupTransfers(
			ledger.AppendTraceIDs(nil, pix.EndToEndID([]byte(unknown.EndToEndId)))); len(found) != 1 ||
			found[0].Code != ledger.CodeReceipt {
			t.Errorf("the ledger holds %+v of what was refused", found)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// Under overload most orders are refused, and each refusal takes from the ledger what others
// need: two ids of a look-up and one receipt.
func TestARefusalIsCheap(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		refuse := func(orders int) (ids, accounts int) {
			w.ledger.set(func() { ids, accounts = w.ledger.idsLooked, w.ledger.accounts })

			refused := len(w.reports())
			for range orders {
				order := w.order()
				order.AcceptedAtUnixMs = time.Now().Add(-time.Minute).UnixMilli()
				w.send(order.EndToEndId, order)
			}
			w.await("the refusals", func() bool { return len(w.reports()) == refused+orders })
			w.ledger.set(func() { ids, accounts = w.ledger.idsLooked-ids, w.ledger.accounts-accounts })

			return ids, accounts
		}
		w.await("the engine", func() bool { return w.members() == 1 })
		refuse(1) // its bank is known from now on
		const orders = 100

		ids, accounts := refuse(orders)
		if ids > 2*orders+100 || accounts > 0 { // probes of the ledger's clock, names of the log
			t.Errorf("%d refusals looked up %d transfers and %d accounts", orders, ids, accounts)
		}

		if chains := len(w.ledger.written()); chains != orders+1 {
			t.Errorf("%d chains were written", chains)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// A silent bank holds the committed offset back, and the front door must not take that for a
// backlog. An absent ledger is one.
func TestACommitSaysWhatIsTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		taken := func() int64 {
			offsets, err := kadm.NewClient(w.client).FetchOffsetsForTopics(w.t.Context(), stream.EngineGroup,
				stream.Payments)
			if errors.Is(err, kerr.GroupIDNotFound) {
				return -1 // no engine has joined yet
			} else if err != nil {
				t.Fatal(err)
			}

			offset, ok := offsets.Lookup(stream.Payments, 0)
			if !ok {
				return -1
			}

			if offset.At > 0 {
				t.Errorf("%d is committed, and the bank is silent", offset.At)
			}

			return stream.ReadHint(offset.At, offset.Metadata).Taken
		}
		w.pay()
		w.await("the first", func() bool { return taken() == 1 })
		order := w.order()
		w.send(order.EndToEndId, order)
		w.send(order.EndToEndId, order) // waits for the one before

		if err := w.client.ProduceSync(w.t.Context(),
			&kgo.Record{Topic: stream.Payments, Value: []byte("no order")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.await("all", func() bool { return taken() == 4 })
		w.ledger.leave()
		w.pay()
		time.Sleep(20 * time.Second)

		if at := taken(); at != 4 {
			t.Errorf("%d are taken, and the ledger knows 4", at)
		}
		w.ledger.comeBack()
		w.await("the last", func() bool { return taken() == 5 })

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}
