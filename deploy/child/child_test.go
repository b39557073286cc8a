package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

// asParent makes this binary start a server and print its pid.
const asParent = "CHILD_TEST_LOG"

func TestMain(m *testing.M) {
	var err error
	if log := os.Getenv(asParent); log != "" {
		var server *Server
		if server, err = Start(exec.Command("sleep", "600"), log); err == nil {
			fmt.Println(server.PID)
			<-server.Ended
		}
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
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
		server, err := Start(exec.Command("sh", "-c", script), filepath.Join(t.TempDir(), "log"))
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
