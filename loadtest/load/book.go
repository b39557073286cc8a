package load

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// book knows every payment that waits for its outcome, and counts those that have it.
// One lock is enough: it is held for some hundred nanoseconds, three times a payment.
type book struct {
	allowed []pix.Reason
	faults  bool
	start   time.Time
	seed    maphash.Seed

	mu       sync.Mutex
	open     int
	byID     map[pix.EndToEndID]*awaited
	nameless map[*awaited]struct{} // those without an EndToEndId
	byRecord map[record]*awaited
	// early holds the dead letters read before the broker's acknowledgement told whose
	// they are, and those of other senders.
	early map[record]pix.Reason

	counts      [256]Count     // by case
	turned      map[string]int // good payments that were rejected, by reason
	failures    []Failure
	failed      int
	sent        int
	settled     int
	rejected    int
	returned    int // returns that settled
	unreturned  int // and that were rejected
	lettered    int
	lastSettled time.Time
	perSecond   []Second                // settled payments by second since start
	thisSecond  *hdrhistogram.Histogram // latencies of the last of perSecond
	elsewhere   int                     // reports of payments that nobody waits for: other senders', or repeated
	ack         *hdrhistogram.Histogram
	settling    *hdrhistogram.Histogram
	overall     *hdrhistogram.Histogram
}

const (
	earlyMax      = 100_000
	failuresMax   = 50
	latencyMax    = 30 * time.Minute
	latencyDigits = 3
)

func newBook(allowed []pix.Reason, faults bool) *book {
	histogram := func() *hdrhistogram.Histogram {
		return hdrhistogram.New(1, latencyMax.Microseconds(), latencyDigits)
	}
	return &book{
		allowed: allowed, faults: faults || len(allowed) > 0, seed: maphash.MakeSeed(), turned: map[string]int{},
		byID: map[pix.EndToEndID]*awaited{}, nameless: map[*awaited]struct{}{},
		byRecord: map[record]*awaited{}, early: map[record]pix.Reason{},
		ack: histogram(), settling: histogram(), overall: histogram(), thisSecond: histogram(),
	}
}

// await notes a payment before its first message goes out.
func (b *book) await(payment mix.Payment, intended time.Time) *awaited {
	a := &awaited{payment: payment, intended: intended, sent: 1}
	for i := range a.records {
		a.records[i] = nowhere
	}
	if payment.Second.Value != nil && !payment.AfterReport {
		a.sent = 2
	}
	a.payment.First.Value = nil // the record has it
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	b.sent++
	b.counts[payment.Case].Sent++
	if id, err := pix.ParsePaymentOrReturnID(payment.Name); err == nil {
		a.id = id
		b.byID[id] = a
	} else {
		b.nameless[a] = struct{}{}
	}
	for _, r := range payment.Returns {
		b.byID[pix.EndToEndID(r.ID)] = a
	}
	return a
}

// acknowledged notes where message i of a payment is, or why it is nowhere.
func (b *book) acknowledged(a *awaited, i int, at record, err error) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.finished {
		return
	}
	if err != nil {
		a.problem = fmt.Sprintf("cannot be sent: %v", err)
		b.finishIfComplete(a)
		return
	}
	if i == 0 {
		observe(b.ack, now.Sub(a.intended))
	}
	a.acked++
	a.records[i] = at
	b.byRecord[at] = a
	if reason, ok := b.early[at]; ok {
		delete(b.early, at)
		b.takeLetter(a, i, reason, now)
	}
	b.finishIfComplete(a)
}

// report notes a settlement report. It returns the payment whose second message, or whose
// returns, must go out because of it, if there are any.
func (b *book) report(report *pixv1.SettlementReport, value []byte, now time.Time) (next *awaited) {
	var id pix.EndToEndID
	copy(id[:], report.EndToEndId)
	hash := maphash.Bytes(b.seed, value)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.byID[id]
	if a == nil || len(report.EndToEndId) != len(id) {
		b.elsewhere++
		return nil
	}
	if id != a.id {
		if k := a.returnNamed(report.EndToEndId); a.takeReturnReport(k, report, hash, b.allowed) {
			b.countReturn(a.returns[k].first)
		}
		b.finishIfComplete(a)
		return nil
	}
	a.takeReport(report, hash, b.allowed)
	if a.reports == 1 {
		b.observe(a, now)
		if a.payment.AfterReport {
			a.sent, next = 2, a
		}
		if len(a.payment.Returns) > 0 && a.first.settled {
			a.sent, next = a.sent+len(a.payment.Returns), a
		}
	}
	b.finishIfComplete(a)
	return next
}

func (b *book) countReturn(first outcome) {
	if first.settled {
		b.returned++
	} else {
		b.unreturned++
	}
}

// observe counts the first outcome of a payment and how long it took.
func (b *book) observe(a *awaited, now time.Time) {
	if a.reports > 0 && a.id[0] == 'D' {
		b.countReturn(a.first)
		return
	}
	took := now.Sub(a.intended)
	observe(b.overall, took)
	switch {
	case a.reports == 0:
		b.lettered++
	case !a.first.settled:
		b.rejected++
		if a.payment.Case.Expectation().Fate == mix.Settled {
			b.turned[a.first.reason]++
		}
	default:
		b.settled++
		b.lastSettled = now
		observe(b.settling, took)
		for second := int(now.Sub(b.start) / time.Second); len(b.perSecond) <= second; {
			b.closeSecond()
			b.perSecond = append(b.perSecond, Second{})
		}
		b.perSecond[len(b.perSecond)-1].Settled++
		observe(b.thisSecond, took)
	}
}

// closeSecond notes the latencies of the last second.
func (b *book) closeSecond() {
	if len(b.perSecond) > 0 && b.thisSecond.TotalCount() > 0 {
		l := latency("", b.thisSecond)
		last := &b.perSecond[len(b.perSecond)-1]
		last.P50, last.P99, last.Max = l.P50, l.P99, l.Max
		b.thisSecond.Reset()
	}
}

// letter notes a dead letter of a record of pix.payments.
func (b *book) letter(of record, reason pix.Reason, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.byRecord[of]
	if a == nil {
		if len(b.early) < earlyMax {
			b.early[of] = reason
		}
		return
	}
	i := slices.Index(a.records[:], of)
	b.takeLetter(a, i, reason, now)
	b.finishIfComplete(a)
}

func (b *book) takeLetter(a *awaited, i int, reason pix.Reason, now time.Time) {
	repeated := a.letters[i] != pix.ReasonNone
	a.takeLetter(i, reason)
	if a.payment.Case.Expectation().Fate == mix.DeadLetter && !repeated {
		b.observe(a, now)
	}
}

func (b *book) finishIfComplete(a *awaited) {
	if a.finished || !a.complete(b.faults) {
		return
	}
	count := &b.counts[a.payment.Case]
	switch {
	case a.problem != "":
		count.Wrong++
		b.fail(a, a.problem)
	case a.excused:
		count.Excused++
	default:
		count.AsExpected++
	}
	b.finish(a)
}

func (b *book) finish(a *awaited) {
	a.finished = true
	b.open--
	delete(b.nameless, a)
	if b.byID[a.id] == a {
		delete(b.byID, a.id)
	}
	for _, r := range a.payment.Returns {
		delete(b.byID, pix.EndToEndID(r.ID))
	}
	for _, r := range a.records {
		if b.byRecord[r] == a {
			delete(b.byRecord, r)
		}
	}
}

func (b *book) fail(a *awaited, problem string) {
	b.failed++
	if len(b.failures) < failuresMax {
		failure := Failure{EndToEndID: a.payment.Name, Case: a.payment.Case.String(), Problem: problem}
		if a.acked > 0 {
			failure.Record = fmt.Sprintf("%d/%d", a.records[0].partition, a.records[0].offset)
		}
		b.failures = append(b.failures, failure)
	}
}

// giveUp counts everything that is still open as missing. The first sent is listed
// first: what went wrong began there.
func (b *book) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := slices.AppendSeq(slices.Collect(maps.Values(b.byID)), maps.Keys(b.nameless))
	slices.SortFunc(open, func(x, y *awaited) int { return x.intended.Compare(y.intended) })
	for _, a := range open {
		if a.finished {
			continue // met before, under another of its ids
		}
		b.counts[a.payment.Case].Missing++
		b.fail(a, a.missing())
		b.finish(a)
	}
}

func (b *book) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

func (b *book) snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Snapshot{Sent: b.sent, Settled: b.settled, Rejected: b.rejected, DeadLetters: b.lettered, Waiting: b.open, Failed: b.failed}
}

func observe(histogram *hdrhistogram.Histogram, took time.Duration) {
	// Clamped, so that it cannot fail: a latency of more than latencyMax counts as that.
	_ = histogram.RecordValue(min(max(took, time.Microsecond), latencyMax).Microseconds())
}
