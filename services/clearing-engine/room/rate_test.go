package room

import (
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Returns of one payment have a rate. One too many is rejected for good, and leaves a verdict.
func TestReturnsOfAPaymentHaveARate(t *testing.T) {
	const atOnce = 128
	rate := NewRate(10, atOnce)
	now := time.Now()
	var one, other pix.EndToEndID
	other[0] = 'E'
	allowed := 0

	for range 1000 {
		if rate.Allow(one, now) {
			allowed++
		}
	}

	if allowed != atOnce || !rate.Allow(other, now) {
		t.Errorf("%d returns at once, want %d; returns of another payment must not suffer", allowed, atOnce)
	}
	now = now.Add(time.Second)
	allowed = 0

	for range 100 {
		if rate.Allow(one, now) {
			allowed++
		}
	}

	if allowed != 10 {
		t.Errorf("%d returns after a second, want 10", allowed)
	}
	now = now.Add(time.Hour)

	for i := range 5000 { // of many payments: the memory is bounded by the rate
		other[1], other[2] = byte(i), byte(i>>8)
		rate.Allow(other, now.Add(time.Duration(i)*time.Second))
	}

	if len(rate.next) > 2000 {
		t.Errorf("%d payments are remembered", len(rate.next))
	}
}
