package stack

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// cores are processors that a process may run on. Where they are asked for, nil means all.
type cores struct{ unix.CPUSet }

// allowed are the processors that this process had when it began.
var allowed = func() (all cores) {
	if err := unix.SchedGetaffinity(0, &all.CPUSet); err != nil {
		return cores{}
	}
	return all
}()

// splitCores takes the last processor for the ledger and leaves the others to all else. With
// fewer than two there is nothing to split.
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

// confineThread puts the calling thread, and what it starts, on processors.
func confineThread(to *cores) error { return confine(0, to) }

// confineProcess puts all threads of this process on processors. Threads to come are made
// by those that are there, and stay with them.
func confineProcess(to *cores) error {
	for range 2 { // one may begin during the first round
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				continue
			}
			if err := confine(id, to); err != nil && !errors.Is(err, unix.ESRCH) { // it may end meanwhile
				return err
			}
		}
	}
	return nil
}

// confine asks for nothing that is so already: where processors cannot be chosen, a stack
// that does not want to runs all the same.
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
