package answers

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
)

// The payee's bank is told of a rejected payment if money was held for it before the verdict. A
// redelivery can hold money after the receipt of a refusal, too; it may be told of that or not.
func TestThePayeesBankIsToldOfWhatWasHeld(t *testing.T) {
	population := sandbox.Population{Banks: 2, Customers: 2, DepositCentavos: 1000, ReserveCentavos: 1_000_000}
	var passed time.Duration
	client := ledgermodel.New().ConnectAt(func() time.Time { return time.Now().Add(passed) })
	config := &bootstrap.Config{}
	kit.Must(t, settings.Parse(config))
	config.Population = population
	kit.Must(t, bootstrap.Populate(t.Context(), config, client))
	content := pix.Content{Payer: population.Customer(0), Payee: population.Customer(1), AmountCentavos: 5}

	for i, c := range []struct {
		name           string
		held           bool
		receipt        pix.Reason // none: it was held and voided
		receiptFirst   bool
		later          time.Duration // from hold to receipt
		kept, optional bool
	}{
		{"held and voided", true, pix.ReasonNone, false, 0, true, false},
		{"held, expired and AB03", true, pix.ReasonPayeePSPSilent, false, 0, true, false},
		{"never held", false, pix.ReasonInactivePSP, true, 0, false, false},
		{"refused, then held", true, pix.ReasonInactivePSP, true, 0, true, true},
		{"refused while another engine holds it", true, pix.ReasonTooLate, false, 0, true, true},
		{"refused while another engine holds it, and a request takes long", true, pix.ReasonTooLate, false,
			raceMax - time.Second, true, true},
		{"refused although it was held before", true, pix.ReasonTooLate, false, raceMax + time.Second, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := pix.EndToEndID(fmt.Appendf(nil, "E10000000202605041200%011d", i))

			write := func(chain []tb.Transfer) {
				t.Helper()

				if results, err := client.CreateTransfers(chain); err != nil || len(results) > 0 {
					t.Fatal(results, err)
				}
			}
			if c.receiptFirst {
				write(ledger.AppendReceipt(nil, id, content, c.receipt, true))
			}

			if c.held {
				write(ledger.AppendReserve(nil, id, content, 60))
			}

			passed += c.later
			if c.receipt == pix.ReasonNone {
				write(ledger.AppendVoid(nil, id, false, pix.ReasonPayeeBlocked))
			} else if !c.receiptFirst {
				write(ledger.AppendReceipt(nil, id, content, c.receipt, true))
			}
			j := NewJudge(1, 0)
			j.follow(population.Bank(1))
			o := j.journals[population.Bank(1)]
			o.reports = []report{{settlement: settlement{EndToEndID: id.String(),
				ReasonCode: cmp.Or(c.receipt, pix.ReasonPayeeBlocked).String(), Centavos: 5}, asPayee: true}}
			kit.Must(t, j.lookUpHolds(client))

			if kept := len(o.reports) == 1; kept != c.kept || kept && o.reports[0].optional != c.optional {
				t.Errorf("the reports are %+v", o.reports)
			}
		})
	}
}
