package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/room"
	"github.com/liquida/liquida/platform/host"
)

// Light is how many seconds the light of the control room's live audit had each colour.
type Light struct {
	Seconds  map[string]int `json:"seconds"` // by colour
	Findings []live.Finding `json:"findings,omitempty"`
}

func (l *Light) String() string {
	return fmt.Sprintf("its light was green for %d s, amber for %d, red for %d, and could not be read for %d", l.Seconds[live.Green], l.Seconds[live.Amber], l.Seconds[live.Red], l.Seconds[unknown])
}

const unknown = "unknown"

// watchLight looks once a second until ctx ends. url is the room's, with its token.
func watchLight(ctx context.Context, url string) *Light {
	seen := &Light{Seconds: map[string]int{}}
	at, token, _ := strings.Cut(url, "#token=")
	for ; ctx.Err() == nil; host.Sleep(ctx, time.Second) {
		light, err := lightOf(ctx, at, token)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			seen.Seconds[unknown]++
		default:
			seen.Seconds[light.Colour]++
			if light.Colour == live.Red {
				seen.Findings = light.Findings
			}
		}
	}
	return seen
}

func lightOf(ctx context.Context, url, token string) (light live.Light, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"api/picture?history=no", nil)
	if err != nil {
		return light, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return light, err
	}
	defer response.Body.Close()
	var picture room.Picture
	if err := json.NewDecoder(response.Body).Decode(&picture); err != nil || response.StatusCode != http.StatusOK {
		return light, fmt.Errorf("the control room responds %s: %w", response.Status, err)
	}
	return picture.Light, nil
}
