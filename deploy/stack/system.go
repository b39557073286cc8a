package stack

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// attributes puts a child outside the terminal's process group. So Ctrl-C reaches only the stack,
// which stops the others in order. In the foreground the kernel kills the child when the stack
// dies. In the background the child has its own session.
func attributes(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startTime returns when the running process with this pid started, in ticks since the boot.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	// pid (name) state …: the name may hold spaces and parentheses.
	_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(after)
	if len(fields) < 20 {
		return "", fmt.Errorf("cannot read /proc/%d/stat: %q", pid, stat)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return "", fmt.Errorf("process %d has ended", pid) // a zombie whose parent does not wait for it
	}
	return fields[19], nil
}
