package stack

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// State is what a process does.
type State string

// The states of a process.
const (
	Ready    State = "ready"
	Starting State = "starting"
	NotReady State = "not ready" // it has a problem
	Frozen   State = "frozen"
	Dead     State = "dead"
)

// Status is one process of a running stack.
type Status struct {
	Name        string
	PID         int
	State       State
	Problem     string // why it is not ready; empty when it is
	Address     string // where it serves; of the control room its URL, with the token; empty for an engine
	Telemetry   string
	MemoryBytes int64    // resident
	Optional    bool     // the stack is ready without it
	Cuttable    bool     // see ActCut
	Cut         []string // FromBroker, FromLedger
}

// startsWithin is how long a process that is not ready starts: a ledger reads a gigabyte first. After that, or once it
// was ready, it has a problem.
const startsWithin = 3 * time.Minute

// status returns the processes in the order of starting.
func (s *Stack) status(ctx context.Context) (all []Status, err error) {
	if !s.anyRuns() {
		return nil, ErrNotRunning
	}
	processes := s.all()
	all = make([]Status, len(processes))

	var asked sync.WaitGroup
	for i, p := range processes {
		asked.Go(func() { all[i] = p.status(ctx) })
	}
	asked.Wait()

	kept := all[:0]
	for i, status := range all {
		if processes[i].program().oneShot {
			continue
		}

		status.Cut = s.isCutFrom(status.Name)
		status.Cuttable = s.config().Cuts && cuttable(status.Name, "")

		if status.State != Ready && status.State != Dead && len(status.Cut) > 0 { // it cannot know why nobody answers
			status.State, status.Problem = NotReady, "its connections are cut (links): "+strings.Join(status.Cut, ", ")
		}

		if status.Name == Room {
			url, err := s.RoomURL()
			if err == nil {
				status.Address = url
			} else if status.Problem == "" { // its token is made when it first starts
				status.Problem = err.Error()
			}
		}
		kept = append(kept, status)
	}

	return kept, nil
}

func (p *process) status(ctx context.Context) Status {
	r, program := p.current(), p.program()

	status := Status{
		Name: p.name, State: Dead, Problem: "not started", Address: program.address, Telemetry: program.telemetry,
		Optional: program.optional,
	}
	if r == nil {
		return status
	}

	status.PID = r.Pid
	if r.dead() {
		status.Problem = r.howEnded()
		if r.How.Exited() {
			status.Problem += "; it said last: " + strings.TrimSpace(p.logEnd(1))
		}

		return status
	}
	seen := look(r.Pid)

	status.MemoryBytes = seen.memory
	if seen.frozen {
		status.State, status.Problem = Frozen, "frozen (SIGSTOP)"
		return status
	}
	wasReady := r.wasReady.Load()
	// Broker and ledger serve no readiness, and a new connection each second would cost them something.
	var why error
	if !wasReady || program.telemetry != "" {
		why = p.ready(ctx)
	}

	switch {
	case why == nil:
		status.State, status.Problem = Ready, ""
	case wasReady, time.Since(r.began) > startsWithin:
		status.State, status.Problem = NotReady, why.Error()
	default:
		status.State, status.Problem = Starting, why.Error()
	}

	return status
}

// sight is what the kernel shows of a process.
type sight struct {
	dying  bool // it runs no more of its program, but may still hold its memory, ports and files
	frozen bool
	memory int64 // bytes, resident
}

// look returns what the kernel shows of a process. One that it does not show has just ended.
func look(pid int) sight {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return sight{dying: true}
	}
	// pid (name) state …: the name may hold spaces and parentheses. proc(5) has the fields.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 29 {
		return sight{}
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(fields[field], 10, 64) // the kernel writes nothing else
		return n
	}
	const (
		exiting  = 0x4          // the kernel's PF_EXITING
		killSent = 1 << (9 - 1) // SIGKILL among the pending signals
	)

	return sight{
		dying:  fields[0] == "Z" || fields[0] == "X" || number(6)&exiting != 0 || number(28)&killSent != 0,
		frozen: fields[0] == "T",
		memory: number(21) * int64(os.Getpagesize()),
	}
}
