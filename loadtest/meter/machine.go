package meter

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Hardware describes this machine.
func Hardware() string {
	processor, memoryGiB, kernel := "unknown processor", 0.0, ""

	if proc, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := proc.CPUInfo(); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
			processor = cpus[0].ModelName
		}

		if info, err := proc.Meminfo(); err == nil && info.MemTotal != nil {
			memoryGiB = float64(*info.MemTotal) / (1 << 20)
		}

		if release, err := proc.SysctlStrings("kernel.osrelease"); err == nil && len(release) > 0 {
			kernel, _, _ = strings.Cut(release[0], "-") // without what a distribution adds
		}
	}

	return fmt.Sprintf("%d × %s, %.0f GiB, Linux %s", runtime.NumCPU(), processor, memoryGiB, kernel)
}

// BusyShare measures for a second which share of the processors is used.
func BusyShare() float64 {
	busy, all := processorSeconds()
	time.Sleep(time.Second)
	busyThen, allThen := processorSeconds()

	return min(1, (busyThen-busy)/max(0.01, allThen-all))
}

// processorSeconds is the time of all processors since boot. Guests are a part of user.
func processorSeconds() (busy, all float64) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}

	stat, err := proc.Stat()
	if err != nil {
		return 0, 0
	}
	t := stat.CPUTotal
	busy = t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal

	return busy, busy + t.Idle + t.Iowait
}
