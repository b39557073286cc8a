package engine

import (
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// Four of five banks are silent, and more is paid to them than the room holds. They hold at
// most half of it. Payments to the fifth bank keep their latency, and none is refused.
func TestSilentBanksLeaveHalfOfTheRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		silent := []string{"10000003", "10000004", "10000005", "10000006"}
		defer w.bank(silent...)()
		e := w.start(func(c *Config) { c.InFlightMax, c.InFlightPayerShare = 400, 1 })
		sent := map[string]time.Time{} // to the fifth bank

		for range 60 {
			for i := range 40 {
				order := w.order()
				order.Payee.Ispb = silent[i%4]
				w.send(order.EndToEndId, order)
			}
			sent[w.pay().String()] = time.Now()
			time.Sleep(time.Second)
		}

		reported := map[string]time.Time{}
		for _, record := range w.records(stream.Settlements) {
			reported[string(record.Key)] = record.Timestamp
		}

		reports := w.reports()
		for id, at := range sent {
			if len(reports[id]) != 1 || reports[id][0].Status != settled || reported[id].Sub(at) > time.Second {
				t.Errorf("a payment to the fifth bank was reported after %v: %v", reported[id].Sub(at), reports[id])
			}
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// One bank pays without end to one account of each other bank, which is never answered. All payments to
// other accounts of these banks settle: those of other senders, and its own.
func TestASilentAccountHarmsNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		banks := []string{"10000003", "10000004", "10000005", "10000006"}

		var silent []string
		for _, bank := range banks {
			silent = append(silent, bank+"/1")
		}
		defer w.bank(silent...)()
		e := w.start(func(c *Config) { c.InFlightMax = 1600 })
		var sent []string

		for second := range 60 {
			for i := range 40 {
				order := w.order()

				order.Payee = account(pix.ISPB(banks[i%len(banks)]), "1")
				if second < 30 {
					order.Payee.Ispb = banks[1] // all to one
				}
				w.send(order.EndToEndId, order)
			}

			for _, payer := range []pix.ISPB{"10000001", "10000007"} {
				for _, bank := range banks {
					order := w.order()
					order.EndToEndId = pix.NewEndToEndID(payer, time.Now(), w.random).String()
					order.Payer.Ispb, order.Payee.Ispb = string(payer), bank
					w.send(order.EndToEndId, order)
					sent = append(sent, order.EndToEndId)
				}
			}
			time.Sleep(time.Second)
		}

		reports := w.reports()
		for i, id := range sent {
			if len(reports[id]) != 1 || reports[id][0].Status != settled {
				t.Errorf("payment %d to another account of such a bank: %v", i, reports[id])
			}
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// Shares count per engine, because the room does: with two engines a sender has a share of each
// room, and both leave the same part of theirs to the others. One bank sends copies and pays to
// silent banks without end, in both engines' partitions. Payments of others keep their latency.
func TestSharesHoldInEachOfTwoEngines(t *testing.T) {
	inWorld(t, func(w *world) {
		silent := []string{"10000003", "10000004", "10000005", "10000006"}
		defer w.bank(silent...)()
		change := func(c *Config) { c.InFlightMax, c.WorkingMax = 400, 100 }
		engines := []*worker{w.start(change), w.start(change)}
		w.await("both engines", func() bool { return w.members() == 2 })
		sent := map[string]time.Time{} // by another bank

		for range 30 {
			for partition := range int32(2) {
				copied := w.order()

				copied.Payee.Ispb = silent[0]
				for i := range 60 {
					w.sendTo(partition, copied.EndToEndId, copied)
					order := w.order()
					order.Payee.Ispb = silent[i%4]
					w.sendTo(partition, order.EndToEndId, order)
				}
				order := w.order()
				order.EndToEndId = pix.NewEndToEndID("10000007", time.Now(), w.random).String()
				order.Payer.Ispb = "10000007"
				w.sendTo(partition, order.EndToEndId, order)
				sent[order.EndToEndId] = time.Now()
			}
			time.Sleep(time.Second)
		}

		reported, reports := map[string]time.Time{}, w.reports()
		for _, record := range w.records(stream.Settlements) {
			reported[string(record.Key)] = record.Timestamp
		}

		for id, at := range sent {
			if len(reports[id]) != 1 || reports[id][0].Status != settled || reported[id].Sub(at) > time.Second {
				t.Errorf("a payment of another bank was reported after %v: %v", reported[id].Sub(at), reports[id])
			}
		}

		for _, e := range engines {
			if _, err := e.end(); err != nil {
				t.Error(err)
			}
		}
	})
}
