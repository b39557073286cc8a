package compose

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// host is a machine that preflight.sh is to judge: files of its own, also in place of /proc, and commands of its own in
// place of docker, uname, df and ip.
type host struct {
	answers map[string]string // of docker, by its arguments; without an answer it fails
	info    map[string]string // what docker info says; nil: the daemon does not answer
	files   map[string]string
	freeKiB int
	args    []string
}

// good is a machine without any obstacle.
func good(t *testing.T) *host {
	h := &host{freeKiB: 40 << 20, answers: map[string]string{
		"compose version --short": "2.25.0", "buildx version": "github.com/docker/buildx v0.17.0 0123456",
		"ps": "", "network ls -q": "one two", "network inspect": "bridge 172.17.0.0/16\nhost",
	}, info: map[string]string{
		"ServerVersion": "29.1.3", "OperatingSystem": "Debian GNU/Linux 13", "Architecture": "x86_64", "NCPU": "4",
		"MemTotal": fmt.Sprint(8 << 30), "KernelVersion": "6.12.0-1-amd64", "DockerRootDir": "/var/lib/docker",
		"MemoryLimit": "true", "CPUCfsQuota": "true", "SecurityOptions": "[name=seccomp,profile=builtin name=cgroupns]",
	}, files: map[string]string{
		"root/proc/sys/kernel/io_uring_disabled": "0\n", "root/proc/sys/fs/aio-max-nr": "65536\n",
		"root/proc/sys/fs/aio-nr": "64509\n",
		"root/proc/cpuinfo":       "flags\t\t: fpu sse4_2 aes avx avx2 bmi1\n", "deploy/prometheus/statsd.yml": "",
	}}
	// Its ports are some where nothing listens: those of the compose file may be taken here.
	port := 0
	h.files[base] = regexp.MustCompile(`127\.0\.0\.1:\d+:`).ReplaceAllStringFunc(read(t, base), func(string) string {
		port++
		return fmt.Sprintf("127.0.0.1:%d:", port)
	})

	return h
}

// judge runs preflight.sh on the host and returns what it prints and its exit code.
func (h *host) judge(t *testing.T) (string, int) {
	t.Helper()
	dir := t.TempDir()

	write := func(path, text string, mode os.FileMode) {
		path = filepath.Join(dir, path)
		kit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		kit.Must(t, errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode))) // whatever the umask is
	}
	for path, text := range h.files {
		write(path, text, map[bool]os.FileMode{true: 0o600, false: 0o644}[text == "closed"])
	}
	write("deploy/preflight.sh", read(t, "deploy/preflight.sh"), 0o755)

	var docker strings.Builder
	for arguments, answer := range h.answers {
		fmt.Fprintf(&docker, "'%s'*) cat <<'E'\n%s\nE\n;;\n", arguments, answer)
	}

	if h.info != nil { // as docker does it: the format is the last argument
		docker.WriteString("info*) text=\"$3\"\n")

		for field, value := range h.info {
			fmt.Fprintf(&docker, "text=$(printf %%s \"$text\" | sed 's^{{[.]%s}}^%s^')\n", field, value)
		}
		docker.WriteString("printf '%s\\n' \"$text\" ;;\n")
	}

	for name, script := range map[string]string{
		"docker": "case \"$*\" in\n" + docker.String() + "*) exit 1 ;;\nesac",
		"uname":  "case $1 in -r) echo 6.12.0-1-amd64 ;; *) echo Linux ;; esac",
		"df":     fmt.Sprintf("echo Filesystem; echo /dev/vda1 99999999 1 %d 1%% /", h.freeKiB),
		"ip":     "echo default via 10.0.0.1 dev eth0",
	} {
		write("bin/"+name, "#!/bin/sh\n"+script+"\n", 0o755)
	}
	command := exec.Command(filepath.Join(dir, "deploy/preflight.sh"), h.args...)
	path := filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")
	command.Env = []string{"PATH=" + path, "PREFLIGHT_ROOT=" + filepath.Join(dir, "root")}

	output, err := command.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}

	return string(output), command.ProcessState.ExitCode()
}

func TestPreflight(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	defer func() { _ = listener.Close() }()
	taken := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	info := func(field, value string) func(*host) { return func(h *host) { h.info[field] = value } }
	answer := func(of, text string) func(*host) { return func(h *host) { h.answers[of] = text } }

	file := func(name, text string) func(*host) { return func(h *host) { h.files[name] = text } }
	for name, test := range map[string]struct {
		change func(h *host)
		want   string // how the one line before the last begins; STOP: it ends with exit code 1
	}{
		"nothing in the way": {func(*host) {}, ""},
		"no daemon":          {func(h *host) { h.info = nil }, "STOP  the Docker daemon does not answer"},
		"an old compose": {answer("compose version --short", "v2.24.7"),
			"STOP  docker compose v2.24.7 does not load the overlays"},
		"compose 2.9 is not 2.90": {answer("compose version --short", "2.9.0"), "STOP  docker compose 2.9.0"},
		"old buildx": {answer("buildx version", "github.com/docker/buildx v0.16.2 0"),
			"STOP  docker buildx v0.16.2 is older"},
		"RHEL 9": {file("root/proc/sys/kernel/io_uring_disabled", "2\n"),
			"STOP  io_uring is off (kernel.io_uring_disabled = 2"},
		"4 GiB of memory":                 {info("MemTotal", fmt.Sprint(4<<30)), "STOP  Docker has 4.0 GiB of memory"},
		"6 GiB, less what the kernel has": {info("MemTotal", fmt.Sprint(58<<30/10)), ""},
		"too little disk": {func(h *host) {
			h.freeKiB = 5<<20 - 1
		}, "STOP  5.0 GiB free in /var/lib/docker"},
		"umask 077": {file("deploy/prometheus/statsd.yml", "closed"),
			"STOP  containers cannot read ./deploy/prometheus/statsd.yml"},
		"the subnet within a larger one": {answer("network inspect", "fd 172.28.0.0/14 fd00::/64"),
			"STOP  the subnet 172.28.86.0/24 is taken by the Docker network fd (172.28.0.0/14)"},
		"our own containers run": {func(h *host) {
			h.answers["ps"], h.answers["network inspect"] = "0123456789ab", "liquida_kafka 172.28.86.64/26"
		}, ""},
		"a port of an overlay": {func(h *host) {
			h.args, h.files["other.yml"] = []string{"other.yml"}, `ports: ["127.0.0.1:`+taken+`:80"]`
		}, "STOP  port " + taken + " of 127.0.0.1 is taken"},
		"a machine that Docker brings": {func(h *host) {
			h.info["OperatingSystem"], h.answers["image inspect"], h.answers["run --rm"] = "Docker Desktop", "[]", "0"
		}, "NOTE  Docker runs in a virtual machine here"},
	} {
		t.Run(name, func(t *testing.T) {
			h := good(t)
			test.change(h)
			output, exit := h.judge(t)
			lines := strings.Split(strings.TrimSpace(output), "\n")

			stops, said := strings.HasPrefix(test.want, "STOP"), strings.HasPrefix(lines[0], test.want)
			if stops != (exit == 1) || !said || len(lines) != 1+min(len(test.want), 1) {
				t.Errorf("exit code %d, and not one line that begins %q:\n%s", exit, test.want, output)
			}
		})
	}
}
