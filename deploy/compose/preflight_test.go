package compose

import (
	"cmp"
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

// host is a machine that preflight.sh is to judge: a checkout of its own, a folder in place
// of /proc, and commands of its own in place of docker, uname, df and ip.
type host struct {
	t       *testing.T
	dir     string
	answers map[string]string // of docker, by its arguments; without an answer it fails
	info    map[string]string // what docker info says
	uname   string            // the system of this machine
	kernel  string            // of this machine; default Docker's
	env     []string
	args    []string
}

// good is a machine without any obstacle.
func good(t *testing.T) *host {
	h := &host{t: t, dir: t.TempDir(), answers: map[string]string{
		"compose version --short": "2.25.0",
		"buildx version":          "github.com/docker/buildx v0.17.0 0123456",
		"ps":                      "",
		"network ls -q":           "one two",
		"network inspect":         "bridge 172.17.0.0/16\nhost",
	}, info: map[string]string{
		"ServerVersion": "29.1.3", "OperatingSystem": "Debian GNU/Linux 13", "Architecture": "x86_64", "NCPU": "4",
		"MemTotal": fmt.Sprint(8 << 30), "KernelVersion": "6.12.0-1-amd64", "DockerRootDir": "/var/lib/docker",
		"MemoryLimit": "true", "CPUCfsQuota": "true", "SecurityOptions": "[name=seccomp,profile=builtin name=cgroupns]",
	}}
	h.write("root/proc/sys/kernel/io_uring_disabled", "0\n", 0o644)
	h.write("root/proc/sys/fs/aio-max-nr", "65536\n", 0o644)
	h.write("root/proc/sys/fs/aio-nr", "64509\n", 0o644)
	h.write("root/proc/cpuinfo", "flags\t\t: fpu sse4_2 aes avx avx2 bmi1\n", 0o644)
	h.uname = "Linux"
	h.free(40 << 20)
	h.routes("default via 10.0.0.1 dev eth0\n10.0.0.0/24 dev eth0 proto kernel scope link")

	// A checkout that others may read. Its ports are some where nothing listens: those of the
	// compose file may be taken here, and so may any that the kernel gives to clients.
	h.write("deploy/preflight.sh", read(t, "deploy/preflight.sh"), 0o755)
	ports := regexp.MustCompile(`127\.0\.0\.1:\d+:`)
	port := 0
	h.write(base, ports.ReplaceAllStringFunc(read(t, base), func(string) string { port++; return fmt.Sprintf("127.0.0.1:%d:", port) }), 0o644)
	for _, path := range []string{"deploy/compose/redpanda-bootstrap.yaml", "deploy/prometheus/statsd.yml",
		"deploy/grafana/dashboards/payments.json", "deploy/grafana/provisioning/dashboards/liquida.yml"} {
		h.write(path, read(t, path), 0o644)
	}
	return h
}

func (h *host) write(path, text string, mode os.FileMode) {
	h.t.Helper()
	path = filepath.Join(h.dir, path)
	kit.Must(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	kit.Must(h.t, os.WriteFile(path, []byte(text), mode))
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		h.t.Fatal(err)
	}
}

func (h *host) command(name, script string) { h.write("bin/"+name, "#!/bin/sh\n"+script+"\n", 0o755) }
func (h *host) routes(text string)          { h.command("ip", "cat <<'E'\n"+text+"\nE") }
func (h *host) free(kib int) {
	h.command("df", fmt.Sprintf("echo Filesystem; echo /dev/vda1 99999999 1 %d 1%% /", kib))
}

// judge runs preflight.sh on the host and returns what it prints and its exit code.
func (h *host) judge() (string, int) {
	h.t.Helper()
	if h.answers != nil {
		var script strings.Builder
		script.WriteString("case \"$*\" in\n")
		for arguments, answer := range h.answers {
			fmt.Fprintf(&script, "'%s'*) cat <<'E'\n%s\nE\n;;\n", arguments, answer)
		}
		if h.info != nil {
			// As docker does it: the format is the last argument.
			script.WriteString("info*) text=\"$3\"\n")
			for field, value := range h.info {
				fmt.Fprintf(&script, "text=$(printf %%s \"$text\" | sed 's^{{[.]%s}}^%s^')\n", field, value)
			}
			script.WriteString("printf '%s\\n' \"$text\" ;;\n")
		}
		script.WriteString("*) exit 1 ;;\nesac")
		h.command("docker", script.String())
	}
	h.command("uname", fmt.Sprintf("case $1 in -r) echo %s ;; *) echo %s ;; esac", cmp.Or(h.kernel, h.info["KernelVersion"], "6.12.0"), h.uname))
	for _, tool := range []string{"bash", "sh", "awk", "sed", "grep", "find", "sort", "head", "cat", "dirname", "xargs", "env"} {
		path, err := exec.LookPath(tool)
		kit.Must(h.t, err)
		if err := os.Symlink(path, filepath.Join(h.dir, "bin", tool)); err != nil && !errors.Is(err, os.ErrExist) {
			h.t.Fatal(err)
		}
	}
	command := exec.Command(filepath.Join(h.dir, "deploy/preflight.sh"), h.args...)
	command.Env = append([]string{"PATH=" + filepath.Join(h.dir, "bin"), "PREFLIGHT_ROOT=" + filepath.Join(h.dir, "root")}, h.env...)
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return string(output), command.ProcessState.ExitCode()
}

func TestPreflight(t *testing.T) {
	for name, test := range map[string]struct {
		change func(h *host)
		want   []string // beginnings of the lines before the last, in this order
		exit   int
	}{
		"nothing in the way":      {change: func(*host) {}},
		"no docker":               {func(h *host) { h.answers = nil }, []string{"STOP  no docker command"}, 1},
		"no daemon":               {func(h *host) { h.info = nil }, []string{"STOP  the Docker daemon does not answer"}, 1},
		"no compose":              {func(h *host) { delete(h.answers, "compose version --short") }, []string{"STOP  no docker compose"}, 1},
		"an old compose":          {func(h *host) { h.answers["compose version --short"] = "v2.24.7" }, []string{"STOP  docker compose v2.24.7 does not load the overlays"}, 1},
		"compose 2.9 is not 2.90": {func(h *host) { h.answers["compose version --short"] = "2.9.0" }, []string{"STOP  docker compose 2.9.0"}, 1},
		"compose of the desktop":  {func(h *host) { h.answers["compose version --short"] = "2.40.3-desktop.1" }, nil, 0},
		"compose 5":               {func(h *host) { h.answers["compose version --short"] = "5.5.1" }, nil, 0},
		"no buildx":               {func(h *host) { delete(h.answers, "buildx version") }, []string{"STOP  no docker buildx"}, 1},
		"old buildx":              {func(h *host) { h.answers["buildx version"] = "github.com/docker/buildx v0.16.2 0" }, []string{"STOP  docker buildx v0.16.2 is older"}, 1},
		"RHEL 9": {func(h *host) { h.write("root/proc/sys/kernel/io_uring_disabled", "2\n", 0o644) },
			[]string{"STOP  io_uring is off (kernel.io_uring_disabled = 2"}, 1},
		"a kernel that knows no switch for io_uring": {func(h *host) {
			kit.Must(h.t, os.Remove(filepath.Join(h.dir, "root/proc/sys/kernel/io_uring_disabled")))
		}, nil, 0},
		"RHEL 8":           {func(h *host) { h.info["KernelVersion"] = "4.18.0-553.el8.x86_64" }, []string{"STOP  Linux 4.18.0-553.el8.x86_64 has too little of io_uring"}, 1},
		"Debian 11":        {func(h *host) { h.info["KernelVersion"] = "5.10.0-32-amd64" }, []string{"NOTE  Linux 5.10.0-32-amd64 counts io_uring"}, 0},
		"an old processor": {func(h *host) { h.write("root/proc/cpuinfo", "flags : sse4_2 aes avx\n", 0o644) }, []string{"STOP  the processor has no avx2"}, 1},
		"a neighbour that uses up asynchronous I/O": {func(h *host) { h.write("root/proc/sys/fs/aio-nr", "64510\n", 0o644) },
			[]string{"STOP  others use 64510 of 65536 asynchronous I/O requests"}, 1},
		"one processor":   {func(h *host) { h.info["NCPU"] = "1" }, []string{"NOTE  one processor"}, 0},
		"4 GiB of memory": {func(h *host) { h.info["MemTotal"] = fmt.Sprint(4 << 30) }, []string{"STOP  Docker has 4.0 GiB of memory"}, 1},
		"a machine of 6 GiB, less what its kernel keeps": {func(h *host) { h.info["MemTotal"] = fmt.Sprint(58 << 30 / 10) }, nil, 0},
		"rootless, nothing delegated": {func(h *host) {
			h.info["SecurityOptions"] = "[name=seccomp,profile=builtin name=rootless name=cgroupns]"
			h.info["CPUCfsQuota"] = "false"
		}, []string{"NOTE  Docker cannot limit processors here, so the limits of the compose file do not hold (rootless Docker"}, 0},
		"rootless, all delegated": {func(h *host) { h.info["SecurityOptions"] = "[name=seccomp,profile=builtin name=rootless]" },
			[]string{"NOTE  rootless Docker"}, 0},
		"SELinux": {func(h *host) { h.info["SecurityOptions"] = "[name=seccomp,profile=builtin name=selinux]" },
			[]string{"NOTE  SELinux is on"}, 0},
		"no memory controller": {func(h *host) { h.info["MemoryLimit"] = "false" }, []string{"NOTE  Docker cannot limit memory here"}, 0},
		"too little disk": {func(h *host) { h.free(5<<20 - 1) },
			[]string{"STOP  5.0 GiB free in /var/lib/docker"}, 1},
		"little disk": {func(h *host) { h.free(8 << 20) }, []string{"NOTE  8.0 GiB free in /var/lib/docker"}, 0},
		"a disk that cannot be seen": {func(h *host) { h.command("df", "exit 1") },
			[]string{"NOTE  cannot see how much disk is free in /var/lib/docker"}, 0},
		"umask 077": {func(h *host) {
			h.write("deploy/grafana/dashboards/payments.json", "{}", 0o600)
		}, []string{"STOP  containers cannot read ./deploy/grafana/dashboards/payments.json"}, 1},
		"umask 077, a folder": {func(h *host) {
			kit.Must(h.t, os.Chmod(filepath.Join(h.dir, "deploy/prometheus"), 0o700))
		}, []string{"STOP  containers cannot read ./deploy/prometheus"}, 1},
		"Docker Desktop on an ARM Mac": {func(h *host) {
			h.uname, h.kernel = "Darwin", "25.1.0"
			h.info["OperatingSystem"], h.info["Architecture"] = "Docker Desktop", "aarch64"
			h.free(1) // of this machine, not of Docker's
			h.write("deploy/grafana/dashboards/payments.json", "{}", 0o600)
		}, []string{"NOTE  Docker runs in a virtual machine here, or on another machine (Docker Desktop", "NOTE  cannot see whether io_uring is on"}, 0},
		"Docker Desktop on Linux, with io_uring off in its machine": {func(h *host) {
			h.info["OperatingSystem"] = "Docker Desktop"
			h.answers["image inspect ghcr.io/tigerbeetle/tigerbeetle"] = "[]"
			h.answers["run --rm"] = "1"
		}, []string{"NOTE  Docker runs in a virtual machine", "STOP  io_uring is off (kernel.io_uring_disabled = 1"}, 1},
		"a Docker on another machine, with io_uring on, though this one has it off": {func(h *host) {
			h.kernel = "5.14.0-570.el9.x86_64"
			h.write("root/proc/sys/kernel/io_uring_disabled", "2\n", 0o644)
			h.answers["image inspect grafana/grafana"] = "[]"
			h.answers["run --rm"] = "0"
		}, []string{"NOTE  Docker runs in a virtual machine here, or on another machine (Debian GNU/Linux 13, Linux 6.12.0-1-amd64)"}, 0},
		"emulated images on ARM": {func(h *host) {
			h.info["Architecture"] = "aarch64"
			h.env = append(h.env, "DOCKER_DEFAULT_PLATFORM=linux/amd64")
		}, []string{"STOP  DOCKER_DEFAULT_PLATFORM is linux/amd64 on an ARM machine"}, 1},
		"the subnet taken by an old network of ours": {func(h *host) { h.answers["network inspect"] = "bridge 172.17.0.0/16\nliquida_liquida 172.28.86.0/24" },
			[]string{"STOP  the subnet 172.28.86.0/24 is taken by the Docker network liquida_liquida"}, 1},
		"the subnet within a larger one": {func(h *host) { h.answers["network inspect"] = "fd 172.28.0.0/14 fd00::/64" },
			[]string{"STOP  the subnet 172.28.86.0/24 is taken by the Docker network fd (172.28.0.0/14)"}, 1},
		"a subnet beside ours": {func(h *host) { h.answers["network inspect"] = "a 172.28.85.0/24\nb 172.28.87.0/25" }, nil, 0},
		"another subnet chosen": {func(h *host) {
			h.answers["network inspect"] = "other 172.28.86.0/24"
			h.env = append(h.env, "LIQUIDA_NET=10.99.3")
		}, nil, 0},
		"a private network's route": {func(h *host) { h.routes("172.16.0.0/12 via 10.8.0.1 dev tun0\n172.17.0.0/16 dev docker0") },
			[]string{"NOTE  this machine reaches 172.16.0.0/12 through tun0"}, 0},
		"our own containers run": {func(h *host) {
			h.answers["ps"] = "0123456789ab"
			h.answers["network inspect"] = "liquida_kafka 172.28.86.64/26"
		}, nil, 0},
		"two obstacles": {func(h *host) {
			h.info["KernelVersion"] = "4.18.0"
			h.free(1 << 20)
		}, []string{"STOP  Linux 4.18.0", "STOP  1.0 GiB free"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := good(t)
			test.change(h)
			output, exit := h.judge()
			lines := strings.Split(strings.TrimSpace(output), "\n")
			if exit != test.exit || len(lines) != len(test.want)+1 {
				t.Fatalf("exit code %d, want %d, and these lines before the last:\n%s\ngot:\n%s", exit, test.exit, strings.Join(test.want, "\n"), output)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %d is %q, want %q…", i+1, lines[i], want)
				}
			}
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, "preflight: ") {
				t.Errorf("the last line is %q", last)
			}
		})
	}
}

// The ports are those of the files, of an overlay too.
func TestPreflightPorts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	defer func() { _ = listener.Close() }()
	taken := listener.Addr().(*net.TCPAddr).Port

	h := good(t)
	h.write("deploy/compose/other.yml", fmt.Sprintf("services:\n  other:\n    ports: [\"127.0.0.1:%d:80\"]\n", taken), 0o644)
	if output, exit := h.judge(); exit != 0 {
		t.Errorf("without the overlay: exit code %d\n%s", exit, output)
	}
	h.args = []string{"deploy/compose/other.yml"}
	output, exit := h.judge()
	if exit != 1 || !strings.Contains(output, fmt.Sprintf("STOP  port %d of 127.0.0.1 is taken", taken)) {
		t.Errorf("with the overlay: exit code %d\n%s", exit, output)
	}
	h.args = []string{"deploy/compose/none.yml"}
	if output, exit := h.judge(); exit != 2 {
		t.Errorf("an overlay that is not there: exit code %d\n%s", exit, output)
	}
}

// preflight.sh finds ports and mounts with sed, where no YAML parser is at hand.
func TestPreflightSeesEveryPortAndMount(t *testing.T) {
	for path, f := range files(t) {
		text := read(t, path)
		for name, s := range f.Services {
			for _, port := range s.Ports {
				if !strings.Contains(text, `"`+port+`"`) {
					t.Errorf("%s: %s: write the port %s in double quotes, on one line", path, name, port)
				}
			}
			for _, volume := range s.Volumes {
				if !strings.HasPrefix(volume, "./") {
					continue
				}
				mount, _, _ := strings.Cut(volume, ":")
				if !regexp.MustCompile(`[ "\[]` + regexp.QuoteMeta(mount) + `:/`).MatchString(text) {
					t.Errorf("%s: %s: preflight.sh does not see the mount %s", path, name, volume)
				}
			}
		}
	}
}
