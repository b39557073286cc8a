// The bank simulator is every receiving PSP of the sandbox: it responds to the clearing
// engine's authorization requests as its profiles say.
package main

import (
	"context"
	"runtime/debug"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/bank-simulator/bank"
)

func main() {
	config := &bank.Config{
		Telemetry: telemetry.Config{Address: "127.0.0.1:9102"},
		HTTP:      web.Config{Address: "127.0.0.1:8081"},
	}
	settings.Load("bank-simulator",
		"every receiving PSP: responds to authorization requests as its profiles say", config)
	debug.SetGCPercent(config.Telemetry.GCPercent)
	host.Main("bank-simulator", func(ctx context.Context, on host.Host) error { return bank.Run(ctx, config, on) })
}
