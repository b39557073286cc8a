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
	Act(ctx context.Context, act, name, peer string) error
}

// machine knows the processes of the stack.
type machine struct {
	stack Processes // nil: none
	admin *kadm.Client

	mu         sync.Mutex
	partitions map[string][]int32 // by instance
	lookedAt   time.Time          // at the group
	processes  []Process
}

func newMachine(attached Processes, admin *kadm.Client) *machine {
	return &machine{stack: attached, admin: admin, partitions: map[string][]int32{}}
}

// look returns the processes as they are now.
func (m *machine) look(ctx context.Context) []Process {
	if m.stack == nil {
		return nil
	}

	all, err := m.stack.Status(ctx)
	if err == nil || errors.Is(err, stack.ErrNotRunning) {
		m.lookAtGroup(ctx)
		m.set(all)
	}

	return m.last()
}

// set takes what the stack said of its processes.
func (m *machine) set(all []stack.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.processes = nil

	for _, status := range all {
		p := Process{
			Name: status.Name, PID: status.PID, State: string(status.State), Why: status.Problem,
			MemoryBytes: status.MemoryBytes, Cut: status.Cut,
		}
		if status.State == stack.Ready { // a dead one keeps its place in the group for a while
			p.Partitions = m.partitions[status.Name]
		}

		p.Acts = actsOn(p, status.Cuttable)
		m.processes = append(m.processes, p)
	}
}

func (m *machine) last() []Process {
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

// lives reports whether a process is there now. The last look may be of before a kill.
func (m *machine) lives(ctx context.Context, name string) bool {
	all, err := m.stack.Status(ctx)

	return err == nil && slices.ContainsFunc(all, func(s stack.Status) bool {
		return s.Name == name && s.State != stack.Dead
	})
}

// find returns a process of the last look.
func (m *machine) find(name string) (p Process, known bool) {
	all := m.last()

	i := slices.IndexFunc(all, func(p Process) bool { return p.Name == name })
	if i < 0 {
		return p, false
	}

	return all[i], true
}

// actsOn returns the acts that are possible now.
func actsOn(p Process, cuttable bool) []string {
	acts := []string{}
	if p.Name == stack.Room || p.Name == stack.Bootstrap {
		return acts
	}

	switch stack.State(p.State) {
	case stack.Ready, stack.Starting, stack.NotReady:
		acts = append(acts, stack.ActKill, stack.ActFreeze)
	case stack.Frozen:
		acts = append(acts, stack.ActKill, stack.ActThaw)
	case stack.Dead:
		acts = append(acts, actRestart)
	}

	if cuttable && len(p.Cut) < 2 {
		acts = append(acts, stack.ActCut)
	}

	if cuttable && len(p.Cut) > 0 {
		acts = append(acts, stack.ActMend)
	}

	return acts
}
