package main

import (
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// The tests run the real program: this test binary, started again.
func TestMain(m *testing.M) { kit.Main(m, main) }

func TestOutsideTheRepository(t *testing.T) {
	t.Chdir(t.TempDir())
	kit.Run(t, nil, "status", "--dir", ".").Is(t, 3, "the stack is not running")
	kit.Run(t, nil, "status").Is(t, 1, "no go.work at or above", "with --dir")
	kit.Run(t, nil, "up", "--dir", ".").Is(t, 1, "no go.work at or above")
	kit.Run(t, nil, "up", "--dir", ".", "--no-build", "--env", "enginee:A=b").Is(t, 2,
		`--env names the process "enginee"`)
}

func TestHelpFits(t *testing.T) {
	if texts := kit.HelpFits(t); texts < 5 {
		t.Errorf("there are only %d help texts", texts)
	}
}
