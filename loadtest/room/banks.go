package room

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/keys"
)

// banks are the participants, and how the simulator plays them.
type banks struct {
	callers *load.Callers // nil: not known how they behave

	mu        sync.Mutex
	behaviour map[string]string // by ISPB
	lookedAt  time.Time
}

// The behaviours of a bank. Each is a profile of the simulator; the normal one is that of its start.
const behaviourNormal = "normal"

var profileOf = map[string]string{
	"silent":    `{"silent_share": 1}`,
	"slow":      `{"delay": {"min_ms": 1000, "mean_ms": 1450, "max_ms": 2500}}`,
	"rejecting": `{"accept_share": 0, "reject_codes": ["AC06"]}`,
}

func newBanks(config *Config) *banks {
	b := &banks{callers: config.Banks, behaviour: map[string]string{}}
	for i := range min(config.Population.Banks, banksMax) {
		b.behaviour[string(config.Population.Bank(i))] = ""
	}

	return b
}

// profile is what the room reads of a profile of the simulator.
type profile struct {
	SilentShare *float64 `json:"silent_share"`
	AcceptShare *float64 `json:"accept_share"`
	Delay       *struct {
		MeanMs float64 `json:"mean_ms"`
	} `json:"delay"`
}

func (p profile) behaviour() string {
	switch {
	case p.SilentShare != nil && *p.SilentShare >= 1:
		return "silent"
	case p.AcceptShare != nil && *p.AcceptShare <= 0:
		return "rejecting"
	case p.Delay != nil && p.Delay.MeanMs >= 1000:
		return "slow"
	}

	return behaviourNormal
}

const banksEvery = 3 * time.Second

// look adds banks that pay, and asks the simulator now and then how banks behave.
func (b *banks) look(ctx context.Context, seen []Flow) {
	b.mu.Lock()
	for _, flow := range seen {
		for _, ispb := range []string{flow.Payer, flow.Payee} {
			// A refused order may name a bank that is none.
			if _, known := b.behaviour[ispb]; !known && flow.Settled > 0 && len(b.behaviour) < banksMax &&
				ispb != others {
				b.behaviour[ispb] = ""
			}
		}
	}

	due := b.callers != nil && time.Since(b.lookedAt) > banksEvery
	if due {
		b.lookedAt = time.Now()
	}
	b.mu.Unlock()

	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	profiles := map[string]profile{}
	answer, err := b.callers.Send(ctx, http.MethodGet, "/v1/profiles", keys.CentralBank, nil)
	known := err == nil && answer.Status == http.StatusOK && json.Unmarshal(answer.Body, &profiles) == nil
	b.mu.Lock()
	defer b.mu.Unlock()

	for ispb := range b.behaviour {
		b.behaviour[ispb] = ""
		if known {
			b.behaviour[ispb] = profiles[ispb].behaviour()
		}
	}
}

func (b *banks) all() []Bank {
	b.mu.Lock()
	defer b.mu.Unlock()

	all := []Bank{}
	for _, ispb := range slices.Sorted(maps.Keys(b.behaviour)) {
		all = append(all, Bank{ISPB: ispb, Behaviour: b.behaviour[ispb]})
	}

	return all
}

// behave makes the simulator play a bank in another way.
func (b *banks) behave(ctx context.Context, ispb, behaviour string) error {
	if b.callers == nil {
		return errNoBanks
	}
	b.mu.Lock()
	_, known := b.behaviour[ispb]
	b.lookedAt = time.Time{}
	b.mu.Unlock()

	if !known {
		return refusal{"target", ispb, "the ISPB of a bank that the picture shows"}
	}

	profile, known := profileOf[behaviour]
	if !known && behaviour != behaviourNormal {
		return refusal{"behaviour", behaviour, "normal, silent, slow or rejecting"}
	}

	return b.callers.SetProfile(ctx, ispb, profile)
}
