package tigerbeetle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/liquida/liquida/platform/host"
)

const (
	// memoryBytes is what a server takes beside its page cache, all of it within seconds of its start.
	memoryBytes = 2200 << 20
	// memorySlack is left to the programs that are started with a server.
	memorySlack = 1 << 29
	// memoryWait is how long a server waits for others to end. Then the kernel may have to kill one.
	memoryWait = 3 * time.Minute
)

// AwaitMemory waits until the machine has the memory for one more server: tests side by side would need more than there is,
// and the kernel would kill one. It calls say once if it has to wait, and after memoryWait it returns all the same. Until the
// caller calls started, no other program begins a server.
func AwaitMemory(ctx context.Context, say func(string)) (started func(), err error) {
	turn, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("liquida-ledger-turn-%d", os.Getuid())), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	said := false
	for giveUp := time.Now().Add(memoryWait); ; {
		held := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		if held && roomForServer() || time.Now().After(giveUp) {
			return func() { turn.Close() }, nil
		}
		if held {
			_ = syscall.Flock(int(turn.Fd()), syscall.LOCK_UN)
			if !said {
				say(fmt.Sprintf("waiting up to %v until %.1f GiB of memory are free for TigerBeetle: end other programs", memoryWait, float64(memoryBytes+memorySlack)/(1<<30)))
				said = true
			}
		}
		if !host.Sleep(ctx, 100*time.Millisecond) {
			turn.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// roomForServer reports whether there is memory for one more server, and for what those that start have not touched yet. It is
// true where the system does not say.
func roomForServer() bool {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return true
	}
	_, after, found := bytes.Cut(text, []byte("MemAvailable:"))
	fields := bytes.Fields(after)
	if !found || len(fields) == 0 {
		return true
	}
	kilobytes, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return true
	}
	available := kilobytes << 10
	names, _ := filepath.Glob("/proc/[0-9]*/comm") // its pattern is right
	for _, name := range names {
		if comm, err := os.ReadFile(name); err == nil && string(bytes.TrimSpace(comm)) == "tigerbeetle" {
			available -= max(0, memoryBytes-resident(filepath.Dir(name)))
		}
	}
	return available >= memoryBytes+memorySlack
}

// resident is the memory of a process that it has touched, or all of a server's when the process is gone.
func resident(process string) int64 {
	text, err := os.ReadFile(filepath.Join(process, "statm"))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return memoryBytes
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return memoryBytes
	}
	return pages * int64(os.Getpagesize())
}
