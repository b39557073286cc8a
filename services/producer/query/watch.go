package query

import (
	"context"
	"fmt"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/telemetry"
)

// Need is the name under which Watch reports.
const Need = "ledger"

// An absent ledger goes unnoticed for at most watchInterval + watchTimeout.
const (
	watchInterval = time.Second
	watchTimeout  = 2 * time.Second
)

// Watch reports to Health, until ctx ends, whether the ledger answers. The client itself
// never says, and its requests cannot be cancelled: while one waits, no other is sent.
func (l *Ledger) Watch(ctx context.Context, t *telemetry.Telemetry) {
	results := make(chan error, 1)
	for {
		go func() {
			_, err := l.client.LookupAccounts([]tb.Uint128{ledger.IssuanceAccount})
			results <- err
		}()
		var err error
		select {
		case err = <-results:
		case <-ctx.Done():
			return
		case <-time.After(watchTimeout):
			report(t, fmt.Errorf("no answer within %v; is TIGERBEETLE_ADDRESSES right, and TIGERBEETLE_CLUSTER_ID?", watchTimeout))
			select {
			case err = <-results:
			case <-ctx.Done():
				return
			}
		}
		report(t, err)
		if err != nil {
			l.fail(fmt.Errorf("the ledger's client has failed: %w", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchInterval):
		}
	}
}

func report(t *telemetry.Telemetry, err error) {
	if !t.Health.Report(Need, err) {
		return
	}
	if err != nil {
		t.Log.Warn("the ledger is away", zap.Error(err))
	} else {
		t.Log.Info("the ledger answers")
	}
}
