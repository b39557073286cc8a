package bench

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/report"
)

// InFlight is what the payments in flight of an engine take of its memory.
type InFlight struct {
	Payments float64
	Bytes    float64 // of the live heap, less that of an engine without payments
}

// startInFlight measures one engine before the payments come, and once they have filled it.
func startInFlight(ctx context.Context, url string) (func() (*InFlight, error), error) {
	idle, err := liveHeap(ctx, url)
	if err != nil {
		return nil, err
	}
	taken, done := InFlight{}, make(chan error, 1)
	go func() {
		select {
		case <-ctx.Done():
			done <- ctx.Err()
			return
		case <-time.After(warmUp):
		}
		counted, err := meter.ReadEngines(ctx, []string{url})
		if err == nil {
			taken.Payments = counted.Gauge("pix_payments_in_flight")
			taken.Bytes, err = liveHeap(ctx, url)
			taken.Bytes -= idle
		}
		done <- err
	}()
	return func() (*InFlight, error) {
		err := <-done
		return &taken, err
	}, nil
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// liveHeap makes the engine collect its garbage, and returns the bytes that are left.
func liveHeap(ctx context.Context, url string) (float64, error) {
	text, err := meter.Get(ctx, url+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, fmt.Errorf("cannot measure the engine's memory: %w", err)
	}
	found := heapAlloc.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("%s does not say how much memory is in use", url)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// slowBanksTable shows what slow banks cost.
func (r *Result) slowBanksTable() report.Table {
	table := report.Table{Title: "Slow banks, as in PIX", Head: []string{"", "settled/s", "of instant answers", "of the ledger alone", "in flight", "MiB of live heap for them", "bytes of a payment in flight"},
		Note: "the ledger alone posts at once, or once the row's banks would have answered; live heap of the first engine after a collection, less that without payments; GOGC=400 lets the heap grow to five times the live part, GOMEMLIMIT bounds it"}
	atOnce := 0.0
	for _, row := range r.Rows {
		if row.Part != slowBanksPart || len(row.Verdicts) == 0 || row.isLedgerAlone() {
			continue
		}
		settled := perSecond.spread(row).median
		share := ""
		if atOnce > 0 {
			share = percent(settled / atOnce)
		} else {
			atOnce = settled
		}
		payments, bytes := row.spread(runFigures, "in_flight").median, row.spread(runFigures, "in_flight_heap_bytes").median
		table.Add(row.Name, fmt.Sprintf("%.0f", settled), share, percent(row.spread(runFigures, "ratio_to_ceiling").median), thousands(int(payments)), fmt.Sprintf("%.0f", bytes/(1<<20)), fmt.Sprintf("%.0f", bytes/max(payments, 1)))
	}
	return table
}
