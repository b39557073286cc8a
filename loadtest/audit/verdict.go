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

// Summary counts what the audit read.
type Summary struct {
	Orders           int            `json:"orders"`
	Payments         int            `json:"payments"`
	Settled          int            `json:"settled"`
	SettledCentavos  money          `json:"settled_centavos"`
	Rejected         map[string]int `json:"rejected"`                 // by reason
	DeadLetters      map[string]int `json:"dead_letters"`             // by reason
	Answered         int            `json:"answered"`                 // outcomes with the sealed word of the payee's bank
	AnswersGone      int            `json:"answers_gone"`             // outcomes as old as the oldest response that is left: not checked
	AnswersUnread    string         `json:"answers_unread,omitempty"` // why responses could not be read: nothing was checked by them
	Returns          int            `json:"returns"`
	Returned         int            `json:"returned"`
	ReturnedCentavos money          `json:"returned_centavos"`
	ReturnsRejected  map[string]int `json:"returns_rejected"` // by reason
	RepeatedOrders   int            `json:"repeated_orders"`
	RepeatedReports  int            `json:"repeated_reports"`
	Requests         int            `json:"requests"`                  // questions to banks that the topic still keeps
	TrialRequests    int            `json:"trial_requests,omitempty"`  // of loadtest conform, about no payment: not checked
	RequestsGone     int            `json:"requests_gone"`             // outcomes whose question is older than the oldest that is left: not checked
	RequestsUnread   string         `json:"requests_unread,omitempty"` // why they could not be read: nothing was checked by them
	TakeOvers        int            `json:"take_overs"`                // that repeated reports prove of one engine, at least
	Waited           int            `json:"waited"`                    // payments that waited for their deadline
	WaitedOnTime     int            `json:"waited_on_time"`            // of these, ended within 2 s
	ReasonsChecked   map[string]int `json:"reasons_checked"`           // refusals that follow from order and ledger
	ReasonsUnchecked map[string]int `json:"reasons_unchecked"`         // refusals that only the engine's settings or queues explain
	Acts             map[string]int `json:"acts"`                      // of the register, by kind
	Capped           int            `json:"capped"`                    // payments held with leg 4
	LeftOut          int            `json:"left_out,omitempty"`        // times that the Kafka client left records out, and they were fetched again
	Transfers        int            `json:"transfers"`
	Accounts         int            `json:"accounts"`
	IssuanceCentavos money          `json:"issuance_centavos"`
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
	if s.TrialRequests > 0 {
		fmt.Fprintf(w, "requests %d of loadtest conform are about no payment: NOT CHECKED\n", s.TrialRequests)
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
	if n := v.Summary.TrialRequests; n > 0 {
		parts = append(parts, fmt.Sprintf("%d requests of loadtest conform", n))
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

// Finding is one thing that is wrong, with all that are wrong in the same way.
type Finding struct {
	Kind string `json:"kind"`
	// Subject is an EndToEndId if there is one, else a record, an account or a transfer.
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
	// Count is how many findings differ from this one only in ids and numbers, itself included.
	Count int      `json:"count"`
	Also  []string `json:"also,omitempty"` // some of the others
	// Effects are what is wrong only because of this.
	Effects     []string `json:"effects,omitempty"`
	EffectCount int      `json:"effect_count,omitempty"`
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
	effectsMax  = 5
)

// findings collects findings.
type findings struct {
	told   func(Finding) // nil, or called with each as it comes
	kinds  []string      // in the order of their first finding
	byKind map[string]*kindFindings
}

type kindFindings struct {
	count  int
	list   []*Finding
	byForm map[string]*Finding // by the detail without what differs from payment to payment
}

// add adds a finding. It returns the one to which effects can be added, or nil above the limit.
func (f *findings) add(kind, subject, format string, arguments ...any) *Finding {
	of := f.byKind[kind]
	if of == nil {
		of = &kindFindings{byForm: map[string]*Finding{}}
		if f.byKind == nil {
			f.byKind = map[string]*kindFindings{}
		}
		f.byKind[kind] = of
		f.kinds = append(f.kinds, kind)
	}
	of.count++
	detail := fmt.Sprintf(format, arguments...)
	if f.told != nil {
		f.told(Finding{Kind: kind, Subject: subject, Detail: detail, Count: 1})
	}
	alike := Form(detail)
	found := of.byForm[alike]
	switch {
	case found == nil && len(of.list) < findingsMax:
		found = &Finding{Kind: kind, Subject: subject, Detail: detail, Count: 1}
		of.list, of.byForm[alike] = append(of.list, found), found
	case found != nil:
		found.Count++
		if len(found.Also) < alsoMax && (subject != found.Subject || detail != found.Detail) {
			found.Also = append(found.Also, subject+": "+detail)
		}
	}
	return found
}

// effect adds what is wrong only because of a finding.
func (f *Finding) effect(format string, arguments ...any) {
	if f.EffectCount++; f.EffectCount <= effectsMax {
		f.Effects = append(f.Effects, fmt.Sprintf(format, arguments...))
	}
}

// counts returns the number of findings, also by kind.
func (f *findings) counts() (total int, byKind map[string]int) {
	byKind = map[string]int{}
	for kind, of := range f.byKind {
		byKind[kind] = of.count
		total += of.count
	}
	return total, byKind
}

// listed returns at most findingsMax findings, those with effects first: they are the causes.
// The kinds take turns, so that none hides the others.
func (f *findings) listed() []Finding {
	var causes, list []Finding
	for turn := range findingsMax {
		for _, kind := range f.kinds {
			if of := f.byKind[kind]; turn < len(of.list) && len(causes)+len(list) < findingsMax {
				if found := *of.list[turn]; found.EffectCount > 0 {
					causes = append(causes, found)
				} else {
					list = append(list, found)
				}
			}
		}
	}
	return append(causes, list...)
}

// Form returns a detail with # in the place of every word that holds a digit: what is wrong in
// the same way has the same form.
func Form(detail string) string {
	form, word, digit := make([]byte, 0, len(detail)), 0, false
	isWord := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '/' || c == '.' || c == '+' || c == '-'
	}
	for i := 0; i <= len(detail); i++ {
		if i < len(detail) && isWord(detail[i]) {
			digit = digit || detail[i] >= '0' && detail[i] <= '9' && !reasonIn(detail[word:])
			continue
		}
		if digit {
			form = append(form, '#')
		} else {
			form = append(form, detail[word:i]...)
		}
		if i < len(detail) {
			form = append(form, detail[i])
		}
		word, digit = i+1, false
	}
	return string(form)
}

// reasonIn reports whether a text begins with a reason code, such as AB03: findings about
// different reasons are different.
func reasonIn(text string) bool {
	letter := func(i int) bool { return text[i] >= 'A' && text[i] <= 'Z' }
	return len(text) >= 4 && letter(0) && letter(1) && (len(text) == 4 || text[4] == ' ' || text[4] == ',' || text[4] == ';' || text[4] == ':' || text[4] == ')')
}
