package live

import (
	"slices"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// A full page may end within a chain. Judged so, a settled payment had one posted leg of three.
func TestAPageEndsWithAWholeChain(t *testing.T) {
	linked := tb.TransferFlags{Linked: true}.ToUint16()
	chain := []tb.Transfer{{Timestamp: 1, Flags: linked}, {Timestamp: 2, Flags: linked}, {Timestamp: 3}}

	page := slices.Concat(chain, chain)
	for size := range len(page) + 1 {
		if got, want := len(wholeChains(page[:size])), size/3*3; got != want {
			t.Errorf("of %d transfers %d are handed on, want %d", size, got, want)
		}
	}
}
