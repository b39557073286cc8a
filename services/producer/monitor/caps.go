package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/telemetry"
)

// capsInterval is how often allowances are read, where a cap on outflow is set.
const capsInterval = time.Second

// Caps publishes what is left of the caps on outflow. It brings each allowance to its cap as holds
// end: a cap that was lowered takes at once only what is free. All producers do this.
type Caps struct {
	client   tigerbeetle.Client
	idsMax   int // in one look-up
	register *register.Register
	writable func() bool // the ledger is the topics' own
	log      *zap.Logger

	limit, left *prometheus.GaugeVec
}

// NewCaps registers the metrics. idsMax bounds a look-up. Nothing is written while the ledger is not writable.
func NewCaps(client tigerbeetle.Client, idsMax int, follows *register.Register, writable func() bool,
	t *telemetry.Telemetry) *Caps {
	perCap := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"ispb", "window"})
	}
	c := &Caps{
		client: client, idsMax: idsMax, register: follows, writable: writable, log: t.Log,
		limit: perCap("pix_outflow_cap_centavos",
			"A bank's cap on payments to other banks within a window of time, by day or by night; no series without a cap."),
		left: perCap("pix_outflow_left_centavos",
			"What is left of a bank's cap on outflow now; at 0 its payments to other banks are rejected with LQ12."),
	}
	t.Registry.MustRegister(c.limit, c.left)

	return c
}

// Follow runs until ctx ends.
func (c *Caps) Follow(ctx context.Context) {
	every := capsInterval
	repeat(ctx, &every, c.log, "cannot follow the caps", c.follow)
}

// outflow is a cap that is set.
type outflow struct {
	bank     pix.ISPB
	window   ledger.Window
	centavos int64
}

// outflows returns the caps on outflow by the ids of their allowances.
func outflows(state *register.State) map[tb.Uint128]outflow {
	set := map[tb.Uint128]outflow{}

	for _, p := range state.Participants() {
		for _, window := range ledger.Windows {
			if limit := p.Outflow[window]; limit.Centavos > 0 {
				set[ledger.AllowanceAccount(p.ISPB, window)] = outflow{p.ISPB, window, limit.Centavos}
			}
		}
	}

	return set
}

// follow publishes the caps, and adjusts the allowances that do not fit. An adjustment is bound to the
// account as it was read. The cap must be read after it: then it is that of the account, or newer.
func (c *Caps) follow(ctx context.Context) error {
	state, _ := c.register.Current()
	caps := outflows(state)
	var accounts []tb.Account

	for ids := range slices.Chunk(slices.Collect(maps.Keys(caps)), c.idsMax) {
		found, err := c.client.LookupAccounts(ids)
		if err != nil {
			return err
		}
		accounts = append(accounts, found...)
	}

	unfit := func(account tb.Account) bool {
		limit, set := caps[account.ID]
		return set && !ledger.GrantOf(account).Fits(limit.centavos)
	}
	if slices.ContainsFunc(accounts, unfit) {
		newer, err := c.register.Newer(ctx)
		if err != nil {
			return err
		}
		caps = outflows(newer)
	}
	c.limit.Reset() // a cap may have been lifted
	c.left.Reset()

	for _, account := range accounts {
		limit, set := caps[account.ID]
		if !set {
			continue
		}
		c.limit.WithLabelValues(string(limit.bank), limit.window.String()).Set(float64(limit.centavos))
		c.left.WithLabelValues(string(limit.bank),
			limit.window.String()).Set(float64(ledger.GrantOf(account).Left(limit.centavos)))

		if unfit(account) && c.writable() {
			if err := c.adjust(account, limit); err != nil {
				return err
			}
		}
	}

	return nil
}

func (c *Caps) adjust(account tb.Account, limit outflow) error {
	chain := ledger.GrantOf(account).AppendAdjustment(nil, limit.centavos)

	failures, err := c.client.CreateTransfers(chain)
	if err != nil {
		return err
	}
	// exists: another producer came first
	if result := ledger.ResultOf(chain, 0, failures); !result.OK() && !result.Exists() {
		return fmt.Errorf("the allowance of %s by %s: the ledger refuses its adjustment with %s", limit.bank,
			limit.window, result.Status)
	}

	return nil
}
