package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/liquida/liquida/client"
)

// traceCommand shows what the ledger knows of a payment, on a time line.
func traceCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "trace ENDTOENDID",
		Short: "Show a payment's life: hold, legs, verdict and returns, and the time between them",
		Args:  cobra.ExactArgs(1),
		Long: `Show a payment's life on a time line, by the ledger's clock: when its money was held, what its legs
move, how it ended, and its returns. With the exit codes of status. With --json it is the state, as
status prints it.`,
		Example: "  liquida trace E100000012026…",
		RunE: func(command *cobra.Command, arguments []string) error {
			if err := endToEndID("ENDTOENDID", arguments[0]); err != nil {
				return err
			}
			o.started = true
			state, err := o.api.Payment(command.Context(), arguments[0])

			return o.known(paymentOutcome(state), err, printTrace)
		},
	}
}

// moment is one thing that happened to a payment.
type moment struct {
	at   time.Time
	what string
}

func momentsOf(s client.PaymentState) (all []moment) {
	if s.ReservedAt != nil {
		all = append(all, moment{*s.ReservedAt, "held " + reais(s.AmountCentavos)})
		if s.ExpiresAt != nil && s.DecidedAt == nil {
			all = append(all, moment{*s.ExpiresAt, "the ledger ends the hold, if nobody does before"})
		}
	}

	if s.DecidedAt != nil {
		what := s.Status
		if s.ReasonCode != "" {
			what += " " + reason(s.ReasonCode)
		}
		all = append(all, moment{*s.DecidedAt, what})
	}

	for _, r := range s.Returns {
		what := fmt.Sprintf("return %s of %s for %s: %s", r.ReturnID, reais(r.AmountCentavos),
			r.ReturnReasonCode, r.Status)
		if r.ReasonCode != "" {
			what += " " + reason(r.ReasonCode)
		}
		all = append(all, moment{*cmp.Or(r.DecidedAt, &r.ReservedAt), what})
	}

	if d := s.DeadLetter; d != nil {
		all = append(all, moment{d.At,
			fmt.Sprintf("another message with this id, of %s, became a dead letter: %s", reais(d.AmountCentavos),
				reason(d.ReasonCode))})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })

	return all
}

func printTrace(w io.Writer, s client.PaymentState) {
	fmt.Fprintf(w, "%s  %s\n", s.EndToEndID, coloured(s.Status))

	if s.Payer != nil && s.Payee != nil {
		fmt.Fprintf(w, "%s from %s to %s\n", reais(s.AmountCentavos), s.Payer, s.Payee)
	}

	moments := momentsOf(s)
	for i, m := range moments {
		after := ""
		if i > 0 {
			after = "+" + m.at.Sub(moments[0].at).Round(time.Microsecond).String()
		}
		fmt.Fprintf(w, "  %s  %12s  %s\n", m.at.UTC().Format("2006-01-02T15:04:05.000000Z"), after, m.what)
	}

	for _, leg := range s.Legs {
		fmt.Fprintf(w, "  leg %d  %-8s  %18s  %s → %s\n", leg.Leg, leg.State, reais(leg.AmountCentavos),
			leg.Debit, leg.Credit)
	}
}
