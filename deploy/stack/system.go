package stack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// sight is what the kernel shows of a process.
type sight struct {
	started string // in ticks since the boot; a later process with the same pid has another
	ended   bool   // nothing is left of it but an entry for its parent
	dying   bool   // it runs no more of its program, but may still hold its ports and files
	frozen  bool
	memory  int64         // bytes, resident
	cpu     time.Duration // of a processor, since its start
}

const (
	exiting  = 0x4               // the kernel's PF_EXITING
	killSent = 1 << (9 - 1)      // SIGKILL among the pending signals
	tick     = time.Second / 100 // USER_HZ
)

// look returns what the kernel shows of the process with this pid.
func look(pid int) (sight, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/stat"
	text, err := os.ReadFile(path)
	if err != nil {
		return sight{}, err
	}
	// pid (name) state …: the name may hold spaces and parentheses. proc(5) has the fields.
	_, after, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(after)
	if len(fields) < 29 {
		return sight{}, fmt.Errorf("cannot read %s: %q", path, text)
	}
	number := func(field int) int64 {
		n, wrong := strconv.ParseInt(fields[field], 10, 64)
		err = errors.Join(err, wrong)
		return n
	}
	zombie := fields[0] == "Z" || fields[0] == "X"
	// A process is a zombie as soon as its first thread has ended. Its others may hold its ports.
	threads := number(17)
	s := sight{
		started: fields[19],
		ended:   zombie && threads <= 1,
		dying:   zombie || number(6)&exiting != 0 || number(28)&killSent != 0,
		frozen:  fields[0] == "T",
		memory:  number(21) * int64(os.Getpagesize()),
		cpu:     time.Duration(number(11)+number(12)) * tick,
	}
	return s, err
}

// startTime returns when the running process with this pid started, in ticks since the boot.
func startTime(pid int) (string, error) {
	s, err := look(pid)
	if err == nil && s.dying {
		err = fmt.Errorf("process %d has ended", pid)
	}
	return s.started, err
}

// alive reports whether the process with this pid and start time runs its program.
func alive(pid int, started string) bool {
	now, err := startTime(pid)
	return err == nil && now == started
}

// gone reports whether nothing is left of the process with this pid and start time. A process
// that dies is neither alive nor gone: to free gigabytes of memory takes a second.
func gone(pid int, started string) bool {
	s, err := look(pid)
	return err != nil || s.started != started || s.ended
}

// keeper runs a program, writes its pid to file 3, and its exit code to the file in its first argument.
const keeper = `end=$1; shift; sh -c 'echo $$ >&3; exec "$@" 3>&-' sh "$@"; code=$?; echo $code >"$end"; exit $code`

// keep makes a background command leave how it ends in a file: only its parent is told, and
// `stack up` does not stay. So a shell stays as the parent. pid returns the command's pid after the
// shell has started; the shell ends after it.
func keep(cmd *exec.Cmd, end string) (pid func() (int, error), err error) {
	if _, err := exec.LookPath(cmd.Path); err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(end), 0o755), os.RemoveAll(end)); err != nil {
		return nil, err
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Path, cmd.Args = shell, append([]string{"sh", "-c", keeper, "sh", end}, cmd.Args...)
	cmd.ExtraFiles = []*os.File{write}
	return func() (int, error) {
		write.Close()
		defer read.Close()
		var pid int
		_, err := fmt.Fscan(read, &pid)
		return pid, err
	}, nil
}

// leaveEnd leaves how a foreground process ended, as keep does. Only a room reads it.
func leaveEnd(end string, how *os.ProcessState) {
	code := how.ExitCode()
	if status, ok := how.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	if os.MkdirAll(filepath.Dir(end), 0o755) == nil {
		_ = os.WriteFile(end, []byte(strconv.Itoa(code)), 0o644)
	}
}

// howEnded reads what keep has left: like "killed by signal 9 at 2026-11-23 12:03:10 UTC".
func howEnded(end string) string {
	text, err := os.ReadFile(end)
	if err != nil {
		return "not running"
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(text)))
	file, statErr := os.Stat(end)
	if err != nil || statErr != nil {
		return "not running"
	}
	at := file.ModTime().UTC().Format("2006-01-02 15:04:05 UTC")
	if code > 128 { // as shells say it
		return fmt.Sprintf("killed by signal %d at %s", code-128, at)
	}
	return fmt.Sprintf(exited+"%d at %s", code, at)
}

const exited = "exited with code "

// strays returns the names and pids of processes that run in the background in a stack's folder: their working folder is
// that, and their output goes to its logs. So they are found without a state. The shells of keep end with them.
func strays(dir string) (names, pids []string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil
	}
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		cwd, err := os.Readlink(filepath.Join(folder, "cwd"))
		if err != nil || cwd != dir {
			continue
		}
		log, err := os.Readlink(filepath.Join(folder, "fd", "1"))
		program, gone := os.ReadFile(filepath.Join(folder, "comm"))
		pid, bad := strconv.Atoi(filepath.Base(folder))
		seen, went := look(pid)
		if errors.Join(err, gone, bad, went) != nil || seen.dying || string(program) == "sh\n" || filepath.Dir(log) != filepath.Join(dir, "logs") {
			continue
		}
		names, pids = append(names, strings.TrimSuffix(filepath.Base(log), ".log")), append(pids, strconv.Itoa(pid))
	}
	return names, pids
}
