package simulation

import (
	"testing"
	"time"
)

// Money comes and goes while payments flow: each act has its mirror in the books.
func TestMoneyComesAndGoesUnderLoad(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(2)
		load := s.send("demo", 20, 400)
		for range 3 {
			s.play("liquidity", time.Second)
			s.play("deposit", time.Second)
		}
		s.play("bank that joins", 0)
		s.play("blocked account", time.Second)
		load.wait(0.3)
		if summary := s.verdict(); summary.Acts["liquidity in"] != 4 || summary.Acts["liquidity out"] != 3 {
			s.t.Errorf("the audit saw the acts %v", summary.Acts)
		}
	})
}
