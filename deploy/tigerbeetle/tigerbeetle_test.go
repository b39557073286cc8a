package tigerbeetle

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

func TestLocate(t *testing.T) {
	named := filepath.Join(t.TempDir(), "tigerbeetle")
	t.Setenv("TIGERBEETLE_BIN", named)

	for version, refused := range map[string]bool{Version + "+c3d9b09": false, "0.17.8": true} {
		kit.Must(t, os.WriteFile(named, []byte("#!/bin/sh\necho TigerBeetle version "+version+"\n"), 0o755))

		got, err := Locate(t.Context(), io.Discard)
		if refused {
			kit.Says(t, err, version, Version)
		} else if err != nil || got != named {
			t.Errorf("got %q, %v; want %q", got, err, named)
		}
	}
	t.Setenv("TIGERBEETLE_BIN", "")
	t.Setenv("LIQUIDA_CACHE", t.TempDir())
	t.Setenv("PATH", t.TempDir()) // nothing to build with
	kit.Says(t, kit.ErrorOf(Locate(t.Context(), io.Discard)), "cargo", "python3", "venv", "TIGERBEETLE_BIN", Version)
}

// One of several replicas answers only while it is in touch with a majority.
func TestAnswers(t *testing.T) {
	for log, want := range map[string]bool{
		"": false,
		"0r: transition_to_normal_from_recovering_status: view=0":                                               true,
		"0r: transition_to_view_change_status: view=1..1":                                                       false,
		"0r: transition_to_view_change_status\n0n: transition_to_normal_from_view_change_status: backup\nclock": true,
		"0n: transition_to_normal_from_view_change_status\n0n: transition_to_view_change_status: view=1..2":     false,
	} {
		if got := Answers([]byte(log)); got != want {
			t.Errorf("%q: got %v", log, got)
		}
	}
}

func TestFormatCluster(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "tigerbeetle")
	// It makes its last argument a file that holds the others.
	kit.Must(t, os.WriteFile(bin, []byte("#!/bin/sh\nfor path; do :; done\necho \"$*\" >\"$path\"\n"), 0o755))

	folder := filepath.Join(t.TempDir(), "data", "ledger")
	if err := os.MkdirAll(folder+".formatting", 0o755); err != nil { // left by an interrupted call
		t.Fatal(err)
	}

	for range 2 {
		kit.Must(t, FormatCluster(t.Context(), bin, folder, 3, 0))
	}

	said, err := os.ReadFile(DataFile(folder, 2))
	if err != nil || !strings.Contains(string(said), "--cluster=0 --replica=2 --replica-count=3") {
		t.Errorf("%q, %v", said, err)
	}
	kit.Must(t, os.Remove(DataFile(folder, 1)))
	// a replica that forgot everything
	kit.Says(t, FormatCluster(t.Context(), bin, folder, 3, 0), "replica 1 of 3 is gone", "recover")
}

// Two servers never begin at the same time: each would take the memory that the other has not touched yet.
func TestServersBeginOneAfterTheOther(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	started, err := AwaitMemory(t.Context(), 1, func(why string) { t.Log(why) })
	kit.Must(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := AwaitMemory(ended, 1, func(string) {}); err == nil {
		t.Error("a second server may begin before the first has begun")
	}
	started()

	if started, err = AwaitMemory(t.Context(), 1, func(why string) { t.Log(why) }); err != nil {
		t.Fatal(err)
	}
	started()
}
