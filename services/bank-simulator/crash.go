package main

import (
	"github.com/liquida/liquida/platform/crash"
	"github.com/liquida/liquida/platform/host"
)

// The steps of an answer, in order, at which a simulator under test can be told to die.
const (
	afterFetch              crash.Point = "after-fetch"
	afterAnswerProduced     crash.Point = "after-answer-produced"
	afterAnswerAcknowledged crash.Point = "after-answer-acknowledged"
	afterCommit             crash.Point = "after-commit"
)

func parseCrash(text string) (*crash.Crash, error) {
	return crash.Parse("SIMULATOR_CRASH_AT", text, []crash.Point{afterFetch, afterAnswerProduced, afterAnswerAcknowledged, afterCommit}, host.System().Die)
}
