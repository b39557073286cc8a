package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/loadtest/rivals"
	"github.com/liquida/liquida/platform/settings"
)

func benchPostgresCommand() *cobra.Command {
	config := rivals.Config{Log: os.Stderr}
	var json string
	command := &cobra.Command{
		Use:   "bench-postgres",
		Short: "Measures PostgreSQL against TigerBeetle with the same payments, side by side",
		Long: `Sends the same payments (three legs, two phases, limited balances) to a real PostgreSQL
and a real TigerBeetle in turn, one by one and in batches, each on fresh data. Clients wait
for both phases before they send more (closed loop). A run whose books are not exactly
right gives no figure. Needs PostgreSQL 15 or later (apt-get install postgresql). Started
as root, its server runs as user postgres, or nobody. Run it on a quiet machine; it takes
about 20 minutes and 15 GB.`,
		Example: `  loadtest bench-postgres
  loadtest bench-postgres --clients 8 --batches 1000 --batch-clients 2 --json postgres.json
  loadtest bench-postgres --systems PostgreSQL --set commit_delay=100 --set wal_compression=off`,
		Args: cobra.NoArgs,
	}
	f := command.Flags()
	f.StringArrayVar(&config.Systems, "systems", rivals.Systems, "a system to measure; may be given again")
	f.IntSliceVar(&config.Clients, "clients", []int{1, 8, 32, 128}, "clients that send payments one by one; 0 leaves them out")
	f.IntSliceVar(&config.Batches, "batches", []int{100, 1000, 2500}, "payments of a batch; 0 leaves batches out")
	f.IntSliceVar(&config.BatchClients, "batch-clients", []int{1, 2, 4}, "clients that send batches")
	f.DurationVar(&config.Duration, "duration", 20*time.Second, "time of each run; the first fifth is a warm-up")
	f.IntVar(&config.VoidedPercent, "voided", 5, "percent of the payments that the receiving bank rejects")
	f.StringVar(&config.CacheGrid, "cache-grid", "1GiB", "TigerBeetle's page cache")
	f.StringArrayVar(&config.Settings, "set", nil, "a setting of PostgreSQL, NAME=value, added to or in place of "+strings.Join(rivals.Tuning, " "))
	f.StringVar(&json, "json", "", "write the result to this file as JSON")
	command.Long += "\n\nEnvironment:\n" + environmentHelp(&config.Population)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := settings.Parse(&config.Population); err != nil {
			return err
		}
		none := func(n int) bool { return n == 0 }
		config.Clients, config.Batches = slices.DeleteFunc(config.Clients, none), slices.DeleteFunc(config.Batches, none)
		checks := []error{
			settings.InRange("--duration", config.Duration, time.Second, time.Hour),
			settings.InRange("--voided", config.VoidedPercent, 0, 100),
		}
		for flag, values := range map[string][]int{"--clients": config.Clients, "--batch-clients": config.BatchClients} {
			for _, clients := range values {
				checks = append(checks, settings.InRange(flag, clients, 1, 128))
			}
		}
		for _, batch := range config.Batches {
			checks = append(checks, settings.InRange("--batches", batch, 2, 2729)) // what one request to TigerBeetle holds
		}
		for _, system := range config.Systems {
			if !slices.Contains(rivals.Systems, system) {
				checks = append(checks, fmt.Errorf("--systems holds %q: it must be one of %q", system, rivals.Systems))
			}
		}
		for _, setting := range config.Settings {
			if name, _, ok := strings.Cut(setting, "="); !ok || name == "" {
				checks = append(checks, fmt.Errorf("--set holds %q: it must be NAME=value, like commit_delay=100", setting))
			}
		}
		if err := errors.Join(checks...); err != nil {
			return err
		}
		root, err := stack.RepoRoot()
		if err != nil {
			return err
		}
		started = true
		config.Dir = filepath.Join(root, ".stack", "bench-postgres")
		result, err := rivals.Measure(command.Context(), config)
		result.Write(os.Stdout) // what was valid so far
		return errors.Join(err, report.WriteJSON(json, result))
	}
	return command
}
