package audit

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// Verdict is the result of the audit.
type Verdict struct {
	Clean        bool           `json:"clean"`
	Summary      Summary        `json:"summary"`
	FindingCount int            `json:"finding_count"`
	ByKind       map[string]int `json:"findings_by_kind"`
	Findings     []Finding      `json:"findings"` // at most 5 forms of each kind
	Seconds      float64        `json:"seconds"`
}

// Summary counts what the audit read.
type Summary struct {
	Orders           int            `json:"orders"`
	Payments         int            `json:"payments"`
	Settled          int            `json:"settled"`
	SettledCentavos  spec.Money     `json:"settled_centavos"`
	Rejected         map[string]int `json:"rejected"`     // by reason
	DeadLetters      map[string]int `json:"dead_letters"` // by reason
	Answered         int            `json:"answered"`     // outcomes with the sealed word of the payee's bank
	Returns          int            `json:"returns"`
	Returned         int            `json:"returned"`
	ReturnedCentavos spec.Money     `json:"returned_centavos"`
	ReturnsRejected  map[string]int `json:"returns_rejected"` // by reason
	RepeatedOrders   int            `json:"repeated_orders"`
	RepeatedReports  int            `json:"repeated_reports"`
	Requests         int            `json:"requests"`        // questions to banks that the topic still keeps
	ReasonsChecked   map[string]int `json:"reasons_checked"` // refusals that follow from order and ledger
	Acts             map[string]int `json:"acts"`            // of the register, by kind
	Capped           int            `json:"capped"`          // payments held with leg 4
	Transfers        int            `json:"transfers"`
	Accounts         int            `json:"accounts"`
	IssuanceCentavos spec.Money     `json:"issuance_centavos"`
	// what a clean verdict does not claim
	NotChecked map[string]int `json:"not_checked,omitempty"`
	// why topics could not be read, so that a verdict about them is missing
	Unread []string `json:"unread,omitempty"`
}

// Things of which some are not checked.
const (
	answersGone   = "responses that are gone" // outcomes as old as the oldest response that is left
	requestsGone  = "requests that are gone"  // outcomes whose question is older than the oldest that is left
	TrialRequests = "requests of loadtest conform"
	RefusalsWith  = "refusals with " // a reason that only the engine's settings or queues explain
)

// Write prints the verdict for people; its last line is the verdict itself.
func (v Verdict) Write(w io.Writer) {
	v.Summary.write(w)

	listed := 0

	for _, f := range v.Findings {
		f.write(w)
		listed += f.Count
	}

	if rest := v.FindingCount - listed; rest > 0 {
		fmt.Fprintf(w, "WRONG … and %d more; in all: %v\n", rest, v.ByKind)
	}
	fmt.Fprintln(w, v)
}

// write prints what was read, what became of it, and what of it could be checked.
func (s Summary) write(w io.Writer) {
	by := func(counts map[string]int) string {
		all := 0
		var each []string

		for _, what := range slices.Sorted(maps.Keys(counts)) {
			all += counts[what]
			each = append(each, fmt.Sprintf("%d %s", counts[what], what))
		}

		if all == 0 {
			return "0"
		}

		return fmt.Sprintf("%d (%s)", all, strings.Join(each, ", "))
	}
	fmt.Fprintf(w, "read      %d orders, %d transfers, %d accounts, %v centavos issued; acts: %s\n", s.Orders, s.Transfers,
		s.Accounts, s.IssuanceCentavos, by(s.Acts))
	fmt.Fprintf(w, "payments  %d: %d settled with %v centavos, rejected %s; dead letters %s\n", s.Payments, s.Settled,
		s.SettledCentavos, by(s.Rejected), by(s.DeadLetters))
	fmt.Fprintf(w, "returns   %d: %d settled with %v centavos, rejected %s\n", s.Returns, s.Returned, s.ReturnedCentavos,
		by(s.ReturnsRejected))
	fmt.Fprintf(w, "checked   the reasons of %s refusals; the sealed word of banks behind %d outcomes; %d questions to banks; %d payments with a leg for a cap\n",
		by(s.ReasonsChecked), s.Answered, s.Requests, s.Capped)
	fmt.Fprintf(w, "repeated  %d orders, %d reports, each like the first\n", s.RepeatedOrders, s.RepeatedReports)
}

// write prints a finding.
func (f Finding) write(w io.Writer) {
	fmt.Fprintf(w, "WRONG %s: %s: %s\n", f.Subject, f.Kind, f.Detail)

	if f.Count > 1 {
		fmt.Fprintf(w, "      %d are like this, such as\n", f.Count)

		for _, other := range f.Also {
			fmt.Fprintf(w, "      %s\n", other)
		}
	}
}

// notChecked begins what Unread holds.
const notChecked = "not checked: "

// unchecked says what a clean verdict does not claim.
func (v Verdict) unchecked() string {
	s := v.Summary
	var parts []string

	for _, unread := range s.Unread {
		parts = append(parts, strings.TrimPrefix(unread, notChecked))
	}

	const responses = "responses of banks"
	said := slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, responses) })

	if s.Settled > 0 && s.Answered+s.NotChecked[answersGone] == 0 && !said {
		parts = append(parts, responses)
	}

	for _, what := range slices.Sorted(maps.Keys(s.NotChecked)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.NotChecked[what], what))
	}

	if len(parts) == 0 {
		return ""
	}

	return "; NOT CHECKED: " + strings.Join(parts, ", ")
}

func (v Verdict) String() string {
	s := v.Summary
	if !v.Clean {
		kinds := slices.Sorted(maps.Keys(v.ByKind))
		return fmt.Sprintf("AUDIT FAILED: %d findings in %d payments: %s", v.FindingCount, s.Payments,
			strings.Join(kinds, ", "))
	}

	return fmt.Sprintf("AUDIT CLEAN: %d payments and %d returns under %d acts, every one has exactly one outcome, every centavo is funded or of an act, and where the reports put it%s",
		s.Payments, s.Returns, total(s.Acts), v.unchecked())
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}

	return sum
}

// Finding is one thing that is wrong, with all that are wrong in the same way.
type Finding struct {
	Kind string `json:"kind"`
	// Subject is an EndToEndId if there is one, else a record, an account or a transfer.
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
	// Count is how many findings differ from this one only in ids and numbers, itself included.
	Count int      `json:"count"`
	Also  []string `json:"also,omitempty"` // some of the others
}

// The kinds of findings.
const (
	NoOutcome          = "payment without an outcome"
	ReportsDiffer      = "repeated reports differ"
	BadReport          = "report that cannot be read"
	ReportWithoutOrder = "report without an order"
	ReportedContent    = "report about other content"
	LedgerDisagrees    = "report and ledger disagree"
	NoVerdict          = "no verdict in the ledger"
	LegsDisagree       = "legs disagree"
	WrongTransfer      = "transfer that is not the payment's"
	UnexplainedMoney   = "transfer without an order"
	WrongFunding       = "funding that does not follow from the marker"
	NoDeadLetter       = "message that is neither a payment nor a dead letter"
	WrongDeadLetter    = "dead letter that must not be"
	TwoContents        = "two contents under one EndToEndId"
	Pending            = "money still pending"
	WrongBalance       = "balance differs from the reports"
	WrongAccount       = "wrong account"
	BrokenLaw          = "law of money broken"
	Lag                = "engine has not finished its messages"
	TopicCut           = "topic that is not complete"
	ReturnedTooMuch    = "more returned than paid"
	WrongReturn        = "return that must not have settled"
	NoMark             = "return of a payment without a mark"
	NoAnswer           = "outcome without the word of the payee's bank"
	IDsCollide         = "two EndToEndIds with one transfer id"
	WrongPlace         = "message with another key, or in another partition"
	RepeatedReport     = "reports repeated without a redelivery"
	WrongQuestion      = "request that is not about the payment"
	WrongReason        = "refusal that is not justified"
	WrongDeadline      = "deadline that was not kept"
	WrongAct           = "act that cannot be"
	MoneyWithoutAct    = "money without an act"
	BeyondTerms        = "payment that the register forbids"
	WrongAllowance     = "allowance that is not the cap's"
	WrongLedger        = "ledger that is not the topics'"
	LedgerRenewed      = "ledger that took the place of another"
	LogGivenUp         = "log that was given up"
)

// Bounds of the list. All findings are counted.
const (
	formsMax = 5 // of a kind, so that none hides the others
	alsoMax  = 2
)

// findings collects findings.
type findings struct {
	told   func(Finding) // nil, or called with each as it comes
	counts map[string]int
	forms  map[string]int // by kind
	list   []Finding
	byForm map[[2]string]int // place in the list, by kind, and the detail without what differs from payment to payment
}

// add adds a finding.
func (f *findings) add(kind, subject, format string, arguments ...any) {
	if f.counts == nil {
		f.counts, f.forms, f.byForm = map[string]int{}, map[string]int{}, map[[2]string]int{}
	}

	f.counts[kind]++

	finding := Finding{Kind: kind, Subject: subject, Detail: fmt.Sprintf(format, arguments...), Count: 1}
	if f.told != nil {
		f.told(finding)
	}
	form := [2]string{kind, Form(finding.Detail)}

	at, known := f.byForm[form]
	if !known {
		if f.forms[kind] < formsMax {
			f.forms[kind]++
			f.byForm[form] = len(f.list)
			f.list = append(f.list, finding)
		}

		return
	}

	like := &f.list[at]
	like.Count++

	if len(like.Also) < alsoMax && (subject != like.Subject || finding.Detail != like.Detail) {
		like.Also = append(like.Also, subject+": "+finding.Detail)
	}
}

// blame adds a finding of one kind about one subject.
type blame func(format string, arguments ...any)

// blame returns what adds findings whose details begin with a prefix.
func (f *findings) blame(kind, subject, prefix string) blame {
	return func(format string, arguments ...any) {
		f.add(kind, subject, "%s%s", prefix, fmt.Sprintf(format, arguments...))
	}
}

var (
	words   = regexp.MustCompile(`[0-9A-Za-z/.+-]+`)
	reasons = regexp.MustCompile(`^[A-Z]{2}..$`)
)

// Form returns a detail with # in the place of every word that holds a digit: what is wrong in
// the same way has the same form. Findings about different reason codes, such as AB03, are different.
func Form(detail string) string {
	return words.ReplaceAllStringFunc(detail, func(word string) string {
		if strings.ContainsAny(word, "0123456789") && !reasons.MatchString(word) {
			return "#"
		}

		return word
	})
}
