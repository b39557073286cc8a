package compose

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/liquida/liquida/platform/kit"
)

// server is a stand-in for TigerBeetle, which notes its arguments and makes its last one a file.
const server = `#!/bin/sh
echo "$*" >>"$(dirname "$0")/calls"
[ "$1" != start ] || exit 0
for last; do :; done
[ ! -e "$last" ] || exit 9
case "$*" in *"--replica=${FAILS_AT:-none} "*) echo half >"$last"; exit 1 ;; esac
echo new >"$last"
`

// runs runs a script of the ledger's containers in a folder, which takes the place of /, and returns what it prints,
// and what it asked of the server.
func runs(t *testing.T, folder, script string, env ...string) (output string, calls []string, err error) {
	t.Helper()

	for path, text := range map[string]string{"tigerbeetle": server, "chown": "#!/bin/sh\n"} { // a test is not root
		kit.Must(t, os.WriteFile(filepath.Join(folder, path), []byte(text), 0o755)) //nolint:gosec // a program
	}
	script = regexp.MustCompile(`/(data/|formatted/|tigerbeetle )`).ReplaceAllString(
		strings.ReplaceAll(script, "$$", "$"), folder+"/$1")
	command := exec.Command("sh", "-euc", script)
	command.Env = append([]string{"PATH=" + folder + ":" + os.Getenv("PATH"), "HOSTNAME=tigerbeetle-1"}, env...)
	said, err := command.CombinedOutput()
	called, _ := os.ReadFile(filepath.Join(folder, "calls"))

	return string(said), slices.Collect(strings.SplitSeq(strings.TrimSpace(string(called)), "\n")), err
}

// put makes files with the content old, and the folders of volumes.
func put(t *testing.T, folder string, files ...string) {
	t.Helper()

	for _, file := range append(files, "data/0/", "data/1/", "data/2/", "formatted/") {
		path := filepath.Join(folder, file)
		kit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))

		if strings.HasSuffix(file, "/") {
			kit.Must(t, os.MkdirAll(path, 0o755))
			continue
		}
		kit.Must(t, os.WriteFile(path, []byte("old"), 0o600))
	}
}

func there(folder, file string) bool {
	_, err := os.Stat(filepath.Join(folder, file))
	return err == nil
}

// The ledger's files are made once: an empty one in the place of a lost one would know no payment, and an
// empty replica has forgotten what it promised the others.
func TestTheLedgersFilesAreMadeOnce(t *testing.T) {
	script := load(t, base).Services["ledger-format"].Command[0]
	file := func(replica int) string { return fmt.Sprintf("data/%d/0_%[1]d.tigerbeetle", replica) }
	formatting := func(replica int) string { return fmt.Sprintf("data/%d/0_%[1]d.formatting", replica) }

	const once = "formatted/once"
	for name, test := range map[string]struct {
		replicas int
		before   []string
		env      string
		formats  int
		// the replicas that have a file then; of the others it says that theirs is gone, unless it fails before
		after []int
		fails bool
	}{
		"the first start":          {replicas: 1, formats: 1, after: []int{0}},
		"the next start":           {replicas: 1, before: []string{once, file(0)}, after: []int{0}},
		"lost":                     {replicas: 1, before: []string{once}, fails: true},
		"the first start of three": {replicas: 3, formats: 3, after: []int{0, 1, 2}},
		"the last of three fails":  {replicas: 3, env: "FAILS_AT=2", formats: 3, fails: true},
		"interrupted before any of three started": {replicas: 3, before: []string{formatting(0), formatting(1)},
			formats: 3, after: []int{0, 1, 2}},
		"interrupted when all three were made": {replicas: 3,
			before: []string{once, file(0), formatting(1), formatting(2)}, after: []int{0, 1, 2}},
		"one of three lost": {replicas: 3, before: []string{once, file(0), file(2)},
			after: []int{0, 2}},
		"one of three lost, without a mark": {replicas: 3, before: []string{file(0), file(2)},
			after: []int{0, 2}},
		"all three lost": {replicas: 3, before: []string{once}, fails: true},
	} {
		folder := t.TempDir()
		put(t, folder, test.before...)
		output, calls, err := runs(t, folder, script, fmt.Sprint("REPLICA_COUNT=", test.replicas), test.env)

		formats := strings.Count(strings.Join(calls, "\n"), "format --cluster=0 ")
		if (err != nil) != test.fails || formats != test.formats {
			t.Errorf("%s: %v, %d formats\n%s", name, err, formats, output)
		}

		for replica := range test.replicas {
			has, gone := there(folder, file(replica)),
				strings.Contains(output, fmt.Sprintf("replica %d is gone. It is not made anew", replica))
			if want := slices.Contains(test.after, replica); has != want || gone == want && test.env == "" {
				t.Errorf("%s: replica %d has a file: %v; it is said to be gone: %v\n%s", name, replica, has,
					gone, output)
			}
		}

		if there(folder, once) != (test.env == "") {
			t.Errorf("%s: marked as made: %v", name, there(folder, once))
		}
	}
}

// On Kubernetes, too, a replica starts only with its file, which is made only while a person allows it.
func TestReplicasStartOnlyWithTheirFiles(t *testing.T) {
	compose := load(t, base).Services["tigerbeetle"].Command[0]
	var set struct {
		Spec struct {
			Template struct {
				Spec struct{ InitContainers, Containers []struct{ Args []string } }
			}
		}
	}
	text := strings.ReplaceAll(read(t, "deploy/kustomize/tigerbeetle/tigerbeetle.yaml"), "initContainers:",
		"initcontainers:")
	kit.Must(t, yaml.NewDecoder(strings.NewReader(text)).Decode(&set))
	dataFile, start := set.Spec.Template.Spec.InitContainers[0].Args[0], set.Spec.Template.Spec.Containers[0].Args[0]
	in := func(d time.Duration) string { return fmt.Sprint("NEW_FILE_UNTIL=", time.Now().Add(d).Unix()) }
	const file = "data/0_1.tigerbeetle"

	services := []string{"LEDGER_LIMIT_GIB=7"}
	for replica := range 3 {
		services = append(services, fmt.Sprintf("TIGERBEETLE_%d_SERVICE_HOST=10.0.0.1%[1]d", replica))
	}

	for name, test := range map[string]struct {
		script string
		before []string
		env    []string
		calls  string
		fails  bool
	}{
		"compose": {compose, []string{file}, []string{"REPLICA=1", "REPLICAS=a,b,c"},
			"start --addresses=a,b,c ", false},
		"compose, lost": {compose, nil, []string{"REPLICA=1", "REPLICAS=a,b,c"}, "", true},
		"start": {start, nil, services,
			"start --addresses=10.0.0.10:3001,0.0.0.0:3001,10.0.0.12:3001 ", false},
		"an unknown address": {start, nil, services[:3], "", true},
		"there":              {dataFile, []string{file}, []string{"NEW_FILE_BY=format", in(time.Hour)}, "", false},
		"lost, not allowed":  {dataFile, nil, nil, "", true},
		"lost, allowed once": {dataFile, nil, []string{"NEW_FILE_BY=format", in(-time.Second)}, "", true},
		"lost, no time":      {dataFile, nil, []string{"NEW_FILE_BY=format"}, "", true},
		"lost, by what":      {dataFile, nil, []string{"NEW_FILE_BY=magic", in(time.Hour)}, "", true},
		"first start": {dataFile, []string{file + ".unfinished"}, []string{"NEW_FILE_BY=format", in(time.Hour)},
			"format --cluster=0 --replica=1 --replica-count=3 ", false},
		"recovery": {dataFile, nil, []string{"NEW_FILE_BY=recover", in(time.Hour), "REPLICAS=a,b,c"},
			"recover --cluster=0 --replica=1 --replica-count=3 --addresses=a,b,c ", false},
		"the server gives up": {dataFile, nil, []string{"NEW_FILE_BY=format", in(time.Hour), "FAILS_AT=1"},
			"format ", true},
	} {
		folder := t.TempDir()
		put(t, folder, test.before...)

		output, calls, err := runs(t, folder, test.script, test.env...)
		if (err != nil) != test.fails || !strings.HasPrefix(calls[0], test.calls) ||
			(test.calls == "") != (calls[0] == "") {
			t.Errorf("%s: %v, the server was called with %q\n%s", name, err, calls, output)
		}

		if made := test.script == dataFile && !test.fails; made != there(folder, file) &&
			!slices.Contains(test.before, file) {
			t.Errorf("%s: a data file is there: %v", name, !made)
		}

		if test.fails && output == "" && test.calls == "" {
			t.Errorf("%s: it does not say why", name)
		}
	}
}
