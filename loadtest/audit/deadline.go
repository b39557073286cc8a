package audit

import (
	"math"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// The deadline begins at the earliest of three times: the acceptance, the first sight in an
// engine's process and, on redelivery, the ledger's time of leg 1. No engine sees an order
// before its record was written. So the deadline is never before the earlier of acceptance and
// record, plus the time that payments have; and never after the acceptance plus that time.

// clockSkewMax is how far an engine's clock may be from the ledger's.
const clockSkewMax = 2 * time.Second

// tooLateReason is of an order that was too old to end in time when the engine saw it. The engine
// must not refuse one that is younger than half of the deadline.
const tooLateReason = "LQ10"

// judgeAge returns what is wrong with LQ10 as the reason of a verdict, or nothing.
func (j *Judge) judgeAge(verdict tb.Transfer, acceptedMs int64, wrong blame) {
	if spec.ReasonText(verdict.UserData32) != tooLateReason || j.clockWasWrong(acceptedMs, verdict.Timestamp) {
		return
	}

	age := time.Duration(int64(verdict.Timestamp) - acceptedMs*time.Millisecond.Nanoseconds())
	if shortest := j.shortest(acceptedMs, verdict.Timestamp); age < shortest/2-clockSkewMax {
		wrong("it says %s after %v, sooner than half of the deadline (%v)", tooLateReason, age, shortest)
	}
}

// judgeHold checks when the ledger itself ends a hold: after the deadline, and not much later.
func (j *Judge) judgeHold(t tb.Transfer, wrong blame) {
	timeout := time.Duration(t.Timeout) * time.Second
	if least := j.shortest(math.MaxInt64, t.Timestamp) + holdBeyondDeadline; timeout < least ||
		timeout > j.config.HoldMax {
		wrong("the ledger ends it after %v, it must be %v to %v", timeout, least, j.config.HoldMax)
	}
}

// holdBeyondDeadline is how long a hold lasts beyond the deadline at least: else a bank that
// answers in time would meet an expired hold.
const holdBeyondDeadline = 5 * time.Second

// clockWasWrong reports whether an engine's clock was wrong while an order was open.
func (j *Judge) clockWasWrong(fromMs int64, to uint64) bool {
	return overlaps(j.config.WrongClocks, fromMs, to)
}

// shortest returns the shortest deadline that an engine had while an order was open.
func (j *Judge) shortest(fromMs int64, to uint64) time.Duration {
	if len(j.config.ShortDeadlines) == 0 || overlaps(j.config.ShortDeadlines, fromMs, to) {
		return j.config.DeadlineMin
	}

	return j.config.Deadline
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
)

// judgeDeadlines reports payments that were rejected before their deadline, and if all were held after it.
func (j *Judge) judgeDeadlines() {
	waited, onTime := 0, 0

	for _, e := range j.all {
		if e.decidedAt == 0 || e.again || j.clockWasWrong(e.AcceptedMs, e.decidedAt) {
			continue
		}

		latest := due(e.AcceptedMs, j.config.Deadline)
		if e.verdict == silent || e.verdict == pastDeadline {
			if earliest := due(min(e.AcceptedMs, e.sentMs),
				j.shortest(min(e.AcceptedMs, e.sentMs), e.decidedAt)); int64(e.decidedAt) < earliest-int64(
				clockSkewMax) {
				j.add(WrongDeadline, e.ID.String(), "rejected with %s %v before its deadline",
					spec.ReasonText(e.verdict), time.Duration(earliest-int64(e.decidedAt)))
			}
		}

		if e.heldAt == 0 {
			continue
		}

		if e.verdict == silent && e.voided != 0 && int64(e.heldAt) < latest-int64(j.config.Deadline)/2 {
			waited++

			if int64(e.decidedAt) < latest+int64(lateAfter) {
				onTime++
			}
		}
	}

	if waited >= onTimeMin && onTime == 0 {
		j.add(WrongDeadline, "all payments",
			"%d waited for their deadline (%v), and every one ended more than %v after it", waited,
			j.config.Deadline, lateAfter)
	}
}
