package query

import (
	"net/http"
	"time"

	"github.com/liquida/liquida/platform/web"
)

// closedFor is when to ask again: topics and ledger are compared every five seconds.
const closedFor = 5 * time.Second

// notCompared is the response before topics and ledger were compared for the first time.
var notCompared = ClosedBy(
	"topics and ledger were not compared yet, because Kafka or the ledger does not answer: ask again")

// Compared says whether topics and ledger belong together: nil, or why not. With another ledger, or an older copy,
// every answer would be untrue: a payment that was settled would be unknown, and sent again it would settle again.
func (l *Ledger) Compared(wrong error) {
	if wrong != nil {
		l.closed.Store(ClosedBy(wrong.Error()))
	} else if l.closed.Swap(nil) != nil {
		select {
		case l.probes <- struct{}{}:
		default:
		}
	}
}

// Writable reports whether the ledger is the topics' own. Before that is known nobody writes to it, not even a probe:
// after a transfer of now a lost ledger could not be rebuilt there.
func (l *Ledger) Writable() bool { return l.closed.Load() == nil }

// Closed returns the response to everybody while topics and ledger do not belong together, and before it is
// known that they do.
func (l *Ledger) Closed() *web.Problem {
	if closed := l.closed.Load(); closed != nil {
		problem := *closed // callers add an id
		return &problem
	}

	return nil
}

// ClosedBy is the response to everybody, because of why.
func ClosedBy(why string) *web.Problem {
	return &web.Problem{Type: web.Kind("log-wrong"), Title: "Topics and ledger do not belong together",
		Status: http.StatusServiceUnavailable, RetryAfter: closedFor,
		Detail: "nothing was done, and nothing is told: " + why}
}
