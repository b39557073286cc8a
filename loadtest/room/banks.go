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
	for i := range config.Population.Banks {
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

// look adds banks that pay, and asks the simulator how banks behave.
func (b *banks) look(ctx context.Context, seen []Flow) {
	profiles, known := map[string]profile{}, false

	if b.callers != nil {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		answer, err := b.callers.Ask(ctx, http.MethodGet, "/v1/profiles", keys.CentralBank, nil, http.StatusOK)
		known = err == nil && json.Unmarshal(answer, &profiles) == nil
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	for _, flow := range seen {
		if flow.Settled > 0 && flow.Payer != others { // a refused order may name a bank that is none
			b.behaviour[flow.Payer], b.behaviour[flow.Payee] = "", ""
		}
	}

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
