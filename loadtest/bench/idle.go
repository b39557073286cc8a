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
		columns := []string{columnOf(use.Name)}
		if columns[0] != "ledger" {
			columns = append(columns, withoutLedger)
		}

		for _, column := range columns {
			if use.Name != loadGenerator {
				m.run.sum(idleFigures, column, 100*use.CPU.Seconds()/seconds)
			}
		}
	}

	return ctx.Err()
}
