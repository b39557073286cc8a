package engine

import (
	"sync"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// witness is what this engine has found in the ledger.
type witness struct {
	mu       sync.Mutex
	probe    tb.Uint128 // its latest pulse
	found    tb.Uint128 // the youngest transfer in the results of look-ups
	youngest uint64     // its ledger time
}

func (w *witness) pulsed(probe tb.Uint128) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probe = probe
}

func (w *witness) saw(transfers []tb.Transfer) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for i := range transfers {
		if t := &transfers[i]; t.Timestamp > w.youngest {
			w.found, w.youngest = t.ID, t.Timestamp
		}
	}
}

// seen returns transfers that are surely in the ledger: the latest that were written, and those found. No verdict
// that this engine knows is younger than the youngest of them.
func (w *witness) seen(written []tb.Uint128) []tb.Uint128 {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, id := range []tb.Uint128{w.probe, w.found} {
		if id != (tb.Uint128{}) {
			written = append(written, id)
		}
	}

	return written
}
