package engine

import (
	"testing"
	"time"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// phases1 returns how many payments the ledger was asked to hold.
func (l *worldLedger) phases1() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, chain := range l.chains {
		if chain[0].TransferFlags().Pending {
			n++
		}
	}

	return n
}

func (w *world) awaitReport(id string) *pixv1.SettlementReport {
	w.t.Helper()
	w.await("the report of "+id, func() bool { return len(w.reports()[id]) == 1 })
	return w.reports()[id][0]
}

// Payments from and to a suspended bank are refused, and its returns. Returns to it are taken. When
// it is resumed, all is as before.
func TestASuspendedBank(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start()
		const payer, payee = "10000001", "10000002"

		first, second := w.pay(), w.pay()
		for _, id := range []pix.EndToEndID{first, second} {
			if report := w.awaitReport(id.String()); report.Status != settled {
				t.Fatalf("the report is %v", report)
			}
		}

		for _, bank := range []pix.ISPB{payer, payee} {
			w.ledger.act(ledger.Suspended, bank)
			time.Sleep(2 * time.Second)

			if report := w.awaitReport(w.pay().String()); report.ReasonCode != "DS27" {
				t.Errorf("with %s suspended the report is %v", bank, report)
			}

			back := w.awaitReport(w.giveBack(map[pix.ISPB]pix.EndToEndID{payer: first, payee: second}[bank],
				40).String())
			if refused := back.ReasonCode == "DS27"; refused != (bank == payee) || !refused && back.Status != settled {
				t.Errorf("with %s suspended the report of a return from %s to %s is %v", bank, payee, payer, back)
			}
			w.ledger.act(ledger.Resumed, bank)
			time.Sleep(2 * time.Second)

			if report := w.awaitReport(w.pay().String()); report.Status != settled {
				t.Errorf("after %s was resumed the report is %v", bank, report)
			}
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// An engine that cannot read the register, while the ledger does all else, begins nothing. What waits is
// judged by what the register says then.
func TestNothingBeginsWithoutTheRegister(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start()
		held := w.awaitReport(w.pay().String())
		before := w.ledger.phases1()
		w.ledger.set(func() { w.ledger.unread = make(chan struct{}) })
		time.Sleep(3 * time.Second)
		waiting := w.pay()
		time.Sleep(5 * time.Second)

		if held.Status != settled || w.ledger.phases1() != before || len(w.reports()) != 1 {
			t.Errorf("%v; then %d payments more were held without the register, and %d reported", held,
				w.ledger.phases1()-before, len(w.reports())-1)
		}
		w.ledger.act(ledger.Suspended, "10000002")
		w.ledger.set(func() { close(w.ledger.unread); w.ledger.unread = nil })

		if report := w.awaitReport(waiting.String()); report.ReasonCode != "DS27" {
			t.Errorf("the report is %v", report)
		}
		w.ledger.act(ledger.Resumed, "10000002")
		time.Sleep(2 * time.Second)

		if report := w.awaitReport(w.pay().String()); report.Status != settled {
			t.Errorf("the report is %v", report)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// An order that was decided before a suspension, and has waited for its turn at the ledger until
// after it, is not held. One that was decided before the end of a suspension is not refused.
func TestADecisionOutlivedByAnActIsMadeAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()

		e := w.start()
		if report := w.awaitReport(w.pay().String()); report.Status != settled {
			t.Fatalf("the report is %v", report)
		}

		for kind, reason := range map[ledger.ActKind]string{ledger.Suspended: "DS27", ledger.Resumed: ""} {
			before := w.ledger.phases1()
			if kind == ledger.Resumed {
				w.ledger.act(ledger.Suspended, "10000002")
				time.Sleep(2 * time.Second)
			}
			w.ledger.set(func() { w.ledger.pace = 3 * time.Second }) // of a transfer
			busy := w.pay()
			time.Sleep(100 * time.Millisecond)
			late := w.pay() // waits for the next request
			time.Sleep(100 * time.Millisecond)
			w.ledger.act(kind, "10000002")
			report := w.awaitReport(late.String())
			w.awaitReport(busy.String())

			if report.ReasonCode != reason {
				t.Errorf("after %s the report is %v", kind, report)
			}

			if n := w.ledger.phases1() - before; kind == ledger.Suspended && n > 1 {
				t.Errorf("%d payments were held, one of them after the suspension", n)
			}
			w.ledger.set(func() { w.ledger.pace = 0 })
			w.ledger.act(ledger.Resumed, "10000002")
			time.Sleep(2 * time.Second)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}
