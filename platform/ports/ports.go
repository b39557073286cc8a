// Package ports picks TCP ports of this machine for servers that tests and local stacks start.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ports are picked below the range of outgoing connections that Linux has by default. Otherwise a client's connection
// could take the port of a server that is being restarted, or even connect to itself.
const (
	lowest = 12_000
	count  = 18_000
)

// Loopback returns the address of a port.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Free returns an address on the loopback interface that nobody listens on. It stays with this
// process until the process ends: no other test or stack picks it while the server there is down.
func Free() string {
	for {
		port := lowest + rand.IntN(count)
		if !machine.reserve(port) {
			continue
		}

		if isFree(port) {
			return Loopback(port)
		}
	}
}

// probed lets Go look once whether there are pidfds. It forks for that, without ForkLock.
var probed = sync.OnceFunc(func() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Release()
	}
})

// isFree tries the port. No program is started meanwhile: it would have a copy of the socket for a moment,
// and keep the port taken.
func isFree(port int) bool {
	probed()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()

	listener, err := net.Listen("tcp", Loopback(port))
	if err == nil {
		listener.Close()
	}

	return err == nil
}

// machine holds the ports of this process.
var machine = newTable(filepath.Join(os.TempDir(), fmt.Sprintf("liquida-ports-%d", os.Getuid())))

// table knows who has which port. A port is a byte of a file, and a lock on it.
type table struct {
	path  string
	mu    sync.Mutex
	taken map[int]bool // by this process
	locks *os.File
}

func newTable(path string) *table { return &table{path: path, taken: map[int]bool{}} }

// reserve takes a port, and returns false if somebody has it. Locks end with the process. Without a
// file for them, two processes rarely meet.
func (t *table) reserve(port int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if len(t.taken) == count {
		panic(fmt.Sprintf("this process has picked all %d ports from %d on, or others hold them", count, lowest))
	}

	if t.taken[port] {
		return false
	}

	t.taken[port] = true
	if t.locks == nil {
		file, err := os.OpenFile(t.path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return true
		}
		t.locks = file
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(port), Len: 1}
	err := unix.FcntlFlock(t.locks.Fd(), unix.F_OFD_SETLK, &lock)

	return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) // another error: this file system has no locks
}
