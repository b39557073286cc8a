// The loadtest command loads the clearing house and proves what came of it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/platform/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := &cobra.Command{
		Use:   "loadtest",
		Short: "Loads the clearing house and proves what came of it",
		Long: `loadtest sends payments of every kind straight to Kafka and compares what becomes of
each with what must (run), and proves from the topics and the ledger that every payment
has exactly one outcome and every centavo is where it should be (audit).

Exit codes: 0 it is as it must be, 1 it is not or could not be shown, 2 bad usage.`,
		Example:       "  loadtest run --rate 1000 --payments 10000 && loadtest audit",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), auditCommand(), benchCommand(), benchPostgresCommand(), chaosCommand(), correctnessCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	if command, err := root.ExecuteContextC(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.CommandPath(), err)
		if !started {
			fmt.Fprintf(os.Stderr, "See %s --help.\n", command.CommandPath())
			os.Exit(settings.ExitBadUsage)
		}
		os.Exit(settings.ExitFailure)
	}
}

// started tells that the arguments and the environment were good: an error after that
// is no bad usage.
var started bool
