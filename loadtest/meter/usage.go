// Package meter measures what processes use, and reads from the engines' metrics where the
// time of payments goes.
package meter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Process is a process to measure.
type Process struct {
	Name string
	PID  int
}

// Sample is what processes used until an instant.
type Sample struct {
	At      time.Time
	Usages  []Usage // in the order of the processes
	sockets map[socket]traffic
	Stored  int64 // bytes of the folder on the disk
}

// Usage is what a process used since its start.
type Usage struct {
	CPU          time.Duration
	WrittenBytes int64 // to the disk, by the kernel's account
	RSSBytes     int64
	Syscalls     int64 // of read and write, and the like
	Waits        int64 // voluntary context switches of the threads that are alive
}

// Cost is what one process used for each payment of a run.
type Cost struct {
	Process         string  `json:"process"`
	CPUMicroseconds float64 `json:"cpu_microseconds_per_payment"`
	NetworkBytes    float64 `json:"network_bytes_per_payment"` // sent and received
	DiskBytes       float64 `json:"disk_bytes_written_per_payment"`
	MemoryBytes     int64   `json:"memory_bytes_at_end"`
	Syscalls        float64 `json:"reads_and_writes_per_payment"`
	Waits           float64 `json:"voluntary_context_switches_per_payment"`
}

// Read samples processes and a folder.
func Read(processes []Process, folder string) (Sample, error) {
	s := Sample{At: time.Now()}
	for _, p := range processes {
		usage, err := usageOf(p.PID)
		if err != nil {
			return s, fmt.Errorf("cannot measure %s: %w", p.Name, err)
		}
		s.Usages = append(s.Usages, usage)
	}
	var err error
	if s.sockets, err = readSockets(); err != nil {
		return s, err
	}
	s.Stored, err = stored(folder)
	return s, err
}

// Costs returns what processes used between two samples, for each payment.
func Costs(processes []Process, before, after Sample, payments int) (costs []Cost) {
	n := float64(max(payments, 1))
	bytes := networkBytes(before.sockets, after.sockets)
	for i, p := range processes {
		from, to := before.Usages[i], after.Usages[i]
		costs = append(costs, Cost{
			Process:         p.Name,
			CPUMicroseconds: float64((to.CPU - from.CPU).Microseconds()) / n,
			NetworkBytes:    float64(bytes[p.PID]) / n,
			DiskBytes:       float64(to.WrittenBytes-from.WrittenBytes) / n,
			MemoryBytes:     to.RSSBytes,
			Syscalls:        float64(to.Syscalls-from.Syscalls) / n,
			Waits:           float64(to.Waits-from.Waits) / n,
		})
	}
	return costs
}

func usageOf(pid int) (u Usage, err error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return u, err
	}
	stat, err := process.Stat()
	if err != nil {
		return u, err
	}
	io, err := process.IO()
	if err != nil {
		return u, err
	}
	u = Usage{CPU: time.Duration(stat.CPUTime() * float64(time.Second)), WrittenBytes: int64(io.WriteBytes),
		RSSBytes: int64(stat.ResidentMemory()), Syscalls: int64(io.SyscR + io.SyscW)}
	threads, err := procfs.AllThreads(pid)
	for _, thread := range threads {
		if status, err := thread.NewStatus(); err == nil { // else the thread has ended meanwhile
			u.Waits += int64(status.VoluntaryCtxtSwitches)
		}
	}
	return u, err
}

// stored adds up the written parts of the files in a folder: files may have holes and
// reserved blocks.
func stored(folder string) (bytes int64, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return skipGone(err)
		}
		n, err := written(path)
		bytes += n
		return skipGone(err)
	})
	return bytes, err
}

// written adds up the parts of a file that hold data.
func written(path string) (bytes int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	const seekData, seekHole = 3, 4
	for end := int64(0); ; {
		begin, err := file.Seek(end, seekData)
		if errors.Is(err, syscall.ENXIO) { // no data after this
			return bytes, nil
		}
		if err == nil {
			end, err = file.Seek(begin, seekHole)
		}
		if err != nil {
			return bytes, err
		}
		bytes += end - begin
	}
}

// skipGone ignores that a file was removed after it was listed.
func skipGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
