package load

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// tracker compares what happens to each payment with what must happen, and counts. One
// lock is enough: it is held three times for each payment, some hundred nanoseconds each.
type tracker struct {
	allowed []pix.Reason
	faults  bool
	start   time.Time
	seed    maphash.Seed

	mu       sync.Mutex
	open     int
	patient  int // open payments whose bank is silent or late
	byID     map[pix.EndToEndID]*openPayment
	nameless map[*openPayment]struct{} // payments without an EndToEndId
	byRecord map[record]*openPayment
	// early holds dead letters that came before the broker acknowledged their record, and
	// those of other senders.
	early map[record]pix.Reason

	counts      [256]Count     // by case
	result      Result         // what is counted so far
	forms       map[string]int // index into its failures, by case and form of the problem
	lastSettled time.Time
	thisSecond  *Recorder // latencies of the last of its seconds
	ack         *Recorder
	settling    *Recorder
	overall     *Recorder
}

const (
	earlyMax      = 100_000
	failuresMax   = 50
	alsoMax       = 2
	latencyMax    = 30 * time.Minute
	latencyDigits = 3
)

func newTracker(allowed []pix.Reason, faults bool) *tracker {
	return &tracker{
		allowed: allowed, faults: faults || len(allowed) > 0, seed: maphash.MakeSeed(),
		result: Result{GoodRejected: map[string]int{}},
		byID:   map[pix.EndToEndID]*openPayment{}, nameless: map[*openPayment]struct{}{},
		byRecord: map[record]*openPayment{}, early: map[record]pix.Reason{}, forms: map[string]int{},
		ack: NewRecorder(), settling: NewRecorder(), overall: NewRecorder(), thisSecond: NewRecorder(),
	}
}

// add opens a payment, before its first message is sent.
func (t *tracker) add(payment mix.Payment, intended time.Time) *openPayment {
	a := &openPayment{payment: payment, intended: intended, sent: 1}
	for i := range a.records {
		a.records[i] = record{-1, -1} // nowhere yet
	}

	if payment.Second.Value != nil && !payment.AfterReport {
		a.sent = 2
	}
	a.payment.First.Value = nil // the record has it
	t.mu.Lock()
	defer t.mu.Unlock()

	t.open++
	if payment.Case.Waits() {
		t.patient++
	}
	t.result.Sent++

	t.counts[payment.Case].Sent++
	if id, err := pix.ParsePaymentOrReturnID(payment.Name); err == nil {
		a.id = id
		t.byID[id] = a
	} else {
		t.nameless[a] = struct{}{}
	}

	for _, r := range payment.Returns {
		t.byID[pix.EndToEndID(r.ID)] = a
	}

	return a
}

// acknowledged takes the place of message i of a payment, or the error of sending it.
func (t *tracker) acknowledged(a *openPayment, i int, at record, err error) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()

	if a.finished {
		return
	}

	if err != nil {
		a.problem = fmt.Sprintf("cannot be sent: %v", err)
		t.finishIfComplete(a)
		return
	}

	if i == 0 {
		t.ack.Record(now.Sub(a.intended))
	}
	a.acked++
	a.records[i] = at

	t.byRecord[at] = a
	if reason, ok := t.early[at]; ok {
		delete(t.early, at)
		t.takeLetter(a, i, reason, now)
	}
	t.finishIfComplete(a)
}

// report takes a settlement report. It returns the payment if its second message or its
// returns must be sent now, else nil.
func (t *tracker) report(report *pixv1.SettlementReport, value []byte, now time.Time) (next *openPayment) {
	var id pix.EndToEndID
	copy(id[:], report.EndToEndId)
	hash := maphash.Bytes(t.seed, value)
	t.mu.Lock()
	defer t.mu.Unlock()

	a := t.byID[id]
	if a == nil || len(report.EndToEndId) != len(id) {
		return nil
	}

	k := 0
	if id != a.id {
		k = 1 + a.returnNamed(report.EndToEndId)
	}

	switch isFirst := a.takeReport(k, report, hash, t.allowed); {
	case !isFirst:
	case k > 0:
		t.countReturn(a.ends[k].first)
	default:
		t.observe(a, now)

		if a.payment.AfterReport {
			a.sent, next = 2, a
		}

		if len(a.payment.Returns) > 0 && a.ends[0].first.settled {
			a.sent, next = a.sent+len(a.payment.Returns), a
		}
	}
	t.finishIfComplete(a)

	return next
}

func (t *tracker) countReturn(first outcome) {
	if first.settled {
		t.result.Returned++
	} else {
		t.result.ReturnsRejected++
	}
}

// observe counts the first outcome of a payment, and its latency.
func (t *tracker) observe(a *openPayment, now time.Time) {
	first, reported := a.ends[0].first, a.ends[0].reports > 0
	if reported && a.id[0] == 'D' {
		t.countReturn(first)
		return
	}
	took := now.Sub(a.intended)
	t.overall.Record(took)

	switch {
	case !reported:
		t.result.DeadLetters++
	case !first.settled:
		t.result.Rejected++
		if a.payment.Case.Expectation().Fate == mix.Settled {
			t.result.GoodRejected[first.reason]++
		}
	default:
		t.observeSettled(now.Sub(t.start), took)
		t.lastSettled = now
	}
}

// observeSettled counts a payment that settled at a time since the start.
func (t *tracker) observeSettled(at, took time.Duration) {
	r := &t.result

	r.Settled++
	if since := max(t.lastSettled.Sub(t.start), 0).Seconds(); at.Seconds()-since > r.StandstillSeconds {
		r.StandstillSeconds, r.StandstillAt = at.Seconds()-since, since
	}
	t.settling.Record(took)

	for len(r.PerSecond) <= int(at/time.Second) {
		t.closeSecond()
		r.PerSecond = append(r.PerSecond, Second{})
	}

	r.PerSecond[len(r.PerSecond)-1].Settled++
	for len(r.PerQuarter) <= int(at/(time.Second/4)) {
		r.PerQuarter = append(r.PerQuarter, 0)
	}
	r.PerQuarter[len(r.PerQuarter)-1]++
	t.thisSecond.Record(took)
}

// closeSecond keeps the latencies of the last second.
func (t *tracker) closeSecond() {
	if l := t.thisSecond.Latency(""); len(t.result.PerSecond) > 0 && l.Count > 0 {
		last := &t.result.PerSecond[len(t.result.PerSecond)-1]
		last.P50, last.P99, last.Max = l.P50, l.P99, l.Max
		t.thisSecond.histogram.Reset()
	}
}

// letter takes the dead letter of a record.
func (t *tracker) letter(of record, reason pix.Reason, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()

	a := t.byRecord[of]
	if a == nil {
		if len(t.early) < earlyMax {
			t.early[of] = reason
		}

		return
	}
	i := slices.Index(a.records[:], of)
	t.takeLetter(a, i, reason, now)
	t.finishIfComplete(a)
}

func (t *tracker) takeLetter(a *openPayment, i int, reason pix.Reason, now time.Time) {
	repeated := a.letters[i] != pix.ReasonNone
	a.takeLetter(i, reason)

	if a.payment.Case.Expectation().Fate == mix.DeadLetter && !repeated {
		t.observe(a, now)
	}
}

func (t *tracker) finishIfComplete(a *openPayment) {
	if a.finished || !a.complete(t.faults) {
		return
	}

	count := &t.counts[a.payment.Case]
	switch {
	case a.problem != "":
		count.Wrong++
		t.fail(a, a.problem)
	case a.excused:
		count.Excused++
	default:
		count.AsExpected++
	}
	t.finish(a)
}

func (t *tracker) finish(a *openPayment) {
	a.finished = true

	t.open--
	if a.payment.Case.Waits() {
		t.patient--
	}
	delete(t.nameless, a)

	if t.byID[a.id] == a {
		delete(t.byID, a.id)
	}

	for _, r := range a.payment.Returns {
		delete(t.byID, pix.EndToEndID(r.ID))
	}

	for _, r := range a.records {
		if r.partition >= 0 && t.byRecord[r] == a {
			delete(t.byRecord, r)
		}
	}
}

// fail keeps a failure. Those of one case that fail in the same way are one entry with a count.
func (t *tracker) fail(a *openPayment, problem string) {
	t.result.FailureCount++

	failure := Failure{EndToEndID: a.payment.Name, Case: a.payment.Case.String(), Problem: problem, Sent: a.intended,
		Ended: time.Now(), Count: 1}
	if a.acked > 0 {
		failure.Record = fmt.Sprintf("%d/%d", a.records[0].partition, a.records[0].offset)
	}
	same := failure.Case + " " + audit.Form(problem)

	i, known := t.forms[same]
	switch {
	case known:
		first := &t.result.Failures[i]

		first.Count++
		if len(first.Also) < alsoMax {
			first.Also = append(first.Also, fmt.Sprintf("%q (record %s)", failure.EndToEndID, failure.Record))
		}
	case len(t.result.Failures) < failuresMax:
		t.forms[same] = len(t.result.Failures)
		t.result.Failures = append(t.result.Failures, failure)
	}
}

// giveUp counts every open payment as missing, in the order of sending: whatever went wrong
// began with the first.
func (t *tracker) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := slices.AppendSeq(slices.Collect(maps.Values(t.byID)), maps.Keys(t.nameless))
	slices.SortFunc(open, func(x, y *openPayment) int { return x.intended.Compare(y.intended) })

	for _, a := range open {
		if a.finished {
			continue // it was in the list under another of its ids, too
		}
		t.counts[a.payment.Case].Missing++
		t.fail(a, a.missing())
		t.finish(a)
	}
}

func (t *tracker) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// snapshot returns the progress, without what only the sender knows.
func (t *tracker) snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.result

	return Snapshot{Sent: r.Sent, Settled: r.Settled, Rejected: r.Rejected, DeadLetters: r.DeadLetters, Waiting: t.open,
		OnPurpose: t.patient, Failed: r.FailureCount}
}
