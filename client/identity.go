package client

import (
	"math/rand/v2"
	"time"
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newID returns an EndToEndId (E) or RtrId (D) of this instant: the letter, the bank, the minute, five
// characters that grow within it, because the ledger is faster on ids in order, and six that are random.
func newID(letter, ispb string) string {
	now := time.Now().UTC()
	var suffix [11]byte

	microseconds := now.Second()*1_000_000 + now.Nanosecond()/1_000
	for i := 4; i >= 0; i-- {
		suffix[i] = base62[microseconds%62]
		microseconds /= 62
	}

	for i := 5; i < len(suffix); i++ {
		suffix[i] = base62[rand.IntN(62)]
	}

	return letter + ispb + now.Format("200601021504") + string(suffix[:])
}
