package audit

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
)

// The deadline begins at the earliest of three times: the acceptance, the first sight in an
// engine's process and, on redelivery, the ledger's time of leg 1. No engine sees an order
// before its record was written. So the deadline is never before the earlier of acceptance and
// record, plus the time that payments have; and never after the acceptance plus that time.

// clockSkewMax is how far an engine's clock may be from the ledger's.
const clockSkewMax = 2 * time.Second

// tooLateReason is of an order that was too old to end in time when the engine saw it. The engine
// must not refuse one that is younger than half of the deadline. After the deadline it says AB03,
// but of an order that came before it and that younger ones have overtaken.
const tooLateReason = "LQ10"

// tooLateMax is how long after the deadline a receipt may be written that was decided before it: a
// ledger that is away takes it when it is back.
const tooLateMax = 5 * time.Minute

// judgeAge returns what is wrong with LQ10 as the reason of a verdict, or nothing.
func (a *Auditor) judgeAge(verdict tb.Transfer, acceptedMs int64, wrong func(format string, arguments ...any)) {
	if reasonText(verdict.UserData32) != tooLateReason || a.clockWasWrong(acceptedMs, verdict.Timestamp) {
		return
	}
	age := time.Duration(int64(verdict.Timestamp) - acceptedMs*time.Millisecond.Nanoseconds())
	if shortest := a.shortest(acceptedMs, verdict.Timestamp); age < shortest/2-clockSkewMax {
		wrong("it says %s after %v, sooner than half of the deadline (%v)", tooLateReason, age, shortest)
	}
}

// judgeHold checks when the ledger itself ends a hold: after the deadline, and not much later.
func (a *Auditor) judgeHold(t tb.Transfer, wrong func(format string, arguments ...any)) {
	timeout := time.Duration(t.Timeout) * time.Second
	if least := a.shortest(math.MaxInt64, t.Timestamp) + holdBeyondDeadline; timeout < least || timeout > a.holdMax {
		wrong("the ledger ends it after %v, it must be %v to %v", timeout, least, a.holdMax)
	}
}

// holdBeyondDeadline is how long a hold lasts beyond the deadline at least: else a bank that
// answers in time would meet an expired hold.
const holdBeyondDeadline = 5 * time.Second

// ending is how an order ended, as far as the deadline is concerned.
type ending struct {
	id                endToEndID
	at                coordinates
	heldAt, decidedAt uint64 // by the ledger's clock; 0: not
	acceptedMs        int64
	sentMs            int64
	copies            int
	voided            bool
	silent, tooLate   bool // AB03, LQ10
}

func (a *Auditor) endings(yield func(ending)) {
	for i := range a.payments {
		p := &a.payments[i]
		yield(ending{p.id, p.first, p.heldAt, p.decidedAt, p.acceptedMs, p.sentMs, p.copies, p.voided != 0, p.verdict == silent, reasonText(p.verdict) == tooLateReason})
	}
	for _, g := range a.returns {
		yield(ending{g.id, g.first, g.heldAt, g.decidedAt, g.content.acceptedMs, g.sentMs, g.copies, g.voided != 0, g.verdict == silent, reasonText(g.verdict) == tooLateReason})
	}
}

// clockWasWrong reports whether an engine's clock was wrong while an order was open.
func (a *Auditor) clockWasWrong(fromMs int64, to uint64) bool {
	return overlaps(a.wrongClocks, fromMs, to)
}

// shortest returns the shortest deadline that an engine had while an order was open.
func (a *Auditor) shortest(fromMs int64, to uint64) time.Duration {
	if len(a.shortDeadlines) == 0 || overlaps(a.shortDeadlines, fromMs, to) {
		return a.deadlineMin
	}
	return a.deadline
}

// overlaps reports whether one of the times has a part of the time in which an order was open. It may
// have been accepted in the future, a little.
func overlaps(times []Interval, fromMs int64, to uint64) bool {
	return slices.ContainsFunc(times, func(i Interval) bool {
		return i.From.UnixNano() <= int64(to) && i.To.UnixMilli() >= min(fromMs, int64(to)/int64(time.Millisecond))
	})
}

// due is when a deadline after a Unix time is over, by the ledger's clock.
func due(ms int64, deadline time.Duration) int64 { return ms*int64(time.Millisecond) + int64(deadline) }

const (
	// onTimeMin is how many payments must have waited for their deadline, to say that none
	// ended on time. A fault may delay any of them, but hardly all.
	onTimeMin = 10
	// lateAfter is by how much later than its deadline a payment ended late.
	lateAfter = 2 * time.Second
	// standingAfter is how long an engine must have gone on beside a payment past its deadline. On a
	// machine that is far too slow, decisions queue for the ledger for some seconds.
	standingAfter = 8 * time.Second
)

// judgeDeadlines reports payments that were rejected before their deadline, and held after it.
func (a *Auditor) judgeDeadlines() {
	var late, overtaken []ending
	waited, onTime := 0, 0
	a.endings(func(e ending) {
		if e.decidedAt == 0 || a.clockWasWrong(e.acceptedMs, e.decidedAt) {
			return
		}
		latest := due(e.acceptedMs, a.deadline)
		if e.silent {
			if earliest := due(min(e.acceptedMs, e.sentMs), a.shortest(min(e.acceptedMs, e.sentMs), e.decidedAt)); int64(e.decidedAt) < earliest-int64(clockSkewMax) {
				a.add(WrongDeadline, e.id.String(), "rejected with %s %v before its deadline", reasonText(silent), time.Duration(earliest-int64(e.decidedAt)))
			}
		}
		if e.tooLate && int64(e.decidedAt) > latest+int64(tooLateMax) {
			// A copy may bear another acceptance, and have come before the deadline from there.
			if late := time.Duration(e.sentMs-e.acceptedMs) * time.Millisecond; e.copies == 1 && late >= a.deadline {
				a.add(WrongReason, e.id.String(), "%v is refused with %s, although it came %v after its acceptance", e.at, tooLateReason, late)
			} else {
				overtaken = append(overtaken, e)
			}
		}
		if e.heldAt == 0 {
			return
		}
		if e.silent && e.voided && int64(e.heldAt) < latest-int64(a.deadline)/2 {
			waited++
			if int64(e.decidedAt) < latest+int64(lateAfter) {
				onTime++
			}
		}
		if from := max(latest, int64(e.heldAt)); int64(e.decidedAt) > from+2*int64(standingAfter) {
			late = append(late, e)
		}
	})
	a.summary.Waited, a.summary.WaitedOnTime = waited, onTime
	if waited >= onTimeMin && onTime == 0 {
		a.add(WrongDeadline, "all payments", "%d waited for their deadline (%v), and every one ended more than %v after it", waited, a.deadline, lateAfter)
	}
	a.judgeStanding(late)
	a.judgeOvertaken(overtaken)
}

// judgeOvertaken reports orders that were too late for no reason: long after the deadline that is
// said only of an order that another one behind it in its partition has overtaken.
func (a *Auditor) judgeOvertaken(late []ending) {
	if len(late) == 0 {
		return
	}
	isLate := map[endToEndID]bool{}
	for _, e := range late {
		isLate[e.id] = true
	}
	for _, all := range a.decided() {
		for highest, i := int64(-1), 0; i < len(all); i++ {
			if e := all[i]; highest < e.at.offset && isLate[e.id] {
				a.add(WrongReason, e.id.String(), "%v is refused with %s %v after its deadline, although none behind it was decided before", e.at, tooLateReason, time.Duration(int64(e.decidedAt)-due(e.acceptedMs, a.deadline)))
			}
			highest = max(highest, all[i].at.offset)
		}
	}
}

// decided returns what has a verdict, of each partition in the order of the verdicts.
func (a *Auditor) decided() map[int32][]ending {
	byPartition := map[int32][]ending{}
	a.endings(func(e ending) {
		if e.decidedAt != 0 {
			byPartition[e.at.partition] = append(byPartition[e.at.partition], e)
		}
	})
	for _, all := range byPartition {
		slices.SortFunc(all, func(x, y ending) int { return cmp.Compare(x.decidedAt, y.decidedAt) })
	}
	return byPartition
}

// judgeStanding reports payments that were held past their deadline while their engine decided
// others, behind them in the same partition: an engine looks at all deadlines it knows, and
// one that takes over reads the older record first.
func (a *Auditor) judgeStanding(late []ending) {
	if len(late) == 0 {
		return
	}
	byPartition := a.decided()
	for _, e := range late {
		all := byPartition[e.at.partition]
		from := uint64(max(due(e.acceptedMs, a.deadline), int64(e.heldAt)) + int64(standingAfter))
		for i := sort.Search(len(all), func(i int) bool { return all[i].decidedAt >= from }); i < len(all) && all[i].decidedAt+uint64(standingAfter) < e.decidedAt; i++ {
			if all[i].at.offset > e.at.offset {
				a.add(WrongDeadline, e.id.String(), "%v was decided %v after its deadline, although %s, behind it, was decided %v before that",
					e.at, time.Duration(int64(e.decidedAt)-due(e.acceptedMs, a.deadline)), all[i].id, time.Duration(e.decidedAt-all[i].decidedAt))
				break
			}
		}
	}
}
