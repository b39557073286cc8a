package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/liquida/liquida/platform/host"
)

// idleAfter is how long a ready system has time to come to rest.
const idleAfter = 10 * time.Second

const withoutLedger = "all but the ledger"

// idle measures what a ready system takes while nobody pays, the control room included: per cent of one processor.
func (m *session) idle(ctx context.Context) error {
	host.Sleep(ctx, idleAfter)

	if err := m.begin(); err != nil {
		return err
	}
	began := time.Now()
	host.Sleep(ctx, m.RateDuration)

	if err := m.end(); err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()

	m.run.verdict = fmt.Sprintf("nobody paid for %.0f s", seconds)
	for _, use := range m.after.Since(m.before) {
		if use.Name == loadGenerator {
			continue
		}
		column, percent := columnOf(use.Name), 100*use.CPU.Seconds()/seconds
		m.run.sum(idleFigures, column, percent)

		if column != "ledger" {
			m.run.sum(idleFigures, withoutLedger, percent)
		}
	}

	return ctx.Err()
}
