package engine

import (
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// letters reads all dead letters, by the offset of their record.
func (w *world) letters() map[uint64]*pixv1.DeadLetter {
	found := map[uint64]*pixv1.DeadLetter{}

	for _, record := range w.records(stream.DeadLetters) {
		letter := &pixv1.DeadLetter{}
		if err := letter.UnmarshalVT(record.Value); err != nil {
			w.t.Fatal(err)
		}

		if found[uint64(letter.Offset)] != nil {
			w.t.Errorf("record %d has two dead letters", letter.Offset)
		}
		found[uint64(letter.Offset)] = letter
	}

	return found
}

// lettersOf counts the dead letters of a reason.
func (w *world) lettersOf(reason pix.Reason) (n int) {
	for _, letter := range w.letters() {
		if letter.ReasonCode == reason.String() {
			n++
		}
	}

	return n
}

// copyOf returns an order with the id of another one and its own amount.
func copyOf(order *pixv1.PaymentOrder, amount uint64) *pixv1.PaymentOrder {
	return &pixv1.PaymentOrder{
		EndToEndId: order.EndToEndId, AcceptedAtUnixMs: order.AcceptedAtUnixMs, Payer: order.Payer, Payee: order.Payee,
		AmountCentavos: amount,
	}
}

// Copies of a payment in flight take no room. So many may wait; the others are dead letters
// at once, and other payments go on.
func TestCopiesOfAPaymentLeaveTheRoomToOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.bank("10000003")
		e := w.start(func(c *Config) {
			c.InFlightMax, c.CopiesMax, c.InFlightPayerShare, c.Deadline = 16, 12, 1, 30*time.Second
		})
		silent := w.order()

		silent.Payee.Ispb = "10000003"
		for range 40 {
			w.send(silent.EndToEndId, silent)
		}
		w.await("the dead letters of 27 copies", func() bool { return w.lettersOf(pix.ReasonTooManyCopies) == 27 })

		for range 20 {
			w.pay()
		}
		w.await("the reports of the others", func() bool { return len(w.reports()) == 20 })
		stop()
		w.await("the last offset", func() bool { return w.committed() == 60 })

		if reports := w.reports()[silent.EndToEndId]; len(reports) != 1 || reports[0].ReasonCode != "AB03" {
			t.Errorf("the reports are %v", reports)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// The metrics say which bank is silent, whose copies wait, and who is refused. Names of banks
// that nobody has met are one label: otherwise anybody could make labels without end.
func TestMetricsNameWhoHoldsTheRoomAndWhoIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank("10000003")()
		e := w.start(func(c *Config) { c.CopiesMax, c.InFlightMax, c.InFlightPayerShare = 12, 100, 0.5 })
		is := func(want map[string]float64) {
			t.Helper()

			for name, value := range want {
				w.await(name, func() bool { return w.metric(name) == value })
			}
		}
		w.pay()
		w.await("a payment, by which the bank is met", func() bool { return len(w.reports()) == 1 })
		order := w.order()

		order.Payee.Ispb = "10000003"
		for range 40 {
			w.send(order.EndToEndId, order)
		}
		w.await("the copies beyond the limit", func() bool { return w.lettersOf(pix.ReasonTooManyCopies) == 27 })
		is(map[string]float64{
			`pix_payments_stuck_at_psp{ispb="10000003"}`:            1,
			`pix_payer_share_taken{by="waiting",ispb="10000001"}`:   12,
			`pix_payer_share_taken{by="questions",ispb="10000001"}`: 0, // asked before the bank was silent
			`pix_payer_share_taken{by="waiting",ispb="other"}`:      0,
			`pix_payer_share_size`:                                  50,
			`pix_refused_total{ispb="10000001",reason="LQ09"}`:      27,
			`pix_refused_total{ispb="other",reason="LQ10"}`:         0,
			`pix_payments_waiting_for_psp{ispb="10000003"}`:         1,
			`pix_payments_joined_total`:                             0, // a message counts once, when it ends
		})
		late := w.order()
		late.Payee.Ispb = "10000003"
		w.send(late.EndToEndId, late)
		is(map[string]float64{`pix_payer_share_taken{by="questions",ispb="10000001"}`: 1})
		w.ledger.leave()

		for i := range 3 {
			invented := w.order()
			invented.EndToEndId = pix.NewEndToEndID(pix.ISPB("9999999"+string(rune('1'+i))), time.Now(),
				w.random).String()

			invented.Payer.Ispb = invented.EndToEndId[1:9]
			for range 3 {
				w.send(invented.EndToEndId, invented)
			}
		}
		is(map[string]float64{`pix_payer_share_taken{by="waiting",ispb="other"}`: 6})
		w.ledger.comeBack()

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// One look-up judges all copies that wait for a conflicting order: the conflicting ones are
// dead letters with their own payload, equal copies of the payment get a report, alone or together.
func TestOneLookUpJudgesAllCopies(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start()
		order := w.order()
		w.send(order.EndToEndId, order)
		w.await("the report", func() bool { return len(w.reports()[order.EndToEndId]) == 1 })
		before := len(w.ledger.written())
		w.ledger.leave()

		for i := range uint64(50) {
			w.send(order.EndToEndId, copyOf(order, 1000+i))
		}

		for range 3 {
			w.send(order.EndToEndId, order)
		}
		time.Sleep(time.Second) // all of them wait: what comes later is judged in the next round
		w.ledger.comeBack()
		w.await("the last offset", func() bool { return w.committed() == 54 })
		letters := w.letters()

		for i := range uint64(50) {
			var kept pixv1.PaymentOrder

			letter := letters[i+1]
			if letter == nil || letter.ReasonCode != "DUPL" {
				t.Fatalf("the dead letter of record %d is %v", i+1, letter)
			}

			if err := kept.UnmarshalVT(letter.Payload); err != nil || kept.AmountCentavos != 1000+i {
				t.Errorf("the dead letter of record %d holds %v (%v)", i+1, &kept, err)
			}
		}

		if len(letters) != 50 {
			t.Errorf("%d dead letters, want 50", len(letters))
		}

		reports := w.reports()[order.EndToEndId]
		for _, report := range reports {
			if report.AmountCentavos != 100 || report.Status != settled {
				t.Errorf("a report is %v", report)
			}
		}

		// Equal copies come again, each by itself: who meets another one before its report joins it.
		if joined := w.metric("pix_payments_joined_total"); joined > 2 || float64(len(reports))+joined != 1+3 {
			t.Errorf("%d reports and %v joined for a payment and 3 copies", len(reports), joined)
		}

		if chains := len(w.ledger.written()) - before; chains > 4 {
			t.Errorf("53 copies cost %d chains", chains)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// If the order that copies wait for is refused because of a foreign hold without a verdict,
// the hold says nothing about later: the payment that is held goes on.
func TestAHoldWithoutAVerdictIsNotRemembered(t *testing.T) {
	inWorld(t, func(w *world) {
		order := w.order()
		first := w.start(func(c *Config) { c.CommitInterval = 10 * time.Second })
		w.send(order.EndToEndId, order)
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })
		other := copyOf(order, 7)
		w.ledger.leave()
		// Partition 1 gets messages with the same id: a conflict, and what is held.
		for _, o := range []*pixv1.PaymentOrder{other, order, other} {
			w.sendTo(1, order.EndToEndId, o)
		}
		time.Sleep(time.Second)
		w.ledger.comeBack()
		w.await("the dead letters", func() bool { return w.lettersOf(pix.ReasonConflict) == 2 })
		defer w.bank()()
		w.await("the reports of both partitions", func() bool { return len(w.reports()[order.EndToEndId]) == 2 })

		for _, report := range w.reports()[order.EndToEndId] {
			if report.Status != settled || report.AmountCentavos != 100 {
				t.Errorf("a report is %v", report)
			}
		}

		if _, err := first.end(); err != nil {
			t.Error(err)
		}
	})
}

// A return of a payment in flight waits for it, and is then judged.
func TestAReturnWaitsForItsPayment(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start(func(c *Config) { c.CopiesMax = 3 })
		payment := w.pay()
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })

		var returns []pix.ReturnID
		for range 5 {
			returns = append(returns, w.giveBack(payment, 10))
		}
		w.await("the refusals of two", func() bool { return len(w.reports()) == 2 })
		defer w.bank()()
		w.await("the last offset", func() bool { return w.committed() == 6 })

		for i, id := range returns {
			want := ""
			if i >= 3 {
				want = pix.ReasonTooManyReturns.String()
			}

			if reports := w.reports()[id.String()]; len(reports) != 1 || reports[0].ReasonCode != want {
				t.Errorf("the reports of return %d are %v, want one with %q", i, reports, want)
			}
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// A partition that is handed over frees the shares of its waiters; its next owner gets them again.
func TestWaitersAreHandedOver(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.start()

		order := w.order()
		for range 5 {
			w.send(order.EndToEndId, order)
		}

		for range 5 {
			w.send(order.EndToEndId, copyOf(order, 99))
		}
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })
		time.Sleep(time.Second)

		if _, err := first.end(); err != nil {
			t.Fatal(err)
		}
		defer w.bank()()
		second := w.start()
		w.await("the last offset", func() bool { return w.committed() == 10 })

		if n := w.lettersOf(pix.ReasonConflict); n != 5 || len(w.reports()[order.EndToEndId]) != 1 {
			t.Errorf("%d dead letters, reports %v", n, w.reports())
		}

		if _, err := second.end(); err != nil {
			t.Error(err)
		}
	})
}

// spend takes centavos from the payee of all orders.
func (w *world) spend(centavos uint64) {
	w.t.Helper()
	payee := ledger.CustomerAccount(pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"})
	w.ledger.put(tb.Transfer{ID: tb.ToUint128(1<<40 + centavos), DebitAccountID: payee,
		CreditAccountID: ledger.TransitAccount("10000002"), Amount: tb.ToUint128(centavos), Ledger: ledger.Ledger,
		Code: ledger.CodeFunding})
}

// A payment whose 64 slots are burnt costs a further return one look-up and one receipt: the
// marks say that the slots are burnt. A look-up without a mark would try every slot.
func TestBurntSlotsAreLookedUpOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		start := func() *worker { return w.start(func(c *Config) { c.PulseInterval = time.Minute }) }
		e := start()
		payment := w.pay()
		w.await("the payment's report", func() bool { return len(w.reports()) == 1 })
		w.spend(customerCentavos + 100) // so each return finds the payee short, and burns a slot

		for range ledger.ReturnSlots {
			id := w.giveBack(payment, 1)
			w.await("a refusal", func() bool { return len(w.reports()[id.String()]) == 1 })

			if report := w.reports()[id.String()][0]; report.ReasonCode != pix.ReasonPayerShort.String() {
				t.Fatalf("the report is %v", report)
			}
		}
		burnt := map[tb.Uint128]bool{}

		for _, chain := range w.ledger.written() {
			if chain[0].Code == ledger.CodeReturnLeg1 {
				burnt[chain[0].ID] = true
			}
		}

		if len(burnt) != ledger.ReturnSlots {
			t.Fatalf("%d slots are burnt", len(burnt))
		}
		lookUps, chains := 0, len(w.ledger.written())
		w.ledger.set(func() { lookUps = w.ledger.lookUps })
		id := w.giveBack(payment, 1)
		w.await("the last refusal", func() bool { return len(w.reports()[id.String()]) == 1 })
		w.ledger.set(func() { lookUps = w.ledger.lookUps - lookUps })

		if report := w.reports()[id.String()][0]; report.ReasonCode != pix.ReasonReturnsUsedUp.String() {
			t.Errorf("the report is %v", report)
		}

		if chains = len(w.ledger.written()) - chains; lookUps > 2 || chains != 1 { // one look-up may be the pulse's
			t.Errorf("%d look-ups and %d chains, want 1 and 1", lookUps, chains)
		}

		// Marks that are missing, as in a ledger from before there were any, are added by the
		// next return that finds the slots burnt.
		before := len(w.ledger.of(ledger.CodeBurnt))
		payment = w.pay()
		w.await("another payment's report", func() bool { return len(w.reports()[payment.String()]) == 1 })
		w.spend(100)
		w.ledger.put(ledger.AppendReturnedMark(nil, payment)...)
		from, to := pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"},
			pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"}

		for slot := range ledger.ReturnSlots {
			content := pix.ReturnContent{Original: payment, AmountCentavos: 1, Reason: pix.ReturnReasons[0]}

			chain := ledger.AppendReturnReserve(nil, pix.NewReturnID("10000002", time.Now(), w.random), content, slot,
				pix.Content{Payer: from, Payee: to, AmountCentavos: 100}, 60)
			if failed, err := w.ledger.Client.CreateTransfers(chain); err != nil || len(failed) != len(chain) ||
				failed[0].Result != tb.TransferExceedsCredits {
				t.Fatal(failed, err)
			}
		}
		id = w.giveBack(payment, 1)
		w.await("another refusal", func() bool { return len(w.reports()[id.String()]) == 1 })

		marks := len(w.ledger.of(ledger.CodeBurnt)) - before
		if marks != ledger.ReturnSlots {
			t.Errorf("%d marks, want %d", marks, ledger.ReturnSlots)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// large returns an order as a message with 200 kB of a field that nobody knows.
func (w *world) large(order *pixv1.PaymentOrder) []byte {
	w.t.Helper()

	value, err := order.MarshalVT()
	if err != nil {
		w.t.Fatal(err)
	}
	value = protowire.AppendTag(value, 1000, protowire.BytesType)

	return protowire.AppendBytes(value, make([]byte, 200_000))
}

func (w *world) sendValue(key string, value []byte) {
	w.t.Helper()

	if err := w.client.ProduceSync(w.t.Context(),
		&kgo.Record{Topic: stream.Payments, Key: []byte(key), Value: value}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// Large orders to a silent bank leave their bytes of the room to others while they wait.
func TestLargeOrdersThatWaitLeaveTheRoomToOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank("10000003")()

		e := w.start(func(c *Config) { c.InFlightBytesMax = 1 << 20 })
		for range 20 {
			order := w.order()
			order.Payee.Ispb = "10000003"
			w.sendValue(order.EndToEndId, w.large(order))
		}
		started := time.Now()
		id := w.pay()
		w.await("the report of another payment", func() bool { return len(w.reports()[id.String()]) == 1 })

		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		w.await("the last offset", func() bool { return w.committed() == 21 })

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// An order whose record was let go of, and which then meets another verdict, becomes a dead
// letter with its whole payload.
func TestALargeOrderBecomesAWholeDeadLetter(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		order := w.order()
		value := w.large(order)
		w.sendValue(order.EndToEndId, value)
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })
		id := pix.EndToEndID([]byte(order.EndToEndId))
		other := pix.Content{Payer: pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"},
			Payee: pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"}, AmountCentavos: 7}
		receipt := ledger.AppendReceipt(nil, id, other, pix.ReasonInactivePSP, true)[0]
		w.ledger.put(receipt)
		defer w.bank()()
		w.await("the last offset", func() bool { return w.committed() == 1 })

		letter := w.letters()[0]
		if letter == nil || letter.ReasonCode != "DUPL" || int(letter.PayloadSizeBytes) != len(value) ||
			len(letter.Payload) != stream.DeadLetterPayloadBytesMax {
			t.Errorf("the dead letter has %d of %d bytes: %.200v", len(letter.GetPayload()),
				letter.GetPayloadSizeBytes(), letter)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// Between copies that are fetched again may stand batches that no client can read.
func TestCopiesAreFetchedAgainAcrossUnreadableBatches(t *testing.T) {
	for name, batch := range hostileBatches(t) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.latency = time.Millisecond
				e := w.start()
				order := w.order()
				w.send(order.EndToEndId, order)
				w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })

				for i := range uint64(3) {
					w.send(order.EndToEndId, copyOf(order, 200+i))

					raw, _, _ := batch()
					if _, err := hostile.Produce(w.t.Context(), w.client, stream.Payments, 0, raw); err != nil {
						t.Fatal(err)
					}
				}
				w.send(order.EndToEndId, copyOf(order, 300))
				last := w.pay() // behind all of them
				defer w.bank()()
				w.await("the payment behind them", func() bool { return len(w.reports()[last.String()]) == 1 })
				w.await("the dead letters of all copies", func() bool { return w.lettersOf(pix.ReasonConflict) == 4 })

				if _, err := e.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
