package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/kafka"
)

// Attached is a running stack that another program started. It reads the stack's state anew at each
// call, and sends signals only to a process whose pid and start time are those of the state.
type Attached struct {
	dir string

	mu    sync.Mutex
	ready map[string]string // by name: the run that was found ready
}

// Attach returns the stack whose folder is dir. It need not run yet.
func Attach(dir string) *Attached { return &Attached{dir: dir, ready: map[string]string{}} }

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
	Address     string // where it serves; empty for an engine
	Telemetry   string
	Instance    string        // an engine's name in its consumer group; empty: Name
	Run         string        // differs from that of any other run
	MemoryBytes int64         // resident
	CPU         time.Duration // of a processor, since its start
	IsEngine    bool
	Optional    bool     // the stack is ready without it
	Cuttable    bool     // see Attached.Cut
	Cut         []string // FromBroker, FromLedger
}

// StatusOf returns the status of the running stack in dir, or ErrNotRunning when none of its
// processes is left.
func StatusOf(ctx context.Context, dir string) ([]Status, error) { return Attach(dir).Status(ctx) }

// Status returns the processes in the order of starting, also those that have ended. It returns
// ErrNotRunning when none is left, and takes at most two seconds.
func (a *Attached) Status(ctx context.Context) ([]Status, error) {
	s, err := reopen(a.dir)
	if err != nil {
		return nil, err
	}
	defer s.launcher.close()
	all := make([]Status, len(s.processes))
	var asked sync.WaitGroup
	for i, p := range s.processes {
		asked.Go(func() { all[i] = a.status(ctx, p) })
	}
	cut := s.cuts(ctx)
	asked.Wait()
	full := diskProblem(s.config.Dir)
	for i := range all {
		of := &all[i]
		of.Cut, of.Cuttable = cut[of.Name], s.cuttable(of.Name)
		switch {
		case of.State == Dead && full != "" && of.Problem != "":
			of.Problem += "; " + full
		case of.State != Ready && of.State != Dead && len(of.Cut) > 0: // it cannot know why nobody answers
			of.State, of.Problem = NotReady, "its connections are cut (links): "+strings.Join(of.Cut, ", ")
		}
	}
	return all, nil
}

func (a *Attached) status(ctx context.Context, p *process) Status {
	r := p.current()
	status := Status{
		Name: p.spec.name, PID: r.pid, State: Dead, Address: p.spec.address, Telemetry: p.spec.telemetry,
		Run: fmt.Sprint(r.pid, " ", r.started), IsEngine: strings.HasPrefix(p.spec.name, "engine-"),
		Optional: p.spec.optional,
	}
	seen, err := look(r.pid)
	if err != nil || seen.started != r.started || seen.dying {
		status.Problem = howEnded(p.endPath)
		if strings.HasPrefix(status.Problem, exited) {
			status.Problem += p.lastWords()
		}
		return status
	}
	status.MemoryBytes, status.CPU = seen.memory, seen.cpu
	if seen.frozen {
		status.State, status.Problem = Frozen, "frozen (SIGSTOP)"
		return status
	}
	if a.wasReady(status, p) {
		status.State = Ready
		return status
	}
	why := p.ready(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case why == nil:
		status.State = Ready
		a.ready[status.Name] = status.Run
	case a.ready[status.Name] == status.Run, time.Since(r.began) > startsWithin:
		status.State, status.Problem = NotReady, why.Error()
	default:
		status.State, status.Problem = Starting, why.Error()
	}
	return status
}

// startsWithin is how long a process that is not ready starts. After that, or once it was ready, it has a problem.
const startsWithin = time.Minute

// diskMin is as much as a broker may write between two looks.
const diskMin = 64 << 20

// diskFree returns the bytes of the disk of a folder that are free. Tests fill it.
var diskFree = func(dir string) (uint64, error) {
	var disk syscall.Statfs_t
	err := syscall.Statfs(dir, &disk)
	return disk.Bavail * uint64(disk.Bsize), err
}

// diskProblem says that the disk of a folder is full, or nothing.
func diskProblem(dir string) string {
	free, err := diskFree(dir)
	if err != nil || free >= diskMin {
		return ""
	}
	return fmt.Sprintf("the disk of %s is full: %d MiB are free", dir, free>>20)
}

// wasReady reports whether this run was found ready and cannot tell more: the broker and the ledger
// serve no readiness, and a new connection each second would cost them something.
func (a *Attached) wasReady(status Status, p *process) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return p.spec.telemetry == "" && a.ready[status.Name] == status.Run
}

// Kill ends a process with SIGKILL and returns when it has ended.
func (a *Attached) Kill(ctx context.Context, name string) error { return a.act(ctx, actKill, name) }

// Freeze stops a process (SIGSTOP). Its connections stay open, and it answers nothing.
func (a *Attached) Freeze(ctx context.Context, name string) error {
	return a.act(ctx, actFreeze, name)
}

// Thaw continues a frozen process (SIGCONT).
func (a *Attached) Thaw(ctx context.Context, name string) error { return a.act(ctx, actThaw, name) }

// Start starts a process that has ended, as it was started before, and waits until it is ready.
func (a *Attached) Start(ctx context.Context, name string) error { return a.act(ctx, actStart, name) }

// AddEngine starts one more engine in a new instance, and waits until it is ready.
func (a *Attached) AddEngine(ctx context.Context) error { return a.act(ctx, actAddEngine, Engine) }

const (
	actKill      = "kill"
	actFreeze    = "freeze"
	actThaw      = "thaw"
	actStart     = "start"
	actAddEngine = "add-engine"
)

// act does one thing to a process. A foreground stack does it itself: see control.
func (a *Attached) act(ctx context.Context, act, name string) error {
	st, err := load(a.dir)
	if err != nil {
		return err
	}
	if st != nil && st.Control != (control{}) {
		return st.Control.ask(ctx, act, name)
	}
	if act == actStart || act == actAddEngine { // they change the state
		unlock, err := own(a.dir)
		if err != nil {
			return err
		}
		defer unlock()
	}
	s, err := reopen(a.dir)
	if err != nil {
		return err
	}
	defer s.launcher.close()
	return s.act(ctx, act, name)
}

func (s *Stack) act(ctx context.Context, act, name string) error {
	if name == Room {
		return errors.New("the room does not act on itself")
	}
	switch act {
	case actKill:
		return s.Kill(name)
	case actFreeze:
		return s.Pause(name)
	case actThaw:
		return s.Resume(name)
	case actStart:
		return s.startAgain(ctx, name)
	case actAddEngine:
		_, err := s.AddEngine(ctx)
		return err
	}
	return fmt.Errorf("the stack knows no act %q", act)
}

// startAgain starts a process that has ended, and waits until it is ready.
func (s *Stack) startAgain(ctx context.Context, name string) error {
	p, err := s.process(name)
	if err != nil {
		return err
	}
	if p.running() {
		return fmt.Errorf("%s is already running with pid %d", name, p.current().pid)
	}
	if s.config.Kafka == Apache && s.kafka == nil { // reopened
		if s.kafka, err = kafka.Locate(ctx, s.config.Progress); err != nil {
			return err
		}
		if p.spec, err = s.specify(name); err != nil {
			return err
		}
	}
	if err := s.add(name); err != nil {
		return err
	}
	return s.bring(ctx, name)
}
