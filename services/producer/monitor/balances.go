// Package monitor publishes metrics that nobody else can: the balances of all banks with the
// laws of money, and the backlog of the engines, also while no engine runs.
package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/services/producer/query"
)

// PublishLimit publishes to what size the ledger's data file may grow. The ledger itself says how large it is.
func PublishLimit(limitGiB int64, registry prometheus.Registerer) {
	limit := prometheus.NewGauge(
		prometheus.GaugeOpts{Name: "pix_ledger_limit_bytes",
			Help: "To what size the ledger's data file may grow (LEDGER_LIMIT_GIB); there the ledger ends."})
	registry.MustRegister(limit)
	limit.Set(float64(limitGiB << 30))
}

// Balances publishes what every bank has, and the laws of money. A few look-ups each period
// read all, whatever the load. Differences are computed in whole centavos before they
// become a metric, so they are exact.
//
// The audit checks the law that needs every customer's account: transit + customers = 0.
type Balances struct {
	client   tigerbeetle.Client
	idsMax   int // in one look-up
	register *register.Register
	now      func() time.Time
	log      *zap.Logger
	funded   *sandbox.Population // nil until the marker was seen; it never changes

	reserve, reserveFunded, reserveHeld, transit *prometheus.GaugeVec
	difference, pendingDifference                *prometheus.GaugeVec
	conservation, readAt                         prometheus.Gauge
	readSeconds                                  prometheus.Histogram
}

// NewBalances registers the metrics. idsMax bounds a look-up, now is the wall clock.
func NewBalances(client tigerbeetle.Client, idsMax int, follows *register.Register, now func() time.Time,
	t *telemetry.Telemetry) *Balances {
	perBank := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"ispb"})
	}
	b := &Balances{
		client:   client,
		idsMax:   idsMax,
		register: follows,
		now:      now,
		log:      t.Log,
		reserve:  perBank("pix_reserve_centavos", "A bank's reserve: posted credits minus debits."),
		reserveFunded: perBank("pix_reserve_funded_centavos",
			"What the bank's reserve was funded with: by bootstrap, and by liquidity put in less taken out."),
		reserveHeld: perBank("pix_reserve_held_centavos",
			"The part of a bank's reserve that payments under way hold."),
		transit: perBank("pix_transit_centavos", "A bank's transit account: posted credits minus debits."),
		difference: perBank("pix_books_difference_centavos",
			"The three-leg invariant: reserve + transit minus the bank's books; not 0 is a breach."),
		pendingDifference: perBank("pix_books_pending_difference_centavos",
			"The same law over what is held; an expiry may show between two legs, so only one that stays is a breach."),
		conservation: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_conservation_difference_centavos",
			Help: "All reserves plus issuance, or, if that is 0, what issuance paid without an act; not 0 means that central-bank money appeared or vanished."}),
		readAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: "pix_books_read_timestamp_seconds",
			Help: "When the ledger last answered with the balances, as Unix time."}),
		readSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pix_books_read_seconds",
			Help: "Time of reading all balances.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
	}
	t.Registry.MustRegister(b.reserve, b.reserveFunded, b.reserveHeld, b.transit, b.difference, b.pendingDifference,
		b.conservation, b.readAt, b.readSeconds)

	return b
}

// Publish reads and publishes until ctx ends.
func (b *Balances) Publish(ctx context.Context, every time.Duration) {
	repeat(ctx, &every, b.log, "cannot read the books", b.read)
}

// repeat does something until ctx ends, and logs the first failure of several. do may change every. repeat waits for an
// absent ledger, because a request cannot be cancelled. The age of the last reading shows that.
func repeat(ctx context.Context, every *time.Duration, log *zap.Logger, failure string,
	do func(context.Context) error) {
	done := make(chan error, 1)

	for failing := false; ; {
		go func() { done <- do(ctx) }()

		select {
		case err := <-done:
			if err != nil && !failing && ctx.Err() == nil {
				log.Warn(failure, zap.Error(err)) // package query ends the process if the client is of no more use
			}
			failing = err != nil
		case <-ctx.Done():
			return
		}

		select {
		case <-time.After(host.Next(*every)):
		case <-ctx.Done():
			return
		}
	}
}

// readsMax is how often balances are read again because the register has changed meanwhile.
const readsMax = 3

// read publishes balances. A bank that has just joined and got money would look like
// money that vanished: after a difference the register is read again, and if it says more, the
// balances are.
func (b *Balances) read(ctx context.Context) error {
	state, _ := b.register.Current()
	for reads := 1; ; reads++ {
		if len(state.Participants()) == 0 {
			return nil // bootstrap has not finished
		}

		money, err := b.lookUp(state)
		if err != nil {
			return err
		}

		if money.balanced() || reads == readsMax {
			return b.publish(state, money)
		}

		newer, err := b.register.Newer(ctx)
		if err != nil {
			return err
		}

		if newer.ReadTo == state.ReadTo {
			return b.publish(state, money)
		}
		state = newer
	}
}

// money is what the accounts of banks hold.
type money struct {
	conservation int64 // all reserves plus issuance, or what issuance paid without an act
	banks        []bankMoney
}

type bankMoney struct {
	reserve, transit    tb.Account
	difference, pending int64 // of the laws
}

func (m *money) balanced() bool {
	return m.conservation == 0 && !slices.ContainsFunc(m.banks, func(b bankMoney) bool { return b.difference != 0 })
}

// lookUp reads the accounts of all participants. Each law needs balances of one instant: that of a bank
// its three accounts, that of the central bank all reserves. Up to (idsMax-1)/3 banks, one request
// reads all. Totals only grow, so they are added and subtracted in 128 bits.
func (b *Balances) lookUp(state *register.State) (*money, error) {
	started := time.Now()
	all, m := state.Participants(), &money{}

	pages := slices.Collect(slices.Chunk(all, (b.idsMax-1)/3))
	for _, page := range pages {
		found, err := b.accounts(page, ledger.ReserveAccount, ledger.TransitAccount, ledger.BooksAccount)
		if err != nil {
			return nil, err
		}

		for _, p := range page {
			one, books := bankMoney{reserve: found[ledger.ReserveAccount(p.ISPB)],
				transit: found[ledger.TransitAccount(p.ISPB)]}, found[ledger.BooksAccount(p.ISPB)]
			one.difference = query.Difference(one.reserve, one.transit, books)
			one.pending = ledger.Less(ledger.Sum(one.reserve.CreditsPending, one.transit.CreditsPending),
				ledger.Sum(one.reserve.DebitsPending, one.transit.DebitsPending))
			m.banks = append(m.banks, one)
		}

		if len(pages) == 1 {
			m.conservation = conservation(state, found)
		}
	}

	if len(pages) > 1 {
		found, err := b.accounts(all, ledger.ReserveAccount)
		if err != nil {
			return nil, err
		}
		m.conservation = conservation(state, found)
	}
	b.readSeconds.Observe(time.Since(started).Seconds())

	return m, nil
}

// accounts reads accounts of banks, and issuance, in one request.
func (b *Balances) accounts(banks []*register.Participant,
	of ...func(pix.ISPB) ledger.AccountID) (map[ledger.AccountID]tb.Account, error) {
	ids := []tb.Uint128{ledger.IssuanceAccount}

	for _, p := range banks {
		for _, account := range of {
			ids = append(ids, account(p.ISPB))
		}
	}

	if len(ids) > b.idsMax {
		return nil, fmt.Errorf("there are %d participants: the ledger answers for %d reserves of one instant (LEDGER_LOOKUP_IDS_MAX less 1)",
			len(banks), b.idsMax-1)
	}

	found, err := b.client.LookupAccounts(ids)
	if err != nil {
		return nil, err
	}

	byID := make(map[ledger.AccountID]tb.Account, len(found))
	for _, account := range found {
		byID[account.ID] = account
	}

	return byID, nil
}

// conservation returns all reserves plus issuance, and if that is 0 what issuance paid without an act: beside a
// forged deposit no other law shows that.
func conservation(state *register.State, found map[ledger.AccountID]tb.Account) int64 {
	issuance := found[ledger.IssuanceAccount]
	credits, debits := issuance.CreditsPosted, issuance.DebitsPosted

	for _, p := range state.Participants() {
		reserve := found[ledger.ReserveAccount(p.ISPB)]
		credits, debits = ledger.Sum(credits, reserve.CreditsPosted), ledger.Sum(debits, reserve.DebitsPosted)
	}

	return cmp.Or(ledger.Less(credits, debits), query.Unacted(issuance, state))
}

func (b *Balances) publish(state *register.State, m *money) error {
	population, err := b.population()
	if err != nil {
		return err
	}

	for i, p := range state.Participants() {
		one, funded := &m.banks[i], p.LiquidityCentavos
		if _, first := population.BankNumber(p.ISPB); first {
			funded += int64(population.ReserveCentavos)
		}

		for gauge, centavos := range map[*prometheus.GaugeVec]int64{
			b.reserve:           query.Posted(one.reserve),
			b.reserveFunded:     funded,
			b.reserveHeld:       ledger.Less(one.reserve.DebitsPending, tb.Uint128{}),
			b.transit:           query.Posted(one.transit),
			b.difference:        one.difference,
			b.pendingDifference: one.pending,
		} {
			gauge.WithLabelValues(string(p.ISPB)).Set(float64(centavos))
		}
	}
	b.conservation.Set(float64(m.conservation))
	b.readAt.Set(float64(b.now().UnixNano()) / 1e9)

	return nil
}

// population returns what bootstrap funded.
func (b *Balances) population() (sandbox.Population, error) {
	if b.funded == nil {
		markers, err := b.client.LookupTransfers([]tb.Uint128{ledger.MarkerID})
		if err != nil || len(markers) == 0 {
			return sandbox.Population{}, err
		}
		b.funded = new(query.PopulationOf(markers[0]))
	}

	return *b.funded, nil
}
