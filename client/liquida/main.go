// The liquida command is the HTTP API of Liquida for people and scripts.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/settings"
)

// Scripts rely on the exit codes.
const (
	exitDone     = 0
	exitNot      = 1
	exitBadUsage = 2
	exitUnknown  = 3
	exitFailed   = 4
)

const long = `liquida pays, reads and follows payments over the HTTP API of Liquida. With it the central
bank runs the participants, and a bank its customers' accounts.

Accounts are written ISPB/BRANCH/NUMBER, like 10000001/0001/1; amounts in reais, like 12
or 12.34. With --json the output is JSON in centavos, as the API sends it;
lists and streams have one object in each line.

Exit codes:
  0  settled, or done
  1  rejected, refused, not found, or books that do not agree
  2  bad usage; nothing was sent
  3  unknown (yet), or no response: run the same again, pay with the same --id
  4  reconcile failed: it says nothing about the book`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, arguments []string) int {
	o := &options{out: os.Stdout}
	root := &cobra.Command{
		Use: "liquida", Short: "Liquida's API for people and scripts", Long: long, SilenceUsage: true,
		SilenceErrors: true,
		Version:       settings.Version(),
		Example:       "  liquida pay 10000001/0001/1 10000002/0001/1 12.34",
	}
	root.SetUsageTemplate(settings.Fitted(root.UsageTemplate()))
	o.flags(root)
	root.PersistentPreRunE = o.connect
	root.AddCommand(payCommand(o), batchCommand(o), returnCommand(o), statusCommand(o), traceCommand(o),
		watchCommand(o), answerCommand(o), topCommand(o), balanceCommand(o), statementCommand(o), reconcileCommand(o),
		participantsCommand(o),
		participantCommand(o), keyCommand(o), sealCommand(o), accountCommand(o), actsCommand(o), archiveCommand(o))
	root.InitDefaultCompletionCmd(arguments...)
	root.InitDefaultHelpCmd()
	refuseWrongWords(root)
	root.SetArgs(arguments)

	command, err := root.ExecuteContextC(ctx)
	if err != nil {
		fmt.Fprint(os.Stderr, said(command.CommandPath(), err, onTerminal(os.Stderr)))

		if problem, is := errors.AsType[*client.Problem](err); is && problem.Status == http.StatusUnauthorized {
			fmt.Fprintln(os.Stderr, "Give the participant's key with --key-file or LIQUIDA_KEY_FILE, such as .stack/keys/10000001 after make up, or its certificate with --cert and --key.")
		}
	}

	switch {
	case err == nil:
		return exitDone
	case errors.As(err, new(*notCompared)):
		return exitFailed
	case !o.started:
		fmt.Fprintf(os.Stderr, "See %s --help.\n", command.CommandPath())
		return exitBadUsage
	case unknown(ctx, err):
		return exitUnknown
	}

	return exitNot
}

// refuseWrongWords has each command that only groups others refuse a word that is none of them. Cobra would
// print the help and call that done.
func refuseWrongWords(group *cobra.Command) {
	var names []string

	for _, command := range group.Commands() {
		refuseWrongWords(command)

		if command.IsAvailableCommand() {
			names = append(names, command.Name())
		}
	}

	if group.Name() == "help" {
		group.Args = func(_ *cobra.Command, words []string) error {
			if _, rest, err := group.Root().Find(words); err != nil || len(rest) > 0 {
				return fmt.Errorf("%q is no command", strings.Join(words, " "))
			}

			return nil
		}

		return
	}

	if len(names) == 0 || group.Runnable() || group == group.Root() {
		return
	}
	group.Args = func(_ *cobra.Command, words []string) error {
		if len(words) == 0 {
			words = []string{""}
		}

		return fmt.Errorf("the command is %q: it must be %s", words[0], strings.Join(names, ", "))
	}
	group.RunE = func(*cobra.Command, []string) error { return nil } // Args never passes
}

// said is an error as people read it: with the meaning of a reason code, and on a terminal in lines that
// fit. Scripts get each sentence in one line.
func said(path string, err error, terminal bool) string {
	text := path + ": " + err.Error()
	if problem, is := errors.AsType[*client.Problem](err); is && problem.Code != "" {
		text = strings.Replace(text, "\n  code: "+problem.Code, "\n  code: "+reason(problem.Code), 1)
	}

	if !terminal {
		return text + "\n"
	}

	return settings.Lines(text)
}

func onTerminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

// unknown reports whether the same command may find more when it is run again.
func unknown(ctx context.Context, err error) bool {
	return errors.As(err, new(*openOutcome)) || client.TryAgain(err) || ctx.Err() != nil
}
