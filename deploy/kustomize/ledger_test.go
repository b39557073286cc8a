package kustomize

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

// script is a container's shell script, with its folders and its program replaced.
func script(t *testing.T, m *manifests, name, data, program string) string {
	for _, w := range m.workloads() {
		for _, c := range w.containers() {
			if w.Metadata.Name == "tigerbeetle" && c.Name == name {
				if !slices.Equal(c.Command[len(c.Command)-2:], []string{"sh", "-euc"}) || len(c.Args) != 1 {
					t.Fatalf("%s runs %v %v", name, c.Command, c.Args)
				}
				return strings.NewReplacer("/data/", data+"/", "/tigerbeetle ", program+" ").Replace(c.Args[0])
			}
		}
	}
	t.Fatalf("the ledger has no container %s", name)
	return ""
}

// ledgerShell makes a stand-in for the server, which notes its arguments and makes its last one a file,
// and returns a function that runs a script of the ledger as replica 1.
func ledgerShell(t *testing.T, m *manifests, name string) (data, calls string, run func(env ...string) (string, error)) {
	folder := t.TempDir()
	data, calls = filepath.Join(folder, "data"), filepath.Join(folder, "calls")
	program := filepath.Join(folder, "server")
	stub := "#!/bin/sh\necho \"$*\" >>" + calls + "\nfor last; do :; done\n[ -z \"${FAILS:-}\" ] || { echo half >\"$last\"; exit 1; }\n[ ! -e \"$last\" ] || [ \"$1\" = start ] || exit 9\necho new >\"$last\"\n"
	kit.Must(t, errors.Join(os.Mkdir(data, 0o755), os.WriteFile(program, []byte(stub), 0o755)))
	text := script(t, m, name, data, program)
	return data, calls, func(env ...string) (string, error) {
		command := exec.Command("sh", "-euc", text)
		command.Env = append(os.Environ(), append([]string{"HOSTNAME=tigerbeetle-1"}, env...)...)
		output, err := command.CombinedOutput()
		return string(output), err
	}
}

func content(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// A data file is made only while somebody allows it: an empty one in the place of a lost one has
// forgotten what the replica promised.
func TestADataFileIsMadeOnlyWhenAllowed(t *testing.T) {
	each(t, func(t *testing.T, m *manifests) {
		if m.name != component {
			t.Skip("no ledger here")
		}
		in := func(d time.Duration) string { return fmt.Sprint("NEW_FILE_UNTIL=", time.Now().Add(d).Unix()) }
		for name, test := range map[string]struct {
			there string // the data file before
			env   []string
			made  string // the call
			fails bool
		}{
			"there":               {there: "old", env: []string{"NEW_FILE_BY=format", in(time.Hour)}},
			"there, not allowed":  {there: "old"},
			"lost, not allowed":   {fails: true},
			"lost, allowed once":  {env: []string{"NEW_FILE_BY=format", in(-time.Second)}, fails: true},
			"lost, half a word":   {env: []string{"NEW_FILE_BY=format"}, fails: true},
			"lost, by what":       {env: []string{"NEW_FILE_BY=magic", in(time.Hour)}, fails: true},
			"first start":         {env: []string{"NEW_FILE_BY=format", in(time.Hour)}, made: "format --cluster=0 --replica=1 --replica-count=3"},
			"recovery":            {env: []string{"NEW_FILE_BY=recover", in(time.Hour), "REPLICAS=a,b,c"}, made: "recover --cluster=0 --replica=1 --replica-count=3 --addresses=a,b,c"},
			"the server gives up": {env: []string{"NEW_FILE_BY=format", in(time.Hour), "FAILS=1"}, made: "format", fails: true},
		} {
			t.Run(name, func(t *testing.T) {
				data, calls, run := ledgerShell(t, m, "data-file")
				file := filepath.Join(data, "0_1.tigerbeetle")
				if test.there != "" {
					kit.Must(t, os.WriteFile(file, []byte(test.there), 0o644))
				}
				// What an interrupted attempt left must not be taken for a data file.
				kit.Must(t, os.WriteFile(file+".unfinished", []byte("half"), 0o644))
				output, err := run(test.env...)
				if (err != nil) != test.fails {
					t.Errorf("%v\n%s", err, output)
				}
				if call := content(t, calls); !strings.HasPrefix(call, test.made) || test.made == "" && call != "" {
					t.Errorf("the server was called with %q", call)
				}
				want := test.there
				if test.made != "" && !test.fails {
					want = "new"
				}
				if got := content(t, file); got != want {
					t.Errorf("the data file holds %q, must be %q", got, want)
				}
				if test.fails && test.made == "" && output == "" {
					t.Error("it does not say why")
				}
			})
		}
	})
}

// A replica listens on its own address and finds the others by their Services.
func TestAReplicaKnowsTheOthersByTheirServices(t *testing.T) {
	each(t, func(t *testing.T, m *manifests) {
		if m.name != component {
			t.Skip("no ledger here")
		}
		services := []string{"TIGERBEETLE_0_SERVICE_HOST=10.96.0.10", "TIGERBEETLE_1_SERVICE_HOST=10.96.0.11", "TIGERBEETLE_2_SERVICE_HOST=10.96.0.12"}
		limit := m.settings()["LEDGER_LIMIT_GIB"]
		for replica, addresses := range []string{
			"0.0.0.0:3001,10.96.0.11:3001,10.96.0.12:3001",
			"10.96.0.10:3001,0.0.0.0:3001,10.96.0.12:3001",
			"10.96.0.10:3001,10.96.0.11:3001,0.0.0.0:3001",
		} {
			_, calls, run := ledgerShell(t, m, "tigerbeetle")
			output, err := run(append(services, fmt.Sprint("HOSTNAME=tigerbeetle-", replica), "LEDGER_LIMIT_GIB="+limit)...)
			if call := content(t, calls); err != nil || !strings.HasPrefix(call, "start --addresses="+addresses+" ") || !strings.Contains(call, " --limit-storage="+limit+"GiB ") || !strings.HasSuffix(call, fmt.Sprintf("/0_%d.tigerbeetle", replica)) {
				t.Errorf("replica %d: %q, %v\n%s", replica, call, err, output)
			}
		}
		if _, calls, run := ledgerShell(t, m, "tigerbeetle"); true {
			output, err := run(services[:2]...)
			if err == nil || !strings.Contains(output, "TIGERBEETLE_2_SERVICE_HOST") || content(t, calls) != "" {
				t.Errorf("without a Service it starts: %v\n%s", err, output)
			}
		}
		if id := m.settings()["TIGERBEETLE_CLUSTER_ID"]; id != "0" {
			t.Errorf("TIGERBEETLE_CLUSTER_ID is %q, and the data files are of cluster 0", id)
		}
	})
}

// settings are those that all programs share.
func (m *manifests) settings() map[string]string {
	for _, w := range m.workloads() {
		for _, c := range w.containers() {
			if len(c.EnvFrom) > 0 {
				return m.data(c.EnvFrom[0].ConfigMapRef.Name)
			}
		}
	}
	return nil
}
