package answers

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
)

// The payee's bank is told of a rejected payment if money was held for it before the verdict. A
// redelivery can hold money after the receipt of a refusal, too; it may be told of that or not.
func TestThePayeesBankIsToldOfWhatWasHeld(t *testing.T) {
	population := sandbox.Population{Banks: 2, Customers: 2, DepositCentavos: 1000, ReserveCentavos: 1_000_000}
	client := ledgermodel.New().Connect(nil)
	config := &bootstrap.Config{}
	if err := settings.Parse(config); err != nil {
		t.Fatal(err)
	}
	config.Population = population
	if err := bootstrap.Populate(t.Context(), config, client); err != nil {
		t.Fatal(err)
	}
	content := pix.Content{Payer: population.Customer(0), Payee: population.Customer(1), AmountCentavos: 5}
	for i, c := range []struct {
		name           string
		held           bool
		receipt        pix.Reason // none: it was held and voided
		receiptFirst   bool
		kept, optional bool
	}{
		{"held and voided", true, pix.ReasonNone, false, true, false},
		{"held, expired and AB03", true, pix.ReasonPayeePSPSilent, false, true, false},
		{"never held", false, pix.ReasonInactivePSP, true, false, false},
		{"refused, then held", true, pix.ReasonInactivePSP, true, true, true},
		{"refused while another engine holds it", true, pix.ReasonTooLate, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := pix.EndToEndID(fmt.Appendf(nil, "E10000000202605041200%011d", i))
			var chain []tb.Transfer
			if c.receiptFirst {
				chain = ledger.AppendReceipt(chain, id, content, c.receipt, true)
			}
			if c.held {
				chain = ledger.AppendReserve(chain, id, content, 60)
			}
			if c.receipt == pix.ReasonNone {
				chain = ledger.AppendVoid(chain, id, false, pix.ReasonPayeeBlocked)
			} else if !c.receiptFirst {
				chain = ledger.AppendReceipt(chain, id, content, c.receipt, true)
			}
			if results, err := client.CreateTransfers(chain); err != nil || len(results) > 0 {
				t.Fatal(results, err)
			}
			j := NewJudge(1, 0)
			j.follow(population.Bank(1))
			o := j.journals[population.Bank(1)]
			o.reports = []report{{settlement: settlement{id: id, at: time.Now().Add(time.Minute).UnixMilli(), says: cmp.Or(c.receipt, pix.ReasonPayeeBlocked).String()}, centavos: 5, asPayee: true}}
			if err := j.lookUpHolds(client); err != nil {
				t.Fatal(err)
			}
			if kept := len(o.reports) == 1; kept != c.kept || kept && o.reports[0].optional != c.optional {
				t.Errorf("the reports are %+v", o.reports)
			}
		})
	}
}
