package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
)

// actCodes is what the commands that act say of themselves.
const actCodes = `

Each act has an id. After no answer run the same command again with the --id that it printed:
the act is done once. Exit codes: 0 done (or done before under this id), 1 refused, 3 unknown.
An act that is refused for want of money burns its id: try again without --id.`

var actID = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// sendAct sends an act under an id, and prints what it has done.
type sendAct func(ctx context.Context, id string) error

// acting returns a command that does an act. prepare reads its arguments.
func (o *options) acting(
	use string, count cobra.PositionalArgs, short, long string, prepare func(arguments []string) (sendAct, error),
) *cobra.Command {
	var id string
	command := &cobra.Command{
		Use: use, Short: short, Args: count, Long: long + actCodes,
		RunE: func(command *cobra.Command, arguments []string) error {
			send, err := prepare(arguments)
			if err != nil {
				return err
			}

			id = cmp.Or(id, client.NewActID())
			if !actID.MatchString(id) {
				return fmt.Errorf("--id %q: it must be 1 to 64 characters of 0-9 A-Z a-z . _ -", id)
			}
			o.started = true

			return repeatable(send(command.Context(), id), repeated(command, arguments))
		},
	}
	command.Flags().StringVar(&id, "id", "",
		"act id, to repeat the same act: 1 to 64 characters of 0-9 A-Z a-z . _ -; created if empty")

	return command
}

// repeatable adds the command that repeats what was sent to an error that leaves its fate open.
func repeatable(err error, command string) error {
	if unknown, is := errors.AsType[*client.UnknownFate](err); is {
		return &openOutcome{fmt.Errorf("%w\nThat is: liquida %s --id %s", err, command, unknown.EndToEndID)}
	}

	return err
}

func participantCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use: "participant", Short: "Register, suspend, resume or cap a bank, or move its liquidity, as the central bank",
		Example: `  export LIQUIDA_KEY_FILE=.stack/keys/central-bank
  liquida participant register 10000006
  liquida participant liquidity in 10000006 1000000.00
  liquida participant cap 10000006 day 500000.00 --window 1h
  liquida participant suspend 10000006`,
	}
	plain := func(act, short, long string) *cobra.Command {
		return o.onParticipant(act+" ISPB", 1, short, long, func([]string) (client.ParticipantAct, error) {
			return client.ParticipantAct{Act: act}, nil
		})
	}

	liquidity := &cobra.Command{Use: "liquidity", Short: "Put money into a bank's reserve, or take it out"}
	for _, way := range []struct{ name, act, short, long string }{
		{"in", client.LiquidityIn, "Put money into a bank's reserve", "Put money into a bank's reserve."},
		{"out", client.LiquidityOut, "Take money out of a bank's reserve",
			"Take money out of a bank's reserve, never what payments under way hold."},
	} {
		liquidity.AddCommand(o.onParticipant(way.name+" ISPB AMOUNT", 2, way.short, way.long,
			func(arguments []string) (client.ParticipantAct, error) {
				amount, err := centavos(arguments[1])
				return client.ParticipantAct{Act: way.act, AmountCentavos: amount}, err
			}))
	}
	command.AddCommand(
		plain(client.Register, "Let a bank join",
			"Let a bank join: create its reserve, transit and books. Its reserve is empty: put liquidity in."),
		plain(client.Suspend, "Suspend a bank", `Suspend a bank. Within two seconds payments from and to it are rejected (DS27), and returns by it.
Returns to it are taken, and what is under way ends as it must.`),
		plain(client.Resume, "End a suspension", "End a suspension. It bites within two seconds."),
		liquidity, capCommand(o))

	return command
}

func capCommand(o *options) *cobra.Command {
	var window time.Duration
	command := o.onParticipant("cap ISPB payment|day|night AMOUNT|none", 3, "Cap what a bank may pay", `Cap what a bank may pay: in one payment (AM13 above it), or to other banks within a window of
time, by day (06:00 to 20:00 in São Paulo) or by night (LQ12 above it). none lifts a cap. A lower
cap takes what is free at once, and the rest as payments under way end.`, func(arguments []string) (act client.ParticipantAct, err error) {
		var amount int64

		acts := map[string]string{"payment": client.PaymentCap, "day": client.DayCap, "night": client.NightCap}
		if act.Act = acts[arguments[1]]; act.Act == "" {
			return act, fmt.Errorf("the cap is %q: it must be payment, day or night", arguments[1])
		}

		if arguments[2] != "none" {
			if amount, err = centavos(arguments[2]); err != nil {
				return act, err
			}

			if act.Act != client.PaymentCap {
				if err := within("--window", window, 2*time.Minute, 24*time.Hour); err != nil {
					return act, err
				}
				act.WindowSeconds = int(window / time.Second)
			}
		}
		act.CapCentavos = &amount

		return act, nil
	})
	command.Flags().DurationVar(&window, "window", time.Hour, "of day and night: how long a payment counts, 2m to 24h")

	return command
}

// onParticipant returns a command that does an act on a participant. read turns its arguments, the
// first of which is the ISPB, into the act.
func (o *options) onParticipant(use string, arguments int, short, long string,
	read func([]string) (client.ParticipantAct, error)) *cobra.Command {
	return o.acting(use, ofBank(cobra.ExactArgs(arguments)), short, long, func(arguments []string) (sendAct, error) {
		act, err := read(arguments)

		return func(ctx context.Context, id string) error {
			done, err := o.api.ActOnParticipant(ctx, arguments[0], id, act)

			return shown(o, done, err, func(w io.Writer, done client.ParticipantActDone) {
				printAct(w, done.Act)
				printParticipant(w, done.Participant)
			})
		}, err
	})
}

// repeated returns the command that was given, without its id.
func repeated(command *cobra.Command, arguments []string) string {
	_, path, _ := strings.Cut(command.CommandPath(), " ")
	text := path + " " + strings.Join(arguments, " ")

	for _, name := range []string{"window", "url", "key-file"} { // the key, too: an id is one of whoever acts
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			text += " --" + name + " " + flag.Value.String()
		}
	}

	return text
}

func accountCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use: "account", Short: "Open, block, close or reopen accounts, take deposits and withdrawals, as their bank",
		Example: `  export LIQUIDA_KEY_FILE=.stack/keys/10000001
  liquida account open 10000001/0001/900001
  liquida account deposit 10000001/0001/900001 250.00
  liquida account block 10000001/0001/900001`,
	}
	for _, one := range []struct{ act, short, long string }{
		{client.Open, "Open an account", "Open an account. Its balance is 0."},
		{client.Block, "Block an account",
			"Block an account: no payment leaves it, and the bank answers AC06 for what comes in."},
		{client.Close, "Close an account", `Close an account: no payment leaves it, and the bank answers AC07 for what comes in. What is in it
stays: withdraw before.`},
		{client.Reopen, "Open a blocked or closed account again", "Open a blocked or closed account again."},
	} {
		command.AddCommand(o.onAccount(one.act+" ACCOUNT", 1, one.short, one.long,
			func([]string) (client.AccountAct, error) {
				return client.AccountAct{Act: one.act}, nil
			}))
	}

	for _, one := range []struct {
		act, short string
	}{{client.Deposit, "Take a deposit of a customer"}, {client.Withdraw, "Pay out a withdrawal of a customer"}} {
		command.AddCommand(o.onAccount(one.act+" ACCOUNT AMOUNT", 2, one.short, one.short+". The account must be open.",
			func(arguments []string) (client.AccountAct, error) {
				amount, err := centavos(arguments[1])
				return client.AccountAct{Act: one.act, AmountCentavos: amount}, err
			}))
	}
	command.AddCommand(accountListCommand(o))

	return command
}

// onAccount returns a command that does an act on a customer's account, the first argument.
func (o *options) onAccount(use string, arguments int, short, long string,
	read func([]string) (client.AccountAct, error)) *cobra.Command {
	return o.acting(use, cobra.ExactArgs(arguments), short, long, func(arguments []string) (sendAct, error) {
		account, err := client.ParseAccount(arguments[0])
		if err != nil {
			return nil, err
		}
		act, err := read(arguments)

		return func(ctx context.Context, id string) error {
			done, err := o.api.ActOnAccount(ctx, account, id, act)

			return shown(o, done, err, func(w io.Writer, done client.AccountActDone) {
				printAct(w, done.Act)
				printBalance(w, done.Account)
			})
		}, err
	})
}

func accountListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "list ISPB", Short: "Print the accounts that a bank has opened", Args: ofBank(cobra.ExactArgs(1)),
		Long: "Print the accounts that a bank has opened, oldest first. Those of the test population, which\nbootstrap made, are not listed.",
		RunE: func(command *cobra.Command, arguments []string) error {
			o.started = true
			for account, err := range o.api.Accounts(command.Context(), arguments[0]) {
				if err := shown(o, account, err, printBalance); err != nil {
					return err
				}
			}

			return nil
		},
	}
}

func actsCommand(o *options) *cobra.Command {
	var longest time.Duration
	command := &cobra.Command{
		Use: "acts [ISPB]", Short: "Print who did what when: the acts on a bank and its accounts, or all",
		Args: ofBank(cobra.MaximumNArgs(1)),
		Long: "Print who did what when, oldest first, by the ledger's clock: the acts on a bank and its accounts,\nor as the central bank all. With --for follow them.",
		Example: `  liquida acts 10000001
  liquida acts --for 10m --key-file .stack/keys/central-bank`,
		RunE: func(command *cobra.Command, arguments []string) error {
			ispb := strings.Join(arguments, "") // empty: all

			if err := within("--for", longest, 0, 1000*time.Hour); err != nil {
				return err
			}
			o.started = true
			ctx, end := context.WithTimeout(command.Context(), longest)
			defer end()

			for cursor := ""; ; {
				for page, err := range o.api.Acts(command.Context(), ispb, cursor) {
					if err != nil {
						return err
					}

					cursor = page.NextCursor
					for _, act := range page.Acts {
						if err := shown(o, act, nil, printAct); err != nil {
							return err
						}
					}
				}

				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		},
	}
	command.Flags().DurationVar(&longest, "for", 0, "go on for so long; 0s: until the newest act")

	return command
}

func printAct(w io.Writer, a client.Act) {
	text := fmt.Sprintf("%s  %s  %-13s by %s", a.At.UTC().Format("2006-01-02T15:04:05.000Z"), a.Participant,
		a.Act, a.By)
	if a.Account != nil {
		text += "  " + a.Account.String()
	}

	switch {
	case a.CapCentavos != nil && *a.CapCentavos == 0:
		text += "  lifted"
	case a.CapCentavos != nil:
		text += "  " + reais(*a.CapCentavos)
	case a.AmountCentavos != 0:
		text += "  " + reais(a.AmountCentavos)
	}

	if a.Digest != "" {
		text += "  " + a.Digest
	}

	if a.WindowSeconds > 0 && *a.CapCentavos > 0 {
		text += " in " + (time.Duration(a.WindowSeconds) * time.Second).String()
	}
	fmt.Fprintln(w, text)
}
