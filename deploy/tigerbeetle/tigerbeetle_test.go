package tigerbeetle

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// fakeServer writes a program that says it is the given version.
func fakeServer(t *testing.T, folder, version string) string {
	t.Helper()
	path := filepath.Join(folder, "tigerbeetle")
	kit.Must(t, os.MkdirAll(folder, 0o755))
	kit.Must(t, os.WriteFile(path, []byte("#!/bin/sh\necho TigerBeetle version "+version+"\n"), 0o755))
	return path
}

func TestLocate(t *testing.T) {
	t.Run("TIGERBEETLE_BIN comes first", func(t *testing.T) {
		named := fakeServer(t, t.TempDir(), Version+"+c3d9b09")
		t.Setenv("TIGERBEETLE_BIN", named)
		if got, err := Locate(t.Context(), io.Discard); err != nil || got != named {
			t.Fatalf("got %q, %v; want %q", got, err, named)
		}
	})
	t.Run("TIGERBEETLE_BIN of another version is refused", func(t *testing.T) {
		t.Setenv("TIGERBEETLE_BIN", fakeServer(t, t.TempDir(), "0.17.8"))
		_, err := Locate(t.Context(), io.Discard)
		if err == nil || !strings.Contains(err.Error(), "0.17.8") || !strings.Contains(err.Error(), Version) {
			t.Fatalf("got %v; want a refusal that names both versions", err)
		}
	})
	t.Run("another version on PATH is passed over with a notice", func(t *testing.T) {
		onPath, cache := t.TempDir(), t.TempDir()
		fakeServer(t, onPath, "0.15.3")
		kept := fakeServer(t, filepath.Join(cache, "tigerbeetle", Version), Version)
		t.Setenv("TIGERBEETLE_BIN", "")
		t.Setenv("LIQUIDA_CACHE", cache)
		t.Setenv("PATH", onPath+":"+os.Getenv("PATH"))
		var progress bytes.Buffer
		if got, err := Locate(t.Context(), &progress); err != nil || got != kept {
			t.Fatalf("got %q, %v; want %q", got, err, kept)
		}
		if !strings.Contains(progress.String(), "0.15.3") {
			t.Fatalf("progress %q does not say why", progress.String())
		}
	})
	t.Run("nothing to build with", func(t *testing.T) {
		t.Setenv("TIGERBEETLE_BIN", "")
		t.Setenv("LIQUIDA_CACHE", t.TempDir())
		t.Setenv("PATH", t.TempDir())
		_, err := Locate(t.Context(), io.Discard)
		for _, said := range []string{"cargo", "python3", "venv", "TIGERBEETLE_BIN", Version} {
			if err == nil || !strings.Contains(err.Error(), said) {
				t.Fatalf("got %v; it must name %s", err, said)
			}
		}
	})
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
	kit.Says(t, FormatCluster(t.Context(), bin, folder, 3, 0), "replica 1 of 3 is gone", "recover") // a replica that forgot everything
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
