package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// crashPoint names a step of a payment at which an engine under test can be told to die.
type crashPoint uint8

// The steps, in the order of a payment.
const (
	afterFetch crashPoint = iota
	afterPhase1Sent
	afterPhase1Answered
	afterRequestProduced
	afterResponseRead
	afterPhase2Sent
	afterPhase2Answered
	afterReportProduced
	afterReportAcknowledged
	afterOffsetMarked
	afterCommit
	crashPoints
)

// CrashPoints lists the names for ENGINE_CRASH_AT, in the order of a payment.
var CrashPoints = [crashPoints]string{
	"after-fetch", "after-phase-1-sent", "after-phase-1-answered", "after-request-produced", "after-response-read",
	"after-phase-2-sent", "after-phase-2-answered", "after-report-produced", "after-report-acknowledged",
	"after-offset-marked", "after-commit",
}

// crash kills the process when the n-th payment passes a point. A nil crash, as in
// production, does nothing and costs a comparison.
type crash struct {
	point  crashPoint
	n      int64
	passed atomic.Int64
}

// parseCrash reads POINT:N; nothing is no crash.
func parseCrash(text string) (*crash, error) {
	if text == "" {
		return nil, nil
	}
	name, number, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("ENGINE_CRASH_AT is %q: it must be POINT:N with N from 1 on", text)
	}
	for point, known := range CrashPoints {
		if known == name {
			return &crash{point: crashPoint(point), n: n}, nil
		}
	}
	return nil, fmt.Errorf("ENGINE_CRASH_AT is %q: POINT must be one of %s", text, strings.Join(CrashPoints[:], ", "))
}

// pass counts a payment at a point and dies there if it is the one.
func (c *crash) pass(point crashPoint) {
	if c == nil || c.point != point || c.passed.Add(1) != c.n {
		return
	}
	if point == afterPhase1Sent || point == afterPhase2Sent {
		// The chain has just joined the writer's queue. A moment later it is on its way to
		// the ledger, or there, and its answer is not here yet.
		time.AfterFunc(crashSendDelay, die)
		return
	}
	die()
}

const crashSendDelay = time.Millisecond

// die is a death without any last word, like a power cut: no deferred call, no flush.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
