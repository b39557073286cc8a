// Package cache keeps what is fetched or built once on a machine, for all checkouts and all
// processes.
package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/liquida/liquida/platform/host"
)

// Folder returns the folder of one thing: the given names below LIQUIDA_CACHE, or below liquida in
// the user's cache folder. It may not exist yet.
func Folder(names ...string) (string, error) {
	root := os.Getenv("LIQUIDA_CACHE")
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("there is no cache folder: %w; set LIQUIDA_CACHE to one", err)
		}
		root = filepath.Join(user, "liquida")
	}

	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}

	return filepath.Join(append([]string{root}, names...)...), nil
}

// Lock creates the folder and holds it until unlock is called or the process ends, in whatever
// way. While another process holds it, Lock waits, and says so on progress.
func Lock(ctx context.Context, folder string, progress io.Writer) (unlock func(), err error) {
	path := filepath.Join(folder, "lock")

	var file *os.File
	if err = os.MkdirAll(folder, 0o755); err == nil {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	}

	if err != nil {
		return nil, fmt.Errorf("cannot write to the cache: %w; set LIQUIDA_CACHE to a writable folder", err)
	}

	for told := false; ; told = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}

		if !told && errors.Is(err, syscall.EWOULDBLOCK) {
			fmt.Fprintf(progress, "another process is filling %s; waiting for it\n", folder)
		}

		if !errors.Is(err, syscall.EWOULDBLOCK) || !host.Sleep(ctx, 200*time.Millisecond) {
			file.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", path, cmp.Or(ctx.Err(), err))
		}
	}
}

// Fill has one process fill the folder, while others wait, unless it is full.
func Fill(ctx context.Context, folder string, progress io.Writer, full func() bool, fill func() error) error {
	if full() {
		return nil
	}

	unlock, err := Lock(ctx, folder, progress)
	if err != nil {
		return err
	}
	defer unlock()

	if full() { // another process has done it meanwhile
		return nil
	}

	return fill()
}

// Run runs a tool in a folder, with more environment variables. An error holds the end of what it says.
func Run(ctx context.Context, folder string, env []string, name string, arguments ...string) error {
	tool := exec.CommandContext(ctx, name, arguments...)
	tool.Dir, tool.Env = folder, append(os.Environ(), env...)
	tool.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interruption ends its children, too

	tool.Cancel = func() error { return syscall.Kill(-tool.Process.Pid, syscall.SIGKILL) }
	if said, err := tool.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", filepath.Base(name), cmp.Or(ctx.Err(), err), LastLines(said))
	}

	return nil
}

// Exists reports whether a file or folder exists. What is renamed into place when complete is
// complete if it exists.
func Exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	return err == nil, err
}

// LastLines returns the last twenty lines of what a tool said.
func LastLines(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
