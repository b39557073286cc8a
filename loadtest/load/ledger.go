package load

import (
	"context"
	"fmt"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

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
		ctx, cancel := context.WithTimeout(context.Background(), ledgerAnswersWithin)
		defer cancel()

		found, err := ledger.Ask(ctx, func() ([]tb.Transfer, error) {
			if client == nil {
				var err error
				if client, err = connect(); err != nil {
					return nil, err
				}
			}

			return client.LookupTransfers(ledger.AppendTraceIDs(nil, id))
		})
		switch {
		case ctx.Err() != nil:
			gone = fmt.Sprintf("gave no answer within %v", ledgerAnswersWithin)
			return gone
		case err != nil:
			return err.Error()
		}

		return held(ledger.TraceOf(id, found))
	}
}

func held(trace ledger.Trace) string {
	instant := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

	text := "nothing"
	if trace.Held() {
		text = "held at " + instant(trace.HeldAt())
	}

	switch verdict, decided := trace.Verdict(); {
	case !decided && trace.Held():
		text += ", no verdict: waits for its bank, or for the timeout at " + instant(trace.ExpiresAt())
	case decided && verdict.Settled:
		text += ", settled at " + instant(verdict.Time)
	case decided:
		text += fmt.Sprintf(", rejected with %v at %s", verdict.Reason, instant(verdict.Time))
	}

	return text
}
