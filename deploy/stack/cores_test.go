package stack

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/liquida/liquida/platform/kit"
)

func TestTheLedgerHasAProcessorOfItsOwn(t *testing.T) {
	if len(allowed) < 2 {
		t.Skip("there is one processor")
	}
	t.Cleanup(func() { kit.Must(t, confineThisProcess("")) })
	of := func(pid int) unix.CPUSet {
		t.Helper()
		var set unix.CPUSet
		kit.Must(t, unix.SchedGetaffinity(pid, &set))

		return set
	}
	config := standIns(t)
	config.LedgerCore = true
	s := started(t, config)

	ledger := of(s.PID(TigerBeetle))
	if ledger.Count() != 1 {
		t.Errorf("the ledger has %d processors", ledger.Count())
	}

	for _, name := range append(s.Names(), "this process") {
		set := of(s.PID(name)) // 0: this thread
		for core := range len(allowed) {
			if name != TigerBeetle && set.IsSet(core) == ledger.IsSet(core) {
				t.Errorf("%s and the ledger share processor %d, or both leave it", name, core)
			}
		}
	}
}
