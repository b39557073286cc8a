package simulation

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/services/bank-simulator/bank"
	"github.com/liquida/liquida/services/clearing-engine/engine"
	"github.com/liquida/liquida/services/producer/frontdoor"
)

// service is a program that starts again whenever it ends, as under a supervisor.
type service struct {
	w       *world
	name    string
	address string   // of its telemetry
	steps   []string // at which it can die
	run     func(ctx context.Context, l *life, on host.Host) error
	ended   chan struct{}

	clients *link.Link // of a front door

	mu      sync.Mutex
	life    *life
	down    time.Duration          // until the next life begins
	dieAt   string                 // the step at which the next life ends, as POINT:N
	offset  time.Duration          // of its clock
	frozen  time.Time              // what its clock shows while it is frozen; zero: it is not
	change  func(c *engine.Config) // of an engine's settings, from its next life on; nil: none
	books   *ledgermodel.Ledger    // of its next lives; nil: the world's own
	retired bool                   // no further life begins
}

// life is a service from a start to its end.
type life struct {
	link   *link.Link // to the broker
	ledger *ledgermodel.Client
	slow   func(time.Duration) // sets the time of a message to the ledger
	dieAt  string
	change func(*engine.Config)
	stop   context.CancelFunc
	dead   chan struct{}

	mu      sync.Mutex
	network []io.Closer // listeners, and what they accepted
	frozen  bool        // other faults do not end that
}

const bankSimulator = "bank-simulator"

const restartTime = 100 * time.Millisecond

func (w *world) startEngine(number int) {
	w.startEngineAs(engineName(number), engineName(number), firstEnginePort+number)
}

// startEngineAs starts an engine. Two engines may have one instance.
func (w *world) startEngineAs(name, instance string, port int) *service {
	address := fmt.Sprintf("127.0.0.1:%d", port)

	return w.start(name, address, engineSteps, func(ctx context.Context, l *life, on host.Host) error {
		config := &engine.Config{}
		*config = *w.engineConfig

		config.Telemetry.Address, config.InstanceID, config.CrashAt = address, instance, l.dieAt
		if l.change != nil {
			l.change(config)
		}

		return engine.Run(ctx, config, on, l.ledger)
	})
}

func (w *world) startBanks() {
	w.start(bankSimulator, banksTelemetry,
		[]string{"after-fetch", "after-answer-produced", "after-answer-acknowledged", "after-commit"},
		func(ctx context.Context, l *life, on host.Host) error {
			config := &bank.Config{}
			*config = *w.bankConfig // its addresses are those of TestWorld
			config.Bank.CrashAt = l.dieAt

			return bank.Run(ctx, config, on)
		})
}

// startProducer starts a front door. Its clients reach it over a link of their own.
func (w *world) startProducer(number int) {
	address, telemetry := fmt.Sprintf("127.0.0.1:%d", 8090+number), fmt.Sprintf("127.0.0.1:%d", 9190+number)
	s := w.start(fmt.Sprintf("producer-%d", number), telemetry,
		[]string{"after-request-read", "after-published", "after-acknowledged"},
		func(ctx context.Context, l *life, on host.Host) error {
			config := &frontdoor.Config{}
			*config = *w.producerConfig
			config.HTTP.Address, config.Telemetry.Address, config.Submission.CrashAt = address, telemetry, l.dieAt

			return frontdoor.Run(ctx, config, on, l.ledger)
		})
	w.doors = append(w.doors, "http://"+address)
	clients := link.Between(&w.network)
	clients.Set(link.Slow, w.latency)
	w.clients[address] = clients
	s.clients = clients
}

// dialDoor connects a client to a front door.
func (w *world) dialDoor(ctx context.Context, network, address string) (net.Conn, error) {
	time.Sleep(w.latency) // a refusal takes time
	return w.clients[address].Dial(ctx, network, address)
}

// start runs a service until it retires or the world ends.
func (w *world) start(name, address string, steps []string,
	run func(context.Context, *life, host.Host) error) *service {
	s := &service{w: w, name: name, address: address, steps: steps, run: run, ended: make(chan struct{})}
	s.begin()
	go s.supervise()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services = append(w.services, s)

	return s
}

// retire stops a service in order, for good.
func (s *service) retire() {
	s.mu.Lock()
	s.retired = true
	l := s.life
	s.mu.Unlock()
	l.stop()
	<-s.ended
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.services = slices.DeleteFunc(s.w.services, func(other *service) bool { return other == s })
}

// begin starts a life. Only start and supervise call it.
func (s *service) begin() {
	w := s.w
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &life{link: link.Between(&w.network), dieAt: s.dieAt, change: s.change, dead: make(chan struct{})}
	s.dieAt, s.down, s.frozen = "", restartTime, time.Time{} // its predecessor may have died frozen
	pace := w.latency
	var mu sync.Mutex
	l.ledger = cmp.Or(s.books, w.books()).Connect(func() time.Duration { mu.Lock(); defer mu.Unlock(); return pace })
	l.slow = func(more time.Duration) { mu.Lock(); defer mu.Unlock(); pace = w.latency + more }
	s.life = l
	l.heal(w)
	ctx, stop := context.WithCancel(w.ends)
	l.stop = stop
	on := host.Host{
		Listen: func(network, address string) (net.Listener, error) {
			listener, err := w.network.Listen(network, address)
			if err == nil {
				l.owns(listener)
			}

			return accepting{listener, l}, err
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(w.latency) // a refusal takes time, too, or a client that dials again and again stops time
			return l.link.Dial(ctx, network, address)
		},
		Log: prefixed{w, s.name},
		Now: s.clock,
		Die: func() { w.note("%s dies at %s", s.name, l.dieAt); l.die() },
	}
	go func() {
		err := s.run(ctx, l, on)
		select {
		case <-l.dead: // it has ended already
		default:
			if err != nil {
				w.note("%s ends: %v", s.name, err)
			}
		}
		l.die()
		l.link.Close()
	}()
}

// die cuts everything in one instant: whatever the program still does, nobody sees it.
func (l *life) die() {
	l.mu.Lock()
	defer l.mu.Unlock()

	select {
	case <-l.dead:
		return
	default:
	}
	l.link.Set(link.Cut, 0)
	l.ledger.Close()

	for _, open := range l.network {
		open.Close()
	}
	l.stop()
	close(l.dead)
}

// owns closes a part of the network when the life ends.
func (l *life) owns(part io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()

	select {
	case <-l.dead:
		part.Close()
	default:
		l.network = append(l.network, part)
	}
}

// accepting is a listener whose connections end with the life.
type accepting struct {
	net.Listener
	of *life
}

func (a accepting) Accept() (net.Conn, error) {
	connection, err := a.Listener.Accept()
	if err == nil {
		a.of.owns(connection)
	}

	return connection, err
}

// set changes the network between the program and Kafka. A dead one stays cut, and a frozen one
// neither sends nor receives.
func (l *life) set(state link.State, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()

	select {
	case <-l.dead:
	default:
		if !l.frozen || state == link.Cut {
			l.link.Set(state, delay)
		}
	}
}

// heal ends what faults did to the network, but for a frozen program.
func (l *life) heal(w *world) {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()

	if !frozen {
		l.set(link.Slow, w.latency)
		l.ledger.Heal()
		l.slow(0)
	}
}

// freeze holds all that a program sends and receives until it is called with false and heal follows.
func (l *life) freeze(isFrozen bool) {
	l.set(link.Stalled, 0)
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.frozen = isFrozen; isFrozen {
		l.ledger.Cut(true, true)
	}
}

// disarm ends the lives that would still die at a step.
func (w *world) disarm() {
	for _, s := range w.all() {
		s.mu.Lock()
		armed := s.dieAt != "" || s.life.dieAt != ""
		s.mu.Unlock()

		if armed {
			s.kill(restartTime, "")
		}
	}
}

func (s *service) supervise() {
	defer close(s.ended)

	for {
		s.mu.Lock()
		l := s.life
		s.mu.Unlock()
		<-l.dead
		s.mu.Lock()
		down, retired := s.down, s.retired
		s.mu.Unlock()

		if retired {
			return
		}

		select {
		case <-s.w.ends.Done():
			return
		case <-time.After(down):
		}
		s.begin()
	}
}

// now returns the life that runs.
func (s *service) now() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// clock is the wall clock of the service.
func (s *service) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.frozen.IsZero() {
		return s.frozen
	}

	return time.Now().Add(s.offset)
}

// freeze stops the clock of the service. Without it the clock shows the right time at once.
func (s *service) freeze(isFrozen bool) {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()

	s.frozen = time.Time{}
	if isFrozen {
		s.frozen = now
	}
}

// pause freezes a program until resume. Nothing of it can be seen, and its clock jumps when it goes
// on. It differs from SIGSTOP in this: its timers and its code run, so it may decide before it goes
// on what a stopped program decides after it. Nobody learns of the decision any sooner.
func (s *service) pause() (resume func()) {
	l := s.now()
	s.freeze(true)

	if s.clients != nil {
		s.clients.Set(link.Stalled, 0)
	}
	l.freeze(true)

	return func() {
		s.freeze(false)
		l.freeze(false)
		l.heal(s.w)

		if s.clients != nil {
			s.clients.Set(link.Slow, s.w.latency)
		}
	}
}

func (s *service) setOffset(offset time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = offset
}

// kill ends a life and says how long the service stays down, and where its next life ends.
func (s *service) kill(down time.Duration, dieAt string) {
	s.mu.Lock()
	s.down, s.dieAt = down, dieAt
	l := s.life
	s.mu.Unlock()
	l.die()
}
