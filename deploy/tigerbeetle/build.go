package tigerbeetle

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/liquida/liquida/deploy/cache"
)

// The recipe needs only package registries. A crate carries TigerBeetle's source, a Python wheel
// the Zig compiler for it.
const (
	sourceCrate = "tigerbeetle-unofficial-sys"
	zigWheel    = "ziglang==0.14.1"
	gitCommit   = "c3d9b09dc88e94dde9ac915c6e94a4c650332080" // of release 0.16.78; shown by `version`
	oldestPeer  = "0.16.4"                                   // the oldest client that release 0.16.78 serves
)

// source is a Cargo project whose lock file pins the crate by its checksum.
//
//go:embed source
var source embed.FS

// build makes the server from source.
func build(ctx context.Context, bin string, progress io.Writer) error {
	_, noCargo := exec.LookPath("cargo")

	_, noPython := exec.LookPath("python3")
	if err := errors.Join(noCargo, noPython); err != nil {
		return fmt.Errorf("%w: install cargo, which fetches the source, and python3 with venv, which fetches the Zig compiler (on Debian: python3-venv)",
			err)
	}
	folder := filepath.Dir(bin)

	scratch, err := os.MkdirTemp(folder, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	fmt.Fprintf(progress, "building TigerBeetle %s from source, once, into %s (some minutes)\n", Version, folder)

	if err := os.CopyFS(scratch, source); err != nil {
		return err
	}

	project, python := filepath.Join(scratch, "source"), filepath.Join(scratch, "venv", "bin", "python")
	tree := filepath.Join(project, "vendor", sourceCrate, "tigerbeetle")
	env := []string{"ZIG_GLOBAL_CACHE_DIR=" + filepath.Join(scratch, "zig")}

	began := time.Now()
	for i, step := range []struct {
		name, folder string
		command      []string
	}{
		{"fetch the source", project, []string{"cargo", "vendor", "--locked"}},
		{"make a place for the Zig compiler", scratch, []string{"python3", "-m", "venv", "venv"}},
		{"fetch the Zig compiler", scratch, []string{python, "-m", "pip", "install", "--quiet", zigWheel}},
		// If CI is set, TigerBeetle's build requires git history.
		{"compile", tree, []string{"env", "-u", "CI", python, "-m", "ziglang", "build", "-Drelease",
			"-Dconfig-release=" + Version, "-Dconfig-release-client-min=" + oldestPeer, "-Dgit-commit=" + gitCommit}},
	} {
		fmt.Fprintf(progress, "  [%3.0fs] %d/4 %s\n", time.Since(began).Seconds(), i+1, step.name)

		if err := cache.Run(ctx, step.folder, env, step.command[0], step.command[1:]...); err != nil {
			return fmt.Errorf("step %s: %w", step.name, err)
		}
	}

	built := filepath.Join(tree, "tigerbeetle")
	if err := check(ctx, built); err != nil {
		return err
	}

	return os.Rename(built, bin) // atomic: both are in the folder
}
