package stack

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// allowed are the processors that this process had when it began.
var allowed = func() (cores []string) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil
	}

	for core := 0; len(cores) < set.Count(); core++ {
		if set.IsSet(core) {
			cores = append(cores, strconv.Itoa(core))
		}
	}

	return cores
}()

// cores returns the processors of the ledger, and those of all else, as taskset names them. With Config.LedgerCore the
// ledger has the last one for itself.
func (s *Stack) cores() (ledger, others string) {
	all, last := strings.Join(allowed, ","), len(allowed)-1
	if !s.config().LedgerCore || last < 1 {
		return all, all
	}

	return allowed[last], strings.Join(allowed[:last], ",")
}

// confined is what confineThisProcess has set.
var confined = struct {
	sync.Mutex
	to string
}{to: strings.Join(allowed, ",")}

// confineThisProcess limits all threads of this process to processors: its load shares them with the stack. New
// threads inherit the limit, and so do the programs that it starts. A stack that needs no limit also runs where the
// system does not allow one.
func confineThisProcess(to string) error {
	confined.Lock()
	defer confined.Unlock()

	if to == confined.to {
		return nil
	}

	for range 2 { // a thread may start during the first round
		if said, err := exec.Command("taskset", "-a", "-c", "-p", to,
			strconv.Itoa(os.Getpid())).CombinedOutput(); err != nil {
			return fmt.Errorf("taskset: %w: %s", err, said)
		}
	}
	confined.to = to

	return nil
}
