package bank

import "github.com/liquida/liquida/platform/crash"

// The steps of a response, in order, at which a simulator under test can be told to die.
const (
	afterFetch                crash.Point = "after-fetch"
	afterResponseProduced     crash.Point = "after-answer-produced"
	afterResponseAcknowledged crash.Point = "after-answer-acknowledged"
	afterCommit               crash.Point = "after-commit"
)

func parseCrash(value string, die func()) (*crash.Crash, error) {
	return crash.Parse("SIMULATOR_CRASH_AT", value,
		[]crash.Point{afterFetch, afterResponseProduced, afterResponseAcknowledged, afterCommit}, die)
}
