package pix

import (
	"time"

	"pgregory.net/rapid"
)

// Generators of what the payment system accepts.

func ispbs() *rapid.Generator[ISPB] {
	return rapid.Map(rapid.StringMatching(`[0-9A-Z]{8}`), func(s string) ISPB { return ISPB(s) })
}

func accounts() *rapid.Generator[Account] {
	return rapid.Custom(func(t *rapid.T) Account {
		return Account{
			ISPB:   ispbs().Draw(t, "ispb"),
			Branch: rapid.StringMatching(`[0-9]{4}`).Draw(t, "branch"),
			Number: rapid.StringMatching(`[1-9][0-9]{0,19}`).Draw(t, "number"),
		}
	})
}

func suffixes() *rapid.Generator[string] { return rapid.StringMatching(`[0-9A-Za-z]{11}`) }

func minutes() *rapid.Generator[uint64] { return rapid.Uint64Range(0, 1<<minuteBits-1) }

func endToEndIDs() *rapid.Generator[EndToEndID] {
	return rapid.Custom(func(t *rapid.T) EndToEndID {
		id, err := ParseEndToEndID(
			textOf(ispbs().Draw(t, "payer"), minutes().Draw(t, "minute"), suffixes().Draw(t, "suffix")))
		if err != nil {
			t.Fatal(err)
		}

		return id
	})
}

// textOf writes an EndToEndId by hand, as another system would.
func textOf(payer ISPB, minute uint64, suffix string) string {
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(minute) * time.Minute)
	return "E" + string(payer) + at.Format("200601021504") + suffix
}
