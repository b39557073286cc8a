package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

// asParent makes this binary start a server and print its pid, asRunner run itself with asProgram,
// which makes it write its pid to a file and never end.
const (
	asParent  = "CHILD_TEST_LOG"
	asRunner  = "CHILD_TEST_RUNNER"
	asProgram = "CHILD_TEST_PROGRAM"
)

func TestMain(m *testing.M) {
	var err error
	if log := os.Getenv(asParent); log != "" {
		var server *Server
		if server, err = Start(exec.Command("sleep", "600"), log, syscall.SIGKILL); err == nil {
			fmt.Println(server.PID)
			<-server.Ended
		}
	} else if file := os.Getenv(asRunner); file != "" {
		_, err = Run(context.Background(), endless(file), time.Hour)
	} else if file := os.Getenv(asProgram); file != "" {
		EndWithParent()
		if err = os.WriteFile(file+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err == nil {
			err = os.Rename(file+".new", file) // complete, or not there
		}
		time.Sleep(time.Hour)
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// endless returns a program that writes its pid to a file and never ends by itself.
func endless(file string) *exec.Cmd {
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), asRunner+"=", asProgram+"="+file)
	return program
}

func TestProgramEndsWithItsParent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asRunner+"="+file)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid string
	kit.Await(t, "the program", func() (bool, string) {
		text, err := os.ReadFile(file)
		pid = string(text)
		return err == nil, fmt.Sprint(err)
	})
	command := func() string {
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		return string(text)
	}
	if !strings.HasPrefix(command(), os.Args[0]) {
		t.Fatalf("the program does not run: %q", command())
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	kit.Await(t, "the end of the program", func() (bool, string) { return !strings.HasPrefix(command(), os.Args[0]), command() })
}

func TestProgramThatDoesNotEndIsNamed(t *testing.T) {
	output, err := Run(t.Context(), endless(filepath.Join(t.TempDir(), "pid")), 2*time.Second)
	if err == nil || !strings.Contains(err.Error(), "it did not end within 2s of real time") {
		t.Errorf("the error is %v", err)
	}
	if !strings.Contains(string(output), "goroutine ") {
		t.Errorf("it does not print its goroutines:\n%s", output)
	}
}

func TestServerEndsWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"="+filepath.Join(t.TempDir(), "log"))
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(output, &pid); err != nil {
		t.Fatal(err)
	}
	command := func() string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return string(text)
	}
	kit.Await(t, "the server", func() (bool, string) { return strings.HasPrefix(command(), "sleep"), command() })
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	kit.Await(t, "the end of the server", func() (bool, string) { return !strings.HasPrefix(command(), "sleep"), command() })
}

func TestServerThatDoesNotAnswerIsQuoted(t *testing.T) {
	for script, want := range map[string]string{"echo no room; exit 1": "has ended", "echo no room; exec sleep 600": "does not answer"} {
		server, err := Start(exec.Command("sh", "-c", script), filepath.Join(t.TempDir(), "log"), syscall.SIGKILL)
		if err != nil {
			t.Fatal(err)
		}
		err = server.Await(t.Context(), "the server", 3*time.Second, func([]byte) bool { return false })
		if err == nil || !strings.Contains(err.Error(), "the server "+want) || !strings.Contains(err.Error(), "no room") {
			t.Errorf("%q: %v", script, err)
		}
		select {
		case <-server.Ended:
		default:
			t.Errorf("%q: it runs on", script)
		}
	}
}
