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
	Usages []Usage // in the order of the processes
	Stored int64   // bytes of the folder on the disk
}

// Usage is what a process used since its start, or between two samples.
type Usage struct {
	Process
	CPU          time.Duration
	WrittenBytes int64 // to the disk, by the kernel's account
	RSSBytes     int64 // at the end
}

// Read samples processes and a folder.
func Read(processes []Process, folder string) (s Sample, err error) {
	for _, p := range processes {
		usage, err := usageOf(p)
		if err != nil {
			return s, fmt.Errorf("cannot measure %s: %w", p.Name, err)
		}
		s.Usages = append(s.Usages, usage)
	}

	s.Stored, err = stored(folder)

	return s, err
}

// Since returns what the same processes used since an earlier sample.
func (s Sample) Since(before Sample) (uses []Usage) {
	for i, u := range s.Usages {
		was := before.Usages[i]
		u.CPU, u.WrittenBytes = u.CPU-was.CPU, u.WrittenBytes-was.WrittenBytes
		uses = append(uses, u)
	}

	return uses
}

func usageOf(p Process) (u Usage, err error) {
	process, err := procfs.NewProc(p.PID)
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

	return Usage{Process: p, CPU: time.Duration(stat.CPUTime() * float64(time.Second)),
		WrittenBytes: int64(io.WriteBytes), RSSBytes: int64(stat.ResidentMemory())}, nil
}

// stored adds up the written parts of the files in a folder: files may have holes and
// reserved blocks.
func stored(folder string) (bytes int64, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var n int64
			n, err = written(path)
			bytes += n
		}

		if os.IsNotExist(err) { // removed after it was listed
			return nil
		}

		return err
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
