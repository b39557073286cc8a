package simulation

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/loadtest/link"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/services/bank-simulator/bank"
	"github.com/liquida/liquida/services/clearing-engine/engine"
)

// service is a program that starts again whenever it ends, as under a supervisor.
type service struct {
	w     *world
	name  string
	steps []string // at which it can die
	run   func(ctx context.Context, l *life, on host.Host) error
	ended chan struct{}

	mu     sync.Mutex
	life   *life
	down   time.Duration // until the next life begins
	dieAt  string        // the step at which the next life ends, as POINT:N
	offset time.Duration // of its clock
}

// life is a service from a start to its end.
type life struct {
	link   *link.Link // to the broker
	ledger *ledgermodel.Client
	slow   func(time.Duration) // sets the time of a message to the ledger
	dieAt  string
	stop   context.CancelFunc
	dead   chan struct{}

	mu        sync.Mutex
	listeners []net.Listener
}

const bankSimulator = "bank-simulator"

const restartTime = 100 * time.Millisecond

func (w *world) startEngine(number int) {
	name, address := fmt.Sprintf("engine-%d", number), fmt.Sprintf("127.0.0.1:%d", 9103+number)
	w.start(name, []string{
		"after-fetch", "after-phase-1-sent", "after-phase-1-answered", "after-request-produced", "after-response-read",
		"after-phase-2-sent", "after-phase-2-answered", "after-report-produced", "after-report-acknowledged",
		"after-offset-marked", "after-commit",
	}, func(ctx context.Context, l *life, on host.Host) error {
		config := &engine.Config{}
		*config = *w.engineConfig
		config.Telemetry.Address, config.InstanceID, config.CrashAt = address, name, l.dieAt
		return engine.Run(ctx, config, on, l.ledger)
	})
}

func (w *world) startBanks() {
	w.start(bankSimulator, []string{"after-fetch", "after-answer-produced", "after-answer-acknowledged", "after-commit"},
		func(ctx context.Context, l *life, on host.Host) error {
			config := &bank.Config{}
			*config = *w.bankConfig // its addresses are those of TestWorld
			config.Bank.CrashAt = l.dieAt
			return bank.Run(ctx, config, on)
		})
}

// start runs a service until the world ends.
func (w *world) start(name string, steps []string, run func(context.Context, *life, host.Host) error) {
	s := &service{w: w, name: name, steps: steps, run: run, ended: make(chan struct{})}
	s.begin()
	go s.supervise()
	w.services = append(w.services, s)
}

// begin starts a life. The caller of start and supervise only.
func (s *service) begin() *life {
	w := s.w
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &life{link: link.Between(w.network.DialContext), dieAt: s.dieAt, dead: make(chan struct{})}
	s.dieAt, s.down = "", restartTime
	pace := w.latency
	var mu sync.Mutex
	l.ledger = w.ledger.Connect(func() time.Duration { mu.Lock(); defer mu.Unlock(); return pace })
	l.slow = func(more time.Duration) { mu.Lock(); defer mu.Unlock(); pace = w.latency + more }
	s.life = l
	l.heal(w)
	ctx, stop := context.WithCancel(w.ends)
	l.stop = stop
	on := host.Host{
		Listen: func(network, address string) (net.Listener, error) {
			listener, err := w.network.Listen(network, address)
			if err == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.listeners = append(l.listeners, listener)
			}
			return listener, err
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(w.latency) // a refusal takes time, or a client that dials again and again stops it
			return l.link.Dial(ctx, network, address)
		},
		Log: w.log,
		Now: func() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return time.Now().Add(s.offset) },
		Die: func() { w.note("%s dies at %s", s.name, l.dieAt); l.die() },
	}
	w.runs.Go(func() {
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
	})
	return l
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
	for _, listener := range l.listeners {
		listener.Close()
	}
	l.stop()
	close(l.dead)
}

// set changes the network between the program and Kafka. A dead one stays cut.
func (l *life) set(state link.State, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.dead:
	default:
		l.link.Set(state, delay)
	}
}

// heal ends what faults did to the network.
func (l *life) heal(w *world) {
	l.set(link.Slow, w.latency)
	l.ledger.Heal()
	l.slow(0)
}

func (s *service) supervise() {
	defer close(s.ended)
	for {
		s.mu.Lock()
		l := s.life
		s.mu.Unlock()
		<-l.dead
		s.mu.Lock()
		down := s.down
		s.mu.Unlock()
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
