// The bank simulator is every receiving PSP of the sandbox: it answers the clearing
// engine's authorization requests, as its profiles say.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
)

func main() {
	config := &configuration{
		Telemetry: telemetry.Config{Address: "127.0.0.1:9102"},
		HTTP:      web.Config{Address: "127.0.0.1:8081"},
	}
	settings.Load("bank-simulator", "every receiving PSP: answers authorization requests as its profiles say", config)
	debug.SetGCPercent(config.Telemetry.GCPercent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := run(config, signals); err != nil {
		fmt.Fprintf(os.Stderr, "bank-simulator: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
}

// runningNeed is met from the end of the start to the beginning of the end.
const runningNeed = "running"

func run(config *configuration, signals <-chan os.Signal) error {
	started := time.Now()
	t, err := telemetry.Start("bank-simulator", config.Telemetry, host.System())
	if err != nil {
		return err
	}
	for _, need := range []string{runningNeed, stream.KafkaNeed, assignmentNeed} {
		t.Health.Need(need)
	}
	book, err := config.Profiles.book()
	if err != nil {
		return err
	}
	locked, err := config.Lock.lock(profilesAPI(book, t.Log))
	if err != nil {
		return err
	}
	api, err := web.Serve(config.HTTP, host.System().Listen, locked, t.Log)
	if err != nil {
		return err
	}
	bank, err := startBank(config.Bank, config.Stream, book, t)
	if err != nil {
		return err
	}
	t.Health.Report(runningNeed, nil)
	t.Log.Info("started", zap.Duration("took", time.Since(started)), zap.String("http_address", api.Address()))

	reason := <-signals
	t.Health.Report(runningNeed, errors.New("stopping"))
	stopping := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), config.ShutdownTimeout)
	defer cancel()
	if err := bank.stop(ctx); err != nil {
		t.Log.Warn("stopped with work left; it comes again after the next start", zap.Error(err))
	}
	if err := api.Stop(ctx); err != nil {
		t.Log.Warn("HTTP requests were cut off", zap.Error(err))
	}
	t.Log.Info("stopped", zap.Stringer("signal", reason), zap.Duration("took", time.Since(stopping)))
	t.Stop(ctx)
	return nil
}
