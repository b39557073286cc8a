// Package decision decides how a receiving bank responds to a payment. A decision is a
// pure function of a seed, the payment and the bank's profile, so a repeated request gets
// the same response after any restart and from any replica.
package decision

import (
	"fmt"
	"math"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// Profile is how a bank behaves. It rejects what the first three shares leave of 1.
type Profile struct {
	AcceptShare    float64  `json:"accept_share"`           // accepted, after Delay
	LateShare      float64  `json:"late_share"`             // accepted, after LateDelayMs
	SilentShare    float64  `json:"silent_share"`           // no response
	DuplicateShare float64  `json:"duplicate_share"`        // of the responses, sent twice
	LateDelayMs    int64    `json:"late_delay_ms"`          // longer than the engine waits
	RejectCodes    []string `json:"reject_codes,omitempty"` // equally likely; repeat a code to make it likelier
	Delay          Delay    `json:"delay"`
}

// Delay is how long a bank takes: MinMs plus an exponential time, on average MeanMs, at
// most MaxMs. All zero means at once.
type Delay struct {
	MinMs  int64 `json:"min_ms"`
	MeanMs int64 `json:"mean_ms"`
	MaxMs  int64 `json:"max_ms"`
}

// Limits of a profile.
const (
	DelayMax       = 10 * time.Minute
	RejectCodesMax = 100
)

// Draft is a profile as a user writes it. Fields left out get the default beside them.
type Draft struct {
	AcceptShare    *float64   `json:"accept_share"` // what late and silent leave of 1
	LateShare      float64    `json:"late_share"`   //
	SilentShare    float64    `json:"silent_share"` //
	DuplicateShare float64    `json:"duplicate_share"`
	LateDelayMs    *int64     `json:"late_delay_ms"` // SIMULATOR_LATE_DELAY
	RejectCodes    []string   `json:"reject_codes"`
	Delay          DraftDelay `json:"delay"`
}

// DraftDelay is the Delay of a Draft.
type DraftDelay struct {
	MinMs  int64  `json:"min_ms"`
	MeanMs *int64 `json:"mean_ms"` // min_ms, which makes the delay constant
	MaxMs  *int64 `json:"max_ms"`  // 10 times mean_ms; one exponential time in 22,000 is longer
}

// Invalid is the error of a profile: the wrong field and its value.
type Invalid struct {
	Field  string
	Value  any
	Detail string
}

func (e *Invalid) Error() string { return fmt.Sprintf("%s is %v: %s", e.Field, e.Value, e.Detail) }

// shareSlack allows for the rounding of decimal fractions.
const shareSlack = 1e-9

// Profile completes and validates a draft. Its error is an *Invalid.
func (d Draft) Profile(lateDelay time.Duration) (Profile, error) {
	p := Profile{
		LateShare: d.LateShare, SilentShare: d.SilentShare, DuplicateShare: d.DuplicateShare,
		LateDelayMs: lateDelay.Milliseconds(), RejectCodes: d.RejectCodes,
		Delay: Delay{MinMs: d.Delay.MinMs, MeanMs: d.Delay.MinMs},
	}
	for _, share := range []struct {
		field string
		value float64
	}{{"late_share", p.LateShare}, {"silent_share", p.SilentShare}, {"duplicate_share", p.DuplicateShare}} {
		if !(share.value >= 0 && share.value <= 1) {
			return p, &Invalid{share.field, share.value, "it must be from 0 to 1"}
		}
	}

	rest := 1 - p.LateShare - p.SilentShare
	if rest < -shareSlack {
		return p, &Invalid{"silent_share", p.SilentShare, fmt.Sprintf("with late_share %v it exceeds 1", p.LateShare)}
	}

	p.AcceptShare = max(0, rest)
	if d.AcceptShare != nil {
		p.AcceptShare = *d.AcceptShare
	}

	if !(p.AcceptShare >= 0 && p.AcceptShare <= rest+shareSlack) {
		return p, &Invalid{"accept_share", p.AcceptShare,
			fmt.Sprintf("it must be from 0 to what late_share %v and silent_share %v leave of 1", p.LateShare,
				p.SilentShare)}
	}

	if len(p.RejectCodes) > RejectCodesMax {
		return p, &Invalid{"reject_codes", len(p.RejectCodes),
			fmt.Sprintf("entries; at most %d are allowed", RejectCodesMax)}
	}

	for _, code := range p.RejectCodes {
		if _, err := pix.ParseReason(code); err != nil {
			return p, &Invalid{"reject_codes", code, err.Error()}
		}
	}

	if len(p.RejectCodes) == 0 && rest-p.AcceptShare > shareSlack {
		return p, &Invalid{"reject_codes", "empty",
			fmt.Sprintf("the shares leave %.6g to be rejected, so it needs at least one code", rest-p.AcceptShare)}
	}

	if d.LateDelayMs != nil {
		p.LateDelayMs = *d.LateDelayMs
	}

	if d.Delay.MeanMs != nil {
		p.Delay.MeanMs = *d.Delay.MeanMs
	}
	const longest = int64(DelayMax / time.Millisecond)

	p.Delay.MaxMs = min(10*min(p.Delay.MeanMs, longest), longest)
	if d.Delay.MaxMs != nil {
		p.Delay.MaxMs = *d.Delay.MaxMs
	}

	for _, delay := range []struct {
		field       string
		value, from int64
	}{{"late_delay_ms", p.LateDelayMs, 0}, {"delay.min_ms", p.Delay.MinMs, 0},
		{"delay.mean_ms", p.Delay.MeanMs, p.Delay.MinMs}, {"delay.max_ms", p.Delay.MaxMs, p.Delay.MeanMs}} {
		if delay.value < delay.from || delay.value > longest {
			return p, &Invalid{delay.field, delay.value, fmt.Sprintf("it must be from %d to %d", delay.from, longest)}
		}
	}

	return p, nil
}

// exponential returns a delay for u, which is uniform over [0, 1).
func (d Delay) exponential(u float64) time.Duration {
	ms := float64(d.MinMs) - math.Log1p(-u)*float64(d.MeanMs-d.MinMs)
	return time.Duration(min(ms, float64(d.MaxMs)) * float64(time.Millisecond))
}
