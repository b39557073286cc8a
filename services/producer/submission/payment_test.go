package submission

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/producer/field"
)

// What is accepted here must not become a dead letter in the engine.
func TestAnAcceptedPaymentIsAValidOrder(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_123)
	digits := rapid.StringMatching(`[1-9][0-9]{0,21}`)
	anAccount := rapid.Custom(func(t *rapid.T) field.Account {
		return field.Account{ISPB: rapid.StringMatching(`[0-9A-Z]{7,9}`).Draw(t, "ispb"),
			Branch: rapid.StringMatching(`[0-9]{3,5}`).Draw(t, "branch"), Number: digits.Draw(t, "number")}
	})
	rapid.Check(t, func(t *rapid.T) {
		body := Payment{
			Payer: anAccount.Draw(t, "payer"), Payee: anAccount.Draw(t, "payee"),
			AmountCentavos: rapid.Uint64().Draw(t, "amount"),
			AcceptedAt: rapid.SampledFrom(
				[]string{"", now.Format(time.RFC3339Nano), now.Add(-11 * time.Hour).Format(time.RFC3339),
					now.Add(-13 * time.Hour).Format(time.RFC3339)}).Draw(t, "accepted_at"),
			RemittanceInformation: rapid.StringN(0, 50, 150).Draw(t, "remittance"),
		}

		order, problem := body.order(now)
		if problem != nil {
			if problem.Field == "" || problem.Detail == "" || problem.Code == "" {
				t.Fatalf("refused without saying what is wrong: %+v", problem)
			}

			return
		}

		draft := pix.Draft{
			EndToEndID: order.EndToEndId, AmountCentavos: order.AmountCentavos,
			AcceptedAtUnixMs: order.AcceptedAtUnixMs, RemittanceInformation: order.RemittanceInformation,
			Payer: pix.Account{ISPB: pix.ISPB(order.Payer.Ispb), Branch: order.Payer.Branch,
				Number: order.Payer.Number},
			Payee: pix.Account{ISPB: pix.ISPB(order.Payee.Ispb), Branch: order.Payee.Branch,
				Number: order.Payee.Number},
		}
		if _, err := draft.Validate(now); err != nil {
			t.Fatalf("let in and invalid: %v", err)
		}
	})
}
