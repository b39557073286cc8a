// The producer is the front door of the clearing house: payments come in over HTTP and
// go to Kafka, and their status comes straight from the ledger.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
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
		Telemetry: telemetry.Config{Address: "127.0.0.1:9101"},
		HTTP:      web.Config{Address: "127.0.0.1:8080"},
	}
	settings.Load("producer", "the front door: takes payments over HTTP and tells what became of them", config)
	debug.SetGCPercent(config.Telemetry.GCPercent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := run(config, signals); err != nil {
		fmt.Fprintf(os.Stderr, "producer: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
}

// runningNeed is met from the end of the start to the beginning of the end.
const runningNeed = "running"

func run(config *configuration, signals <-chan os.Signal) error {
	started := time.Now()
	t, err := telemetry.Start("producer", config.Telemetry, host.System())
	if err != nil {
		return err
	}
	for _, need := range []string{runningNeed, stream.KafkaNeed, ledgerNeed} {
		t.Health.Need(need)
	}
	door, err := newDoor(config.Door)
	if err != nil {
		return err
	}
	acceptance, err := newAcceptance(config.Accept, config.Stream, t)
	if err != nil {
		return err
	}
	reads, err := newReads(config.Status, config.Ledger, t)
	if err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	var watchers sync.WaitGroup
	watchers.Go(func() { stream.Watch(watching, acceptance.client, t, stream.Payments) })
	watchers.Go(func() { reads.watch(watching, t) })
	settlements := newSettlements(acceptance.client, config.Stream, t)
	watchers.Go(func() { settlements.run(watching) })
	acceptance.follow = newFollow(watching, config.Follow, reads, settlements, t.Registry)
	batches := newBatches(config.Batch, int(config.HTTP.BodyBytesMax), acceptance, t.Registry)
	balances, backlog := newBalances(reads.client, t), newBacklog(acceptance.client, t)
	watchers.Go(func() { balances.publish(watching, config.BooksInterval) })
	watchers.Go(func() { backlog.publish(watching, config.BooksInterval) })
	config.HTTP.LargerBodies = map[string]int64{batchPath: config.Batch.BytesMax}
	config.HTTP.TLS = door.tls
	server, err := web.Serve(config.HTTP, host.System().Listen, routes(api(acceptance, batches, reads), door, t.Registry), t.Log)
	if err != nil {
		return err
	}
	t.Health.Report(runningNeed, nil)
	t.Log.Info("started", zap.Duration("took", time.Since(started)), zap.String("http_address", server.Address()))

	var failure error
	reason := "a failure"
	select {
	case failure = <-reads.failures:
	case signal := <-signals:
		reason = signal.String()
	}
	stopping := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), config.ShutdownTimeout)
	defer cancel()
	t.Health.Report(runningNeed, errors.New("stopping"))
	stopWatching()
	watchers.Wait()
	for _, stop := range []func(context.Context) error{server.Stop, acceptance.stop, reads.stop} {
		if err := stop(ctx); err != nil {
			t.Log.Warn("stopped with work left", zap.Error(err))
		}
	}
	t.Log.Info("stopped", zap.String("because_of", reason), zap.Duration("took", time.Since(stopping)))
	t.Stop()
	return failure
}
