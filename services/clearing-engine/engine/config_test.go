package engine

import (
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
)

// Replicas of a container share their settings, so each takes its instance's name from a
// variable of its container.
func TestInstanceIDFillsInVariables(t *testing.T) {
	t.Setenv("HOSTNAME", "3f1c0ffee")

	for given, want := range map[string]string{"${HOSTNAME}": "3f1c0ffee", "engine-${HOSTNAME}": "engine-3f1c0ffee",
		"engine-0": "engine-0", "": ""} {
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

func TestLimitsAreNamed(t *testing.T) {
	for given, says := range map[string]string{
		"ENGINE_COPIES_MAX=0":              "ENGINE_COPIES_MAX is 0: it must be from 1 to 10000",
		"ENGINE_RETURNS_PER_SECOND=10001":  "ENGINE_RETURNS_PER_SECOND is 10001: it must be from 1 to 10000",
		"ENGINE_IN_FLIGHT_PAYER_SHARE=0":   "ENGINE_IN_FLIGHT_PAYER_SHARE is 0: it must be above 0 and at most 1",
		"ENGINE_IN_FLIGHT_PAYER_SHARE=1.1": "ENGINE_IN_FLIGHT_PAYER_SHARE is 1.1: it must be above 0 and at most 1",
		"ENGINE_IN_FLIGHT_PSP_SHARE=NaN":   "ENGINE_IN_FLIGHT_PSP_SHARE is NaN: it must be above 0 and at most 1",
		"ENGINE_COMMIT_INTERVAL=201ms":     "ENGINE_COMMIT_INTERVAL is 201ms: it must be from 10ms to 200ms",
		"LEDGER_BATCH_EVENTS_MAX=133":      "LEDGER_BATCH_EVENTS_MAX is 133: for an engine it must be at least 134",
	} {
		t.Run(given, func(t *testing.T) {
			name, value, _ := strings.Cut(given, "=")
			t.Setenv(name, value)

			config := Config{Telemetry: telemetry.Config{Address: "127.0.0.1:0"}}
			if err := settings.Parse(&config); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("it says %v, want %q", err, says)
			}
		})
	}
}
