package live

import (
	"context"
	"fmt"
	"time"

	"github.com/liquida/liquida/loadtest/audit/source"
	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit"
)

const (
	// pageEvery is how often the ledger is asked for more after it has said that this is all.
	pageEvery = 150 * time.Millisecond
	// markEvery is how often the ends of the topics are asked for: doubts are judged when all is read to them.
	markEvery = 300 * time.Millisecond
	// While nothing has come for quietAfter, it asks less often: the light stays within behindMax.
	quietAfter = 5 * time.Second
	quietEvery = 900 * time.Millisecond // for pages and marks
	// pollFor is how long a poll waits for records. In quiet it waits until the whole second, when others wake, too.
	pollFor = 50 * time.Millisecond
)

// beginning is where to begin.
type beginning struct {
	since     uint64 // the ledger's time
	from      map[string]map[int32]int64
	mayBefore map[int32]int64 // orders below may have ended before
}

// begin finds out where to begin, so that it sees the order of all that the ledger does from then on: an order
// that is held later is not finished, so the engines have not committed it.
func (a *Audit) begin(ctx context.Context) (b beginning, err error) {
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, a.config.Kafka...), kgo.ClientID("live-audit"))...)
	if err != nil {
		return b, fmt.Errorf("cannot create the Kafka client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)

	committed, err := a.committed(ctx, admin)
	if err != nil {
		return b, err
	}

	starts, err := a.offsets(ctx, admin.ListStartOffsets, source.Payments)
	if err != nil {
		return b, err
	}

	if b.from, err = a.offsets(ctx, admin.ListCommittedOffsets, source.Settlements, source.DeadLetters); err != nil {
		return b, err
	}

	orders, err := a.offsets(ctx, admin.ListCommittedOffsets, source.Payments)
	if err != nil {
		return b, err
	}

	b.mayBefore, b.from[source.Payments] = orders[source.Payments], starts[source.Payments]
	for partition, offset := range committed {
		b.from[source.Payments][partition] = max(offset, starts[source.Payments][partition])
	}
	b.since, err = source.Youngest(ctx, a.config.Ledger)

	return b, err
}

// follow watches from now until something fails.
func (a *Audit) follow(ctx context.Context) error {
	b, err := a.begin(ctx)
	if err != nil {
		return err
	}

	issuance, err := ask(ctx, a, func() ([]tb.Account, error) {
		return a.config.Ledger.LookupAccounts([]tb.Uint128{spec.Issuance.TigerBeetle()})
	})
	if err != nil {
		return err
	}

	if len(issuance) == 0 {
		return fmt.Errorf("the ledger has no accounts yet")
	}

	follower := audit.Follow(&issuance[0], b.since, a.found)
	for partition, offset := range b.mayBefore {
		follower.From(partition, offset)
	}

	if err := a.history(ctx, follower, b.since); err != nil {
		return err
	}
	follower.Begin()

	topics, err := a.openTopics(b.from)
	if err != nil {
		return err
	}
	defer topics.Close()
	now := time.Now()
	a.mu.Lock()
	a.since, a.checkedTo = now, now
	a.before += a.checked
	a.checked = 0
	a.mu.Unlock()

	f := following{audit: a, follower: follower, topics: topics, next: b.since + 1}
	for {
		if err := f.turn(ctx); err != nil {
			return err
		}
	}
}

// following is what follow knows.
type following struct {
	audit    *Audit
	follower *audit.Judge
	topics   *topics
	next     uint64    // the ledger's time from which on to read
	newsAt   time.Time // when a record or a transfer came
	askedAt  time.Time // when the ledger was asked for what it had nothing more behind
	marked   mark
	markedAt time.Time
	// askedBroker is when the broker was asked while a mark stood.
	askedBroker time.Time
}

// mark is how far all must be read until doubts are judged.
type mark struct {
	set       bool
	number    int
	at        time.Time
	committed map[int32]int64
	ends      map[string]map[int32]int64
}

// turn reads some of everything.
func (f *following) turn(ctx context.Context) error {
	a := f.audit

	kept, behindLedger := f.follower.Kept(), time.Since(f.askedAt) > behindMax
	switch {
	case kept > keptMax:
		return fmt.Errorf("%d payments and records wait, more than it keeps: begins again from now", kept)
	case kept > keptMax/2 && behindLedger: // the ledger's side comes first
		if err := a.pace.await(ctx); err != nil {
			return err
		}
	default:
		came, err := f.topics.read(ctx, f.every(pollFor, time.Until(time.Now().Truncate(time.Second).Add(time.Second))),
			f.follower)
		if err != nil {
			return err
		}

		if came > 0 {
			f.newsAt = time.Now()
		}
	}

	if err := f.lookUp(ctx); err != nil { // first: with a small share, reading would leave it no time
		return err
	}

	if err := f.setMark(ctx); err != nil { // before the page that may pass it
		return err
	}

	if err := f.readLedger(ctx); err != nil {
		return err
	}

	passed := f.marked.set && f.ledgerReadTo(f.marked.at) && f.topics.ReadTo(f.marked.ends)
	if passed {
		f.follower.Passed(f.marked.number, f.marked.committed)
	}
	a.mu.Lock()
	if passed {
		a.waiting, f.marked.set = "", false
		if f.marked.at.After(a.checkedTo) {
			a.checkedTo = f.marked.at
		}
	}

	if at := time.Unix(0, int64(f.next)); time.Since(f.askedAt) > behindMax && at.After(a.checkedTo) {
		a.waiting = ""
		a.checkedTo = at // it lags: what the ledger did until then is judged, but for doubts
	}
	a.checked = f.follower.Checked()
	a.mu.Unlock()

	return nil
}

// clocksDiffer is how far the ledger's clock may be from this one.
const clocksDiffer = 2 * time.Second

// ledgerReadTo reports whether all is read that the ledger had done at a time. While it lags, the ledger's clock
// says so.
func (f *following) ledgerReadTo(at time.Time) bool {
	return f.askedAt.After(at) || time.Unix(0, int64(f.next)).After(at.Add(clocksDiffer))
}

// readLedger reads one page, if it is time.
func (f *following) readLedger(ctx context.Context) error {
	a := f.audit
	if !a.pace.ready() || time.Since(f.askedAt) < f.every(pageEvery, quietEvery) {
		return nil
	}
	asked := time.Now()

	transfers, all, err := a.page(ctx, tb.QueryFilter{TimestampMin: f.next})
	if err != nil {
		return err
	}

	if !all {
		transfers = wholeChains(transfers)
	}

	for _, t := range transfers {
		f.next = t.Timestamp + 1
		f.follower.Transfer(t)

		if t.Code != spec.CodeClockProbe {
			f.newsAt = asked
		}
	}

	if all {
		f.askedAt = asked
		f.follower.ReadTo(f.next)
	}

	return nil
}

// lookUp asks the ledger for what the follower has forgotten.
func (f *following) lookUp(ctx context.Context) error {
	a := f.audit
	if !a.pace.ready() {
		return nil
	}

	ids, answer := f.follower.LookUps(lookupsMax)
	if len(ids) == 0 {
		answer(nil)
		return nil
	}

	transfers, err := ask(ctx, a, func() ([]tb.Transfer, error) { return a.config.Ledger.LookupTransfers(ids) })
	if err != nil {
		return err
	}
	answer(transfers)

	return nil
}

// every returns how long to wait between two questions.
func (f *following) every(busy, quiet time.Duration) time.Duration {
	if time.Since(f.newsAt) < quietAfter {
		return busy
	}

	return quiet
}

// setMark asks for the ends of the topics, if it is time.
func (f *following) setMark(ctx context.Context) error {
	a := f.audit
	if time.Since(f.markedAt) < f.every(markEvery, quietEvery) {
		return nil
	}

	if f.marked.set { // it lags behind its mark; whether the broker answers is asked all the same
		if time.Since(f.askedBroker) > time.Second {
			f.askedBroker = time.Now()
			_, _ = a.committed(ctx, f.topics.admin) // without an answer the light is amber
		}

		return ctx.Err()
	}
	f.markedAt = time.Now()
	m := mark{set: true, number: f.follower.Mark(), at: f.markedAt}

	var err error
	if m.committed, err = a.committed(ctx, f.topics.admin); err == nil {
		m.ends, err = a.offsets(ctx, f.topics.admin.ListCommittedOffsets, allTopics...)
	}

	if err == nil {
		f.topics.grow(m.ends)
		f.marked = m
	} // else the broker is away: the light is amber, and this is tried again

	return ctx.Err()
}
