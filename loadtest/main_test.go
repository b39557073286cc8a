package main

import (
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// The tests run the real program: this test binary, started again.
func TestMain(m *testing.M) { kit.Main(m, main) }

func TestHelpFits(t *testing.T) {
	if texts := kit.HelpFits(t); texts < 7 {
		t.Errorf("there are only %d help texts", texts)
	}
}
