// Package stack runs the whole clearing house on one machine without Docker: one or three real
// TigerBeetle servers, a Kafka broker (embedded or Apache's), the bootstrap, the bank simulator,
// the clearing engines and the producer. Each is a process of its own, and none outlives the
// process of the stack.
//
// Start runs it in the calling process, for tests, bench and chaos. Up has it run by a supervisor
// in the background, which Down ends. Other programs ask it through an Attached.
package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/keys"
)

// Stack is a running stack. Its methods may be called from any goroutine.
type Stack struct {
	given     atomic.Pointer[Config] // of the last up; others ask meanwhile
	addresses addresses
	kafka     *kafka.Kafka // nil unless Apache Kafka is started
	lock      *os.File     // of the folder
	links     links
	stopping  chan struct{} // closed by Stop

	acting sync.Mutex // held by up and by what starts processes for others

	mu        sync.Mutex
	processes []*process // in the order of their first start
	engines   int        // instances given out
	crashes   []Crash
	stopOnce  sync.Once
	stopErr   error
}

// Crash is an unexpected exit of a process.
type Crash struct {
	Name string
	How  string // like "exit status 1"
	Log  string // the end of its log
}

// Start runs a stack and returns when every process is ready. After an error none of its processes
// runs. All of them die with the calling process, however it ends. ctx limits only the start; Stop
// ends the stack.
func Start(ctx context.Context, config Config) (*Stack, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}

	lock, err := own(config.Dir)
	if err != nil {
		return nil, err
	}

	s := newStack(lock)
	if config.Room {
		err = s.open(config.Dir)
	}

	if err == nil {
		err = s.up(ctx, config)
	}

	if err != nil {
		// ctx may have ended; stopping has its own limits
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}

	return s, nil
}

func newStack(lock *os.File) *Stack {
	s := &Stack{lock: lock, stopping: make(chan struct{}),
		links: links{open: map[[2]string]*link.Link{}}}
	s.given.Store(&Config{})

	return s
}

func (s *Stack) config() *Config { return s.given.Load() }

// own locks the stack's folder until the file is closed, so that only one stack runs in it.
func own(dir string) (*os.File, error) {
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

	return lock, nil
}

// up starts what does not run, and starts again what runs with another environment.
func (s *Stack) up(ctx context.Context, config Config) error {
	s.acting.Lock()
	defer s.acting.Unlock()

	for _, p := range s.all() {
		if err := p.awaitDying(ctx); err != nil {
			return err
		}
	}

	config, err := s.beside(config)
	if err != nil {
		return err
	}

	if config.TigerBeetleBin == "" {
		if config.TigerBeetleBin, err = tigerbeetle.Locate(ctx, config.Progress); err != nil {
			return err
		}
	}

	if config.Kafka == Apache && s.kafka == nil {
		if s.kafka, err = kafka.Locate(ctx, config.Progress); err != nil {
			return err
		}
	}
	s.given.Store(&config)

	if err := errors.Join(s.checkData(), os.MkdirAll(filepath.Join(config.Dir, "logs"), 0o755)); err != nil {
		return err
	}

	_, others := s.cores()
	if err := confineThisProcess(others); err != nil {
		return fmt.Errorf("cannot share out the processors: %w", err)
	}

	groups := s.wanted()
	if err := s.register(slices.Concat(groups...)); err != nil {
		return err
	}

	for _, group := range groups {
		if err := s.bring(ctx, group...); err != nil {
			return err
		}
	}

	return nil
}

// beside returns the configuration for a stack that already runs, whose data, ports and links cannot change.
// What nobody says stays as it is.
func (s *Stack) beside(config Config) (Config, error) {
	has := s.config()

	whole, err := config.withDefaults()
	switch {
	case err != nil:
		return whole, err
	case !s.anyRuns():
		s.addresses.begin(whole.Ports) // its ports may have been taken since
		s.links.close()                // they lead to the old ones
		return whole, nil
	case has.kind() != whole.kind():
		return whole, fmt.Errorf("the running stack has %s: bring it up as that, or stop it first (down)", has.kind())
	case config.Cuts && !has.Cuts:
		return whole, errors.New("the processes of the running stack have no links: stop it first (down)")
	}

	whole.Ports, whole.Cuts, whole.Linked = has.Ports, has.Cuts, has.Linked
	whole.Engines = max(whole.Engines, s.engines)

	if len(whole.Env) == 0 {
		whole.Env = has.Env
	}

	return whole, nil
}

// wanted returns all processes, in groups that start one after the other: of several servers none is ready before a
// majority of them runs.
func (s *Stack) wanted() [][]string {
	c := s.config()

	groups := [][]string{s.Replicas(), s.Brokers()}
	if c.InfrastructureOnly {
		return groups
	}
	s.engines = c.Engines
	services := append(numberedFrom(0, s.engines, "engine"), Producer, Simulator)

	if c.Archive {
		services = append(services, Archiver)
	}

	if c.Room {
		services = append(services, Room)
	}

	return append(groups, []string{Bootstrap}, services)
}

// kinds are all kinds of processes, and the keys of Config.Env besides names of single processes.
var kinds = []string{TigerBeetle, Broker, Bootstrap, Engine, Producer, Simulator, Archiver, Room}

// register makes the stack know these processes, and no others but those that run. It checks the ports of all before
// any starts.
func (s *Stack) register(names []string) error {
	s.mu.Lock()
	s.processes = slices.DeleteFunc(s.processes, func(p *process) bool {
		return !p.running() && !slices.Contains(names, p.name)
	})
	s.mu.Unlock()

	for _, name := range names {
		if err := s.add(name); err != nil {
			return err
		}
	}

	return nil
}

// add registers a process without starting it, and checks that its ports are free.
func (s *Stack) add(name string) error {
	spec, err := s.specify(name)
	if err != nil {
		return err
	}

	p, err := s.process(name)
	if err != nil {
		p = &process{name: name, logPath: s.Log(name)}
		s.mu.Lock()
		s.processes = append(s.processes, p)
		s.mu.Unlock()
	}
	p.mu.Lock()
	p.spec = spec
	p.mu.Unlock()

	if p.running() {
		return nil
	}

	for _, role := range spec.listens {
		if err := available(role, s.addresses.of(role)); err != nil {
			return err
		}
	}

	return nil
}

// bring starts processes that do not run, together, and waits until all are ready. One that is not ready keeps none of
// the others from starting.
func (s *Stack) bring(ctx context.Context, names ...string) error {
	done, err := s.prepare(ctx, names)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := s.readyWithin(ctx) // all of them, and not each
	defer cancel()
	began := time.Now()

	say := func(name, format string, values ...any) {
		fmt.Fprintf(s.config().Progress, "%-15s "+format+"\n", append([]any{name}, values...)...)
	}
	for _, name := range names {
		p, err := s.process(name)
		if err == nil && p.running() && !slices.Equal(p.current().env, p.program().env) {
			say(name, "restarts with its new settings")
			err = p.stop(ctx, s.config().StopWithin)
		}

		if err == nil && !p.running() {
			err = s.StartProcess(name)
		}

		if err != nil {
			return err
		}
	}
	var problems error

	for _, name := range names {
		p, _ := s.process(name) // it is known: it was started

		switch err := p.waitReady(ctx); {
		case err == nil:
			say(name, "ready after %4.1fs  %s", time.Since(began).Seconds(), p.program().address)
		case p.program().optional:
			say(name, "%v", err)
		default:
			problems = errors.Join(problems, err)
		}
	}

	return problems
}

// prepare makes the data that processes need before they start. done is called when they are ready.
func (s *Stack) prepare(ctx context.Context, names []string) (done func(), err error) {
	done = func() {}

	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return s.PID(name) != 0 })
	if len(names) == 0 {
		return done, nil
	}

	switch kindOf(names[0]) {
	case TigerBeetle:
		if err := tigerbeetle.FormatCluster(ctx, s.config().TigerBeetleBin, s.ledgerFolder(), s.config().Replicas,
			s.config().LedgerReserve); err != nil {
			return nil, err
		}

		return tigerbeetle.AwaitMemory(ctx, len(names), func(why string) {
			fmt.Fprintf(s.config().Progress, "%-15s %s\n", names[0], why)
		})
	case Broker:
		if s.config().KafkaSecured {
			err = s.makeSecrets()
		}

		for _, name := range names {
			if err == nil && s.kafka != nil {
				err = s.kafka.Prepare(ctx, s.kafkaNode(name))
			}
		}
	}

	if slices.Contains(names, Room) {
		err = keys.MakePassword(s.roomTokenFile())
	}

	return done, err
}

func (s *Stack) process(name string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string

	for _, p := range s.processes {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}

	return nil, fmt.Errorf("the stack has no process %q; it has %s", name, strings.Join(names, ", "))
}

func (s *Stack) all() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

func (s *Stack) anyRuns() bool { return slices.ContainsFunc(s.all(), (*process).running) }

// Stop ends all processes in the reverse order of starting. It sends SIGTERM, then SIGKILL to a
// process that takes too long, and returns an error that names it. Later calls do nothing.
func (s *Stack) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		close(s.stopping)

		for _, p := range slices.Backward(s.all()) {
			if s.config().Brokers > 1 && kindOf(p.name) == Broker && p.running() {
				s.stopErr = errors.Join(s.stopErr, p.kill()) // without a majority the others would not stop in order
			}
			s.stopErr = errors.Join(s.stopErr, p.stop(ctx, s.config().StopWithin))
		}
		s.links.close()
		s.lock.Close()
	})

	return s.stopErr
}

// StartProcess starts a process that is not running. WaitReady waits for it.
func (s *Stack) StartProcess(name string) error {
	return s.on(name, func(p *process) error {
		if closed(s.stopping) {
			return fmt.Errorf("cannot start %s: the stack is stopping", name)
		}

		if err := p.start(); err != nil {
			return err
		}
		go s.watch(p, p.current())

		return nil
	})
}

// StartToDie starts a process that is expected to end by itself, with additional environment
// variables for this run. Its end is no Crash; it closes the channel.
func (s *Stack) StartToDie(name string, env ...string) (<-chan struct{}, error) {
	p, err := s.process(name)
	if err != nil {
		return nil, err
	}

	if err := p.start(env...); err != nil {
		return nil, err
	}
	r := p.current()
	r.asked.Store(true)

	return r.Ended, nil
}

// watch waits for the exit of a run, and records a crash.
func (s *Stack) watch(p *process, r *run) {
	<-r.Ended

	if r.asked.Load() || p.program().optional || p.program().oneShot && r.Err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashes = append(s.crashes, Crash{Name: p.name, How: r.How.String(), Log: p.logEnd(logEndLines)})
}

// Crashes returns the crashes so far.
func (s *Stack) Crashes() []Crash {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.crashes)
}

// Kill ends a process with SIGKILL and returns when it has ended. It stays down until
// StartProcess.
func (s *Stack) Kill(name string) error { return s.on(name, (*process).kill) }

// StopProcess ends one process as Stop does.
func (s *Stack) StopProcess(ctx context.Context, name string) error {
	return s.on(name, func(p *process) error { return p.stop(ctx, s.config().StopWithin) })
}

// on does something to a process.
func (s *Stack) on(name string, do func(*process) error) error {
	p, err := s.process(name)
	if err != nil {
		return err
	}

	return do(p)
}

// Pause freezes a process (SIGSTOP). Its connections stay open, and it answers nothing.
func (s *Stack) Pause(name string) error {
	return s.on(name, func(p *process) error { return p.signal(syscall.SIGSTOP) })
}

// Resume continues a paused process (SIGCONT).
func (s *Stack) Resume(name string) error {
	return s.on(name, func(p *process) error { return p.signal(syscall.SIGCONT) })
}

// AddEngine starts one more engine in a new instance, waits until it is ready and returns its name.
func (s *Stack) AddEngine(ctx context.Context) (string, error) {
	s.mu.Lock()
	name := EngineName(s.engines)
	s.engines++
	s.mu.Unlock()

	if kindOf(name) == "" {
		return "", fmt.Errorf("a stack has at most %d engines", EnginesMax)
	}

	return name, s.bringNew(ctx, name)
}

// AddProducer starts a second producer, waits until it is ready and returns the URL of its HTTP API.
func (s *Stack) AddProducer(ctx context.Context) (url string, err error) {
	return "http://" + s.addresses.of(SecondProducer), s.bringNew(ctx, SecondProducer)
}

func (s *Stack) bringNew(ctx context.Context, name string) error {
	if err := s.add(name); err != nil {
		return err
	}

	return s.bring(ctx, name)
}

// WaitReady returns when the process is ready. It returns an error if the process exits first, or
// when Config.ReadyWithin or ctx ends. The error says what was not ready and shows the end of the log.
func (s *Stack) WaitReady(ctx context.Context, name string) error {
	ctx, cancel := s.readyWithin(ctx)
	defer cancel()
	return s.on(name, func(p *process) error { return p.waitReady(ctx) })
}

func (s *Stack) readyWithin(ctx context.Context) (context.Context, context.CancelFunc) {
	within := s.config().ReadyWithin
	return context.WithTimeoutCause(ctx, within, fmt.Errorf("not ready within %v", within))
}

// Ready returns why the process is not ready, or nil when it is.
func (s *Stack) Ready(ctx context.Context, name string) error {
	return s.on(name, func(p *process) error { return p.ready(ctx) })
}

// Names returns the names of all processes in the order of starting.
func (s *Stack) Names() []string {
	var names []string
	for _, p := range s.all() {
		names = append(names, p.name)
	}

	return names
}

// PID returns the process id, or 0 when it is not running.
func (s *Stack) PID(name string) int {
	p, err := s.process(name)
	if err != nil || !p.running() {
		return 0
	}

	return p.current().Pid
}

// Log returns the path of a process's log. A restart appends to it.
func (s *Stack) Log(name string) string { return filepath.Join(s.config().Dir, "logs", name+".log") }

// Brokers returns the names of the Kafka brokers.
func (s *Stack) Brokers() []string {
	return append([]string{Broker}, numberedFrom(1, s.config().Brokers, Broker)...)
}

func numberedFrom(first, end int, kind string) (names []string) {
	for number := first; number < end; number++ {
		names = append(names, fmt.Sprintf("%s-%d", kind, number))
	}

	return names
}

// KafkaAddress returns the host:port of all brokers, comma-separated.
func (s *Stack) KafkaAddress() string { return s.joined(s.Brokers()) }

func (s *Stack) joined(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, s.addresses.of(name))
	}

	return strings.Join(all, ",")
}

// Replicas returns the names of the TigerBeetle servers.
func (s *Stack) Replicas() []string {
	if s.config().Replicas == 1 {
		return []string{TigerBeetle}
	}

	return numberedFrom(0, s.config().Replicas, TigerBeetle)
}

// TigerBeetleAddresses returns the IP:port of all servers, comma-separated. The cluster id is 0.
func (s *Stack) TigerBeetleAddresses() string { return s.joined(s.Replicas()) }

// ProducerURL returns the URL of the HTTP API.
func (s *Stack) ProducerURL() string { return "http://" + s.addresses.of(Producer) }

// Keys returns the keys with which participants and keys.CentralBank call the producer, by
// ISPB. Bootstrap makes them at the first start.
func (s *Stack) Keys() (map[string]string, error) { return keys.ReadAll(s.keysDir()) }

func (s *Stack) keysDir() string { return filepath.Join(s.config().Dir, "keys") }

// digestsFile holds the digests by which the producer knows the keys.
func (s *Stack) digestsFile() string { return filepath.Join(s.config().Dir, "key-digests") }

// AnswerKeysFile holds the secrets with which banks seal their responses.
func (s *Stack) AnswerKeysFile() string { return filepath.Join(s.config().Dir, "answer-keys") }

// SimulatorURL returns the URL where the behaviour of the banks is changed.
func (s *Stack) SimulatorURL() string { return "http://" + s.addresses.of(Simulator) }

// TelemetryURL returns where a service's /metrics and /readyz are, or nothing for a process without.
func (s *Stack) TelemetryURL(name string) string {
	if p, err := s.process(name); err == nil && p.program().telemetry != "" {
		return "http://" + p.program().telemetry
	}

	return ""
}

func (s *Stack) roomTokenFile() string { return filepath.Join(s.config().Dir, "room-token") }

// RoomURL returns the URL of the control room, with the token of those who may look and act.
func (s *Stack) RoomURL() (string, error) {
	token, err := keys.ReadPassword(s.roomTokenFile())
	if err != nil {
		return "", err
	}

	return "http://" + s.addresses.of(Room) + "/#token=" + token, nil
}

// Run runs a program of BinDir until it ends, with the stack's addresses in its environment. It
// ends with ctx, first by SIGTERM.
func (s *Stack) Run(ctx context.Context, stdout, stderr io.Writer, program string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.config().BinDir, program), arguments...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = s.config().StopWithin

	cmd.Env = slices.Concat(os.Environ(), s.kafkaEnvironment("loadtest", s.KafkaAddress()), []string{
		"TIGERBEETLE_ADDRESSES=" + s.TigerBeetleAddresses(),
		"TIGERBEETLE_CLUSTER_ID=0",
		"PRODUCER_URL=" + s.ProducerURL(),
		"SIMULATOR_URL=" + s.SimulatorURL(),
		"ANSWER_KEYS_FILE=" + s.AnswerKeysFile(), // for the audit
	})
	for _, variable := range s.config().Env[Engine] {
		if strings.HasPrefix(variable, "ENGINE_DEADLINE=") { // for the audit, too
			cmd.Env = append(cmd.Env, variable)
		}
	}

	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", program, strings.Join(arguments, " "), cmp.Or(context.Cause(ctx), err))
	}

	return nil
}
