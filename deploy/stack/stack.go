// Package stack runs the whole clearing house on one machine without Docker: one or three real
// TigerBeetle servers, a Kafka broker (embedded or Apache's), the bootstrap, the bank simulator,
// the clearing engines and the producer. Each is a process of its own.
//
// Start runs it in the foreground, for tests, bench and chaos: nothing outlives the caller.
// Up, Down, StatusOf and Clean run it in the background, with a state file between calls.
package stack

import (
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
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/kafka"
	"github.com/liquida/liquida/deploy/tigerbeetle"
	"github.com/liquida/liquida/platform/keys"
)

// Names of processes. Engines are EngineName(0), EngineName(1) and so on; several
// TigerBeetle servers are named by Stack.Replicas.
const (
	TigerBeetle = "tigerbeetle" // also the kind of all its replicas, a key of Config.Env
	Broker      = "broker"
	Bootstrap   = "bootstrap"
	Simulator   = "bank-simulator"
	Archiver    = "archiver"        // with Config.Archive
	Engine      = "clearing-engine" // the kind of all engines, a key of Config.Env
	Producer    = "producer"
	Links       = "links" // with Config.Cuts
	Room        = "room"  // with Config.Room
	// SecondProducer is started by AddProducer.
	SecondProducer = "producer-1"
)

// EnginesMax is how many engines a stack may have.
const EnginesMax = 64

// The brokers that Config.Kafka chooses from.
const (
	Embedded     = "embedded"      // deploy/cmd/broker
	RedpandaLike = "redpanda-like" // the same program, behaving like Redpanda: deploy/redpanda
	Apache       = "apache"        // deploy/kafka
)

// CheckKafka returns an error that begins with the name of the setting if which is no broker.
func CheckKafka(setting, which string) error {
	all := []string{Embedded, RedpandaLike, Apache}
	if slices.Contains(all, which) {
		return nil
	}
	return fmt.Errorf("%s is %q: it must be one of %s", setting, which, strings.Join(all, ", "))
}

// EngineName returns the name of an engine's process and instance. An instance keeps its partitions when
// its engine restarts.
func EngineName(instance int) string { return fmt.Sprintf("engine-%d", instance) }

// Config says what to run and where. Dir and BinDir are needed, the rest has defaults.
type Config struct {
	Dir    string // the stack's folder: data/, logs/ and the state file
	BinDir string // where Build put the binaries

	TigerBeetleBin string // default: what tigerbeetle.Locate finds or builds
	Replicas       int    // TigerBeetle servers, 1 or 3; default 1
	CacheGrid      string // each server's page cache; default 512MiB, of three 128MiB
	LimitGiB       int    // how large each server's data file may grow; default tigerbeetle.LimitGiB
	LedgerReserve  int64  // bytes of the disk reserved for each server's new data file to grow into; default none
	// LedgerCore gives a single TigerBeetle server a processor of its own. Everything else, also
	// the calling process and its load, shares the others. Default: all share all.
	LedgerCore   bool
	Kafka        string // Embedded, RedpandaLike or Apache; default Embedded
	KafkaSecured bool   // TLS, users and ACLs at the broker; default none
	Brokers      int    // 1, or 3 of Apache Kafka on free ports, with three copies of each record; default 1
	Engines      int    // default 1
	Ports        Ports  // default FixedPorts

	// Env adds environment variables, NAME=value, by process name ("engine-0") or kind
	// ("clearing-engine"; for the others the name is the kind). A name wins over a kind. A name that
	// there is not, and a setting that its program does not have, are a BadSetting.
	Env      map[string][]string
	LogLevel string // default info
	// Via, if set, returns the address at which a process reaches a server, given the server's
	// own: for a proxy in between. It is called when a process is added, and must not call the stack.
	Via func(process, server, address string) (string, error) `json:"-"`

	Observers Observers // default none
	// Cuts makes the connections of engines and producers to broker and ledger cuttable: see Attached.Cut.
	Cuts bool
	// Archive starts the archiver, which keeps what has ended in ArchiveFolder.
	Archive bool
	// Room starts the control room, for which nobody waits. In the foreground it may act on the
	// stack through control.
	Room bool

	// InfrastructureOnly starts only TigerBeetle and the broker.
	InfrastructureOnly bool
	// RestartCrashed restarts a process that crashes, with growing pauses.
	RestartCrashed bool

	ReadyWithin time.Duration // for each process to become ready; default 60 s
	StopWithin  time.Duration // for each process to end after SIGTERM, then SIGKILL; default 15 s

	Progress io.Writer `json:"-"` // if set, Start writes here what it does
}

func (c *Config) withDefaults() (Config, error) {
	d := *c
	if d.Dir == "" || d.BinDir == "" {
		return d, fmt.Errorf("stack: Dir is %q and BinDir is %q: both are needed", d.Dir, d.BinDir)
	}
	for _, path := range []*string{&d.Dir, &d.BinDir} { // processes may run elsewhere
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return d, err
		}
		*path = absolute
	}
	if d.Replicas == 0 {
		d.Replicas = 1
	}
	if d.Replicas != 1 && d.Replicas != 3 {
		return d, fmt.Errorf("stack: %d TigerBeetle replicas: it must be 1 or 3", d.Replicas)
	}
	if d.LimitGiB == 0 {
		d.LimitGiB = tigerbeetle.LimitGiB
	}
	if d.LimitGiB < 2 || d.LimitGiB > tigerbeetle.LimitGiBMax {
		return d, fmt.Errorf("stack: the ledger's file may grow to %d GiB: it must be 2 to %d", d.LimitGiB, tigerbeetle.LimitGiBMax)
	}
	if d.Kafka == "" {
		d.Kafka = Embedded
	}
	if err := CheckKafka("Kafka", d.Kafka); err != nil {
		return d, fmt.Errorf("stack: %w", err)
	}
	if d.Brokers == 0 {
		d.Brokers = 1
	}
	if d.Brokers != 1 && (d.Brokers != 3 || d.Kafka != Apache || d.KafkaSecured || d.Cuts || d.Ports != FreePorts) {
		return d, fmt.Errorf("stack: %d brokers: it must be 1, or 3 of Apache Kafka, unsecured, without cuts and on free ports", d.Brokers)
	}
	if d.Cuts && d.KafkaSecured {
		return d, errors.New("stack: Cuts with KafkaSecured: a link cannot put its address into what Kafka says over TLS")
	}
	if d.Replicas > 1 {
		d.LedgerCore = false // three servers would share it
	}
	if d.CacheGrid == "" {
		d.CacheGrid = "512MiB"
		if d.Replicas > 1 { // each server takes 2 GiB more
			d.CacheGrid = "128MiB"
		}
	}
	if d.Engines == 0 {
		d.Engines = 1
	}
	if d.LogLevel == "" {
		d.LogLevel = "info"
	}
	if !slices.Contains(logLevels, d.LogLevel) {
		return d, &BadSetting{fmt.Sprintf("--log-level is %q: it must be one of %s", d.LogLevel, strings.Join(logLevels, ", "))}
	}
	if d.ReadyWithin == 0 {
		d.ReadyWithin = time.Minute
	}
	if d.StopWithin == 0 {
		d.StopWithin = 15 * time.Second
	}
	if d.Progress == nil {
		d.Progress = io.Discard
	}
	return d, nil
}

// Stack is a running stack. Its methods may be called from any goroutine.
type Stack struct {
	config    Config
	addresses *addresses
	launcher  *launcher
	kafka     *kafka.Kafka // nil unless Apache Kafka is started
	unlock    func()
	detached  bool
	control   control        // open in the foreground, with a room
	saving    sync.Mutex     // of the state
	stopping  chan struct{}  // closed by Stop; no restarts after that
	restarts  sync.WaitGroup // the restarts under way

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
	At   time.Time
	How  string // like "exit status 1"
	Log  string // the end of its log
}

// Start runs a stack in the foreground and returns when every process is ready. After an error
// none of its processes runs. All of them die with the calling process, however it ends. ctx
// limits only the start; Stop ends the stack.
func Start(ctx context.Context, config Config) (*Stack, error) { return start(ctx, config, nil) }

// start runs what is missing. before is the state of a background stack, nil in the foreground.
func start(ctx context.Context, config Config, before *state) (_ *Stack, err error) {
	config, err = config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.checkEnv(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(config.Dir, "logs"), 0o755); err != nil {
		return nil, err
	}
	s := &Stack{detached: before != nil, stopping: make(chan struct{})}
	if config.TigerBeetleBin == "" {
		if config.TigerBeetleBin, err = tigerbeetle.Locate(ctx, config.Progress); err != nil {
			return nil, err
		}
	}
	if config.Kafka == Apache {
		if s.kafka, err = kafka.Locate(ctx, config.Progress); err != nil {
			return nil, err
		}
	}
	s.config = config
	if s.detached {
		s.addresses = before.addresses()
	} else {
		if s.unlock, err = own(config.Dir); err != nil {
			return nil, err
		}
		background, err := load(config.Dir)
		if err == nil && background.anyAlive() {
			err = fmt.Errorf("a stack runs in the background in %s: stop it first (down)", config.Dir)
		}
		if err != nil {
			s.unlock()
			return nil, err
		}
		s.addresses = newAddresses(config.Ports)
	}
	s.launcher = newLauncher()
	defer func() {
		if err != nil {
			if before != nil {
				s.config.Env, s.config.LogLevel = before.Config.Env, before.Config.LogLevel // settings that failed do not stay
			}
			// ctx may have ended; stopping has its own limits.
			err = errors.Join(err, s.stop(context.WithoutCancel(ctx), func(p *process) bool { return !p.adopted() }))
		}
	}()
	if err := s.adopt(before); err != nil {
		return nil, err
	}
	if err := errors.Join(s.refuseOtherData(), s.refuseLostLedger()); err != nil {
		return nil, err
	}
	if !s.detached { // otherwise another process makes the load
		if err := confineProcess(s.coresOf("")); err != nil { // an earlier stack may have left us fewer
			return nil, fmt.Errorf("cannot share out the processors: %w", err)
		}
	}
	if config.Room && !s.detached {
		if err := s.openControl(); err != nil {
			return nil, err
		}
	}
	names := s.wanted()
	s.processes = slices.DeleteFunc(s.processes, func(p *process) bool { // dead, and no longer wanted
		return !p.running() && !slices.Contains(names, p.spec.name)
	})
	for _, name := range names {
		if err := s.add(name); err != nil { // checks the ports of all before any starts
			return nil, err
		}
	}
	if err := s.configureObservers(); err != nil {
		return nil, err
	}
	order := append(slices.Clone(names), Room)
	slices.SortStableFunc(s.processes, func(a, b *process) int { // adopted processes came first
		return slices.Index(order, a.spec.name) - slices.Index(order, b.spec.name)
	})
	together := s.Replicas() // none is ready before a majority of them runs
	if config.Brokers > 1 {
		together = append(together, s.Brokers()...)
	}
	for _, one := range together {
		if err := s.launch(ctx, one); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if err := s.bring(ctx, name); err != nil {
			return nil, err
		}
	}
	if config.Room {
		if err := s.openRoom(ctx); err != nil { // the stack does not need it
			fmt.Fprintf(config.Progress, "%-15s %v\n", Room, err)
		}
	}
	return s, nil
}

// wanted returns all processes in the order of starting. The bank simulator comes after the producer: its banks read
// there which of their accounts are open before they are ready.
func (s *Stack) wanted() []string {
	names := append(s.Replicas(), s.Brokers()...)
	if s.config.InfrastructureOnly {
		return names
	}
	if s.config.Cuts {
		names = append(names, Links)
	}
	names = append(names, Bootstrap)
	s.engines = s.config.Engines
	for s.has(EngineName(s.engines)) { // adopted from a stack with more engines
		s.engines++
	}
	for instance := range s.engines {
		names = append(names, EngineName(instance))
	}
	names = append(names, Producer, Simulator)
	if s.config.Archive {
		names = append(names, Archiver)
	}
	if s.config.Observers.StatsdBridge != "" {
		names = append(names, StatsdBridge)
	}
	if s.config.Observers.Prometheus != "" {
		names = append(names, Prometheus)
	}
	return names
}

// bring starts a process unless an earlier call of Up left it running, and waits until it is ready.
func (s *Stack) bring(ctx context.Context, name string) error {
	p, err := s.process(name)
	if err != nil {
		return err
	}
	if err := s.apply(ctx, p); err != nil {
		return err
	}
	if err := s.launch(ctx, name); err != nil {
		return err
	}
	began := time.Now()
	if err := s.WaitReady(ctx, name); err != nil {
		return err
	}
	if name == Links {
		for _, process := range s.Names() {
			if s.cuttable(process) {
				if err := s.openLinks(ctx, process); err != nil {
					return err
				}
			}
		}
	}
	fmt.Fprintf(s.config.Progress, "%-15s ready after %4.1fs  %s\n", name, time.Since(began).Seconds(), p.spec.address)
	return nil
}

// launch starts a process unless it runs, and first makes the data that it needs.
func (s *Stack) launch(ctx context.Context, name string) error {
	p, err := s.process(name)
	if err != nil || p.running() {
		return err
	}
	switch {
	case slices.Contains(s.Replicas(), name):
		if err = tigerbeetle.FormatCluster(ctx, s.config.TigerBeetleBin, s.ledgerFolder(), s.config.Replicas, s.config.LedgerReserve); err == nil {
			var started func()
			if started, err = tigerbeetle.AwaitMemory(ctx, func(why string) { fmt.Fprintf(s.config.Progress, "%-15s %s\n", name, why) }); err == nil {
				defer started()
			}
		}
	case slices.Contains(s.Brokers(), name):
		if s.config.KafkaSecured {
			err = s.makeSecrets()
		}
		if err == nil && s.kafka != nil {
			err = s.kafka.Prepare(ctx, s.kafkaNode(name))
		}
	case name == Links:
		err = keys.MakePassword(s.linksTokenFile())
	case s.cuttable(name):
		err = s.openLinks(ctx, name)
	}
	if err != nil {
		return err
	}
	return s.StartProcess(name)
}

// add registers a process without starting it, and checks that its ports are free.
func (s *Stack) add(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.processes, func(p *process) bool { return p.spec.name == name })
	if i < 0 {
		spec, err := s.specify(name)
		if err != nil {
			return err
		}
		i, s.processes = len(s.processes), append(s.processes, s.newProcess(spec))
	}
	p := s.processes[i]
	if p.running() { // adopted
		return nil
	}
	for _, role := range p.spec.listens {
		if err := available(role, s.addresses.of(role)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) newProcess(spec spec) *process {
	return &process{
		spec: spec, logPath: s.Log(spec.name), endPath: filepath.Join(s.config.Dir, "ends", spec.name),
		comesBack: s.config.RestartCrashed && !spec.oneShot,
	}
}

func (s *Stack) has(name string) bool {
	return slices.ContainsFunc(s.processes, func(p *process) bool { return p.spec.name == name })
}

func (s *Stack) process(name string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, p := range s.processes {
		if p.spec.name == name {
			return p, nil
		}
		names = append(names, p.spec.name)
	}
	return nil, fmt.Errorf("the stack has no process %q; it has %s", name, strings.Join(names, ", "))
}

// Stop ends all processes in the reverse order of starting. It sends SIGTERM, then SIGKILL to a
// process that takes too long, and returns an error that names it. Later calls do nothing.
func (s *Stack) Stop(ctx context.Context) error {
	return s.stop(ctx, func(*process) bool { return true })
}

func (s *Stack) stop(ctx context.Context, which func(*process) bool) error {
	s.stopOnce.Do(func() {
		s.mu.Lock()
		close(s.stopping)
		processes := slices.Clone(s.processes)
		s.mu.Unlock()
		s.restarts.Wait()
		for _, p := range slices.Backward(processes) {
			switch {
			case !which(p):
			case s.config.Brokers > 1 && kindOf(p.spec.name) == Broker && p.running():
				s.stopErr = errors.Join(s.stopErr, p.kill()) // without a majority the others would not stop in order
			default:
				s.stopErr = errors.Join(s.stopErr, p.stop(ctx, s.config.StopWithin))
			}
		}
		s.launcher.close()
		s.stopErr = errors.Join(s.stopErr, s.save())
		if s.unlock != nil {
			s.unlock()
		}
	})
	return s.stopErr
}

// StartProcess starts a process that is not running. WaitReady waits for it.
func (s *Stack) StartProcess(name string) error {
	p, err := s.process(name)
	if err != nil {
		return err
	}
	if s.isStopping() {
		return fmt.Errorf("cannot start %s: the stack is stopping", name)
	}
	if err := p.start(s.launcher, s.detached); err != nil {
		return err
	}
	if !s.detached {
		go s.watch(p, p.current())
	}
	return s.save()
}

// StartToDie starts a process that is expected to end by itself, with additional environment
// variables for this run. Its end is no Crash; it closes the channel.
func (s *Stack) StartToDie(name string, env ...string) (<-chan struct{}, error) {
	p, err := s.process(name)
	if err != nil {
		return nil, err
	}
	if err := p.start(s.launcher, s.detached, env...); err != nil {
		return nil, err
	}
	r := p.current()
	r.asked.Store(true)
	return r.exited, nil
}

// watch waits for the exit of a run, records a crash, and restarts the process if configured.
func (s *Stack) watch(p *process, r *run) {
	<-r.exited
	if r.asked.Load() || (p.spec.oneShot && r.err == nil) {
		return
	}
	if p.spec.optional {
		fmt.Fprintf(s.config.Progress, "%-15s %s\n", p.spec.name, howEnded(p.endPath))
		return
	}
	how := "exit status 0"
	if r.err != nil {
		how = r.err.Error()
	}
	s.mu.Lock()
	s.crashes = append(s.crashes, Crash{Name: p.spec.name, At: time.Now(), How: how, Log: p.logEnd()})
	if s.isStopping() || !p.comesBack {
		s.mu.Unlock()
		return
	}
	s.restarts.Add(1) // under the lock, so before Stop waits
	s.mu.Unlock()
	defer s.restarts.Done()
	select {
	case <-s.stopping:
	case <-time.After(p.pauseBeforeRestart(r)):
		// An error means that the caller started it, or that the stack stops.
		_ = s.StartProcess(p.spec.name)
	}
}

func (s *Stack) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// Crashes returns the crashes so far.
func (s *Stack) Crashes() []Crash {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.crashes)
}

// Kill ends a process with SIGKILL and returns when it has ended. It stays down until
// StartProcess or Restart.
func (s *Stack) Kill(name string) error { return s.on(name, (*process).kill) }

// StopProcess ends one process as Stop does.
func (s *Stack) StopProcess(ctx context.Context, name string) error {
	return s.on(name, func(p *process) error { return p.stop(ctx, s.config.StopWithin) })
}

// on does something to a process.
func (s *Stack) on(name string, do func(*process) error) error {
	p, err := s.process(name)
	if err != nil {
		return err
	}
	return do(p)
}

// Restart stops a process if it runs, starts it and waits until it is ready.
func (s *Stack) Restart(ctx context.Context, name string) error {
	if err := s.StopProcess(ctx, name); err != nil {
		return err
	}
	if err := s.StartProcess(name); err != nil {
		return err
	}
	return s.WaitReady(ctx, name)
}

// Pause freezes a process (SIGSTOP). Its connections stay open, and it answers nothing.
func (s *Stack) Pause(name string) error { return s.signal(name, pauseSignal) }

// Resume continues a paused process (SIGCONT).
func (s *Stack) Resume(name string) error { return s.signal(name, resumeSignal) }

func (s *Stack) signal(name string, signal os.Signal) error {
	return s.on(name, func(p *process) error { return p.signal(signal) })
}

// AddEngine starts one more engine in a new instance, waits until it is ready and returns its name.
func (s *Stack) AddEngine(ctx context.Context) (string, error) {
	s.mu.Lock()
	if s.engines >= EnginesMax {
		s.mu.Unlock()
		return "", fmt.Errorf("the stack has had %d engines: it must have at most %d", s.engines, EnginesMax)
	}
	name := EngineName(s.engines)
	s.engines++
	s.mu.Unlock()
	if err := s.add(name); err != nil {
		return "", err
	}
	if err := s.configureObservers(); err != nil {
		return "", err
	}
	return name, s.bring(ctx, name)
}

// AddProducer starts a second producer, waits until it is ready and returns the URL of its HTTP API.
func (s *Stack) AddProducer(ctx context.Context) (url string, err error) {
	if err := errors.Join(s.add(SecondProducer), s.configureObservers()); err != nil {
		return "", err
	}
	return "http://" + s.addresses.of(SecondProducer), s.bring(ctx, SecondProducer)
}

// WaitReady returns when the process is ready. It returns an error if the process exits first, or
// when Config.ReadyWithin or ctx ends. The error says what was not ready and shows the end of the log.
func (s *Stack) WaitReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.ReadyWithin, fmt.Errorf("not ready within %v", s.config.ReadyWithin))
	defer cancel()
	return s.on(name, func(p *process) error { return p.waitReady(ctx) })
}

// Ready returns why the process is not ready, or nil when it is.
func (s *Stack) Ready(ctx context.Context, name string) error {
	return s.on(name, func(p *process) error { return p.ready(ctx) })
}

// Names returns the names of all processes in the order of starting.
func (s *Stack) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, p := range s.processes {
		names = append(names, p.spec.name)
	}
	return names
}

// PID returns the process id, or 0 when it is not running.
func (s *Stack) PID(name string) int {
	p, err := s.process(name)
	if err != nil || !p.running() {
		return 0
	}
	return p.current().pid
}

// Log returns the path of a process's log. A restart appends to it.
func (s *Stack) Log(name string) string { return filepath.Join(s.config.Dir, "logs", name+".log") }

// Brokers returns the names of the Kafka brokers.
func (s *Stack) Brokers() []string {
	names := []string{Broker}
	for broker := 1; broker < s.config.Brokers; broker++ {
		names = append(names, fmt.Sprintf("%s-%d", Broker, broker))
	}
	return names
}

// KafkaAddress returns the host:port of all brokers, comma-separated.
func (s *Stack) KafkaAddress() string {
	var all []string
	for _, broker := range s.Brokers() {
		all = append(all, s.addresses.of(broker))
	}
	return strings.Join(all, ",")
}

// Replicas returns the names of the TigerBeetle servers.
func (s *Stack) Replicas() []string {
	if s.config.Replicas == 1 {
		return []string{TigerBeetle}
	}
	var names []string
	for replica := range s.config.Replicas {
		names = append(names, fmt.Sprintf("%s-%d", TigerBeetle, replica))
	}
	return names
}

// TigerBeetleAddresses returns the IP:port of all servers, comma-separated. The cluster id is 0.
func (s *Stack) TigerBeetleAddresses() string {
	var all []string
	for _, replica := range s.Replicas() {
		all = append(all, s.addresses.of(replica))
	}
	return strings.Join(all, ",")
}

// ProducerURL returns the URL of the HTTP API.
func (s *Stack) ProducerURL() string { return "http://" + s.addresses.of(Producer) }

// Keys returns the keys with which participants and keys.CentralBank call the producer, by
// ISPB. Bootstrap makes them at the first start.
func (s *Stack) Keys() (map[string]string, error) { return keys.ReadAll(s.keysDir()) }

func (s *Stack) keysDir() string { return filepath.Join(s.config.Dir, "keys") }

// digestsFile holds the digests by which the producer knows the keys.
func (s *Stack) digestsFile() string { return filepath.Join(s.config.Dir, "key-digests") }

// AnswerKeysFile holds the secrets with which banks seal their responses.
func (s *Stack) AnswerKeysFile() string { return filepath.Join(s.config.Dir, "answer-keys") }

// SimulatorURL returns the URL where the behaviour of the banks is changed.
func (s *Stack) SimulatorURL() string { return "http://" + s.addresses.of(Simulator) }

// TelemetryURL returns where a service's /metrics and /readyz are, or nothing for a process without.
func (s *Stack) TelemetryURL(name string) string {
	if p, err := s.process(name); err == nil && p.spec.telemetry != "" {
		return "http://" + p.spec.telemetry
	}
	return ""
}

// Run runs a program of BinDir until it ends, with the stack's addresses in its environment. It
// dies with the calling process.
func (s *Stack) Run(ctx context.Context, stdout, stderr io.Writer, program string, arguments ...string) error {
	cmd := exec.Command(filepath.Join(s.config.BinDir, program), arguments...)
	cmd.Env = append(append(os.Environ(), s.kafkaEnvironment("loadtest", s.KafkaAddress())...),
		"TIGERBEETLE_ADDRESSES="+s.TigerBeetleAddresses(),
		"TIGERBEETLE_CLUSTER_ID=0",
		"PRODUCER_URL="+s.ProducerURL(),
		"SIMULATOR_URL="+s.SimulatorURL(),
		"ANSWER_KEYS_FILE="+s.AnswerKeysFile(), // for the audit
	)
	for _, variable := range s.config.Env[Engine] {
		if strings.HasPrefix(variable, "ENGINE_DEADLINE=") { // for the audit, too
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = attributes(false)
	cmd.WaitDelay = time.Second
	if err := s.launcher.start(cmd, s.coresOf(program)); err != nil {
		return fmt.Errorf("cannot run %s: %w", program, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s %s: %w", program, strings.Join(arguments, " "), err)
		}
		return nil
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(s.config.StopWithin):
		_ = cmd.Process.Kill()
		<-ended
	}
	return fmt.Errorf("%s %s was stopped: %w", program, strings.Join(arguments, " "), context.Cause(ctx))
}
