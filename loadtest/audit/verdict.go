package audit

import (
	"encoding/json"
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
	Findings     []Finding      `json:"findings"` // at most 50, of all kinds
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
	TakeOvers        int            `json:"take_overs"`      // that repeated reports prove of one engine, at least
	Waited           int            `json:"waited"`          // payments that waited for their deadline
	WaitedOnTime     int            `json:"waited_on_time"`  // of these, ended within 2 s
	ReasonsChecked   map[string]int `json:"reasons_checked"` // refusals that follow from order and ledger
	Acts             map[string]int `json:"acts"`            // of the register, by kind
	Capped           int            `json:"capped"`          // payments held with leg 4
	// times that the Kafka client left records out, and they were fetched again
	LeftOut          int        `json:"left_out,omitempty"`
	Transfers        int        `json:"transfers"`
	Accounts         int        `json:"accounts"`
	IssuanceCentavos spec.Money `json:"issuance_centavos"`
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
	counts, _ := json.MarshalIndent(v.Summary, "", "  ") // numbers and texts only
	fmt.Fprintf(w, "%s\n", counts)

	listed := 0

	for _, f := range v.Findings {
		f.write(w)
		listed += f.Count
	}

	if rest := v.FindingCount - listed; rest > 0 {
		fmt.Fprintf(w, "WRONG … and %d more; in all:%s\n", rest, byKind(v.ByKind))
	}
	fmt.Fprintln(w, v)
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

// unchecked says what a clean verdict does not claim.
func (v Verdict) unchecked() string {
	s := v.Summary
	parts := slices.Clone(s.Unread)

	if s.Settled > 0 && s.Answered+s.NotChecked[answersGone] == 0 {
		parts = append(parts, "responses of banks")
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

func byKind(counts map[string]int) (text string) {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(" %s %d;", kind, counts[kind])
	}

	return text
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
	findingsMax = 50
	alsoMax     = 2
)

// findings collects findings.
type findings struct {
	told   func(Finding) // nil, or called with each as it comes
	kinds  []string      // in the order of their first finding
	counts map[string]int
	list   map[string][]*Finding  // by kind
	byForm map[[2]string]*Finding // by kind, and the detail without what differs from payment to payment
}

// add adds a finding.
func (f *findings) add(kind, subject, format string, arguments ...any) {
	if f.counts == nil {
		f.counts, f.list, f.byForm = map[string]int{}, map[string][]*Finding{}, map[[2]string]*Finding{}
	}

	if f.counts[kind]++; f.counts[kind] == 1 {
		f.kinds = append(f.kinds, kind)
	}

	finding := Finding{Kind: kind, Subject: subject, Detail: fmt.Sprintf(format, arguments...), Count: 1}
	if f.told != nil {
		f.told(finding)
	}
	form := [2]string{kind, Form(finding.Detail)}

	found := f.byForm[form]
	switch {
	case found == nil && len(f.list[kind]) < findingsMax:
		f.list[kind], f.byForm[form] = append(f.list[kind], &finding), &finding
	case found != nil:
		found.Count++
		if len(found.Also) < alsoMax && (subject != found.Subject || finding.Detail != found.Detail) {
			found.Also = append(found.Also, subject+": "+finding.Detail)
		}
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

// listed returns at most findingsMax findings. The kinds take turns, so that none hides the others.
func (f *findings) listed() (list []Finding) {
	for turn := range findingsMax {
		for _, kind := range f.kinds {
			if turn < len(f.list[kind]) && len(list) < findingsMax {
				list = append(list, *f.list[kind][turn])
			}
		}
	}

	return list
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
