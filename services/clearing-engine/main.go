// The clearing engine settles payments: it holds the money as linked transfers, asks the
// receiving bank, settles or rejects, publishes the report, then commits the offset.
package main

import (
	"context"
	"runtime/debug"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/clearing-engine/engine"
)

func main() {
	config := &engine.Config{Telemetry: telemetry.Config{Address: "127.0.0.1:9103"}}
	settings.Load("clearing-engine", "clears payments from pix.payments on the ledger", config)
	debug.SetGCPercent(config.Telemetry.GCPercent)
	host.Main("clearing-engine", func(ctx context.Context, on host.Host) error {
		client, err := ledger.Connect(config.Ledger)
		if err != nil {
			return err
		}
		// The end of the process closes the client: Close waits for an absent ledger.
		return engine.Run(ctx, config, on, client)
	})
}
