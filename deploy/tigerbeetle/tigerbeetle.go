// Package tigerbeetle finds the one TigerBeetle server that the project is written for,
// builds it where there is none, and tells when a started server answers.
package tigerbeetle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Version is the server's version. It is the client's too: a client newer than the server
// is refused, and 0.17 changed the results.
const Version = "0.16.78"

// manual is what to do when the server can be neither found nor built.
const manual = "or put the official " + Version + " binary on PATH, or name it in TIGERBEETLE_BIN"

// Locate returns the path of a TigerBeetle server of the right version: TIGERBEETLE_BIN,
// else PATH, else the cache, else built into the cache from source, which takes about two
// minutes once. What it does is told on progress.
func Locate(ctx context.Context, progress io.Writer) (string, error) {
	if named := os.Getenv("TIGERBEETLE_BIN"); named != "" {
		// Named by hand: another version is a mistake to report, not to work around.
		if err := check(ctx, named); err != nil {
			return "", fmt.Errorf("TIGERBEETLE_BIN is %q: %w; name a %s server, or unset it to have one found or built", named, err, Version)
		}
		return filepath.Abs(named)
	}
	if onPath, err := exec.LookPath("tigerbeetle"); err == nil {
		err := check(ctx, onPath)
		if err == nil {
			return filepath.Abs(onPath)
		}
		fmt.Fprintf(progress, "not using %s: %v\n", onPath, err)
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	return cached(ctx, cache, progress)
}

func cacheFolder() (string, error) {
	cache := os.Getenv("LIQUIDA_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no folder to keep the TigerBeetle server in: %w; set LIQUIDA_CACHE to one", err)
		}
		cache = filepath.Join(user, "liquida")
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "tigerbeetle", Version), nil
}

// check refuses a binary that is not a TigerBeetle server of Version.
func check(ctx context.Context, bin string) error {
	output, err := exec.CommandContext(ctx, bin, "version").Output()
	if err != nil {
		return fmt.Errorf("it does not answer `version`: %w", err)
	}
	said := strings.TrimSpace(string(output))
	version, _, _ := strings.Cut(strings.TrimPrefix(said, "TigerBeetle version "), "+")
	if version != Version {
		return fmt.Errorf("it says %q, and this project needs %s", said, Version)
	}
	return nil
}

// Format makes the data file of a new one-replica cluster with id 0. It leaves an existing
// file alone, and an interrupted call leaves none.
func Format(ctx context.Context, bin, path string) error {
	switch _, err := os.Stat(path); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	path, err := filepath.Abs(path) // the server panics on a bare file name
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	unfinished := path + ".formatting"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	format := exec.CommandContext(ctx, bin, "format", "--cluster=0", "--replica=0", "--replica-count=1", unfinished)
	if output, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make the TigerBeetle data file %s (it takes about 1.1 GiB): %w\n%s", path, err, output)
	}
	return os.Rename(unfinished, path)
}

// StartArguments are the server's arguments to serve the data file at path on address, an
// IP and port. cacheGrid is the size of its page cache, like "512MiB".
//
// Not --development: it lowers the request limit from 8189 events to 253.
func StartArguments(path, address, cacheGrid string) []string {
	return []string{"start", "--addresses=" + address, "--cache-grid=" + cacheGrid, path}
}

// Answers tells from what a server has logged since its start whether it answers requests.
// Its port is no sign of it: it opens before the log is replayed.
func Answers(log []byte) bool { return bytes.Contains(log, []byte("transition_to_normal")) }
