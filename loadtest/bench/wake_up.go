package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// WakeUp is the time from waking a thread until it runs, in microseconds. A payment that comes
// alone costs many wake-ups.
type WakeUp struct {
	SameProcessor  float64 `json:"same_processor_us"`
	OtherProcessor float64 `json:"other_processor_us"` // 0: none, or unknown
}

// processors are those of this process at its start. A stack may leave it fewer.
var processors = func() (all []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for core := 0; len(all) < set.Count(); core++ {
		if set.IsSet(core) {
			all = append(all, core)
		}
	}
	return all
}()

// measureWakeUp takes less than a second.
func measureWakeUp() (w WakeUp, err error) {
	if len(processors) == 0 {
		return w, errors.New("the processors of this process are unknown")
	}
	first, last := processors[0], processors[len(processors)-1]
	if w.SameProcessor, err = wakeUpMicroseconds(first, first); err == nil && last != first {
		w.OtherProcessor, err = wakeUpMicroseconds(first, last)
	}
	return w, err
}

// wakeUpMicroseconds lets two threads on given processors wake each other through pipes.
func wakeUpMicroseconds(here, there int) (float64, error) {
	const rounds = 3000
	var ball, back [2]int
	for _, pipe := range []*[2]int{&ball, &back} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return 0, fmt.Errorf("pipe: %w", err)
		}
		defer unix.Close(pipe[0])
		defer unix.Close(pipe[1])
	}
	// The goroutines do not unlock their threads, so the threads end with them: no other
	// goroutine may run on a thread that is bound to one processor.
	play := func(core, from, to int, serve bool) error {
		runtime.LockOSThread()
		var set unix.CPUSet
		set.Set(core)
		err := unix.SchedSetaffinity(0, &set)
		one := make([]byte, 1)
		for i := 0; i < rounds; i++ { // also after an error, because the other thread waits
			if serve {
				_, writeErr := unix.Write(to, one)
				err = errors.Join(err, writeErr)
			}
			_, readErr := unix.Read(from, one)
			err = errors.Join(err, readErr)
			if !serve {
				_, writeErr := unix.Write(to, one)
				err = errors.Join(err, writeErr)
			}
		}
		return err
	}
	ends := make(chan error, 2)
	started := time.Now()
	go func() { ends <- play(here, back[0], ball[1], true) }()
	go func() { ends <- play(there, ball[0], back[1], false) }()
	err := errors.Join(<-ends, <-ends)
	return float64(time.Since(started).Microseconds()) / (2 * rounds), err
}
