package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// ErrNotRunning says that no background stack runs.
var ErrNotRunning = errors.New("the stack is not running")

// state is what one call of a background stack leaves for the next, as JSON in the stack's folder.
type state struct {
	Ports     Ports             `json:"ports"`
	Kafka     string            `json:"kafka"`
	Secured   bool              `json:"kafka_locks"`
	Replicas  int               `json:"replicas"`
	Addresses map[string]string `json:"addresses"` // by role
	Processes []record          `json:"processes"` // in the order of starting
}

// record identifies a process. A later process may get the same pid, but not the same start time.
type record struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	Started string    `json:"started"`
	Began   time.Time `json:"began"`
	LogFrom int64     `json:"log_from"`
}

func (r record) alive() bool { return alive(r.PID, r.Started) }

func (st *state) anyAlive() bool { return st != nil && slices.ContainsFunc(st.Processes, record.alive) }

func (st *state) addresses() *addresses {
	a := newAddresses(st.Ports)
	for role, address := range st.Addresses {
		a.given[role] = address
	}
	return a
}

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }

// load reads the state. It returns nil if there is none.
func load(dir string) (*state, error) {
	text, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	st := &state{}
	if err := json.Unmarshal(text, st); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w; end the stack's processes by hand, then remove the file", stateFile(dir), err)
	}
	return st, nil
}

// save writes the state, whole or not at all, and removes it when nothing runs.
func (s *Stack) save() error {
	s.mu.Lock()
	st := state{Ports: s.addresses.ports, Kafka: s.config.Kafka, Secured: s.config.KafkaSecured, Replicas: s.config.Replicas, Addresses: map[string]string{}}
	for _, p := range s.processes {
		if r := p.current(); r != nil && !r.dead() && !p.spec.oneShot {
			st.Processes = append(st.Processes, record{p.spec.name, r.pid, r.started, r.began, r.logFrom})
		}
	}
	s.mu.Unlock()
	s.addresses.mu.Lock()
	for role, address := range s.addresses.given {
		st.Addresses[role] = address
	}
	s.addresses.mu.Unlock()
	path := stateFile(s.config.Dir)
	if len(st.Processes) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// own locks the stack's folder until unlock or the end of this process, so that only one
// stack runs in it, and only one call changes it at a time.
func own(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("the stack in %s is in use by another process (%w): wait for it or stop it", dir, err)
	}
	return func() { lock.Close() }, nil
}

// adopt takes over the processes of an earlier call of Up that still run.
func (s *Stack) adopt(before *state) error {
	if before == nil {
		return nil
	}
	for _, r := range before.Processes {
		if !r.alive() {
			continue
		}
		spec, err := s.specify(r.Name)
		if err != nil {
			return err
		}
		handle, err := os.FindProcess(r.PID)
		if err != nil {
			return err
		}
		s.processes = append(s.processes, &process{spec: spec, logPath: s.Log(r.Name), run: &run{
			pid: r.PID, started: r.Started, began: r.Began, logFrom: r.LogFrom, adopted: true, handle: handle,
		}})
	}
	return nil
}

// Up starts a stack that outlives the caller, and returns when every process is ready. It starts
// only what is missing, and on an error stops what it started. In the background nothing
// restarts a crashed process: call Up again.
func Up(ctx context.Context, config Config) error {
	config, err := config.withDefaults()
	if err != nil {
		return err
	}
	unlock, err := own(config.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	before, err := load(config.Dir)
	if err != nil {
		return err
	}
	if !before.anyAlive() { // its ports may have been taken since
		before = &state{Ports: config.Ports}
	} else if has := (kafkaKind{before.Kafka, before.Secured}); has != config.kafkaKind() || before.Replicas != config.Replicas {
		return fmt.Errorf("the running stack has %s and %v: bring it up as that, or stop it first (down)", describeLedger(before.Replicas), has)
	}
	s, err := start(ctx, config, before)
	if err != nil {
		return err
	}
	s.launcher.close()
	return nil
}

// reopen returns the background stack in dir, for looking at it and for stopping it.
func reopen(dir string) (*Stack, *state, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	st, err := load(dir)
	if err != nil {
		return nil, nil, err
	}
	if !st.anyAlive() {
		return nil, nil, ErrNotRunning
	}
	config, err := (&Config{Dir: dir, BinDir: dir, Kafka: st.Kafka, KafkaSecured: st.Secured, Replicas: st.Replicas}).withDefaults()
	if err != nil {
		return nil, nil, err
	}
	s := &Stack{config: config, addresses: st.addresses(), launcher: newLauncher(), detached: true, stopping: make(chan struct{})}
	s.launcher.close() // nothing is started
	return s, st, s.adopt(st)
}

// Down stops the background stack in dir in the reverse order of starting. Its data stays.
// It returns ErrNotRunning when there is nothing to stop.
func Down(ctx context.Context, dir string) error {
	unlock, err := own(dir)
	if err != nil {
		return err
	}
	defer unlock()
	s, _, err := reopen(dir)
	if err != nil {
		return err
	}
	return s.Stop(ctx)
}

// Status is one process of a background stack.
type Status struct {
	Name      string
	PID       int
	Problem   string // why it is not ready; empty when it is
	Address   string // where it serves; empty for an engine
	Telemetry string
}

// StatusOf returns the status of the background stack in dir, or ErrNotRunning when none of its
// processes is left.
func StatusOf(ctx context.Context, dir string) ([]Status, error) {
	s, st, err := reopen(dir)
	if err != nil {
		return nil, err
	}
	var all []Status
	for _, r := range st.Processes {
		status := Status{Name: r.Name, PID: r.PID, Problem: "not running; see " + s.Log(r.Name)}
		if p, err := s.process(r.Name); err == nil {
			status.Address, status.Telemetry, status.Problem = p.spec.address, p.spec.telemetry, ""
			if why := p.ready(ctx); why != nil {
				status.Problem = why.Error()
			}
		}
		all = append(all, status)
	}
	return all, nil
}

// Clean removes the data and the logs of the stack in dir. It returns an error while the stack runs.
func Clean(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := own(dir)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := load(dir)
	if err != nil {
		return err
	}
	if st.anyAlive() {
		return fmt.Errorf("the stack in %s is running: stop it first (down), its data would be removed under it", dir)
	}
	// By name, so that a wrong folder loses nothing else.
	for _, name := range []string{"data", "logs", "keys", "key-digests", "answer-keys", "kafka-keys", "state.json", "state.json.new", "lock"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	_ = os.Remove(dir) // if nothing else is in it
	return nil
}
