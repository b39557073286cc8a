package ledger

import (
	"math/big"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

func ispbs() *rapid.Generator[pix.ISPB] {
	return rapid.Map(rapid.StringMatching(`[0-9A-Z]{8}`), func(s string) pix.ISPB { return pix.ISPB(s) })
}

func accounts() *rapid.Generator[pix.Account] {
	return rapid.Custom(func(t *rapid.T) pix.Account {
		return pix.Account{
			ISPB: ispbs().Draw(t, "ispb"),
			Branch: rapid.OneOf(rapid.Just("0000"), rapid.Just("9999"),
				rapid.StringMatching(`[0-9]{4}`)).Draw(t, "branch"),
			Number: rapid.OneOf(rapid.Just("99999999999999999999"),
				rapid.StringMatching(`[1-9][0-9]{0,19}`)).Draw(t, "number"),
		}
	})
}

func endToEndIDs() *rapid.Generator[pix.EndToEndID] {
	return rapid.Custom(func(t *rapid.T) pix.EndToEndID {
		minute := rapid.OneOf(rapid.Uint64Range(0, 1<<26-1), rapid.Uint64Range(2_800_000, 2_800_003)).Draw(t, "minute")
		at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(minute) * time.Minute)

		id, err := pix.ParseEndToEndID(
			"E" + string(ispbs().Draw(t, "payer")) + at.Format("200601021504") +
				rapid.StringMatching(`[0-9A-Za-z]{11}`).Draw(t, "suffix"))
		if err != nil {
			t.Fatal(err)
		}

		return id
	})
}

// contents of payments; often inside one bank.
func contents() *rapid.Generator[pix.Content] {
	return rapid.Custom(func(t *rapid.T) pix.Content {
		content := pix.Content{
			Payer: accounts().Draw(t, "payer"), Payee: accounts().Draw(t, "payee"),
			AmountCentavos: rapid.Uint64Range(1, 1<<63-1).Draw(t, "amount"),
		}
		if rapid.Bool().Draw(t, "same bank") {
			content.Payee.ISPB = content.Payer.ISPB
		}

		return content
	})
}

func bigOf(v uint128) *big.Int {
	n := new(big.Int).SetUint64(v.high)
	return n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(v.low))
}
