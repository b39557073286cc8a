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

	bounds, err := topics.Bounds(ctx)
	if err != nil {
		return Verdict{}, err
	}

	committed, err := topics.Committed(ctx, bounds)
	if err != nil {
		return Verdict{}, err
	}

	if bounds, err = topics.Bounds(ctx); err != nil { // again: an end must not be older than a commit
		return Verdict{}, err
	}

	if err := source.CheckPair(ctx, config.Ledger, topics, bounds, committed); err != nil {
		return Verdict{}, err
	}

	if err := waitUntilQuiet(ctx, config, topics); err != nil {
		return Verdict{}, err
	}

	before, err := source.Youngest(ctx, config.Ledger)
	if err != nil {
		return Verdict{}, err
	}

	if bounds, err = topics.Bounds(ctx); err != nil {
		return Verdict{}, err
	}

	orders := int64(0)
	for partition, end := range bounds.Ends[source.Payments] {
		orders += end.Offset - bounds.Starts[source.Payments][partition].Offset
	}
	j := newJudge(config, int(min(orders, 1<<20))) // a hint: a batch can claim two billion records

	for topic, partitions := range bounds.Starts {
		for partition, start := range partitions {
			if start.Offset > 0 {
				j.add(TopicCut, topic, "partition %d begins at offset %d: the records before it are gone, so nothing is proved about them",
					partition, start.Offset)
			}
		}
	}

	steps := []struct {
		what string
		read func() error
	}{
		{"dead letters", func() error { return topics.ReadAll(ctx, source.DeadLetters, bounds, j.DeadLetter, nil, nil) }},
		{"orders", func() error {
			if err := topics.ReadAll(ctx, source.Payments, bounds, j.Order, nil, source.PassSaid(j.Unreadable)); err != nil {
				return err
			}
			j.EndOfOrders()

			return nil
		}},
		{"reports", func() error { return topics.ReadAll(ctx, source.Settlements, bounds, j.Report, nil, nil) }},
		{"requests and responses", func() error { return readBanks(ctx, &config, topics, j) }},
		{"accounts", func() error { return source.ReadAccounts(ctx, config.Ledger, 0, j.Account) }},
		{"transfers", func() error { return readLedgerToItsEnd(ctx, config.Ledger, j, before) }},
	}

	for _, step := range steps {
		started := time.Now()

		if err := step.read(); err != nil {
			return Verdict{}, err
		}
		config.Log("read all %s in %.1f s", step.what, time.Since(started).Seconds())
	}

	if committed, err = topics.Committed(ctx, bounds); err != nil {
		return Verdict{}, err
	}

	for partition, end := range bounds.Ends[source.Payments] {
		j.GroupLag(partition, committed[partition], end.Offset)
	}
	verdict := j.Judge()
	verdict.Summary.LeftOut = topics.LeftOut
	verdict.Seconds = time.Since(began).Seconds()

	return verdict, nil
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
	began, first, last := time.Now(), int64(-1), int64(-1)
	var came, told time.Time

	for {
		under, orders, err := underWay(ctx, config, topics)
		if err != nil || under == "" {
			return err
		}

		if first < 0 {
			first, last = orders, orders
		}

		if orders > last {
			last, came = orders, time.Now()
		}

		if orders > first {
			under += fmt.Sprintf(", and %d orders came in %.0f s", orders-first, time.Since(began).Seconds())
		}

		left := config.Wait - time.Since(began)
		switch {
		case left > 0:
		case time.Since(came) < cmp.Or(config.HoldMax, holdMaxDefault):
			return &Unquiet{under}
		default:
			return nil
		}

		if time.Since(told) > 5*time.Second {
			told = time.Now()
			config.Log("waiting up to %.0f s: %s", left.Seconds(), under)
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
