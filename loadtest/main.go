// The loadtest command loads the clearing house and proves that it did right.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/platform/settings"
)

// exitUnquiet is the exit code of an audit while payments flow.
const exitUnquiet = 3

func main() {
	debug.SetGCPercent(400) // as the services: it shares their processors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := &cobra.Command{
		Use:   "loadtest",
		Short: "Loads the clearing house and proves that it did right",
		Long: `loadtest sends payments of every kind to Kafka and compares each outcome with the one
that it must have (run). It proves from topics and ledger that every payment has exactly
one outcome and every centavo is funded and in its place (audit).

Exit codes: 0 all is right, 1 something is wrong or could not be checked, 2 bad usage,
3 no verdict, because payments flow (audit), 99 a threshold of --fail-if is broken (run,
chaos), 130 interrupted (run, chaos).`,
		Example:       "  loadtest run --rate 1000 --payments 10000 && loadtest audit",
		Version:       settings.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), auditCommand(), benchCommand(), bareCommand(), chaosCommand(), conformCommand(),
		roomCommand())
	root.SetUsageTemplate(settings.Fitted(root.UsageTemplate()))

	root.CompletionOptions.DisableDefaultCmd = true
	if command, err := root.ExecuteContextC(ctx); err != nil {
		if errors.Is(err, errInterrupted) {
			os.Exit(settings.ExitInterrupted)
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.CommandPath(), err)

		if !started {
			fmt.Fprintf(os.Stderr, "See %s --help.\n", command.CommandPath())
			os.Exit(settings.ExitBadUsage)
		}

		if _, unquiet := errors.AsType[*audit.Unquiet](err); unquiet {
			os.Exit(exitUnquiet)
		}

		if errors.Is(err, errThreshold) {
			os.Exit(exitThreshold)
		}
		os.Exit(settings.ExitFailure)
	}
}
