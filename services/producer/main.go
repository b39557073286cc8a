// The producer is the front door of the clearing house: payments come in over HTTP and go
// to Kafka, and answers about them come from the ledger.
package main

import (
	"context"
	"runtime/debug"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/frontdoor"
)

func main() {
	config := &frontdoor.Config{
		Telemetry: telemetry.Config{Address: "127.0.0.1:9101"},
		HTTP:      web.Config{Address: "127.0.0.1:8080"},
	}
	settings.Load("producer", "the front door: takes payments over HTTP and reports their states", config)
	debug.SetGCPercent(config.Telemetry.GCPercent)
	host.Main("producer", func(ctx context.Context, on host.Host) error {
		client, err := ledger.Connect(config.Ledger)
		if err != nil {
			return err
		}
		// The end of the process closes the client: Close waits for an absent ledger.
		return frontdoor.Run(ctx, config, on, client)
	})
}
