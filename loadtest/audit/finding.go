package audit

import (
	"fmt"

	"github.com/liquida/liquida/loadtest/form"
)

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
	alike := form.Of(detail)
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
