//go:build unix && !linux

package stack

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// attributes puts a child outside the terminal's process group. Without Linux's parent-death
// signal a child outlives a stack that was killed with SIGKILL.
func attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// startTime returns when the running process with this pid started.
func startTime(pid int) (string, error) {
	output, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	state, started, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	if err != nil || started == "" || strings.HasPrefix(state, "Z") {
		return "", fmt.Errorf("no process %d", pid)
	}
	return strings.TrimSpace(started), nil
}

func limitFiles(int, uint64) error {
	return fmt.Errorf("limiting the files of a running process needs Linux: %w", errors.ErrUnsupported)
}
