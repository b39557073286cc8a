package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says what to audit.
type Config struct {
	// Kafka says how to connect. The caller gives it, because the audit shares no code.
	Kafka  []kgo.Opt
	Ledger tigerbeetle.Client
	// Wait is the longest wait until no payment is in flight. A hold that nobody resolves ends
	// by the ledger's own timeout.
	Wait time.Duration
	// Deadline is that of the engines; 0 is the default, 40 s. If it was changed, it is the longest
	// one, and DeadlineMin the shortest.
	Deadline, DeadlineMin time.Duration
	// ShortDeadlines are the times in which an engine had DeadlineMin; nil: all the time.
	ShortDeadlines []Interval
	// HoldMax is the longest timeout of holds; 0 is the default, 60 s.
	HoldMax time.Duration
	// WrongClocks are times in which an engine's clock was more than 2 s off: deadlines of orders that
	// were open then are not judged.
	WrongClocks []Interval
	// TakeOverInterval is the least time between two take-overs by one engine, besides a few; 0 is the
	// default, 1 s. A broker that forgets members takes their partitions more often.
	TakeOverInterval time.Duration
	// LateRequests are times in which an engine was frozen or cut off from the ledger: what it had sent
	// came later, decided by the register of before.
	LateRequests []Interval
	// Secrets are the banks' keys; nil: it is not checked that banks said what became of payments.
	Secrets Secrets
	// Behind returns where to go on in a partition in which no client can read at an offset, or 0 if one
	// can, and whether what is there was aborted. Banks write responses: without it, one such batch leaves
	// all of them unchecked.
	Behind behind
	// Log is called with what the audit does.
	Log func(format string, arguments ...any)
}

type behind = func(ctx context.Context, client *kgo.Client, topic string, partition int32, offset int64) (next int64, aborted bool, err error)

// Interval is a time by the ledger's clock.
type Interval struct{ From, To time.Time }

// Run reads all topics and the whole ledger, and judges them. An error means that there is
// no verdict.
func Run(ctx context.Context, config Config) (Verdict, error) {
	began := time.Now()
	topics, err := openTopics(config.Kafka, config.Behind)
	if err != nil {
		return Verdict{}, err
	}
	defer topics.close()
	bounds, err := topics.bounds(ctx)
	if err != nil {
		return Verdict{}, err
	}
	committed, err := topics.committed(ctx, bounds)
	if err != nil {
		return Verdict{}, err
	}
	if bounds, err = topics.bounds(ctx); err != nil { // again: an end must not be older than a commit
		return Verdict{}, err
	}
	if err := checkLog(ctx, config.Ledger, topics, bounds, committed); err != nil {
		return Verdict{}, err
	}
	if err := waitUntilQuiet(ctx, config, topics); err != nil {
		return Verdict{}, err
	}
	if bounds, err = topics.bounds(ctx); err != nil {
		return Verdict{}, err
	}
	orders := int64(0)
	for partition, end := range bounds.ends[paymentsTopic] {
		orders += end.Offset - bounds.starts[paymentsTopic][partition].Offset
	}
	a := NewAuditor(int(min(orders, 1<<20))) // a hint: a batch can claim two billion records
	a.deadline = cmp.Or(config.Deadline, a.deadline)
	a.deadlineMin = cmp.Or(config.DeadlineMin, a.deadline)
	a.shortDeadlines = config.ShortDeadlines
	a.holdMax = cmp.Or(config.HoldMax, a.holdMax)
	a.wrongClocks = config.WrongClocks
	a.takeOverGap = cmp.Or(config.TakeOverInterval, takeOverInterval)
	a.lateRequests = config.LateRequests
	for topic, partitions := range bounds.starts {
		for partition, start := range partitions {
			if start.Offset > 0 {
				a.add(TopicCut, topic, "partition %d begins at offset %d: the records before it are gone, so nothing is proved about them", partition, start.Offset)
			}
		}
	}
	steps := []struct {
		what string
		read func() error
	}{
		{"dead letters", func() error { return topics.readAll(ctx, deadLettersTopic, bounds, a.DeadLetter, nil, nil) }},
		{"orders", func() error {
			if err := topics.readAll(ctx, paymentsTopic, bounds, a.Order, nil, a.Unreadable); err != nil {
				return err
			}
			a.EndOfOrders()
			return nil
		}},
		{"reports", func() error { return topics.readAll(ctx, settlementsTopic, bounds, a.Report, nil, nil) }},
		{"requests", func() error { return readQuestions(ctx, topics, a) }},
		{"responses", func() error { return readAnswers(ctx, &config, topics, a) }},
		{"accounts", func() error { return readAccounts(ctx, config.Ledger, 0, a.Account) }},
		{"transfers", func() error { return readLedgerToItsEnd(ctx, config.Ledger, a) }},
	}
	for _, step := range steps {
		started := time.Now()
		if err := step.read(); err != nil {
			return Verdict{}, err
		}
		config.Log("read all %s in %.1f s", step.what, time.Since(started).Seconds())
	}
	if committed, err = topics.committed(ctx, bounds); err != nil {
		return Verdict{}, err
	}
	for partition, end := range bounds.ends[paymentsTopic] {
		a.GroupLag(partition, committed[partition], end.Offset)
	}
	verdict := a.Judge()
	verdict.Summary.LeftOut = topics.leftOut
	verdict.Seconds = time.Since(began).Seconds()
	return verdict, nil
}

// waitUntilQuiet returns when no payment is in flight, or after config.Wait: what is in flight
// then becomes a finding.
func waitUntilQuiet(ctx context.Context, config Config, topics *topics) error {
	deadline := time.Now().Add(config.Wait)
	for told := (time.Time{}); ; {
		under, err := underWay(ctx, config, topics)
		if err != nil {
			return err
		}
		left := time.Until(deadline)
		if under == "" || left <= 0 {
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

// underWay says why payments seem to be in flight; empty: none are.
func underWay(ctx context.Context, config Config, topics *topics) (string, error) {
	bounds, err := topics.bounds(ctx)
	if err != nil {
		return "", err
	}
	committed, err := topics.committed(ctx, bounds)
	if err != nil {
		return "", err
	}
	var lag int64
	for partition, end := range bounds.ends[paymentsTopic] {
		lag += end.Offset - committed[partition]
	}
	// Every payment holds its first leg against a transit account, of which there are few.
	pending := 0
	err = readAccounts(ctx, config.Ledger, kindTransit, func(a tb.Account) {
		if a.DebitsPending != (tb.Uint128{}) || a.CreditsPending != (tb.Uint128{}) {
			pending++
		}
	})
	if err != nil || lag == 0 && pending == 0 {
		return "", err
	}
	return fmt.Sprintf("the group %[2]s has not finished %[1]d messages, and money is pending at %[3]d banks", lag, engineGroup, pending), nil
}
