package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// Run reads all topics and the whole ledger, and judges them. An error means that there is
// no verdict.
func Run(ctx context.Context, config Config) (Verdict, error) {
	began := time.Now()

	topics, err := source.OpenTopics(config.Kafka, config.Behind)
	if err != nil {
		return Verdict{}, err
	}
	defer topics.Close()

	var bounds source.Bounds
	var before uint64
	j := newJudge(config)

	readAll := func(topic string, take func(source.Record), pass source.Pass) error {
		return topics.ReadAll(ctx, topic, bounds, take, nil, pass)
	}

	steps := []struct {
		what string
		do   func() error
	}{
		{"compare topics and ledger", func() error { return source.CheckPair(ctx, config.Ledger, topics) }},
		{"wait", func() error { return waitUntilQuiet(ctx, config, topics) }},
		{"read the last transfer", func() (err error) {
			before, err = source.Youngest(ctx, config.Ledger)
			return err
		}},
		{"read the ends of the topics", func() (err error) { bounds, err = topics.Bounds(ctx); return err }},
		{"read all dead letters", func() error { return readAll(source.DeadLetters, j.DeadLetter, nil) }},
		{"read all orders", func() error { return readAll(source.Payments, j.Order, source.PassSaid(j.Unreadable)) }},
		{"compare them", func() error { j.EndOfOrders(); return nil }},
		{"read all reports", func() error { return readAll(source.Settlements, j.Report, nil) }},
		{"read all requests and responses", func() error { return readBanks(ctx, &config, topics, j) }},
		{"read all accounts", func() error { return source.ReadAccounts(ctx, config.Ledger, 0, j.Account) }},
		{"read all transfers", func() error { return readLedgerToItsEnd(ctx, config.Ledger, j, before) }},
		{"read what is committed", func() error { return j.readLag(ctx, topics, bounds) }},
	}
	for _, step := range steps {
		started := time.Now()

		if err := step.do(); err != nil {
			return Verdict{}, err
		}
		config.Log("%s: %.1f s", step.what, time.Since(started).Seconds())
	}

	verdict := j.Judge()
	verdict.Seconds = time.Since(began).Seconds()

	return verdict, nil
}

// readLag compares the topics with what the engines have committed.
func (j *Judge) readLag(ctx context.Context, topics *source.Topics, bounds source.Bounds) error {
	committed, err := topics.Committed(ctx, bounds)
	if err != nil {
		return err
	}

	for topic, partitions := range bounds.Starts {
		for partition, start := range partitions {
			if start.Offset > 0 {
				j.add(TopicCut, topic, "partition %d begins at offset %d: the records before it are gone, so nothing is proved about them",
					partition, start.Offset)
			}
		}
	}

	for partition, end := range bounds.Ends[source.Payments] {
		j.GroupLag(partition, committed[partition], end.Offset)
	}

	return nil
}

// Unquiet is an error: payments flow, or acts, so topics and ledger are not of one instant, and there is no verdict.
type Unquiet struct{ why string }

func (u *Unquiet) Error() string {
	return "NO VERDICT: " + u.why +
		"; stop the load and audit again, or look at the control room: its light judges while payments flow"
}

// waitUntilQuiet returns when no payment is in flight, or after config.Wait. What is in flight then becomes a
// finding, unless orders have come so lately that it may well be: that is Unquiet.
func waitUntilQuiet(ctx context.Context, config Config, topics *source.Topics) error {
	began, came, last := time.Now(), time.Time{}, int64(-1)

	for {
		under, orders, err := underWay(ctx, config, topics)
		if err != nil || under == "" {
			return err
		}

		if last < 0 {
			config.Log("waiting up to %v: %s", config.Wait, under)
		} else if orders > last {
			came = time.Now()
		}

		last = orders

		switch {
		case time.Since(began) < config.Wait:
		case time.Since(came) < cmp.Or(config.HoldMax, holdMaxDefault):
			return &Unquiet{under}
		default:
			return nil
		}

		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// underWay says why payments seem to be in flight; empty: none are. It also returns how many orders there are.
func underWay(ctx context.Context, config Config, topics *source.Topics) (why string, orders int64, err error) {
	bounds, err := topics.Bounds(ctx)
	if err != nil {
		return "", 0, err
	}

	committed, err := topics.Committed(ctx, bounds)
	if err != nil {
		return "", 0, err
	}

	var lag int64
	for partition, end := range bounds.Ends[source.Payments] {
		lag += end.Offset - committed[partition]
		orders += end.Offset
	}
	// Every payment holds its first leg against a transit account, of which there are few.
	pending := 0

	err = source.ReadAccounts(ctx, config.Ledger, spec.KindTransit, func(a tb.Account) {
		if a.DebitsPending != (tb.Uint128{}) || a.CreditsPending != (tb.Uint128{}) {
			pending++
		}
	})
	if err != nil || lag == 0 && pending == 0 {
		return "", orders, err
	}

	return fmt.Sprintf("the group %[2]s has not finished %[1]d messages, and money is pending at %[3]d banks", lag,
		source.EngineGroup, pending), orders, nil
}

// allowancesFitWithin is how long producers may take to bring allowances to their caps.
const allowancesFitWithin = 30 * time.Second

// readLedgerToItsEnd takes every transfer of every ledger. Holds of allowances end at any time, and
// producers then lower what a lowered cap left. So it goes on until allowances and transfers are of
// one instant, and all fit. Anything else that came after the audit began to read is Unquiet.
func readLedgerToItsEnd(ctx context.Context, client tigerbeetle.Client, j *Judge, from uint64) error {
	filter := tb.QueryFilter{}
	began, before, came := time.Now(), -1, 0

	for {
		err := source.ReadPages(ctx, "transfers", &filter, client.QueryTransfers, func(t tb.Transfer) uint64 {
			if t.Timestamp > from && t.Code != spec.CodeClockProbe && t.Ledger != spec.AllowanceLedger {
				came++
			}
			j.Transfer(t)

			return t.Timestamp
		})
		if err != nil {
			return err
		}

		if came > 0 {
			return &Unquiet{fmt.Sprintf("the ledger got %d transfers while it was read", came)}
		}

		unchanged := before == j.summary.Transfers
		if unchanged && len(j.unfit()) == 0 || time.Since(began) > allowancesFitWithin {
			return nil
		}

		if before = j.summary.Transfers; unchanged {
			time.Sleep(100 * time.Millisecond)
		}

		for _, kind := range []uint16{spec.KindAllowanceSource, spec.KindAllowance} {
			if err := source.ReadAccounts(ctx, client, kind, j.Account); err != nil {
				return err
			}
		}
	}
}
