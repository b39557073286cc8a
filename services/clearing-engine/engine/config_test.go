package engine

import (
	"testing"

	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
)

// Replicas of a container share their settings, so each takes its instance's name from a
// variable of its container.
func TestInstanceIDFillsInVariables(t *testing.T) {
	t.Setenv("HOSTNAME", "3f1c0ffee")
	for given, want := range map[string]string{"${HOSTNAME}": "3f1c0ffee", "engine-${HOSTNAME}": "engine-3f1c0ffee", "engine-0": "engine-0", "": ""} {
		t.Setenv("ENGINE_INSTANCE_ID", given)
		config := Config{Telemetry: telemetry.Config{Address: "127.0.0.1:0"}}
		if err := settings.Parse(&config); err != nil {
			t.Fatal(err)
		}
		if config.InstanceID != want {
			t.Errorf("ENGINE_INSTANCE_ID=%s gives the instance %q, want %q", given, config.InstanceID, want)
		}
	}
}
