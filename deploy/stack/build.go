package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packages are built for a stack and its load. A binary has the name of its last folder.
var packages = []string{
	"./services/producer",
	"./services/clearing-engine",
	"./services/bank-simulator",
	"./services/archiver",
	"./deploy/cmd/bootstrap",
	"./deploy/cmd/broker",
	"./loadtest",
}

// linkFlags are those of the Makefile: with others make up and make build would link all programs
// anew in turn. Without what a debugger needs, linking takes half of the time.
const linkFlags = "-ldflags=-s -w"

// Build compiles every program of the stack into binDir.
func Build(ctx context.Context, repoRoot, binDir string) error {
	binDir, err := filepath.Abs(binDir)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(binDir, 0o755); err != nil {
		return err
	}
	// In one call, which compiles shared packages once.
	build := exec.CommandContext(ctx, "go",
		append([]string{"build", linkFlags, "-o", binDir + string(filepath.Separator)}, packages...)...)

	build.Dir = repoRoot
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the stack: %w\n%s\nThe TigerBeetle client needs cgo and a C compiler (on Debian: gcc and libc6-dev).",
			err, strings.TrimSpace(string(output)))
	}

	return nil
}

// RepoRoot is the nearest folder at or above the working folder that holds go.work.
func RepoRoot() (string, error) {
	working, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for folder := working; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.work")); err == nil {
			return folder, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}

		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("no go.work at or above %s: run this inside the repository", working)
		}
	}
}
