package decision

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Decision is what a bank does with one payment.
type Decision struct {
	Silent     bool          // no response; the other fields are then empty
	RejectCode string        // empty means accepted
	Delay      time.Duration // from the request to the response
	Twice      bool          // the response is sent twice
}

// Decide returns what the bank does. It is a pure function of the seed, the payment and
// the profile.
func (p *Profile) Decide(seed uint64, endToEndID string) Decision {
	if p.certain() {
		return Decision{}
	}
	var key [64]byte
	text := append(binary.BigEndian.AppendUint64(key[:0], seed), endToEndID...)
	sum := sha256.Sum256(text)
	// Four independent numbers, uniform over [0, 1).
	var u [4]float64
	for i := range u {
		u[i] = float64(binary.BigEndian.Uint64(sum[8*i:])>>11) / (1 << 53)
	}
	fate, code, time, twice := u[0], u[1], u[2], u[3]

	decision := Decision{Twice: twice < p.DuplicateShare, Delay: p.Delay.exponential(time)}
	switch {
	case fate < p.SilentShare:
		return Decision{Silent: true}
	case fate < p.SilentShare+p.LateShare:
		decision.Delay = p.lateDelay()
	case fate < 1-p.AcceptShare && len(p.RejectCodes) > 0:
		decision.RejectCode = p.RejectCodes[int(code*float64(len(p.RejectCodes)))]
	}

	return decision
}

// certain reports whether every payment is accepted at once, so that nothing is drawn.
func (p *Profile) certain() bool {
	return p.AcceptShare >= 1 && p.DuplicateShare == 0 && p.Delay.MaxMs == 0
}

func (p *Profile) lateDelay() time.Duration { return time.Duration(p.LateDelayMs) * time.Millisecond }
