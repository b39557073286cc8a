package load

import (
	"fmt"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// ledgerAnswersWithin bounds the wait for the client, which itself waits forever.
const ledgerAnswersWithin = 10 * time.Second

// LedgerHolds returns a function that says what the ledger holds about a payment, for people. It
// connects at the first call, and asks no more after a call without an answer.
func LedgerHolds(connect func() (tigerbeetle.Client, error)) func(pix.EndToEndID) string {
	var client tigerbeetle.Client
	gone := ""
	return func(id pix.EndToEndID) string {
		if gone != "" {
			return gone
		}
		answers := make(chan string, 1)
		go func() {
			var err error
			if client == nil {
				client, err = connect()
			}
			if err != nil {
				answers <- err.Error()
				return
			}
			found, err := client.LookupTransfers(ledger.AppendTraceIDs(nil, id))
			if err != nil {
				answers <- err.Error()
				return
			}
			answers <- held(ledger.TraceOf(id, found))
		}()
		select {
		case text := <-answers:
			return text
		case <-time.After(ledgerAnswersWithin):
			gone = fmt.Sprintf("gave no answer within %v", ledgerAnswersWithin)
			return gone
		}
	}
}

// ledgerTime is how a time of the ledger, in UTC, is printed.
const ledgerTime = "2006-01-02T15:04:05.000Z"

func held(trace ledger.Trace) string {
	text := "nothing"
	if trace.Held() {
		text = fmt.Sprintf("held at %s", trace.HeldAt().UTC().Format(ledgerTime))
	}
	switch verdict, decided := trace.Verdict(); {
	case !decided && trace.Held():
		text += ", no verdict: waits for its bank, or for the timeout at " + trace.ExpiresAt().UTC().Format(ledgerTime)
	case decided && verdict.Settled:
		text += ", settled at " + verdict.Time.UTC().Format(ledgerTime)
	case decided:
		text += fmt.Sprintf(", rejected with %v at %s", verdict.Reason, verdict.Time.UTC().Format(ledgerTime))
	}
	return text
}
