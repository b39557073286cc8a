package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
)

// answered is a question and what was answered, as --json prints it.
type answered struct {
	client.Question
	Answer string `json:"answer"`           // ACSP, or the reason code
	Result string `json:"result"`           // stored, or refused
	Detail string `json:"detail,omitempty"` // why it was refused
}

func answerCommand(o *options) *cobra.Command {
	var acceptAll bool
	var reject, secrets, share string
	var count int
	var longest time.Duration
	command := &cobra.Command{
		Use: "answer ISPB --accept-all | --reject CODE", Short: "Answer what a bank is asked, for trying",
		Args: ofBank(cobra.ExactArgs(1)),
		Long: `Be a receiving bank: answer each question to it, all alike, until a signal, --count or --for, with
exit code 0. --secret-file has the bank's secret, with which its answers are sealed. An answer
settles nothing yet: watch ISPB shows how payments end. Nothing else should answer for the bank.`,
		Example: "  liquida answer 10000005 --reject AC06 --for 1m --key-file .stack/keys/10000005",
		RunE: func(command *cobra.Command, arguments []string) error {
			if acceptAll == (reject != "") {
				return errors.New("give either --accept-all or --reject CODE")
			}

			if code, err := pix.ParseReason(reject); reject != "" && (err != nil || code.FromBank() != code) {
				return fmt.Errorf("--reject is %q: it must be a reason code of a bank, four characters like AC06",
					reject)
			}

			if count < 0 {
				return fmt.Errorf("--count is %d: it must be 0 (no end) or more", count)
			}

			if err := within("--for", longest, 0, 1000*time.Hour); err != nil {
				return err
			}

			secret, err := client.ReadSecret(secrets, arguments[0])
			if err != nil {
				return fmt.Errorf("%w (--secret-file or ANSWER_KEYS_FILE)", err)
			}

			ctx := command.Context()
			if longest > 0 {
				limited, cancel := context.WithTimeout(ctx, longest)
				defer cancel()
				ctx = limited
			}
			o.started = true
			stored := 0

			err = o.api.Questions(ctx, arguments[0], share, func(q client.Question) error {
				results, err := o.api.Answer(ctx, arguments[0], secret.Answer(arguments[0], q.EndToEndID, reject))
				if err != nil {
					return err
				}

				line := answered{q, "ACSP", "stored", ""}
				if reject != "" {
					line.Answer = reject
				}

				if results[0] != nil {
					line.Result, line.Detail = "refused", results[0].Error()
				} else {
					stored++
				}

				if err := o.show(line, func() { printAnswered(o.out, line) }); err != nil {
					return err
				}

				if stored == count && count > 0 {
					return errEnough
				}

				return nil
			}, func(news client.News) error {
				if news.Status == "forged" {
					return fmt.Errorf("the answer to %s has not the seal of %s: --secret-file has another secret than the register",
						news.EndToEndID, arguments[0])
				}

				return nil
			})
			if errors.Is(err, errEnough) || ctx.Err() != nil && count == 0 {
				return nil
			}

			if ctx.Err() != nil {
				return &openOutcome{fmt.Errorf("%d of %d questions came", stored, count)}
			}

			return err
		},
	}
	flags := command.Flags()
	flags.BoolVar(&acceptAll, "accept-all", false, "accept every payment")
	flags.StringVar(&reject, "reject", "", "reject every payment with this reason code")
	flags.StringVar(&secrets, "secret-file", os.Getenv("ANSWER_KEYS_FILE"),
		"file with lines of ISPB and secret, or ANSWER_KEYS_FILE; such as .stack/answer-keys")
	flags.StringVar(&share, "share", "", "share the questions with other programs that name the same")
	flags.IntVar(&count, "count", 0, "end after this many answers; 0: no end")
	flags.DurationVar(&longest, "for", 0, "end after this time; 0s: no end")

	return command
}

// errEnough ends the questions.
var errEnough = errors.New("enough")

func printAnswered(w io.Writer, a answered) {
	fmt.Fprintf(w, "%s  %s  %s from %s to %s  %s\n", a.EndToEndID, a.Answer, reais(a.AmountCentavos), a.Payer,
		a.Payee, a.Result)

	if a.Detail != "" {
		fmt.Fprintf(w, "  %s\n", a.Detail)
	}
}
