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

// The behaviours of a bank. Each is a profile of the simulator; without one it is as from its start.
const (
	behaviourNormal = "normal"
	behaviourSilent = "silent"
	behaviourOther  = "other" // by a profile that is not the room's
)

var profileOf = map[string]string{behaviourNormal: "", behaviourSilent: `{"silent_share": 1}`}

func newBanks(config *Config) *banks {
	b := &banks{callers: config.Banks, behaviour: map[string]string{}}
	for i := range config.Population.Banks {
		b.behaviour[string(config.Population.Bank(i))] = ""
	}

	return b
}

// look adds banks that pay, and asks the simulator how banks behave.
func (b *banks) look(ctx context.Context, seen []Flow) {
	profiles, known := map[string]struct {
		SilentShare float64 `json:"silent_share"`
	}{}, false

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
		switch {
		case !known:
			b.behaviour[ispb] = ""
		default:
			switch profile, changed := profiles[ispb]; {
			case !changed:
				b.behaviour[ispb] = behaviourNormal
			case profile.SilentShare >= 1:
				b.behaviour[ispb] = behaviourSilent
			default:
				b.behaviour[ispb] = behaviourOther
			}
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
	if !known {
		return refusal{"behaviour", behaviour, "normal or silent"}
	}

	return b.callers.SetProfile(ctx, ispb, profile)
}
