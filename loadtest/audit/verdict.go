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
	Findings     []Finding      `json:"findings"` // at most 50, of all kinds
	Seconds      float64        `json:"seconds"`
}

// Summary counts what the audit read.
type Summary struct {
	Orders          int            `json:"orders"`
	Payments        int            `json:"payments"`
	Settled         int            `json:"settled"`
	SettledCentavos spec.Money     `json:"settled_centavos"`
	Rejected        map[string]int `json:"rejected"`     // by reason
	DeadLetters     map[string]int `json:"dead_letters"` // by reason
	// outcomes with the sealed word of the payee's bank
	Answered int `json:"answered"`
	// outcomes as old as the oldest response that is left: not checked
	AnswersGone int `json:"answers_gone"`
	// why responses could not be read: nothing was checked by them
	AnswersUnread    string         `json:"answers_unread,omitempty"`
	Returns          int            `json:"returns"`
	Returned         int            `json:"returned"`
	ReturnedCentavos spec.Money     `json:"returned_centavos"`
	ReturnsRejected  map[string]int `json:"returns_rejected"` // by reason
	RepeatedOrders   int            `json:"repeated_orders"`
	RepeatedReports  int            `json:"repeated_reports"`
	Requests         int            `json:"requests"` // questions to banks that the topic still keeps
	// of loadtest conform, about no payment: not checked
	TrialRequests int `json:"trial_requests,omitempty"`
	// outcomes whose question is older than the oldest that is left: not checked
	RequestsGone int `json:"requests_gone"`
	// why they could not be read: nothing was checked by them
	RequestsUnread string `json:"requests_unread,omitempty"`
	// that repeated reports prove of one engine, at least
	TakeOvers      int            `json:"take_overs"`
	Waited         int            `json:"waited"`          // payments that waited for their deadline
	WaitedOnTime   int            `json:"waited_on_time"`  // of these, ended within 2 s
	ReasonsChecked map[string]int `json:"reasons_checked"` // refusals that follow from order and ledger
	// refusals that only the engine's settings or queues explain
	ReasonsUnchecked map[string]int `json:"reasons_unchecked"`
	Acts             map[string]int `json:"acts"`   // of the register, by kind
	Capped           int            `json:"capped"` // payments held with leg 4
	// times that the Kafka client left records out, and they were fetched again
	LeftOut          int        `json:"left_out,omitempty"`
	Transfers        int        `json:"transfers"`
	Accounts         int        `json:"accounts"`
	IssuanceCentavos spec.Money `json:"issuance_centavos"`
}

// Unread says which topics could not be read, so that a verdict about them is missing.
func (s Summary) Unread() (problems []string) {
	if s.AnswersUnread != "" {
		problems = append(problems, "the audit did not check the responses of banks: "+s.AnswersUnread)
	}

	if s.RequestsUnread != "" {
		problems = append(problems, "the audit did not check the requests to banks: "+s.RequestsUnread)
	}

	return problems
}

// Write prints the verdict for people; its last line is the verdict itself.
func (v Verdict) Write(w io.Writer) {
	s := v.Summary
	line := func(needed bool, format string, arguments ...any) {
		if needed {
			fmt.Fprintf(w, format+"\n", arguments...)
		}
	}
	line(true, "read    %d orders, %d transfers, %d accounts", s.Orders, s.Transfers, s.Accounts)
	line(true, "payments %d: settled %d (%v centavos), rejected %d%s; dead letters %d%s",
		s.Payments, s.Settled, s.SettledCentavos, total(s.Rejected), byReason(s.Rejected), total(s.DeadLetters),
		byReason(s.DeadLetters))
	line(s.Returns > 0, "returns %d: settled %d (%v centavos), rejected %d%s",
		s.Returns, s.Returned, s.ReturnedCentavos, total(s.ReturnsRejected), byReason(s.ReturnsRejected))
	checked := total(s.ReasonsChecked)
	line(checked > 0, "refused %d without a bank's word, for reasons that follow from order and ledger%s", checked,
		byReason(s.ReasonsChecked))
	line(s.Waited > 0, "waited  %d for their deadline, %d of them ended within %v after it", s.Waited,
		s.WaitedOnTime, lateAfter)
	line(s.Requests > 0, "requests %d to banks are left in the topic: each is about its payment, or listed below",
		s.Requests)
	line(s.Answered > 0, "responses %d outcomes have the sealed word of the payee's bank", s.Answered)
	line(true, "repeated %d orders, %d reports (each equal to the first, or listed below); the repeated reports prove %d take-overs of one engine, at least",
		s.RepeatedOrders, s.RepeatedReports, s.TakeOvers)
	acts := total(s.Acts)
	line(acts > 0, "acts    %d, replayed in the order of the ledger%s; %d payments count toward a cap on outflow", acts,
		byReason(s.Acts), s.Capped)
	line(s.LeftOut > 0, "Kafka   %d times the client left records out: they were fetched again", s.LeftOut)
	line(true, "money   %v centavos issued", s.IssuanceCentavos)

	for _, problem := range s.Unread() {
		line(true, "NOT CHECKED: %s", problem)
	}
	listed := 0

	for _, f := range v.Findings {
		f.write(w)
		listed += f.Count
	}

	if rest := v.FindingCount - listed; rest > 0 {
		line(true, "WRONG … and %d more; in all:%s", rest, byReason(v.ByKind))
	}
	line(true, "%v", v)
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
	noAnswers := s.AnswersUnread != "" || s.Settled > 0 && s.Answered+s.AnswersGone == 0
	text := ""

	for _, part := range []struct {
		is   bool
		says string
	}{
		{noAnswers, "responses of banks"},
		{!noAnswers && s.AnswersGone > 0, fmt.Sprintf("%d responses that are gone", s.AnswersGone)},
		{s.RequestsUnread != "", "requests to banks"},
		{s.RequestsUnread == "" && s.RequestsGone > 0, fmt.Sprintf("%d requests that are gone", s.RequestsGone)},
		{s.TrialRequests > 0, fmt.Sprintf("%d requests of loadtest conform", s.TrialRequests)},
		{total(s.ReasonsUnchecked) > 0,
			fmt.Sprintf("the reasons of %d refusals%s", total(s.ReasonsUnchecked), byReason(s.ReasonsUnchecked))},
	} {
		if part.is {
			text += ", " + part.says
		}
	}

	return strings.Replace(text, ", ", "; NOT CHECKED: ", 1)
}

func (v Verdict) String() string {
	s := v.Summary
	if !v.Clean {
		kinds := slices.Sorted(maps.Keys(v.ByKind))
		return fmt.Sprintf("AUDIT FAILED: %d findings in %d payments: %s", v.FindingCount, s.Payments,
			strings.Join(kinds, ", "))
	}

	what, source := fmt.Sprintf("%d payments", s.Payments), "funded"
	if s.Returns > 0 {
		what += fmt.Sprintf(" and %d returns", s.Returns)
	}

	if acts := total(s.Acts); acts > 0 {
		what, source = what+fmt.Sprintf(" under %d acts", acts), "funded or of an act"
	}

	return fmt.Sprintf("AUDIT CLEAN: %s, every one has exactly one outcome, every centavo is %s and where the reports put it%s",
		what, source, v.unchecked())
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
	WrongArchive       = "archive that is not the ledger's"
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
