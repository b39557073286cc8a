package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
)

// options are the flags of every command.
type options struct {
	url, keyFile      string
	json              bool
	timeout, retryFor time.Duration
	certificates      client.Certificates

	out     io.Writer
	api     *client.Client
	started bool // arguments and environment were good
}

func (o *options) flags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&o.url, "url", cmp.Or(os.Getenv("LIQUIDA_URL"), client.DefaultURL),
		"address of the API, or LIQUIDA_URL")
	flags.StringVar(&o.keyFile, "key-file", os.Getenv("LIQUIDA_KEY_FILE"),
		"file that holds the participant's key, or LIQUIDA_KEY_FILE")
	flags.BoolVar(&o.json, "json", false, "print JSON, as the API sends it")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "longest wait for the response to a request, 100ms to 5m")
	flags.DurationVar(&o.retryFor, "retry-for", 30*time.Second,
		"how long to retry a request without a response, or with 429 or 5xx, 0 to 1h")
	flags.StringVar(&o.certificates.Cert, "cert", os.Getenv("LIQUIDA_CERT"),
		"file with the participant's certificate, PEM, for mutual TLS, or LIQUIDA_CERT")
	flags.StringVar(&o.certificates.Key, "key", os.Getenv("LIQUIDA_CERT_KEY"),
		"file with the private key of --cert, PEM, or LIQUIDA_CERT_KEY; the bearer key is --key-file")
	flags.StringVar(&o.certificates.CA, "ca", os.Getenv("LIQUIDA_CA"),
		"file with the authorities of the API's certificate, PEM, or LIQUIDA_CA; default those of the system")
}

func (o *options) connect(*cobra.Command, []string) error {
	key := ""

	if o.keyFile != "" {
		var err error
		if key, err = client.ReadKey(o.keyFile); err != nil {
			return fmt.Errorf("%w (--key-file or LIQUIDA_KEY_FILE)", err)
		}
	}

	if err := within("--timeout", o.timeout, 100*time.Millisecond, 5*time.Minute); err != nil {
		return err
	}

	if err := within("--retry-for", o.retryFor, 0, time.Hour); err != nil {
		return err
	}

	api, err := client.New(o.url, key)
	if err != nil {
		return fmt.Errorf("%w (--url or LIQUIDA_URL)", err)
	}

	if err := api.UseCertificates(o.certificates); err != nil {
		return fmt.Errorf("%w (--cert, --key, --ca)", err)
	}
	api.Timeout, api.RetryFor, o.api = o.timeout, o.retryFor, api
	o.tellRetries()

	return nil
}

// tellRetries says why a command takes long: at its first retry after a second, and every ten seconds.
func (o *options) tellRetries() {
	var mu sync.Mutex // PayBatch retries from several goroutines
	next := time.Now().Add(time.Second)
	o.api.OnRetry = func(err error, left time.Duration) {
		mu.Lock()
		defer mu.Unlock()

		if time.Now().Before(next) {
			return
		}
		next = time.Now().Add(10 * time.Second)
		first, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprint(os.Stderr, said("liquida",
			fmt.Errorf("%s; retrying for %v more (--retry-for)", first, left.Round(time.Second)),
			onTerminal(os.Stderr)))
	}
}

func within(flag string, value, least, most time.Duration) error {
	if value < least || value > most {
		return fmt.Errorf("%s is %v: it must be %v to %v", flag, value, least, most)
	}

	return nil
}

// openOutcome is the error for a payment whose outcome is not known yet.
type openOutcome struct{ error }

// outcome is the state of a payment or a return, which people read as that of a payment with its id.
type outcome struct {
	client.PaymentState
	asSent any // as the API sends it
}

func paymentOutcome(s client.PaymentState) outcome { return outcome{s, s} }

func returnOutcome(s client.ReturnState) outcome {
	return outcome{client.PaymentState{EndToEndID: s.ReturnID, Status: s.Status, ReasonCode: s.ReasonCode,
		AmountCentavos: s.AmountCentavos, Payer: s.Payer, Payee: s.Payee, DecidedAt: s.DecidedAt,
		DeadLetter: s.DeadLetter}, s}
}

// stateOf asks for a payment or a return, as the id says.
func (o *options) stateOf(ctx context.Context, id string) (outcome, error) {
	if _, notReturn := pix.ParseReturnID(id); notReturn == nil {
		state, err := o.api.Return(ctx, id)
		return returnOutcome(state), err
	}
	state, err := o.api.Payment(ctx, id)

	return paymentOutcome(state), err
}

// sent prints what became of a payment or a return that was sent with a command. The error that
// it returns decides the exit code.
func (o *options) sent(s outcome, err error, wait time.Duration, command string) error {
	if err != nil && s.Status != client.Unknown && s.EndToEndID != "" { // accepted
		return &openOutcome{fmt.Errorf("%w\nAsk with liquida status %s", err, s.EndToEndID)}
	}

	if err != nil {
		return repeatable(err, command)
	}

	if err := o.show(s.asSent, func() { printState(o.out, s.PaymentState) }); wait == 0 || err != nil {
		return err
	}

	return s.verdict()
}

// known prints what the ledger knows of a payment or a return.
func (o *options) known(s outcome, err error, write func(io.Writer, client.PaymentState)) error {
	if client.NotFound(err) {
		return &openOutcome{err}
	}

	if err == nil {
		err = o.show(s.asSent, func() { write(o.out, s.PaymentState) })
	}

	if err != nil {
		return err
	}

	return s.verdict()
}

func (s outcome) verdict() error {
	switch s.Status {
	case client.Settled:
		return nil
	case client.Rejected:
		return fmt.Errorf("rejected: %s", reason(s.ReasonCode))
	}

	return &openOutcome{fmt.Errorf("not decided yet: ask with liquida status %s", s.EndToEndID)}
}

// show prints JSON on one line, or for people.
func (o *options) show(value any, forPeople func()) error {
	if !o.json {
		forPeople()
		return nil
	}

	return json.NewEncoder(o.out).Encode(value)
}

// shown prints a value for people or as JSON, unless there is an error.
func shown[V any](o *options, value V, err error, write func(io.Writer, V)) error {
	if err != nil {
		return err
	}

	return o.show(value, func() { write(o.out, value) })
}

func payCommand(o *options) *cobra.Command {
	var payment client.Payment
	var wait time.Duration
	command := &cobra.Command{
		Use: "pay PAYER PAYEE AMOUNT", Short: "Pay, wait and print the outcome", Args: cobra.ExactArgs(3),
		Long: `Pay, wait and print the outcome. While the outcome is unknown, liquida sends the same
payment again with the same EndToEndId, so it is made once. Exit codes: 0 settled (with --wait
0s: accepted), 1 rejected or refused (DUPL: the id belongs to another payment), 3 unknown: send it
again with --id.`,
		Example: "  liquida pay 10000001/0001/1 10000002/0001/1 12.34 --info 'order 7'",
		RunE: func(command *cobra.Command, arguments []string) (err error) {
			if payment.Payer, err = client.ParseAccount(arguments[0]); err != nil {
				return fmt.Errorf("PAYER: %w", err)
			}

			if payment.Payee, err = client.ParseAccount(arguments[1]); err != nil {
				return fmt.Errorf("PAYEE: %w", err)
			}

			if payment.AmountCentavos, err = centavos(arguments[2]); err != nil {
				return err
			}

			if payment.EndToEndID != "" {
				if err := endToEndID("--id", payment.EndToEndID); err != nil {
					return err
				}
			}

			if err := within("--wait", wait, 0, time.Hour); err != nil {
				return err
			}
			o.started = true
			state, err := o.api.Pay(command.Context(), payment, wait)

			return o.sent(paymentOutcome(state), err, wait, "pay "+strings.Join(arguments, " "))
		},
	}
	flags := command.Flags()
	flags.StringVar(&payment.EndToEndID, "id", "", "EndToEndId, to send the same payment again; created if empty")
	flags.StringVar(&payment.RemittanceInformation, "info", "", "remittance information, at most 140 bytes")
	flags.DurationVar(&wait, "wait", time.Minute, "longest wait for the outcome, 0s to 1h")

	return command
}

func returnCommand(o *options) *cobra.Command {
	var order client.ReturnOrder
	var wait time.Duration
	command := &cobra.Command{
		Use: "return ENDTOENDID AMOUNT", Short: "Give back a payment, all of it or a part, and print the outcome",
		Args: cobra.ExactArgs(2),
		Long: `Give back a payment, all of it or a part, as the bank that received it, within 90 days. The
exit codes are those of pay. The id of a return begins with D; status takes it, too.`,
		Example: "  liquida return E100000012026… 2.34 --reason MD06",
		RunE: func(command *cobra.Command, arguments []string) (err error) {
			if err := endToEndID("ENDTOENDID", arguments[0]); err != nil {
				return err
			}

			order.OriginalEndToEndID = arguments[0]
			if order.AmountCentavos, err = centavos(arguments[1]); err != nil {
				return err
			}

			if order.ReturnID != "" {
				if _, err := pix.ParseReturnID(order.ReturnID); err != nil {
					return fmt.Errorf("--id %q: %w", order.ReturnID, err)
				}
			}

			if !slices.Contains(returnReasons, order.ReasonCode) {
				return fmt.Errorf("--reason is %q: it must be one of %s", order.ReasonCode,
					strings.Join(returnReasons, ", "))
			}

			if err := within("--wait", wait, 0, time.Hour); err != nil {
				return err
			}
			o.started = true
			state, err := o.api.GiveBack(command.Context(), order, wait)

			return o.sent(returnOutcome(state), err, wait,
				"return "+strings.Join(arguments, " ")+" --reason "+order.ReasonCode)
		},
	}
	flags := command.Flags()
	flags.StringVar(&order.ReturnID, "id", "", "the return's id, to send the same return again; created if empty")
	flags.StringVar(&order.ReasonCode, "reason", "MD06", "reason: "+strings.Join(returnReasons, ", "))
	flags.DurationVar(&wait, "wait", time.Minute, "longest wait for the outcome, 0s to 1h")

	return command
}

var returnReasons = []string{"MD06", "BE08", "FR01", "SL02"}

func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "status ENDTOENDID | RETURNID", Short: "Print the state of a payment or a return",
		Args: cobra.ExactArgs(1),
		Long: "Print the state of a payment or a return in the ledger. Exit codes: 0 settled, 1 rejected,\n3 held or not known (yet).",
		RunE: func(command *cobra.Command, arguments []string) error {
			if _, err := pix.ParsePaymentOrReturnID(arguments[0]); err != nil {
				return fmt.Errorf("ENDTOENDID %q: %w", arguments[0], err)
			}
			o.started = true
			state, err := o.stateOf(command.Context(), arguments[0])

			return o.known(state, err, printState)
		},
	}
}

func watchCommand(o *options) *cobra.Command {
	var from string
	var count int
	var longest time.Duration
	var all bool
	command := &cobra.Command{
		Use:   "watch ENDTOENDID | RETURNID | ISPB | --all",
		Short: "Follow a payment or a return to its end, or a participant's settlements", Args: cobra.RangeArgs(0, 1),
		Long: `Follow a payment or a return to its end, with the exit codes of status. Or follow the
settlements of a participant, or of all (with the central bank's key), until a signal, --count or
--for, with exit code 0. A settlement may come more than once. With --json each has a position:
--from continues after it.`,
		Example: "  liquida watch 10000002 --from start --count 10",
		RunE: func(command *cobra.Command, arguments []string) error {
			if count < 0 {
				return fmt.Errorf("--count is %d: it must be 0 (no end) or more", count)
			}

			if err := within("--for", longest, 0, 1000*time.Hour); err != nil {
				return err
			}

			if all != (len(arguments) == 0) {
				return errors.New("give either an id or an ISPB, or --all")
			}

			if all {
				arguments = []string{client.Everybody}
			}

			ctx := command.Context()
			if longest > 0 {
				limited, cancel := context.WithTimeout(ctx, longest)
				defer cancel()
				ctx = limited
			}

			_, notID := pix.ParsePaymentOrReturnID(arguments[0])
			if _, notISPB := pix.ParseISPB(arguments[0]); !all && notID != nil && notISPB != nil {
				return fmt.Errorf("%q is neither an EndToEndId or a return's id (32 characters) nor an ISPB (8 characters)",
					arguments[0])
			}
			o.started = true

			if notID == nil {
				last := paymentOutcome(client.PaymentState{EndToEndID: arguments[0]}) // if no state comes
				seen := func(s outcome) {
					last = s
					_ = o.show(s.asSent, func() { printState(o.out, s.PaymentState) })
				}

				var err error
				if _, notReturn := pix.ParseReturnID(arguments[0]); notReturn == nil {
					_, err = o.api.FollowReturn(ctx, arguments[0], func(state client.ReturnState) {
						seen(returnOutcome(state))
					})
				} else {
					_, err = o.api.Follow(ctx, arguments[0], func(state client.PaymentState) {
						seen(paymentOutcome(state))
					})
				}

				if err != nil && ctx.Err() == nil {
					return err
				}

				return last.verdict()
			}
			told := 0

			err := o.api.Settlements(ctx, arguments[0], from, func(s client.Settlement, position string) (bool, error) {
				told++

				return told == count, o.show(struct {
					client.Settlement
					Position string `json:"position"`
				}{s, position}, func() { printSettlement(o.out, s) })
			})
			if ctx.Err() != nil && count == 0 { // the end of --for
				return nil
			}

			if ctx.Err() != nil {
				return &openOutcome{fmt.Errorf("%d of %d settlements came", told, count)}
			}

			return err
		},
	}
	flags := command.Flags()
	flags.BoolVar(&all, "all", false, "follow the settlements of all participants; needs the central bank's key")
	flags.StringVar(&from, "from", "end", "for a participant: start (the first payment ever), end (now), or a position")
	flags.IntVar(&count, "count", 0, "for a participant: end after this many; 0: no end")
	flags.DurationVar(&longest, "for", 0, "end after this time; 0s: no end")

	return command
}

func balanceCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "balance ACCOUNT", Short: "Print the balance of an account", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, arguments []string) error {
			account, err := client.ParseAccount(arguments[0])
			if err != nil {
				return err
			}
			o.started = true
			balance, err := o.api.Balance(command.Context(), account)

			return shown(o, balance, err, printBalance)
		},
	}
}

func statementCommand(o *options) *cobra.Command {
	var limit int
	var day dayFlags
	var format, output string
	command := &cobra.Command{
		Use:   "statement ACCOUNT | --participant ISPB --day DAY",
		Short: "Print the movements of an account, or what moved a bank's reserve on a day",
		Args:  cobra.MaximumNArgs(1),
		Long: `Print the movements of an account, newest first. Only posted lines change the balance: held and
released lines show what payments in flight hold and free.

With --participant print the statement of a bank's day: opening and closing reserve, all that
moved it, and sums by counterparty. It is the same whenever it is read. A file that --output
names is whole, or not there. Exit codes: 0 it is whole, 1 refused, 3 the day is not over, or
the statement broke off: run the same again.`,
		Example: `  liquida statement 10000001/0001/1
  liquida statement --participant 10000001 --day 2026-11-22 --output 2026-11-22.csv`,
		RunE: func(command *cobra.Command, arguments []string) error {
			if day.participant != "" || day.day != "" || len(arguments) == 0 {
				if len(arguments) > 0 {
					return errors.New("give an ACCOUNT or --participant and --day, not both")
				}

				if o.json && !command.Flags().Changed("format") {
					format = "json"
				}

				if o.json && format != "json" {
					return fmt.Errorf("--format is %s: with --json it must be json", format)
				}

				if err := cmp.Or(not(command, "limit"), day.check(), checkFormat(format)); err != nil {
					return err
				}

				return o.printDay(command.Context(), day, format, output)
			}

			account, err := client.ParseAccount(arguments[0])
			if err := cmp.Or(err, not(command, "until"), not(command, "format"), not(command, "output")); err != nil {
				return err
			}

			if limit < 1 {
				return fmt.Errorf("--limit is %d: it must be at least 1", limit)
			}

			o.started = true
			for line, err := range o.api.Statement(command.Context(), account, min(limit, 100)) {
				if err := shown(o, line, err, printLine); err != nil {
					return err
				}

				if limit--; limit == 0 {
					break
				}
			}

			return nil
		},
	}
	command.Flags().IntVar(&limit, "limit", 20, "lines of an account, at least 1")
	day.add(command)
	command.Flags().StringVar(&format, "format", dayFormats[0], "of a day: "+strings.Join(dayFormats, ", "))
	command.Flags().StringVar(&output, "output", "", "file for the statement of a day; empty: standard output")

	return command
}

// not returns an error if a flag is set that only the other form of the command has.
func not(command *cobra.Command, flag string) error {
	if command.Flags().Changed(flag) {
		return fmt.Errorf("--%s: not with these arguments", flag)
	}

	return nil
}

func participantsCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "participants [ISPB]", Short: "Print the banks' states, reserves and caps, and whether their books agree",
		Args: ofBank(cobra.MaximumNArgs(1)),
		Long: "Print the banks' states, reserves and transits, their caps and what is left of them, and whether\ntheir books agree. Of all banks also whether acts explain all central-bank money. The exit code is 1\nif not.",
		RunE: func(command *cobra.Command, arguments []string) error {
			all := o.api.Participants(command.Context())
			if len(arguments) == 1 {
				all = func(yield func(client.Participant, error) bool) {
					yield(o.api.Participant(command.Context(), arguments[0]))
				}
			}
			o.started = true
			var wrong []string

			for participant, err := range all {
				if err := shown(o, participant, err, printParticipant); err != nil {
					return err
				}

				if participant.ThreeLegs != nil && !participant.ThreeLegs.Holds {
					wrong = append(wrong, participant.ISPB)
				}
			}

			if len(arguments) == 0 {
				issuance, err := o.api.Issuance(command.Context())
				if err != nil {
					return err
				}

				if !issuance.Holds {
					return fmt.Errorf("ISSUANCE DIFFERS by %s: central-bank money moved without an act, whatever the books of single banks say; stop, and run make audit",
						reais(issuance.DifferenceCentavos))
				}
			}

			if len(wrong) > 0 {
				return fmt.Errorf("the books of %s do not agree: run make audit", strings.Join(wrong, ", "))
			}

			return nil
		},
	}
}

// ofBank checks the arguments of a command whose first one is an ISPB.
func ofBank(count cobra.PositionalArgs) cobra.PositionalArgs {
	return cobra.MatchAll(count, func(_ *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return nil
		}

		if _, err := pix.ParseISPB(arguments[0]); err != nil {
			return fmt.Errorf("ISPB: %w", err)
		}

		return nil
	})
}

func endToEndID(what, text string) error {
	if _, err := pix.ParseEndToEndID(text); err != nil {
		return fmt.Errorf("%s %q: %w", what, text, err)
	}

	return nil
}
