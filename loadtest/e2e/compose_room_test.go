package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// pretendedDocker answers for containers whose ports are those of a local stack. A killed engine is listed
// as ended until it starts again; every call is noted.
const pretendedDocker = `#!/bin/sh
cd "$HOUSE"
case "$*" in
"compose ps --all --format json")
	for name in clearing-engine redpanda tigerbeetle bank-simulator producer; do
		state=running; [ -e "killed-$name" ] && state=exited
		echo '{"ID":"'$name'","State":"'$state'","Health":"","ExitCode":0}'
	done ;;
inspect\ *)
	shift; comma=; printf '['
	for name; do printf '%s' "$comma"; sed "s/NAME/$name/g" container.json; comma=,; done
	echo ']' ;;
"compose cp bootstrap:/keys/clients/. "*) cp keys/* "$4" ;;
"compose cp bootstrap:/keys/kafka/"*) user=${3#bootstrap:/keys/kafka/}; cp "kafka-keys/${user%/.}/password" "$4" ;;
"kill --signal KILL "*) echo "$*" >>calls; : >"killed-$4" ;;
start\ *) echo "$*" >>calls; rm "killed-$2" ;;
*) echo "unknown call: $*" >&2; exit 1 ;;
esac
`

// The room on compose finds broker, ledger, keys and containers through docker, shows them and acts on
// them. There is no Docker here: a script answers as it does, in front of a local stack.
func TestRoomOnCompose(t *testing.T) {
	s := start(t, 1, func(c *stack.Config) { c.KafkaSecured = true })
	kafka := s.Kafka()
	house := filepath.Dir(filepath.Dir(filepath.Dir(kafka.SASLPasswordFile)))
	programs, temporary := t.TempDir(), t.TempDir()
	s.must(os.WriteFile(filepath.Join(programs, "docker"), []byte(pretendedDocker), 0o755)) //nolint:gosec // a program
	port := func(address string) string {
		_, port, err := net.SplitHostPort(address)
		s.must(err)
		return fmt.Sprintf(`[{"HostIp":"127.0.0.1","HostPort":%q}]`, port)
	}
	simulator, err := url.Parse(s.SimulatorURL())
	s.must(err)
	s.must(os.WriteFile(filepath.Join(house, "container.json"), []byte(fmt.Sprintf(`{"Id":"NAME","Name":"/NAME","State":{"Running":true,"Pid":7},
		"HostConfig":{"RestartPolicy":{"Name":"unless-stopped"}},"Config":{"Labels":{"com.docker.compose.service":"NAME"}},
		"NetworkSettings":{"Ports":{"19092/tcp":%s,"3001/tcp":%s,"8081/tcp":%s}}}`, port(s.KafkaAddress()), port(s.TigerBeetleAddresses()), port(simulator.Host))), 0o600))

	command := exec.CommandContext(t.Context(), filepath.Join(binaries, "loadtest"), "room", "--on", "compose")
	command.Dir = programs
	command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "HOUSE="+house, "ROOM_ADDRESS=127.0.0.1:0", "TMPDIR="+temporary,
		"KAFKA_TLS=true", "KAFKA_TLS_CA_FILE="+kafka.TLSCAFile)
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.StdoutPipe()
	s.must(err)
	s.must(command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		_ = command.Wait()
		t.Fatalf("the room does not start: %v: %s", err, &problems)
	}
	at, token, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "control room: ")), "#token=")
	ask := func(method, path, body string, answer any) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
		s.must(err)
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		s.must(err)
		defer response.Body.Close()
		_ = json.NewDecoder(response.Body).Decode(answer)
		return response.StatusCode
	}
	var picture struct {
		ReadOnly string
		Figures  struct{ SettledPerSecond float64 }
		Light    struct{ Colour string }
		Machine  struct {
			Processes []struct {
				Name, State string
				Acts        []string
			}
		}
	}
	shows := func(what string, holds func() bool) {
		t.Helper()
		s.eventually(what, func() bool {
			ask(http.MethodGet, "api/picture", "", &picture)
			return holds()
		})
	}
	state := func(name string) string {
		for _, p := range picture.Machine.Processes {
			if p.Name == name {
				return p.State
			}
		}
		return ""
	}
	shows("all containers, and a green light", func() bool {
		return len(picture.Machine.Processes) == 5 && state(stack.Broker) == "ready" && state(stack.Engine) == "ready" && picture.Light.Colour == "green"
	})
	if picture.ReadOnly != "" || len(picture.Machine.Processes[0].Acts) == 0 {
		t.Errorf("there are no buttons: %+v", picture)
	}
	act := func(body string) {
		t.Helper()
		var refused map[string]any
		if status := ask(http.MethodPost, "api/acts", body, &refused); status != http.StatusAccepted {
			t.Errorf("%s: %d %v", body, status, refused)
		}
	}
	act(`{"act": "load", "ratePerSecond": 50}`)
	shows("settled payments", func() bool { return picture.Figures.SettledPerSecond > 0 })
	act(`{"act": "load", "ratePerSecond": 0}`)
	act(`{"act": "kill", "target": "clearing-engine"}`)
	shows("the engine's end", func() bool { return state(stack.Engine) == "dead" })
	shows("the engine again", func() bool { return state(stack.Engine) == "ready" })
	calls, err := os.ReadFile(filepath.Join(house, "calls"))
	s.must(err)
	if want := "kill --signal KILL clearing-engine\nstart clearing-engine\n"; string(calls) != want {
		t.Errorf("docker was called with %q, but it must be %q", calls, want)
	}
	s.must(command.Process.Signal(os.Interrupt))
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the room does not end")
	}
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	s.must(err)
	if len(left) > 0 {
		t.Errorf("keys are left in %q", left)
	}
	s.audit()
}
