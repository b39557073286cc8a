package load

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// A failure says what the ledger holds about its payment.
func TestWhatTheLedgerHolds(t *testing.T) {
	population := sandbox.Population{Banks: 2, Customers: 4, DepositCentavos: 1_000_000, ReserveCentavos: 1_000_000}
	model := ledgermodel.New()
	client := model.Connect(nil)
	kit.Must(t, bootstrap.Populate(t.Context(), &bootstrap.Config{Population: population, Timeout: time.Minute, EventsMax: 8189}, client))
	holds := LedgerHolds(func() (tigerbeetle.Client, error) { return client, nil })
	payment := mix.NewGenerator(population, rand.New(rand.NewPCG(1, 0))).Payment(mix.Accepted, time.Now())
	id, err := pix.ParseEndToEndID(payment.Name)
	kit.Must(t, err)
	content := pix.Content{Payer: payment.Payer, Payee: payment.Payee, AmountCentavos: payment.First.AmountCentavos}
	if text := holds(id); text != "nothing" {
		t.Errorf("before anything was held: %s", text)
	}
	kit.Must(t, kit.ErrorOf(client.CreateTransfers(ledger.AppendReserve(nil, id, content, 60))))
	if text := holds(id); !strings.Contains(text, "held at ") || !strings.Contains(text, "no verdict") {
		t.Errorf("held: %s", text)
	}
	kit.Must(t, kit.ErrorOf(client.CreateTransfers(ledger.AppendVoid(nil, id, false, pix.ReasonPayeeBlocked))))
	if text := holds(id); !strings.Contains(text, "rejected with AC06") {
		t.Errorf("voided: %s", text)
	}
	absent := LedgerHolds(func() (tigerbeetle.Client, error) { return nil, errors.New("no ledger here") })
	if text := absent(id); text != "no ledger here" {
		t.Errorf("without a ledger: %s", text)
	}
}
