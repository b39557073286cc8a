package submission

import "github.com/liquida/liquida/platform/crash"

// The steps of a submission, in order, at which a producer under test can be told to die.
const (
	afterRequestRead  crash.Point = "after-request-read"
	afterPublished    crash.Point = "after-published"
	afterAcknowledged crash.Point = "after-acknowledged"
)

func parseCrash(value string, die func()) (*crash.Crash, error) {
	return crash.Parse("PRODUCER_CRASH_AT", value,
		[]crash.Point{afterRequestRead, afterPublished, afterAcknowledged}, die)
}
