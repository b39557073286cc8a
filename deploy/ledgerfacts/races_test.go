package ledgerfacts

import (
	"sync"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// race writes chains at once, each by an engine of its own.
func race(t *testing.T, chains ...[]tb.Transfer) []ledger.Result {
	answers := make([]ledger.Result, len(chains))
	var racing sync.WaitGroup

	for i, chain := range chains {
		b := open(largest)
		defer b.close()
		racing.Go(func() { answers[i] = b.write(t, chain) })
	}
	racing.Wait()

	return answers
}

// Post, void and receipt race for the one verdict: exactly one is written, the others learn that it
// exists, and all the money follows it.
func TestOneVerdictWhoeverRaces(t *testing.T) {
	first, closed, silent := newScene(t), pix.ReasonPayeeClosed, pix.ReasonPayeePSPSilent
	settled := int64(0)

	for range 40 {
		p := newPaymentBetween(t, first.content.Payer, first.content.Payee)
		p.content.AmountCentavos, p.timeout = 1, 2 // if a receipt wins, the timeout ends the hold
		expect(t, p.reserve(), "OK")
		answers := race(t, p.post(), p.void(closed), p.receipt(silent))

		verdict, found := shared.trace(t, p.id).Verdict()
		if !found {
			t.Fatalf("no verdict after %v", answers)
		}

		for i, want := range []ledger.Verdict{{Settled: true}, {Reason: closed}, {Reason: silent}} {
			want.Time = verdict.Time
			if won := answers[i].OK(); won != (verdict == want) || !won &&
				answers[i].Status != tb.TransferExistsWithDifferentFlags {
				t.Errorf("verdict %+v, and to %+v the ledger answered %s", verdict, want, answers[i].Status)
			}
		}

		if verdict.Settled {
			settled++
		}
	}
	first.do("held becomes 0")
	expectMoney(t, first.payment, 0, settled)
}

// Two engines that both believe they own a payment hold its money once.
func TestOnePhase1WhoeverRaces(t *testing.T) {
	for range 40 {
		p := newPayment(t)

		answers := race(t, p.reserve(), p.reserve())
		for i, answer := range answers {
			if answer.OK() == answers[1-i].OK() || !answer.OK() && answer.Status != tb.TransferExists {
				t.Errorf("the answers are %v", answers)
			}
		}
		expectMoney(t, p, amount, 0)
	}
}
