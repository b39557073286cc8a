// Package monitor publishes metrics that nobody else can: the balances of all banks with the
// laws of money, and the backlog of the engines, also while no engine runs.
package monitor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/producer/query"
)

// Balances publishes what every bank has, and the laws of money. One look-up each period
// reads all, whatever the load. Differences are computed in whole centavos before they
// become a metric, so they are exact.
//
// The audit checks the law that needs every customer's account: transit + customers = 0.
type Balances struct {
	client tigerbeetle.Client
	now    func() time.Time
	log    *zap.Logger

	reserve, reserveFunded, reserveHeld, transit *prometheus.GaugeVec
	difference, pendingDifference                *prometheus.GaugeVec
	conservation, readAt                         prometheus.Gauge
	readSeconds                                  prometheus.Histogram
}

// NewBalances registers the metrics. now is the wall clock.
func NewBalances(client tigerbeetle.Client, now func() time.Time, t *telemetry.Telemetry) *Balances {
	perBank := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"ispb"})
	}
	b := &Balances{
		client:            client,
		now:               now,
		log:               t.Log,
		reserve:           perBank("pix_reserve_centavos", "A bank's reserve: posted credits minus debits."),
		reserveFunded:     perBank("pix_reserve_funded_centavos", "What the bank's reserve was funded with."),
		reserveHeld:       perBank("pix_reserve_held_centavos", "The part of a bank's reserve that payments under way hold."),
		transit:           perBank("pix_transit_centavos", "A bank's transit account: posted credits minus debits."),
		difference:        perBank("pix_books_difference_centavos", "The three-leg invariant: reserve + transit minus what both were funded with; not 0 is a breach."),
		pendingDifference: perBank("pix_books_pending_difference_centavos", "The same law over what is held; an expiry may show between two legs, so only one that stays is a breach."),
		conservation: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_conservation_difference_centavos",
			Help: "All reserves plus issuance; not 0 means that central-bank money appeared or vanished."}),
		readAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_books_read_timestamp_seconds",
			Help: "When the ledger last answered with the balances, as Unix time."}),
		readSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pix_books_read_seconds",
			Help: "Time of reading all balances.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
	}
	t.Registry.MustRegister(b.reserve, b.reserveFunded, b.reserveHeld, b.transit, b.difference, b.pendingDifference, b.conservation, b.readAt, b.readSeconds)
	return b
}

// Publish reads and publishes until ctx ends. It waits for an absent ledger, because a
// request cannot be cancelled. The age of the last reading shows that.
func (b *Balances) Publish(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	read := make(chan error, 1)
	for {
		go func() { read <- b.read() }()
		select {
		case err := <-read:
			if err != nil { // package query ends the process on the same error
				b.log.Warn("cannot read the books", zap.Error(err))
			}
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Balances) read() error {
	markers, err := b.client.LookupTransfers([]tb.Uint128{ledger.MarkerID})
	if err != nil || len(markers) == 0 {
		return err // not funded yet
	}
	population := query.PopulationOf(markers[0])

	// In one request: only then do the balances belong to one instant.
	ids := []tb.Uint128{ledger.IssuanceAccount}
	for i := range population.Banks {
		ids = append(ids, ledger.ReserveAccount(population.Bank(i)), ledger.TransitAccount(population.Bank(i)))
	}
	started := time.Now()
	found, err := b.client.LookupAccounts(ids)
	if err != nil {
		return err
	}
	b.readSeconds.Observe(time.Since(started).Seconds())
	byID := make(map[tb.Uint128]tb.Account, len(found))
	for _, account := range found {
		byID[account.ID] = account
	}
	conservation := query.Posted(byID[ledger.IssuanceAccount])
	for i := range population.Banks {
		psp := population.Bank(i)
		reserve, transit := byID[ledger.ReserveAccount(psp)], byID[ledger.TransitAccount(psp)]
		funded := int64(population.ReserveCentavos)
		conservation += query.Posted(reserve)
		for gauge, centavos := range map[*prometheus.GaugeVec]int64{
			b.reserve:           query.Posted(reserve),
			b.reserveFunded:     funded,
			b.reserveHeld:       ledger.Centavos(reserve.DebitsPending),
			b.transit:           query.Posted(transit),
			b.difference:        query.Posted(reserve) + query.Posted(transit) - (funded - int64(population.DepositsOf(i))),
			b.pendingDifference: pending(reserve) + pending(transit),
		} {
			gauge.WithLabelValues(string(psp)).Set(float64(centavos))
		}
	}
	b.conservation.Set(float64(conservation))
	b.readAt.Set(float64(b.now().UnixNano()) / 1e9)
	return nil
}

func pending(a tb.Account) int64 {
	return ledger.Less(a.CreditsPending, a.DebitsPending)
}
