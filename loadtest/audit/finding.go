package audit

import "fmt"

// Finding is one thing that is wrong.
type Finding struct {
	Kind string `json:"kind"`
	// Subject is an EndToEndId if there is one, else a record, an account or a transfer.
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
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
)

// findingsMax bounds the list; all findings are counted.
const findingsMax = 50

// findings collects findings.
type findings struct {
	kinds  []string // in the order of their first finding
	byKind map[string]*kindFindings
}

type kindFindings struct {
	count int
	list  []Finding
}

func (f *findings) add(kind, subject, format string, arguments ...any) {
	of := f.byKind[kind]
	if of == nil {
		of = &kindFindings{}
		if f.byKind == nil {
			f.byKind = map[string]*kindFindings{}
		}
		f.byKind[kind] = of
		f.kinds = append(f.kinds, kind)
	}
	of.count++
	if len(of.list) < findingsMax {
		of.list = append(of.list, Finding{kind, subject, fmt.Sprintf(format, arguments...)})
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

// listed returns at most findingsMax findings. The kinds take turns, so that a repeated
// finding does not hide the others.
func (f *findings) listed() []Finding {
	var list []Finding
	for turn := range findingsMax {
		for _, kind := range f.kinds {
			if of := f.byKind[kind]; turn < len(of.list) && len(list) < findingsMax {
				list = append(list, of.list[turn])
			}
		}
	}
	return list
}
