// The clearing engine settles payments: it holds the money on three legs, asks the
// receiving bank, posts or voids, reports, and only then commits.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/clearing-engine/engine"
)

func main() {
	config := engine.Config{Telemetry: telemetry.Config{Address: "127.0.0.1:9103"}}
	settings.Load("clearing-engine", "clears payments from pix.payments on the ledger", &config)
	debug.SetGCPercent(config.Telemetry.GCPercent)
	if err := run(config); err != nil {
		fmt.Fprintln(os.Stderr, "clearing-engine:", err)
		os.Exit(settings.ExitFailure)
	}
}

func run(config engine.Config) error {
	started := time.Now()
	t, err := telemetry.Start("clearing-engine", config.Telemetry, host.System())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	e, err := engine.New(config, t)
	if err != nil {
		return err
	}
	t.Log.Info("started", zap.Duration("took", time.Since(started)), zap.String("instance", config.InstanceID))
	err = e.Run(ctx)
	if err != nil {
		t.Log.Error("cannot go on", zap.Error(err))
	}
	t.Stop()
	return err
}
