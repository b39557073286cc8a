package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used since it began.
type usage struct {
	cpu          time.Duration
	writtenBytes int64 // to the disk, as the kernel accounts it
	rssBytes     int64
}

// clockTicks per second: what /proc counts CPU time in, on every Linux that Go runs on.
const clockTicks = 100

// usageOf reads a process's usage from /proc.
func usageOf(pid int) (u usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name may hold spaces
	if len(fields) < 22 {
		return u, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n }
	u.cpu = time.Duration(number(fields[11])+number(fields[12])) * time.Second / clockTicks
	u.rssBytes = number(fields[21]) * int64(os.Getpagesize())
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(io)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name == "write_bytes" {
			u.writtenBytes = number(value)
		}
	}
	return u, nil
}

// Cost is what one process used for each payment of a run.
type Cost struct {
	Process         string  `json:"process"`
	CPUMicroseconds float64 `json:"cpu_microseconds_per_payment"`
	DiskBytes       float64 `json:"disk_bytes_written_per_payment"`
	MemoryBytes     int64   `json:"memory_bytes_at_end"`
}

// meter measures the processes of a stack over one run.
type meter struct {
	names  []string
	pids   []int
	before []usage
}

func startMeter(pids map[string]int, order []string) (*meter, error) {
	m := &meter{}
	for _, name := range order {
		u, err := usageOf(pids[name])
		if err != nil {
			return nil, fmt.Errorf("cannot measure %s: %w", name, err)
		}
		m.names, m.pids, m.before = append(m.names, name), append(m.pids, pids[name]), append(m.before, u)
	}
	return m, nil
}

// costs returns what was used since the start, for each payment.
func (m *meter) costs(payments int) ([]Cost, error) {
	var costs []Cost
	for i, name := range m.names {
		after, err := usageOf(m.pids[i])
		if err != nil {
			return nil, fmt.Errorf("cannot measure %s: %w", name, err)
		}
		costs = append(costs, Cost{
			Process:         name,
			CPUMicroseconds: float64((after.cpu - m.before[i].cpu).Microseconds()) / float64(payments),
			DiskBytes:       float64(after.writtenBytes-m.before[i].writtenBytes) / float64(payments),
			MemoryBytes:     after.rssBytes,
		})
	}
	return costs, nil
}
