package room

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
)

// Processes are those of a clearing house: stack.Attached.
type Processes interface {
	Status(ctx context.Context) ([]stack.Status, error)
	Kill(ctx context.Context, name string) error
	Freeze(ctx context.Context, name string) error
	Thaw(ctx context.Context, name string) error
	Start(ctx context.Context, name string) error
	AddEngine(ctx context.Context) error
	Cut(ctx context.Context, name, peer string) error
	Mend(ctx context.Context, name, peer string) error
}

// machine knows the processes of the stack.
type machine struct {
	stack Processes // nil: none
	admin *kadm.Client

	mu         sync.Mutex
	cpu        map[string]usage     // by run
	partitions map[string][]int32   // by instance
	lookedAt   time.Time            // at the group
	restarts   map[string]time.Time // what a button killed, and when it starts again
	processes  []process
}

type usage struct {
	at  time.Time
	cpu time.Duration
}

// process is one of the stack's, and what only the room uses.
type process struct {
	Process
	instance  string // an engine's name in its group
	telemetry string
	cuttable  bool
}

func newMachine(attached Processes, admin *kadm.Client) *machine {
	return &machine{stack: attached, admin: admin, cpu: map[string]usage{}, partitions: map[string][]int32{},
		restarts: map[string]time.Time{}}
}

// look returns the processes as they are now.
func (m *machine) look(ctx context.Context) []process {
	if m.stack == nil {
		return nil
	}

	asked := time.Now()

	all, err := m.stack.Status(ctx)
	if err != nil && !errors.Is(err, stack.ErrNotRunning) {
		return m.last()
	}
	m.lookAtGroup(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	cpu := map[string]usage{}
	m.processes = nil

	for _, status := range all {
		p := process{Process{
			Name: status.Name, PID: status.PID, State: string(status.State), Why: status.Problem,
			MemoryBytes: status.MemoryBytes,
			Cut:         status.Cut,
		}, status.Name, status.Telemetry, status.Cuttable}

		cpu[status.Run] = usage{now, status.CPU}
		if before, known := m.cpu[status.Run]; known && now.After(before.at) {
			p.CPU = (status.CPU - before.cpu).Seconds() / now.Sub(before.at).Seconds()
		}

		if status.State == stack.Ready {
			p.Partitions = m.partitions[p.instance]
		}

		if at, waits := m.restarts[status.Name]; waits {
			switch {
			case status.State == stack.Dead:
				left := max(0, at.Sub(now).Seconds())
				p.RestartsInSeconds = &left
			case asked.After(at.Add(-restartAfter)): // a state of before the kill says nothing
				delete(m.restarts, status.Name)
			}
		}
		m.processes = append(m.processes, p)
	}
	m.cpu = cpu

	return slices.Clone(m.processes)
}

func (m *machine) last() []process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.processes)
}

// lookAtGroup reads which engine has which partitions.
func (m *machine) lookAtGroup(ctx context.Context) {
	if time.Since(m.lookedAt) < membersMost {
		return
	}
	m.lookedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()

	partitions, err := load.PartitionsOfEngines(ctx, m.admin)
	if err != nil {
		return // what is known is shown, until the broker answers
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partitions = partitions
}

// of returns the partitions of an engine; nil for another process, or if they are not known.
func (m *machine) of(p process) []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partitions[p.instance]
}

// restartAfter is how long what a button killed stays dead.
const restartAfter = 5 * time.Second

// restartSoon makes the room start a process again, unless somebody leaves it dead.
func (m *machine) restartSoon(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restarts[name] = time.Now().Add(restartAfter)
}

// leaveDead reports whether the process would have been started again.
func (m *machine) leaveDead(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, waits := m.restarts[name]
	delete(m.restarts, name)

	return waits
}

// due returns, once, the processes whose time to start again has come.
func (m *machine) due(now time.Time) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for name, at := range m.restarts {
		if !now.Before(at) {
			names = append(names, name)
			delete(m.restarts, name)
		}
	}

	return names
}

// find returns a process of the last look.
func (m *machine) find(name string) (p process, known bool) {
	all := m.last()

	i := slices.IndexFunc(all, func(p process) bool { return p.Name == name })
	if i < 0 {
		return p, false
	}

	return all[i], true
}

// shown adds the acts that are possible now.
func (m *machine) shown(p process, mayAct bool) Process {
	shown := p.Process

	shown.Acts = []string{}
	if !mayAct || p.Name == stack.Room || p.Name == stack.Bootstrap {
		return shown
	}

	switch stack.State(p.State) {
	case stack.Ready, stack.Starting, stack.NotReady:
		shown.Acts = append(shown.Acts, actKill, actFreeze)
	case stack.Frozen:
		shown.Acts = append(shown.Acts, actKill, actThaw)
	case stack.Dead:
		shown.Acts = append(shown.Acts, actRestart)
		if p.RestartsInSeconds != nil {
			shown.Acts = append(shown.Acts, actLeaveDead)
		}
	}

	if p.cuttable {
		if len(p.Cut) < 2 {
			shown.Acts = append(shown.Acts, actCut)
		}

		if len(p.Cut) > 0 {
			shown.Acts = append(shown.Acts, actMend)
		}
	}

	return shown
}
