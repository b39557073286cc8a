package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/host"
)

// idleAfter is how long a ready system has time to come to rest.
const idleAfter = 10 * time.Second

// idleColumns are the processes of a system, and what all but the ledger take together.
var idleColumns = []string{"ledger", stack.Broker, "engines", stack.Producer, "banks", stack.Room, stack.Archiver, withoutLedger}

const withoutLedger = "all but the ledger"

// idle measures what a ready system takes while nobody pays, the control room included: per cent of one processor, and
// how often in a second a thread sleeps.
func (c Config) idle(ctx context.Context, s *stack.Stack) (*Run, error) {
	host.Sleep(ctx, idleAfter)
	m, err := c.begin(s)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	host.Sleep(ctx, c.RateDuration)
	if err := m.end(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds()
	run := &Run{verdict: fmt.Sprintf("nobody paid for %.0f s", seconds)}
	add := func(group, column string, value float64) { run.set(group, column, run.figures[group][column]+value) }
	for i, p := range m.processes[1:] { // without the load generator
		before, after := m.before.Usages[i+1], m.after.Usages[i+1]
		columns := []string{columnOf(p.Name)}
		if columns[0] != "ledger" {
			columns = append(columns, withoutLedger)
		}
		for _, column := range columns {
			add(idleFigures, column, 100*(after.CPU-before.CPU).Seconds()/seconds)
			add(idleWaitFigures, column, float64(after.Waits-before.Waits)/seconds)
		}
	}
	return run, nil
}

// idleTable shows what a system takes while nobody pays.
func (r *Result) idleTable() report.Table {
	table := report.Table{Title: "While nobody pays: % of a processor (waits a second)", Head: append([]string{""}, idleColumns...),
		Note: "from 10 s after all are ready; a wait is a thread that goes to sleep"}
	for _, row := range r.Rows {
		if row.Figures[idleFigures] == nil {
			continue
		}
		cells := []string{row.Name}
		for _, column := range idleColumns {
			cells = append(cells, fmt.Sprintf("%.1f (%.0f)", row.spread(idleFigures, column).median, row.spread(idleWaitFigures, column).median))
		}
		table.Add(cells...)
	}
	return table
}
