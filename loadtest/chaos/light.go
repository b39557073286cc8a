package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/room"
	"github.com/liquida/liquida/platform/host"
)

// Light is how many seconds the light of the control room's live audit had each colour.
type Light struct {
	Seconds  map[string]int `json:"seconds"` // by colour
	Findings []live.Finding `json:"findings,omitempty"`
}

func (l *Light) String() string {
	return fmt.Sprintf("its light was green for %d s, amber for %d, red for %d, and could not be read for %d",
		l.Seconds[live.Green], l.Seconds[live.Amber], l.Seconds[live.Red], l.Seconds[unknown])
}

const unknown = "unknown"

// watchLight looks once a second until ctx ends. url is the room's, with its token.
func watchLight(ctx context.Context, url string) *Light {
	seen := &Light{Seconds: map[string]int{}}
	at, token, _ := strings.Cut(url, "#token=")
	callers := load.NewCallers(at, map[string]string{stack.Room: token})
	defer callers.Close()

	for ; ctx.Err() == nil; host.Sleep(ctx, time.Second) {
		asking, cancel := context.WithTimeout(ctx, 5*time.Second)
		answer, err := callers.Ask(asking, http.MethodGet, "api/picture?history=no", stack.Room, nil, http.StatusOK)
		cancel()

		var picture room.Picture
		if err == nil {
			err = json.Unmarshal(answer, &picture)
		}

		switch {
		case ctx.Err() != nil:
		case err != nil:
			seen.Seconds[unknown]++
		default:
			seen.Seconds[picture.Light.Colour]++
			if picture.Light.Colour == live.Red {
				seen.Findings = picture.Light.Findings
			}
		}
	}

	return seen
}
