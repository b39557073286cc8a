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

	"github.com/liquida/liquida/deploy/cache"
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
	folder, err := cache.Folder("tigerbeetle", Version)
	if err != nil {
		return "", err
	}
	return cached(ctx, folder, progress)
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
	if there, err := exists(path); there || err != nil {
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
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := format(ctx, bin, unfinished, 0, 1); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

// FormatCluster makes folder with the data files of a new cluster with id 0, see DataFile.
// An interrupted call leaves none. It leaves existing files alone, and refuses a folder
// where some are missing: a replica that forgot what it has promised may lose money.
//
// reserveBytes of the disk are reserved for each file to grow into: a file that grows with
// each write holds up all other writes to it.
func FormatCluster(ctx context.Context, bin, folder string, replicas int, reserveBytes int64) error {
	there, err := exists(folder)
	if err != nil {
		return err
	}
	if there {
		for replica := range replicas {
			if _, err := os.Stat(DataFile(folder, replica)); err != nil {
				return fmt.Errorf("the data file of TigerBeetle's replica %d is gone: %w; put it back, have `tigerbeetle recover` make it from the others, or start with no data at all", replica, err)
			}
		}
		return nil
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	unfinished := folder + ".formatting"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return err
	}
	for replica := range replicas {
		file := DataFile(unfinished, replica)
		if err := format(ctx, bin, file, replica, replicas); err != nil {
			return err
		}
		if err := reserve(file, reserveBytes); err != nil {
			return fmt.Errorf("cannot reserve %d MiB of the disk for the TigerBeetle data file %s: %w; reserve less (--ledger-reserve), or free some", reserveBytes>>20, file, err)
		}
	}
	return os.Rename(unfinished, folder)
}

// DataFile is the data file of one replica in the folder that FormatCluster made.
func DataFile(folder string, replica int) string {
	return filepath.Join(folder, fmt.Sprintf("0_%d.tigerbeetle", replica))
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func format(ctx context.Context, bin, path string, replica, replicas int) error {
	format := exec.CommandContext(ctx, bin, "format", "--cluster=0", fmt.Sprint("--replica=", replica), fmt.Sprint("--replica-count=", replicas), path)
	if output, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make the TigerBeetle data file %s (it takes about 1.1 GiB): %w\n%s", path, err, output)
	}
	return nil
}

// StartArguments are the server's arguments to serve the data file at path. addresses are
// the IP:port of all replicas, comma-separated; the data file says which of them it is.
// cacheGrid is the size of its page cache, like "512MiB".
//
// Not --development: it lowers the request limit from 8189 events to 253.
func StartArguments(path, addresses, cacheGrid string) []string {
	return []string{"start", "--addresses=" + addresses, "--cache-grid=" + cacheGrid, path}
}

// Answers tells from what a server has logged since its start whether it answers requests.
// Its port is no sign of it: it opens before the log is replayed. One of several replicas
// answers while it is in touch with a majority of them.
func Answers(log []byte) bool {
	last := bytes.LastIndex(log, []byte("transition_to_"))
	return last >= 0 && bytes.HasPrefix(log[last:], []byte("transition_to_normal"))
}
