package pix

import (
	"math"
	"testing"
)

func TestAmountsForPeople(t *testing.T) {
	for centavos, want := range map[int64]string{
		0: "BRL 0.00", 7: "BRL 0.07", 123_456: "BRL 1,234.56", -5: "-BRL 0.05", -123_456_700: "-BRL 1,234,567.00",
		math.MaxInt64: "BRL 92,233,720,368,547,758.07", math.MinInt64: "-BRL 92,233,720,368,547,758.08",
	} {
		if got := Reais(centavos); got != want {
			t.Errorf("%d: %q, want %q", centavos, got, want)
		}
	}
}
