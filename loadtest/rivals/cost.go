package rivals

import (
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
	"golang.org/x/sys/unix"

	"github.com/liquida/liquida/loadtest/meter"
)

// usage is what server, client and disk used since their start.
type usage struct {
	server, client time.Duration // of CPU
	stored         int64         // bytes on the disk now
	device         device
}

// device counts the writes of the device under a folder. The kernel's count for a process
// (/proc/PID/io) is wrong for files in the page cache: if the cache keeps them in large
// folios, each small write after a sync counts as a whole folio.
type device struct {
	known          bool
	bytes, flushes int64
}

// usageOf reads what a server and its children used. The kernel adds ended children to their
// parent.
func usageOf(pid int, dir string) (u usage, err error) {
	self, err := procfs.Self()
	if err != nil {
		return u, err
	}
	stat, err := self.Stat()
	if err != nil {
		return u, err
	}
	u.client = ticks(stat.UTime + stat.STime)
	all, err := procfs.AllProcs()
	if err != nil {
		return u, err
	}
	for _, process := range all {
		stat, err := process.Stat()
		if err != nil || process.PID != pid && stat.PPID != pid {
			continue // another's, or just ended
		}
		u.server += ticks(stat.UTime + stat.STime)
		if process.PID == pid {
			u.server += ticks(uint(stat.CUTime + stat.CSTime))
		}
	}
	if u.stored, err = meter.Stored(dir); err != nil {
		return u, err
	}
	u.device, err = deviceOf(dir)
	return u, err
}

// ticks converts ticks, which are 10 ms on every Linux that Go runs on.
func ticks(n uint) time.Duration { return time.Duration(n) * time.Second / 100 }

// deviceOf reads what the device that holds dir wrote, and how often it flushed its cache.
func deviceOf(dir string) (device, error) {
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return device{}, err
	}
	proc, err := blockdevice.NewFS("/proc", "/sys")
	if err != nil {
		return device{}, err
	}
	disks, err := proc.ProcDiskstats()
	if err != nil {
		return device{}, err
	}
	for _, disk := range disks {
		if disk.MajorNumber == unix.Major(stat.Dev) && disk.MinorNumber == unix.Minor(stat.Dev) && disk.IoStatsCount >= 20 {
			return device{true, 512 * int64(disk.WriteSectors), int64(disk.FlushRequestsCompleted)}, nil
		}
	}
	return device{}, nil // the file system has no device of its own
}

// cost fills in what the payments used before their end.
func (r *Run) cost(before, after usage) {
	r.ServerCPU = perPayment(r, (after.server - before.server).Microseconds())
	r.ClientCPU = perPayment(r, (after.client - before.client).Microseconds())
	r.DeviceFlushes = -1
	if after.device.known {
		r.DeviceFlushes = perPayment(r, after.device.flushes-before.device.flushes)
	}
}

// written fills in what is on the disk at last.
func (r *Run) written(before, after usage) {
	r.DeviceBytes, r.StoredBytes = -1, perPayment(r, after.stored-before.stored)
	if after.device.known {
		r.DeviceBytes = perPayment(r, after.device.bytes-before.device.bytes)
	}
}

func perPayment(r *Run, n int64) float64 { return float64(n) / float64(r.Payments) }
