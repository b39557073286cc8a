package main

import (
	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
)

// The steps of taking a payment, in order, at which a producer under test can be told to die.
const (
	afterRequestRead  crash.Point = "after-request-read"
	afterPublished    crash.Point = "after-published"
	afterAcknowledged crash.Point = "after-acknowledged"
)

func parseCrash(text string) (*crash.Crash, error) {
	return crash.Parse("PRODUCER_CRASH_AT", text, []crash.Point{afterRequestRead, afterPublished, afterAcknowledged}, host.System().Die)
}
