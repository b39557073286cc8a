package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/telemetry"
)

// balances publishes what every bank has and the laws of money, read from the ledger
// on a fixed period: one look-up, whatever the load. The differences are computed in
// whole centavos before they become a metric, so that they are exact.
//
// The law that needs every customer's account (transit + customers = 0) is the audit's.
type balances struct {
	client tigerbeetle.Client
	log    *zap.Logger

	reserve, reserveFunded, reserveHeld, transit *prometheus.GaugeVec
	difference, pendingDifference                *prometheus.GaugeVec
	conservation, readAt                         prometheus.Gauge
	readSeconds                                  prometheus.Histogram
}

func newBalances(client tigerbeetle.Client, t *telemetry.Telemetry) *balances {
	perBank := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"ispb"})
	}
	b := &balances{
		client:            client,
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

// publish reads and publishes until ctx ends. It waits for the ledger as long as it takes:
// the client cannot give up, and the age of the last answer tells.
func (b *balances) publish(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	read := make(chan error, 1)
	for {
		go func() { read <- b.read() }()
		select {
		case err := <-read:
			if err != nil { // status ends the process on the same error
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

func (b *balances) read() error {
	markers, err := b.client.LookupTransfers([]tb.Uint128{ledger.MarkerID})
	if err != nil || len(markers) == 0 {
		return err // not funded yet
	}
	population := populationOf(ledger.MarkerOf(markers[0].UserData128, markers[0].UserData64))

	// All in one request: only then do the balances belong to one instant.
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
	conservation := posted(byID[ledger.IssuanceAccount])
	for i := range population.Banks {
		psp := population.Bank(i)
		reserve, transit := byID[ledger.ReserveAccount(psp)], byID[ledger.TransitAccount(psp)]
		funded := int64(population.ReserveCentavos)
		conservation += posted(reserve)
		for gauge, centavos := range map[*prometheus.GaugeVec]int64{
			b.reserve:           posted(reserve),
			b.reserveFunded:     funded,
			b.reserveHeld:       ledger.Centavos(reserve.DebitsPending),
			b.transit:           posted(transit),
			b.difference:        posted(reserve) + posted(transit) - (funded - depositsOf(population, i)),
			b.pendingDifference: pending(reserve) + pending(transit),
		} {
			gauge.WithLabelValues(string(psp)).Set(float64(centavos))
		}
	}
	b.conservation.Set(float64(conservation))
	b.readAt.SetToCurrentTime()
	return nil
}

// depositsOf is what bootstrap paid from a bank's transit account to its customers.
func depositsOf(p sandbox.Population, bank int) int64 {
	customers := p.Customers / p.Banks
	if bank < p.Customers%p.Banks {
		customers++
	}
	deposits := int64(customers) * int64(p.DepositCentavos)
	for _, branch := range sandbox.SpecialBranches {
		deposits += int64(p.DepositOf(p.Special(bank, branch)))
	}
	return deposits
}

func posted(a tb.Account) int64 {
	return ledger.Centavos(a.CreditsPosted) - ledger.Centavos(a.DebitsPosted)
}

func pending(a tb.Account) int64 {
	return ledger.Centavos(a.CreditsPending) - ledger.Centavos(a.DebitsPending)
}
