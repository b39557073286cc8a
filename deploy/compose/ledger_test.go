package compose

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// ledgerShell is where the scripts of the ledger's containers run: their folders are in a temporary one, and a
// stand-in for the server notes its arguments in calls and makes its last one a file.
type ledgerShell struct {
	t            *testing.T
	folder       string
	data, marker string
}

func newLedgerShell(t *testing.T) *ledgerShell {
	folder := t.TempDir()
	l := &ledgerShell{t: t, folder: folder, data: filepath.Join(folder, "data"), marker: filepath.Join(folder, "formatted", "once")}
	server := "#!/bin/sh\necho \"$*\" >>" + folder + "/calls\n[ \"$1\" = start ] && exit 0\nfor last; do :; done\n[ ! -e \"$last\" ] || exit 9\n" +
		"case \"$*\" in *\"--replica=${FAILS_AT:-none} \"*) echo half >\"$last\"; exit 1 ;; esac\necho new >\"$last\"\n"
	for path, text := range map[string]string{"tigerbeetle": server, "bin/chown": "#!/bin/sh\n"} { // a test is not root
		l.write(filepath.Join(folder, path), text)
		kit.Must(t, os.Chmod(filepath.Join(folder, path), 0o755))
	}
	for _, volume := range []string{"data/0", "data/1", "data/2", "formatted"} {
		kit.Must(t, os.MkdirAll(filepath.Join(folder, volume), 0o755))
	}
	return l
}

func (l *ledgerShell) write(path, text string) {
	l.t.Helper()
	kit.Must(l.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
}

func (l *ledgerShell) file(replica string) string {
	return filepath.Join(l.data, replica, "0_"+replica+".tigerbeetle")
}

// run runs the script of a service and returns what it prints, and what it asked of the server.
func (l *ledgerShell) run(service string, env ...string) (output, calls string, err error) {
	l.t.Helper()
	commands := load(l.t, base).Services[service].Command
	if len(commands) != 1 {
		l.t.Fatalf("%s runs %q", service, commands)
	}
	script := strings.NewReplacer("$$", "$", "/data/", l.data+"/", "/formatted/", filepath.Dir(l.marker)+"/", "/tigerbeetle ", l.folder+"/tigerbeetle ").Replace(commands[0])
	_ = os.Remove(filepath.Join(l.folder, "calls"))
	command := exec.Command("sh", "-euc", script)
	command.Env = append([]string{"PATH=" + filepath.Join(l.folder, "bin") + ":" + os.Getenv("PATH")}, env...)
	text, err := command.CombinedOutput()
	called, _ := os.ReadFile(filepath.Join(l.folder, "calls"))
	return string(text), strings.TrimSpace(string(called)), err
}

// The ledger's files are made once: an empty one in the place of a lost one would know no payment, and an
// empty replica has forgotten what it promised the others.
func TestTheLedgersFilesAreMadeOnce(t *testing.T) {
	formats := func(replicas ...string) string {
		var all []string
		for _, replica := range replicas {
			all = append(all, "format --cluster=0 --replica="+replica)
		}
		return strings.Join(all, ";")
	}
	one, three := []string{"0"}, []string{"0", "1", "2"}
	for name, test := range map[string]struct {
		replicas []string
		before   []string // files that hold "old": of a replica, "once" or with the ending .formatting
		env      string
		calls    string
		after    []string // the replicas that have a file then
		gone     []string // those of which it says that theirs is gone
		fails    bool
	}{
		"the first start":                         {replicas: one, calls: formats(one...), after: one},
		"the next start":                          {replicas: one, before: []string{"once", "0"}, after: one},
		"of a version before, which had no mark":  {replicas: one, before: []string{"0"}, after: one},
		"lost":                                    {replicas: one, before: []string{"once"}, gone: one, fails: true},
		"an interrupted first start":              {replicas: one, before: []string{"0.formatting"}, calls: formats(one...), after: one},
		"a format that fails":                     {replicas: one, env: "FAILS_AT=0", calls: formats(one...), fails: true},
		"the first start of three":                {replicas: three, calls: formats(three...), after: three},
		"the next start of three":                 {replicas: three, before: []string{"once", "0", "1", "2"}, after: three},
		"the last of three fails":                 {replicas: three, env: "FAILS_AT=2", calls: formats(three...), fails: true},
		"interrupted before any of three started": {replicas: three, before: []string{"0.formatting", "1.formatting"}, calls: formats(three...), after: three},
		"interrupted when all three were made":    {replicas: three, before: []string{"once", "0", "1.formatting", "2.formatting"}, after: three},
		"one of three lost":                       {replicas: three, before: []string{"once", "0", "2"}, after: []string{"0", "2"}, gone: []string{"1"}},
		"one of three lost, without a mark":       {replicas: three, before: []string{"0", "2"}, after: []string{"0", "2"}, gone: []string{"1"}},
		"all three lost":                          {replicas: three, before: []string{"once"}, gone: three, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedgerShell(t)
			for _, before := range test.before {
				replica, formatting := strings.CutSuffix(before, ".formatting")
				path := l.file(replica)
				switch {
				case before == "once":
					path = l.marker
				case formatting:
					path = strings.TrimSuffix(path, ".tigerbeetle") + ".formatting"
				}
				l.write(path, "old")
			}
			count := fmt.Sprint(len(test.replicas))
			output, calls, err := l.run("ledger-format", "REPLICA_COUNT="+count, test.env)
			if (err != nil) != test.fails {
				t.Errorf("%v\n%s", err, output)
			}
			wanted := strings.FieldsFunc(test.calls, func(r rune) bool { return r == ';' })
			for i, call := range strings.FieldsFunc(calls, func(r rune) bool { return r == '\n' }) {
				if i >= len(wanted) || !strings.HasPrefix(call, wanted[i]) || !strings.Contains(call, "--replica-count="+count) {
					t.Errorf("the server was called with %q, want %q", call, wanted)
				}
			}
			if calls == "" && len(wanted) > 0 {
				t.Errorf("the server was not called, want %q", wanted)
			}
			for _, replica := range test.replicas {
				_, err := os.Stat(l.file(replica))
				if has, want := err == nil, strings.Contains(strings.Join(test.after, ""), replica); has != want {
					t.Errorf("replica %s has a file: %v, want %v", replica, has, want)
				}
				says := strings.Contains(output, "replica "+replica+" is gone. It is not made anew")
				if want := strings.Contains(strings.Join(test.gone, ""), replica); says != want {
					t.Errorf("it says that the file of %s is gone: %v, want %v\n%s", replica, says, want, output)
				}
			}
			_, err = os.Stat(l.marker)
			if marked, want := err == nil, test.env == ""; marked != want {
				t.Errorf("it is marked as made: %v, want %v", marked, want)
			}
		})
	}
}

// A replica whose file is gone says so, in the log where people look, and never makes one.
func TestAReplicaStartsOnlyWithItsFile(t *testing.T) {
	l := newLedgerShell(t)
	l.write(filepath.Join(l.data, "0_1.tigerbeetle"), "old")
	if output, calls, err := l.run("tigerbeetle", "REPLICA=1", "REPLICAS=a,b,c"); err != nil || !strings.HasPrefix(calls, "start --addresses=a,b,c ") || !strings.HasSuffix(calls, "/0_1.tigerbeetle") {
		t.Errorf("%q, %v\n%s", calls, err, output)
	}
	if output, calls, err := l.run("tigerbeetle", "REPLICA=2", "REPLICAS=a,b,c"); err == nil || calls != "" || !strings.Contains(output, "replica 2 is gone") {
		t.Errorf("without its file: %q, %v\n%s", calls, err, output)
	}
	for path, f := range files(t) {
		for name, s := range f.Services {
			if text := strings.Join(s.Command, " "); name != "ledger-format" && strings.Contains(text, "format --") {
				t.Errorf("%s: %s formats the ledger, too", path, name)
			}
		}
	}
}
