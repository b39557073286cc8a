package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
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

// kernel is its version, without what a distribution adds.
func kernel() string {
	version, _, _ := strings.Cut(strings.TrimSpace(read("/proc/sys/kernel/osrelease")), "-")
	return version
}

// loadAverage is how many processes wanted to run in the last minute.
func loadAverage() (average float64) {
	_, _ = fmt.Sscan(read("/proc/loadavg"), &average)
	return average
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
