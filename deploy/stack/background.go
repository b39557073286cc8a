package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrNotRunning says that no background stack runs.
var ErrNotRunning = errors.New("the stack is not running")

// state is what one call of a background stack leaves for the next, as JSON in the stack's folder.
// A room reads it, too.
type state struct {
	Config    Config            `json:"config"`
	Control   control           `json:"control,omitzero"` // of a foreground stack
	Addresses map[string]string `json:"addresses"`        // by role
	Processes []record          `json:"processes"`        // in the order of starting
}

// record identifies a process. A later process may get the same pid, but not the same start time.
type record struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	Started string    `json:"started"`
	Began   time.Time `json:"began"`
	LogFrom int64     `json:"log_from"`
	Env     []string  `json:"env"`
}

func (r record) alive() bool { return alive(r.PID, r.Started) }

func (st *state) anyAlive() bool { return st != nil && slices.ContainsFunc(st.Processes, record.alive) }

func (st *state) addresses() *addresses {
	a := newAddresses(st.Config.Ports)
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

// save writes the state, whole or not at all, and removes it when nothing runs. A foreground stack has
// a state only for its room.
func (s *Stack) save() error {
	if !s.detached && !s.config.Room {
		return nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	st, anyRuns := state{Config: s.config, Control: s.control, Addresses: map[string]string{}}, false
	for _, p := range s.processes {
		if r := p.current(); r != nil && !p.spec.oneShot { // also one that has ended: status says how
			st.Processes = append(st.Processes, record{p.spec.name, r.pid, r.started, r.began, r.logFrom, r.env})
			anyRuns = anyRuns || !r.dead()
		}
	}
	s.mu.Unlock()
	s.addresses.mu.Lock()
	for role, address := range s.addresses.given {
		st.Addresses[role] = address
	}
	s.addresses.mu.Unlock()
	path := stateFile(s.config.Dir)
	if !anyRuns {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
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

// adopt takes over the processes of an earlier call of Up, and remembers those that have ended.
func (s *Stack) adopt(before *state) error {
	if before == nil {
		return nil
	}
	for _, r := range before.Processes {
		spec, err := s.specify(r.Name)
		if err != nil {
			return err
		}
		p := s.newProcess(spec)
		p.run = &run{pid: r.PID, started: r.Started, began: r.Began, logFrom: r.LogFrom, env: r.Env, adopted: true}
		s.processes = append(s.processes, p)
	}
	return nil
}

// awaitDying waits for the end of processes that are dying. They would look ready, and may hold their
// ports and files, for a second or more after a kill.
func (st *state) awaitDying(ctx context.Context) error {
	if st == nil {
		return nil
	}
	for _, r := range st.Processes {
		dying := &run{pid: r.PID, started: r.Started}
		if !r.alive() && !dying.died(ctx, killed) {
			return fmt.Errorf("%s (pid %d) was killed and has not ended %v later: %w", r.Name, r.PID, killed, cmp.Or(context.Cause(ctx), context.DeadlineExceeded))
		}
	}
	return nil
}

// Up starts a stack that outlives the caller, and returns when every process is ready. It starts
// what is missing, restarts what has other settings by Config.Env and LogLevel than it runs with, and on an
// error stops what it started. Settings of an earlier call stay until the stack is down. In the background nothing
// restarts a crashed process: call Up again.
func Up(ctx context.Context, config Config) error {
	level := config.LogLevel
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
	if err := before.awaitDying(ctx); err != nil {
		return err
	}
	if !before.anyAlive() { // its ports may have been taken since
		if err := refuseStrays(config.Dir); err != nil {
			return err
		}
		before = &state{Config: config}
	} else if has := before.Config; has.kafkaKind() != config.kafkaKind() || has.Replicas != config.Replicas {
		return fmt.Errorf("the running stack has %s and %v: bring it up as that, or stop it first (down)", describeLedger(has.Replicas), has.kafkaKind())
	} else if config.Cuts && !has.Cuts {
		return errors.New("the processes of the running stack have no links: stop it first (down)")
	} else {
		config.Ports, config.Cuts = has.Ports, has.Cuts
		config.Env, config.LogLevel = withEnv(has.Env, config.Env), cmp.Or(level, has.LogLevel)
	}
	s, err := start(ctx, config, before)
	if err != nil {
		return err
	}
	s.launcher.close()
	return nil
}

// reopen returns the running stack in dir. Close its launcher.
func reopen(dir string) (*Stack, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st, err := load(dir)
	if err != nil {
		return nil, err
	}
	if !st.anyAlive() {
		return nil, ErrNotRunning
	}
	config := st.Config
	if config.BinDir == "" {
		return nil, fmt.Errorf("%s is of another version: end the stack's processes by hand, then remove the file", stateFile(dir))
	}
	config.Dir, config.Progress = dir, io.Discard
	s := &Stack{config: config, addresses: st.addresses(), launcher: newLauncher(), detached: true, stopping: make(chan struct{})}
	if err := s.adopt(st); err != nil {
		s.launcher.close()
		return nil, err
	}
	for s.has(EngineName(s.engines)) {
		s.engines++
	}
	return s, nil
}

// Down stops the background stack in dir in the reverse order of starting. Its data stays.
// It returns ErrNotRunning when there is nothing to stop.
func Down(ctx context.Context, dir string) error {
	unlock, err := own(dir)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := reopen(dir)
	if errors.Is(err, ErrNotRunning) {
		err = cmp.Or(refuseStrays(dir), err)
	}
	if err != nil {
		return err
	}
	return s.Stop(ctx)
}

// refuseStrays returns an error if processes of a stack run in dir that its state does not name: it was lost.
func refuseStrays(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if names, pids := strays(dir); len(names) > 0 {
		return fmt.Errorf("%s names no running stack, and in %s run %s: end them first, with kill %s", stateFile(dir), dir, strings.Join(names, ", "), strings.Join(pids, " "))
	}
	return nil
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
	if err := refuseStrays(dir); err != nil {
		return err
	}
	// By name, so that a wrong folder loses nothing else.
	for _, name := range []string{"data", "logs", "keys", "key-digests", "answer-keys", "answer-keys.lock", "kafka-keys", "state.json", "state.json.new", "ends", "links-token", "room-token", "report.html", "lock"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	_ = os.Remove(dir) // if nothing else is in it
	return nil
}
