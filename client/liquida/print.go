package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
)

var amountPattern = regexp.MustCompile(`^[0-9]{1,16}(\.[0-9]{2})?$`)

// centavos parses an amount in reais, as people write it, and returns it in centavos. What could be
// read in two ways is refused: one decimal, and a comma, which is a decimal sign for some and
// separates thousands for others.
func centavos(text string) (int64, error) {
	if !amountPattern.MatchString(text) {
		return 0, fmt.Errorf("AMOUNT %q: it must be in reais, like 12 or 12.34: a point and two decimals, or none, and no separator of thousands",
			text)
	}
	reais, decimals, _ := strings.Cut(text, ".")

	amount, err := strconv.ParseInt(reais+cmp.Or(decimals, "00"), 10, 64)
	if err == nil && amount == 0 {
		err = fmt.Errorf("AMOUNT %q: it must be at least 0.01", text)
	}

	return amount, err
}

func reais(centavos int64) string { return pix.Reais(centavos) }

// reason returns a reason code, with its meaning if it is one of the clearing house.
func reason(code string) string {
	if parsed, err := pix.ParseReason(code); err == nil && parsed.Meaning() != "" {
		return code + ", " + parsed.Meaning()
	}

	return code
}

func printState(w io.Writer, s client.PaymentState) {
	text := s.EndToEndID + " " + coloured(s.Status)
	if s.ReasonCode != "" && s.Status == client.Rejected {
		text += " " + reason(s.ReasonCode)
	}

	if s.Payer != nil && s.Payee != nil {
		text += fmt.Sprintf("  %s from %s to %s", reais(s.AmountCentavos), s.Payer, s.Payee)
	}

	if s.DecidedAt != nil {
		text += "  " + s.DecidedAt.Format(time.RFC3339)
	}
	fmt.Fprintln(w, text)

	if s.ReturnedCentavos > 0 {
		fmt.Fprintf(w, "  returned %s of %s\n", reais(s.ReturnedCentavos), reais(s.AmountCentavos))
	}

	if d := s.DeadLetter; d != nil {
		fmt.Fprintf(w, "  another message with this id, of %s, became a dead letter: %s\n", reais(d.AmountCentavos),
			reason(d.ReasonCode))
	}

	for _, r := range s.Returns {
		state := r.Status
		if r.ReasonCode != "" {
			state += " " + reason(r.ReasonCode)
		}
		fmt.Fprintf(w, "  %s %s  %s for %s\n", r.ReturnID, state, reais(r.AmountCentavos), r.ReturnReasonCode)
	}
}

func printSettlement(w io.Writer, s client.Settlement) {
	printState(w, client.PaymentState{EndToEndID: s.EndToEndID, Status: s.Status, ReasonCode: s.ReasonCode,
		AmountCentavos: s.AmountCentavos, Payer: s.Payer, Payee: s.Payee, DecidedAt: &s.ReportedAt})
}

func printBalance(w io.Writer, b client.AccountBalance) {
	state := ""
	if b.State != "" && b.State != "open" {
		state = "  " + strings.ToUpper(b.State)
	}
	fmt.Fprintf(w, "%s  available %s  posted %s  held %s  coming %s%s\n", b.Account,
		reais(b.AvailableCentavos), reais(b.PostedCentavos), reais(b.PendingOutCentavos),
		reais(b.PendingInCentavos), state)
}

func printLine(w io.Writer, l client.StatementLine) {
	sign := "+"
	if l.Direction == "debit" {
		sign = "-"
	}

	what := cmp.Or(l.ReturnID, l.EndToEndID)
	if what == "" {
		what = "code " + strconv.Itoa(l.Code)
	}
	fmt.Fprintln(w, strings.TrimRight(
		fmt.Sprintf("%s  %-8s  %s%-18s  %s  %s", l.At.Format(time.RFC3339), l.Kind, sign, reais(l.AmountCentavos), what,
			reason(l.ReasonCode)), " "))
}

func printParticipant(w io.Writer, p client.Participant) {
	books := "books not known"
	if p.ThreeLegs != nil {
		books = "books agree"
		if !p.ThreeLegs.Holds {
			books = "BOOKS DIFFER by " + reais(p.ThreeLegs.DifferenceCentavos)
		}
	}

	if p.State != "active" {
		books += "  " + strings.ToUpper(p.State)
	}
	fmt.Fprintf(w, "%s  reserve %s  transit %s  %s\n", p.ISPB, reais(p.Reserve.PostedCentavos),
		reais(p.Transit.PostedCentavos), books)

	if p.PaymentCapCentavos > 0 {
		fmt.Fprintf(w, "  cap on a payment %s\n", reais(p.PaymentCapCentavos))
	}

	for _, c := range p.OutflowCaps {
		fmt.Fprintf(w, "  cap by %s %s in %v: %s is left\n", c.When, reais(c.CapCentavos),
			time.Duration(c.WindowSeconds)*time.Second, reais(c.LeftCentavos))
	}
}
