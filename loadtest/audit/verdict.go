package audit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Verdict is the result of the audit.
type Verdict struct {
	Clean        bool           `json:"clean"`
	Summary      Summary        `json:"summary"`
	FindingCount int            `json:"finding_count"`
	ByKind       map[string]int `json:"findings_by_kind"`
	Findings     []Finding      `json:"findings"` // at most 50, of all kinds
	Seconds      float64        `json:"seconds"`
}

// Write prints the verdict for people; its last line is the verdict itself.
func (v Verdict) Write(w io.Writer) {
	s := v.Summary
	fmt.Fprintf(w, "read    %d orders, %d transfers, %d accounts\n", s.Orders, s.Transfers, s.Accounts)
	fmt.Fprintf(w, "payments %d: settled %d (%v centavos), rejected %d%s; dead letters %d%s\n",
		s.Payments, s.Settled, s.SettledCentavos, total(s.Rejected), byReason(s.Rejected), total(s.DeadLetters), byReason(s.DeadLetters))
	if s.Returns > 0 {
		fmt.Fprintf(w, "returns %d: settled %d (%v centavos), rejected %d%s\n",
			s.Returns, s.Returned, s.ReturnedCentavos, total(s.ReturnsRejected), byReason(s.ReturnsRejected))
	}
	if n := total(s.ReasonsChecked) + total(s.ReasonsUnchecked); n > 0 {
		fmt.Fprintf(w, "refused %d without a bank's word: of %d the reason follows from order and ledger%s; NOT CHECKED %d%s\n",
			n, total(s.ReasonsChecked), byReason(s.ReasonsChecked), total(s.ReasonsUnchecked), byReason(s.ReasonsUnchecked))
	}
	if s.Waited > 0 {
		fmt.Fprintf(w, "waited  %d for their deadline, %d of them ended within %v after it\n", s.Waited, s.WaitedOnTime, lateAfter)
	}
	if s.RequestsUnread != "" {
		fmt.Fprintf(w, "requests NOT CHECKED: %s\n", s.RequestsUnread)
	} else if s.Requests+s.RequestsGone > 0 {
		fmt.Fprintf(w, "requests %d to banks are left in the topic: each is about its payment, or listed below\n", s.Requests)
	}
	if s.RequestsGone > 0 {
		fmt.Fprintf(w, "requests about %d outcomes are no longer in the topic: NOT CHECKED\n", s.RequestsGone)
	}
	if s.AnswersUnread != "" {
		fmt.Fprintf(w, "responses NOT CHECKED: %s\n", s.AnswersUnread)
	}
	if s.Answered+s.AnswersGone > 0 {
		fmt.Fprintf(w, "responses %d outcomes have the sealed word of the payee's bank, %d are older than what is left of the topic\n", s.Answered, s.AnswersGone)
	}
	if s.Answered+s.AnswersGone == 0 && s.AnswersUnread == "" && s.Settled > 0 {
		fmt.Fprintln(w, "responses NOT CHECKED: no secrets were given")
	}
	fmt.Fprintf(w, "repeated %d orders, %d reports (each equal to the first, or listed below); the repeated reports prove %d take-overs of one engine, at least\n", s.RepeatedOrders, s.RepeatedReports, s.TakeOvers)
	if n := total(s.Acts); n > 0 {
		fmt.Fprintf(w, "acts    %d, replayed in the order of the ledger%s; %d payments count toward a cap on outflow\n", n, byReason(s.Acts), s.Capped)
	}
	if s.LeftOut > 0 {
		fmt.Fprintf(w, "Kafka   %d times the client left records out: they were fetched again\n", s.LeftOut)
	}
	fmt.Fprintf(w, "money   %v centavos issued\n", s.IssuanceCentavos)
	listed := 0
	for _, f := range v.Findings {
		f.write(w)
		listed += f.Count
	}
	if rest := v.FindingCount - listed; rest > 0 {
		fmt.Fprintf(w, "WRONG … and %d more; in all:\n", rest)
		for _, kind := range slices.SortedFunc(maps.Keys(v.ByKind), func(a, b string) int { return cmp.Compare(v.ByKind[b], v.ByKind[a]) }) {
			fmt.Fprintf(w, "  %8d %s\n", v.ByKind[kind], kind)
		}
	}
	fmt.Fprintln(w, v)
}

// write prints a finding, with what it explains under it.
func (f Finding) write(w io.Writer) {
	fmt.Fprintf(w, "WRONG %s: %s: %s\n", f.Subject, f.Kind, f.Detail)
	if f.Count > 1 {
		fmt.Fprintf(w, "      %d are like this, such as\n", f.Count)
		for _, other := range f.Also {
			fmt.Fprintf(w, "      %s\n", other)
		}
	}
	for _, effect := range f.Effects {
		fmt.Fprintf(w, "      therefore: %s\n", effect)
	}
	if rest := f.EffectCount - len(f.Effects); rest > 0 {
		fmt.Fprintf(w, "      therefore: … and %d more\n", rest)
	}
}

// unchecked says what a clean verdict does not claim.
func (v Verdict) unchecked() string {
	var parts []string
	if s := v.Summary; s.AnswersUnread != "" || s.Settled > 0 && s.Answered+s.AnswersGone == 0 {
		parts = append(parts, "responses of banks")
	} else if s.AnswersGone > 0 {
		parts = append(parts, fmt.Sprintf("%d responses that are gone", s.AnswersGone))
	}
	if v.Summary.RequestsUnread != "" {
		parts = append(parts, "requests to banks")
	} else if n := v.Summary.RequestsGone; n > 0 {
		parts = append(parts, fmt.Sprintf("%d requests that are gone", n))
	}
	if n := total(v.Summary.ReasonsUnchecked); n > 0 {
		parts = append(parts, fmt.Sprintf("the reasons of %d refusals%s", n, byReason(v.Summary.ReasonsUnchecked)))
	}
	if parts == nil {
		return ""
	}
	return "; NOT CHECKED: " + strings.Join(parts, ", ")
}

func (v Verdict) String() string {
	if v.Clean {
		what := fmt.Sprintf("%d payments", v.Summary.Payments)
		if v.Summary.Returns > 0 {
			what += fmt.Sprintf(" and %d returns", v.Summary.Returns)
		}
		source := "funded"
		if total(v.Summary.Acts) > 0 {
			what += fmt.Sprintf(" under %d acts", total(v.Summary.Acts))
			source = "funded or of an act"
		}
		return fmt.Sprintf("AUDIT CLEAN: %s, every one has exactly one outcome, every centavo is %s and where the reports put it%s", what, source, v.unchecked())
	}
	kinds := slices.Sorted(maps.Keys(v.ByKind))
	return fmt.Sprintf("AUDIT FAILED: %d findings in %d payments: %s", v.FindingCount, v.Summary.Payments, strings.Join(kinds, ", "))
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func byReason(counts map[string]int) string {
	if len(counts) == 0 {
		return ""
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
