package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/liquida/liquida/deploy/link"
)

// ErrNotRunning says that no stack runs in a folder, or none that other programs may ask.
var ErrNotRunning = errors.New("the stack is not running")

// order is what another program asks of a stack. answer is what the stack says to it: what it does, and at last how it
// went. Both are JSON, over a socket in the stack's folder that only its user may open.
type order struct {
	Act    string  `json:"act"`
	Name   string  `json:"name,omitempty"` // of a process
	Peer   string  `json:"peer,omitempty"` // what it is cut from
	Config *Config `json:"config,omitempty"`
}

type answer struct {
	Said    string   `json:"said,omitempty"`
	Done    bool     `json:"done,omitempty"`
	Problem string   `json:"problem,omitempty"`
	Status  []Status `json:"status,omitempty"`
}

// Acts of Attached.Act.
const (
	ActKill      = "kill"       // with SIGKILL; it returns when the process has ended
	ActFreeze    = "freeze"     // SIGSTOP: its connections stay open, and it answers nothing
	ActThaw      = "thaw"       // SIGCONT
	ActStart     = "start"      // what has ended, as it was started before; it waits until it is ready
	ActAddEngine = "add-engine" // in a new instance; it waits until it is ready
	ActCut       = "cut"        // closes the connections to FromBroker or FromLedger, and refuses new ones
	ActMend      = "mend"       // lets connections pass again

	actStatus = "status"
	actUp     = "up"   // of a supervisor only
	actDown   = "down" // of a supervisor only
)

// Attached is a stack that another process runs.
type Attached struct{ dir string }

// Attach returns the stack whose folder is dir. It need not run yet.
func Attach(dir string) *Attached { return &Attached{dir} }

// Status returns the processes in the order of starting, also those that have ended. It returns
// ErrNotRunning when none is left, and takes at most two seconds.
func (a *Attached) Status(ctx context.Context) ([]Status, error) {
	got, err := a.ask(ctx, order{Act: actStatus}, io.Discard)
	return got.Status, err
}

// Act does an act on a process. Only a cut, and its mending, have a peer.
func (a *Attached) Act(ctx context.Context, act, name, peer string) error {
	_, err := a.ask(ctx, order{Act: act, Name: name, Peer: peer}, io.Discard)
	return err
}

// ask sends an order, and returns the last answer. What the stack says before goes to says.
func (a *Attached) ask(ctx context.Context, asked order, says io.Writer) (got answer, err error) {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", socketIn(a.dir))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return got, ErrNotRunning
	}

	if err != nil {
		return got, err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { connection.Close() })()

	err = json.NewEncoder(connection).Encode(asked)
	for decoder := json.NewDecoder(connection); err == nil && !got.Done; {
		got = answer{}
		if err = decoder.Decode(&got); err == nil && got.Said != "" {
			fmt.Fprint(says, got.Said)
		}
	}

	switch {
	case err != nil:
		return got, fmt.Errorf("the stack's process has not answered: %w", cmp.Or(context.Cause(ctx), err))
	case got.Problem == ErrNotRunning.Error():
		return got, ErrNotRunning
	case got.Problem != "":
		return got, errors.New(got.Problem)
	}

	return got, nil
}

// socketIn returns the path of the socket of the stack in dir.
func socketIn(dir string) string { return filepath.Join(dir, "control.sock") }

// listen opens the socket in dir. Nobody else may have one there: the caller holds the folder's lock.
func listen(dir string) (net.Listener, error) {
	path := socketIn(dir)
	if limit := len(syscall.RawSockaddrUnix{}.Path); len(path) >= limit {
		return nil, fmt.Errorf("%s has %d bytes, and a socket's path at most %d: choose a shorter folder", path,
			len(path), limit-1)
	}

	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}

	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}

	return listener, os.Chmod(path, 0o600)
}

// open lets other programs ask the stack until it stops.
func (s *Stack) open(dir string) error {
	listener, err := listen(dir)
	if err != nil {
		return err
	}
	go s.serve(listener, nil)
	go func() {
		<-s.stopping
		listener.Close()
	}()

	return nil
}

// serve takes orders until the listener closes. exit ends the process of a stack in the background, which ends with its
// last process; it is nil in the foreground.
func (s *Stack) serve(listener net.Listener, exit func()) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			s.take(connection, listener, exit)
		}()
	}
}

// take carries out one order. An order ends when whoever gave it has gone.
func (s *Stack) take(connection net.Conn, listener net.Listener, exit func()) {
	var asked order
	if json.NewDecoder(connection).Decode(&asked) != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, connection)
		cancel()
	}()
	says := json.NewEncoder(connection)
	done := answer{Done: true}
	var err error

	switch {
	case asked.Act == actStatus:
		done.Status, err = s.status(ctx)
	case asked.Act != actUp && asked.Act != actDown:
		err = s.act(ctx, asked)
	case exit == nil:
		err = errors.New("the stack runs as long as the program that has started it: end that")
	case asked.Act == actUp:
		asked.Config.Progress = progress{says}
		err = s.up(ctx, *asked.Config)
	default:
		err = s.Stop(context.WithoutCancel(ctx)) // an interrupted down is a down
	}

	if err != nil {
		done.Problem = err.Error()
	}

	if exit != nil && (asked.Act == actUp || asked.Act == actDown) && !s.anyRuns() {
		listener.Close()                       // no more orders
		_ = s.Stop(context.WithoutCancel(ctx)) // nothing is left but the lock
		defer exit()
	}
	_ = says.Encode(done) // an error means that the caller has gone
}

// progress tells whoever gave an order what is done for it.
type progress struct{ *json.Encoder }

func (p progress) Write(text []byte) (int, error) {
	_ = p.Encode(answer{Said: string(text)}) // it may have gone, and its order goes on until that is seen
	return len(text), nil
}

func (s *Stack) act(ctx context.Context, asked order) error {
	if asked.Name == Room {
		return errors.New("the room does not act on itself")
	}

	switch asked.Act {
	case ActKill:
		return s.Kill(asked.Name)
	case ActFreeze:
		return s.Pause(asked.Name)
	case ActThaw:
		return s.Resume(asked.Name)
	case ActCut:
		return s.cut(asked.Name, asked.Peer, link.Cut)
	case ActMend:
		return s.cut(asked.Name, asked.Peer, link.Whole)
	}
	s.acting.Lock()
	defer s.acting.Unlock()

	if asked.Act == ActAddEngine {
		_, err := s.AddEngine(ctx)
		return err
	}

	if asked.Act == ActStart {
		return s.on(asked.Name, func(p *process) error {
			if p.running() {
				return fmt.Errorf("%s is already running with pid %d", asked.Name, p.current().Pid)
			}

			return s.bring(ctx, asked.Name)
		})
	}

	return fmt.Errorf("the stack knows no act %q", asked.Act)
}
