package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
)

// capBanks sets a cap on outflow on every bank, by day and by night. No payment meets it, and its window outlasts the
// run: each payment to another bank has a fourth leg, and all of them stay alive.
func (m *session) capBanks(ctx context.Context) error {
	api, err := client.New(m.ProducerURL(), m.keys[keys.CentralBank])
	if err != nil {
		return err
	}
	most := int64(ledger.ActCentavosMax)

	for bank := range m.population.Banks {
		ispb := string(m.population.Bank(bank))

		for _, act := range []string{"day-cap", "night-cap"} {
			of := client.ParticipantAct{Act: act, CapCentavos: &most, WindowSeconds: ledger.WindowSecondsMax}
			if _, err := api.ActOnParticipant(ctx, ispb, "bench-"+act+"-"+ispb, of); err != nil {
				return fmt.Errorf("%s on bank %s: %w", act, ispb, err)
			}
		}
	}
	host.Sleep(ctx, 2*time.Second) // by then every engine knows

	return ctx.Err()
}
