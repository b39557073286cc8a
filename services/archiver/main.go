// The archiver follows the ledger and writes what has ended into files that are kept for ten years, and from which a
// lost ledger is built again. It asks nobody but the ledger, and nobody waits for it.
package main

import (
	"context"
	"runtime/debug"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/archiver/keep"
)

func main() {
	config := &keep.Config{Telemetry: telemetry.Config{Address: "127.0.0.1:9104"}}
	settings.Load("archiver", "follows the ledger, and writes what has ended into an archive", config)
	debug.SetGCPercent(config.Telemetry.GCPercent)
	host.Main("archiver", func(ctx context.Context, on host.Host) error {
		client, err := ledger.Connect(config.Ledger)
		if err != nil {
			return err
		}
		// The end of the process closes the client: Close waits for an absent ledger.
		return keep.Run(ctx, config, on, client)
	})
}
