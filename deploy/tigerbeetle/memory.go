package tigerbeetle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/liquida/liquida/platform/host"
)

const (
	// memoryKiB is what a server takes beside its page cache, all of it within seconds of its start.
	memoryKiB = 2200 << 10
	// memorySlackKiB is left to the programs that are started with a server.
	memorySlackKiB = 512 << 10
	// memoryWait is how long a server waits for others to end. Then the kernel may have to kill one.
	memoryWait = 3 * time.Minute
)

// AwaitMemory waits until the machine has the memory for more servers: tests side by side would need more than there
// is, and the kernel would kill one. It calls say once if it has to wait, and after memoryWait it returns all the same.
// Until the caller calls ready, no other program starts a server: this one has not touched all of its memory.
func AwaitMemory(ctx context.Context, servers int, say func(string)) (ready func(), err error) {
	turn, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("liquida-ledger-turn-%d", os.Getuid())),
		os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	need := int64(servers*memoryKiB + memorySlackKiB)
	said := false

	for giveUp := time.Now().Add(memoryWait); ; {
		held := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
		if held && freeKiB() >= need || time.Now().After(giveUp) {
			return func() { turn.Close() }, nil
		}

		if held && !said {
			said = true
			say(fmt.Sprintf("waiting up to %v until %.1f GiB of memory are free for TigerBeetle: end other programs",
				memoryWait, float64(need)/(1<<20)))
		}

		if !host.Sleep(ctx, 100*time.Millisecond) {
			turn.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// freeKiB returns the memory that is available, or more than anybody needs where the system does not say.
func freeKiB() (kib int64) {
	text, _ := os.ReadFile("/proc/meminfo")

	_, after, _ := bytes.Cut(text, []byte("MemAvailable:"))
	if _, err := fmt.Sscan(string(after), &kib); err != nil {
		return 1 << 40
	}

	return kib
}
