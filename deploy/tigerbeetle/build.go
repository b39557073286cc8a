package tigerbeetle

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// cached returns the server in folder, and builds it first if it is missing. If several
// processes call it, one builds and the others wait.
func cached(ctx context.Context, folder string, progress io.Writer) (string, error) {
	bin := filepath.Join(folder, "tigerbeetle")
	if check(ctx, bin) == nil {
		return bin, nil
	}
	unlock, err := cache.Lock(ctx, folder, progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if check(ctx, bin) == nil { // another process built it meanwhile
		return bin, nil
	}
	b := &build{folder: folder, progress: progress, started: time.Now()}
	if err := b.run(ctx, bin); err != nil {
		return "", fmt.Errorf("cannot build TigerBeetle %s: %w", Version, err)
	}
	return bin, nil
}

// build is one run of the recipe.
type build struct {
	folder   string
	progress io.Writer
	started  time.Time
	scratch  string
	log      *os.File
}

func (b *build) run(ctx context.Context, bin string) (err error) {
	if err := needed(ctx); err != nil {
		return err
	}
	if b.scratch, err = os.MkdirTemp(b.folder, "build-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.scratch)
	if b.log, err = os.Create(filepath.Join(b.folder, "build.log")); err != nil {
		return err
	}
	defer b.log.Close()

	fmt.Fprintf(b.progress, "building TigerBeetle %s from source, once, into %s (some minutes)\n", Version, b.folder)
	project := filepath.Join(b.scratch, "project")
	tree := filepath.Join(b.scratch, "tigerbeetle")
	python := filepath.Join(b.scratch, "python")
	built := filepath.Join(tree, "tigerbeetle")

	steps := []struct {
		name string
		do   func() error
	}{
		{"fetch the source", func() error { return b.fetchSource(ctx, project, tree) }},
		{"fetch the Zig compiler", func() error {
			if err := b.command(ctx, "", "python3", "-m", "venv", python); err != nil {
				return err
			}
			return b.command(ctx, "", filepath.Join(python, "bin", "python"), "-m", "pip", "install", "--quiet", zigWheel)
		}},
		{"compile", func() error {
			return b.command(ctx, tree, filepath.Join(python, "bin", "python"), "-m", "ziglang", "build", "-Drelease",
				"-Dconfig-release="+Version, "-Dconfig-release-client-min="+oldestPeer, "-Dgit-commit="+gitCommit)
		}},
		{"check and keep the binary", func() error {
			if err := check(ctx, built); err != nil {
				return err
			}
			return os.Rename(built, bin) // atomic: both are under b.folder
		}},
	}
	for i, step := range steps {
		name := fmt.Sprintf("%d/%d %s", i+1, len(steps), step.name)
		if err := b.timed(name, step.do); err != nil {
			return fmt.Errorf("step %s: %w", name, err)
		}
	}
	return nil
}

// timed runs a step and reports now and then that it still runs.
func (b *build) timed(name string, do func() error) error {
	fmt.Fprintf(b.progress, "  [%3.0fs] %s\n", time.Since(b.started).Seconds(), name)
	done := make(chan error, 1)
	go func() { done <- do() }()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			fmt.Fprintf(b.progress, "  [%3.0fs] %s …\n", time.Since(b.started).Seconds(), name)
		}
	}
}

// fetchSource unpacks the crate and copies TigerBeetle's source from it, because the crate's own
// folder is read-only and shared.
func (b *build) fetchSource(ctx context.Context, project, tree string) error {
	files, err := fs.Sub(source, "source")
	if err != nil {
		return err
	}
	if err := os.CopyFS(project, files); err != nil {
		return err
	}
	if err := b.command(ctx, project, "cargo", "fetch", "--locked"); err != nil {
		return err
	}
	metadata := exec.CommandContext(ctx, "cargo", "metadata", "--locked", "--offline", "--format-version=1")
	metadata.Dir = project
	output, err := metadata.Output()
	if err != nil {
		return fmt.Errorf("cargo metadata: %w", err)
	}
	var resolved struct {
		Packages []struct {
			Name         string
			ManifestPath string `json:"manifest_path"`
		}
	}
	if err := json.Unmarshal(output, &resolved); err != nil {
		return fmt.Errorf("cargo metadata: %w", err)
	}
	for _, p := range resolved.Packages {
		if p.Name == sourceCrate {
			return os.CopyFS(tree, os.DirFS(filepath.Join(filepath.Dir(p.ManifestPath), "tigerbeetle")))
		}
	}
	return fmt.Errorf("cargo metadata does not list the crate %s", sourceCrate)
}

// command runs one tool with its output in the build's log. An error holds the end of that log.
func (b *build) command(ctx context.Context, folder, name string, arguments ...string) error {
	fmt.Fprintf(b.log, "$ %s %s\n", name, strings.Join(arguments, " "))
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir = folder
	c.Stdout, c.Stderr = b.log, b.log
	// If CI is set, TigerBeetle's build requires git history.
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CI=") })
	c.Env = append(c.Env, "ZIG_GLOBAL_CACHE_DIR="+filepath.Join(b.scratch, "zig"))
	// Zig starts compilers of its own: an interrupted build ends them all.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		said, _ := os.ReadFile(b.log.Name())
		return fmt.Errorf("%s: %w; the end of %s:\n%s", name, err, b.log.Name(), cache.LastLines(said))
	}
	return nil
}

// needed fails early, and names all that is missing at once.
func needed(ctx context.Context) error {
	var missing []string
	if _, err := exec.LookPath("cargo"); err != nil {
		missing = append(missing, "cargo (it fetches the source)")
	}
	if exec.CommandContext(ctx, "python3", "-c", "import venv, ensurepip").Run() != nil {
		missing = append(missing, "python3 with venv (it fetches the Zig compiler; on Debian: python3-venv)")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing: %s; install it, %s", strings.Join(missing, " and "), manual)
	}
	return nil
}
