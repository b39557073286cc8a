package stack

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// cores are the processors that a process may run on; nil means all.
type cores struct{ unix.CPUSet }

// allowed are the processors that this process had when it began.
var allowed = func() (all cores) {
	if err := unix.SchedGetaffinity(0, &all.CPUSet); err != nil {
		return cores{}
	}
	return all
}()

// splitCores returns the last processor for the ledger and the others for everything else, or
// nil for both when there is only one.
func splitCores() (ledger, others *cores) {
	if allowed.Count() < 2 {
		return nil, nil
	}
	last := 0
	for core, left := 0, allowed.Count(); left > 0; core++ {
		if allowed.IsSet(core) {
			last = core
			left--
		}
	}
	ledger, others = &cores{}, &cores{allowed.CPUSet}
	ledger.Set(last)
	others.Clear(last)
	return ledger, others
}

// confineThread limits the calling thread, and what it starts, to processors.
func confineThread(to *cores) error { return confine(0, to) }

// confineProcess limits all threads of this process to processors. New threads inherit the limit.
func confineProcess(to *cores) error {
	for range 2 { // a thread may start during the first round
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				continue
			}
			if err := confine(id, to); err != nil && !errors.Is(err, unix.ESRCH) { // the thread may have ended
				return err
			}
		}
	}
	return nil
}

// confine changes nothing if the limit is already so. Then a stack that needs no limit also runs
// where the system does not allow one.
func confine(thread int, to *cores) error {
	if to == nil {
		to = &allowed
	}
	var now unix.CPUSet
	if to.Count() == 0 || unix.SchedGetaffinity(thread, &now) == nil && now == to.CPUSet {
		return nil
	}
	return unix.SchedSetaffinity(thread, &to.CPUSet)
}
