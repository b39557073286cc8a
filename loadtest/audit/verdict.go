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
	fmt.Fprintf(w, "payments %d: settled %d (%d centavos), rejected %d%s; dead letters %d%s\n",
		s.Payments, s.Settled, s.SettledCentavos, total(s.Rejected), byReason(s.Rejected), total(s.DeadLetters), byReason(s.DeadLetters))
	if s.Returns > 0 {
		fmt.Fprintf(w, "returns %d: settled %d (%d centavos), rejected %d%s\n",
			s.Returns, s.Returned, s.ReturnedCentavos, total(s.ReturnsRejected), byReason(s.ReturnsRejected))
	}
	if s.AnswersUnread != "" {
		fmt.Fprintf(w, "responses NOT CHECKED: %s\n", s.AnswersUnread)
	}
	if s.Answered+s.AnswersGone > 0 {
		fmt.Fprintf(w, "responses %d outcomes have the sealed word of the payee's bank, %d are older than what is left of the topic\n", s.Answered, s.AnswersGone)
	}
	fmt.Fprintf(w, "repeated %d orders, %d reports (each equal to the first, or listed below)\n", s.RepeatedOrders, s.RepeatedReports)
	fmt.Fprintf(w, "money   %d centavos issued\n", s.IssuanceCentavos)
	for _, f := range v.Findings {
		fmt.Fprintf(w, "WRONG %s: %s: %s\n", f.Subject, f.Kind, f.Detail)
	}
	if rest := v.FindingCount - len(v.Findings); rest > 0 {
		fmt.Fprintf(w, "WRONG … and %d more; in all:\n", rest)
		for _, kind := range slices.SortedFunc(maps.Keys(v.ByKind), func(a, b string) int { return cmp.Compare(v.ByKind[b], v.ByKind[a]) }) {
			fmt.Fprintf(w, "  %8d %s\n", v.ByKind[kind], kind)
		}
	}
	fmt.Fprintln(w, v)
}

func (v Verdict) String() string {
	if v.Clean {
		if v.Summary.Returns > 0 {
			return fmt.Sprintf("AUDIT CLEAN: %d payments and %d returns, every one has exactly one outcome, every centavo is funded and where the reports put it", v.Summary.Payments, v.Summary.Returns)
		}
		return fmt.Sprintf("AUDIT CLEAN: %d payments, every one has exactly one outcome, every centavo is funded and where the reports put it", v.Summary.Payments)
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
