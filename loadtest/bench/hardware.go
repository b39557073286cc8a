package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Hardware describes this machine.
func Hardware() string {
	return fmt.Sprintf("%d × %s, %.0f GiB, Linux %s",
		runtime.NumCPU(), field("/proc/cpuinfo", "model name", "unknown processor"), memoryGiB(), kernel())
}

func memoryGiB() float64 {
	var kib float64
	_, _ = fmt.Sscanf(field("/proc/meminfo", "MemTotal", ""), "%f kB", &kib) // 0: unknown
	return kib / (1 << 20)
}

// kernel is the version of the kernel, without what a distribution adds.
func kernel() string {
	version, _, _ := strings.Cut(strings.TrimSpace(read("/proc/sys/kernel/osrelease")), "-")
	return version
}

// busyMax is the share of the processors that other programs may use before a run.
const busyMax = 0.1

// busyShare measures for a second which share of the processors is used.
func busyShare() float64 {
	busy, all := processorTime()
	time.Sleep(time.Second)
	busyThen, allThen := processorTime()
	return float64(busyThen-busy) / float64(max(1, allThen-all))
}

// WakeUp is the time from waking a thread until it runs, in microseconds. A payment that comes
// alone costs many wake-ups.
type WakeUp struct {
	SameProcessor  float64 `json:"same_processor_us"`
	OtherProcessor float64 `json:"other_processor_us"` // 0: none, or unknown
}

// processorTime is the time of all processors since boot, in ticks.
func processorTime() (busy, all int64) {
	line, _, _ := strings.Cut(read("/proc/stat"), "\n")
	for i, text := range strings.Fields(line) {
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err != nil || i > 8 { // the name of the line, and guests, which are part of user
			continue
		}
		all += ticks
		if i != 4 && i != 5 { // idle, or waiting for a disk
			busy += ticks
		}
	}
	return busy, all
}

// field is the first value of a name in a file of /proc.
func field(path, name, otherwise string) string {
	for line := range strings.Lines(read(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
