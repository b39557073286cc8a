package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/cache"
)

// Supervisor is the argument with which Up starts the calling program again, followed by the stack's folder. With it, a
// program must call Supervise and nothing else.
const Supervisor = "supervise"

// Up starts a stack that outlives the caller, and returns when every process is ready. It starts what is missing, and
// restarts what has another environment, by Config.Env, than it runs with. What a call starts stays,
// also if another process fails. Nothing restarts a crashed process: call Up again.
func Up(ctx context.Context, config Config) error {
	whole, err := config.withDefaults()
	if err != nil {
		return err
	}
	config.Dir, config.BinDir = whole.Dir, whole.BinDir

	stack := Attach(config.Dir)
	if _, err := stack.ask(ctx, order{Act: actStatus}, whole.Progress); errors.Is(err, ErrNotRunning) {
		if err := stack.supervise(ctx); err != nil {
			return err
		}
	}
	_, err = stack.ask(ctx, order{Act: actUp, Config: &config}, whole.Progress)

	return err
}

// supervise starts the process that runs the stack, and returns when it takes orders.
func (a *Attached) supervise(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(a.dir, "logs"), 0o755); err != nil {
		return err
	}
	path := filepath.Join(a.dir, "logs", "stack.log")

	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	program, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(program, Supervisor, a.dir)
	command.Dir, command.Stdout, command.Stderr = a.dir, log, log

	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives the terminal
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()

	for {
		if connection, err := net.Dial("unix", socketIn(a.dir)); err == nil {
			return connection.Close()
		}

		select {
		case <-ended:
			said, err := os.ReadFile(path)
			return errors.Join(fmt.Errorf("the process of the stack has ended; %s ends with:\n%s", path,
				cache.LastLines(said)), err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// Supervise runs the stack in dir as it is ordered to, and returns when it is down.
func Supervise(dir string) error {
	lock, err := own(dir)
	if err != nil {
		return err
	}

	listener, err := listen(dir)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	s := newStack(lock)
	go s.serve(listener, cancel)
	<-ctx.Done()
	listener.Close()

	return s.Stop(context.Background())
}

// Down stops the background stack in dir in the reverse order of starting. Its data stays.
// It returns ErrNotRunning when there is nothing to stop.
func Down(ctx context.Context, dir string) error {
	_, err := Attach(dir).ask(ctx, order{Act: actDown}, os.Stderr)
	return err
}

// Clean removes the data and the logs of the stack in dir. It returns an error while the stack runs.
func Clean(dir string) error {
	if there, err := cache.Exists(dir); err != nil || !there {
		return err
	}

	if _, err := Attach(dir).Status(context.Background()); errors.Is(err, ErrNotRunning) {
		_ = Down(context.Background(), dir) // all of it has died, and its supervisor waits for orders
	}

	lock, err := own(dir)
	if err != nil {
		return fmt.Errorf("%w; its data would be removed under it (down)", err)
	}
	defer lock.Close()
	// By name, so that a wrong folder loses nothing else.
	for _, name := range []string{
		"data", "logs", "keys", "key-digests", "answer-keys", "answer-keys.lock", "kafka-keys", "room-token",
		"report.html", "control.sock", "lock",
	} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}

	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}

	return nil
}
