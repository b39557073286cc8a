package engine

import "github.com/liquida/liquida/platform/crash"

// The steps of a payment, in order, at which a test can make the engine die.
const (
	afterFetch              crash.Point = "after-fetch"
	afterPhase1Sent         crash.Point = "after-phase-1-sent"
	afterPhase1Answered     crash.Point = "after-phase-1-answered"
	afterRequestProduced    crash.Point = "after-request-produced"
	afterResponseRead       crash.Point = "after-response-read"
	afterPhase2Sent         crash.Point = "after-phase-2-sent"
	afterPhase2Answered     crash.Point = "after-phase-2-answered"
	afterReportProduced     crash.Point = "after-report-produced"
	afterReportAcknowledged crash.Point = "after-report-acknowledged"
	afterOffsetMarked       crash.Point = "after-offset-marked"
	afterCommit             crash.Point = "after-commit"
)

func parseCrash(value string, die func()) (*crash.Crash, error) {
	return crash.Parse("ENGINE_CRASH_AT", value, []crash.Point{
		afterFetch, afterPhase1Sent, afterPhase1Answered, afterRequestProduced, afterResponseRead, afterPhase2Sent,
		afterPhase2Answered, afterReportProduced, afterReportAcknowledged, afterOffsetMarked, afterCommit,
	}, die)
}
