package live

import (
	"context"
	"time"

	"github.com/liquida/liquida/loadtest/audit"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// pairInterval is how often topics and ledger are compared: as often as engines and front doors do.
const pairInterval = 5 * time.Second

// watchPair compares topics and ledger. With another ledger, or an older copy, nothing that the light says would be
// true, so it is red at once.
func (a *Audit) watchPair(ctx context.Context) {
	topics, err := source.OpenTopics(a.config.Kafka, nil)
	if err != nil {
		a.config.Log("topics and ledger cannot be compared: %v", err)
		return // the records cannot be read either, and that is said
	}
	defer topics.Close()
	a.repeat(ctx, pairInterval, "topics and ledger cannot be compared", func() error {
		wrong, err := source.Ask(ctx, func() (string, error) { return topics.Compare(ctx, a.config.Ledger) })
		if err == nil && wrong != "" {
			a.foundOnce(audit.Finding{Kind: audit.WrongLedger, Subject: "the ledger", Detail: wrong})
		}

		return err
	})
}
