package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/rebuild"
)

// Place is where a ledger is built again.
type Place struct {
	Ledger tigerbeetle.Client
	Kafka  *kgo.Client
	Dial   host.Dial // to Kafka
}

// At connects to the place of the configuration, and does something there.
func At(config *Config, do func(Place) error) error {
	return withChart(config, func(c *chart) error { return do(Place{c.client, c.kafka, host.System().Dial}) })
}

// Rebuild makes the empty ledger of the configuration what a lost one was: the past that source knows, and then what
// was reported since. It goes on where an earlier run ended. Nobody writes to the ledger before Accept.
func (p Place) Rebuild(ctx context.Context, config *Config, source rebuild.Source, progress io.Writer) error {
	r, err := p.begin(ctx, config, progress)
	if err != nil {
		return err
	}
	target := rebuild.Target{Client: r.client, EventsMax: config.EventsMax}
	began, told := time.Now(), time.Now()

	target.Progress = func(accounts, transfers int, at time.Time) {
		if time.Since(told) > 2*time.Second {
			told = time.Now()
			r.say("%d accounts and %d transfers, up to %s", accounts, transfers, at.Format(time.RFC3339))
		}
	}
	if err := target.Import(ctx, source); err != nil {
		return err
	}

	ends, err := source.End(ctx)
	if err != nil {
		return err
	}
	r.say("the past is there, up to %s, in %.0f s", ends.Format(time.RFC3339), time.Since(began).Seconds())

	all, unreadable, err := rebuild.Log{Stream: config.Stream, Kafka: r.kafka, Dial: p.Dial, Since: ends}.Told(ctx,
		target.Client)
	if err != nil {
		return err
	}

	result, err := target.Forward(ctx, all, ends, time.Now())
	if err != nil {
		return err
	}

	held, uncapped, err := target.HoldAllowances(ctx, source, all, time.Now())
	if err != nil {
		return err
	}
	r.say("%d payments count against a cap again", held)

	for _, id := range uncapped {
		r.say("NOT UNDER ITS CAP %s: the cap has not so much left", id)
	}

	lost, err := origin.NamedBy(r.known)
	if err != nil {
		return err
	}

	if err := target.End(ctx, lost); err != nil {
		return err
	}

	return r.report(ctx, result, unreadable)
}

func (p Place) begin(ctx context.Context, config *Config, progress io.Writer) (*gate, error) {
	r := &gate{chart: &chart{config, p.Ledger, p.Kafka}, say: teller("rebuild", progress)}

	return r, r.patiently(ctx, func(ctx context.Context) (err error) {
		if r.known, err = origin.ReadCheckpoints(ctx, r.kafka); err != nil {
			return err
		}

		return r.alone(ctx)
	})
}

// report says what was brought back, what was not, and what a person must look at before Accept.
func (g *gate) report(ctx context.Context, result rebuild.Forwarded, unreadable int) error {
	g.say("reported since: %d settled and %d rejected orders have their verdicts again", result.Settled,
		result.Rejected)

	for _, loan := range result.Loans {
		g.say("LOAN %s: %s of %d centavos to %s%s, of which %d were taken back", loan.ID, loan.Act.Kind,
			loan.Act.Centavos, loan.Act.Bank, loan.Act.Account.Number, loan.Returned)
	}

	for _, what := range result.Impossible {
		g.say("NOT BROUGHT BACK %s", what)
	}

	if unreadable > 0 {
		g.say("%d records of the reports' topic are no reports", unreadable)
	}

	acts, err := request(ctx, g.config, g.client.GetAccountTransfers, tb.AccountFilter{
		AccountID: ledger.RegisterAccount, Limit: 1,
		Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32(),
	})
	if err != nil {
		return err
	}

	for _, last := range acts {
		g.say("the last act is of %s: acts after it are lost, and no topic names them. Ask all who act. A revoked key and a suspended bank come first",
			time.Unix(0, int64(last.Timestamp)).UTC().Format(time.RFC3339))
	}
	g.say("verdicts that only the HTTP API told are lost, too; their orders are cleared as always")
	g.say("nobody can write to this ledger yet: if you take it as it is, `bootstrap rebuild accept`")

	return nil
}

// Accept gives a ledger that Rebuild has filled its marker, and with it an identity of its own, and has the topics take
// it. What engines had finished stays finished. If the lost ledger comes back, it is another's.
func (p Place) Accept(ctx context.Context, config *Config, progress io.Writer) error {
	r, err := p.begin(ctx, config, progress)
	if err != nil {
		return err
	}

	target := rebuild.Target{Client: r.client, EventsMax: config.EventsMax}
	if err := target.Mark(ctx); err != nil {
		return err
	}

	is, err := ledger.ReadIdentity(ctx, r.client)
	if err != nil {
		return err
	}

	if named, err := origin.NamedBy(r.known); err == nil && named == is {
		r.say("the topics name this ledger already")
		return nil
	}

	return r.patiently(ctx, func(ctx context.Context) error {
		names, err := origin.Read(ctx, r.client, config.Partitions)
		if err != nil {
			return err
		}

		write := origin.First(nil, max(config.Partitions, len(r.known)), names)
		if err := r.keepFinished(ctx, write, names); err != nil {
			return err
		}

		if err := origin.WriteCheckpoints(ctx, r.kafka, write); err != nil {
			return err
		}
		r.say("this ledger is %s, and the topics take it. Now acts are taken, and nothing else: do again what is lost, then `bootstrap rebuild confirm`",
			names.Ledger)

		return nil
	})
}

// Confirm says that the acts that a rebuild lost were done again. Then engines begin, and front doors take orders.
func (p Place) Confirm(ctx context.Context, config *Config, _ io.Writer) error {
	chart := &chart{config: config, client: p.Ledger}
	if done, err := chart.populated(ctx); err != nil || !done {
		return cmp.Or(err, errors.New("the ledger has no marker: `bootstrap rebuild accept` comes first"))
	}

	return chart.createTransfers(ctx, these(ledger.Confirmed()))
}
