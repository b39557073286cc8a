// Package tigerbeetle finds the TigerBeetle server that the project is written for, builds it if
// there is none, and reports when a started server answers.
package tigerbeetle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/cache"
)

// Version is the version of the server and of the client: a server refuses a newer client, and
// 0.17 changed the results.
const Version = "0.16.78"

// Locate returns the path of a TigerBeetle server of the right version: TIGERBEETLE_BIN,
// else the one in the cache, else a build from source into the cache, some minutes once. It
// writes to progress what it does.
func Locate(ctx context.Context, progress io.Writer) (string, error) {
	if named := os.Getenv("TIGERBEETLE_BIN"); named != "" {
		// It is named by hand: report another version instead of working around it.
		if err := check(ctx, named); err != nil {
			return "", fmt.Errorf("TIGERBEETLE_BIN is %q: %w; name a %s server, or unset it to have one found or built",
				named, err, Version)
		}

		return filepath.Abs(named)
	}

	folder, err := cache.Folder("tigerbeetle", Version)
	if err != nil {
		return "", err
	}

	bin := filepath.Join(folder, "tigerbeetle")

	return bin, cache.Fill(ctx, folder, progress, func() bool { return check(ctx, bin) == nil }, func() error {
		if err := build(ctx, bin, progress); err != nil {
			return fmt.Errorf("cannot build TigerBeetle %s: %w; or name an official binary of this version in TIGERBEETLE_BIN",
				Version, err)
		}

		return nil
	})
}

// check rejects a binary that is not a TigerBeetle server of Version.
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

// FormatCluster creates folder with the data files of a new cluster with id 0, see DataFile. An
// interrupted call leaves no folder. Existing files stay. A folder where some are missing is an
// error: a replica that forgot what it promised the others may lose money.
//
// reserveBytes are reserved for each file: a write that makes a file grow blocks all other writes
// to it.
func FormatCluster(ctx context.Context, bin, folder string, replicas int, reserveBytes int64) error {
	there, err := cache.Exists(folder)
	if err != nil {
		return err
	}

	if there {
		for replica := range replicas {
			if _, err := os.Stat(DataFile(folder, replica)); err != nil {
				return fmt.Errorf("the data file of TigerBeetle's replica %d of %d is gone: %w; put back a copy of all files (docs/backup.md), rebuild a replica's from the others with `tigerbeetle recover` while they run, or start without any data",
					replica, replicas, err)
			}
		}

		return nil
	}

	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}

	unfinished := folder + ".formatting"
	if err := errors.Join(os.RemoveAll(unfinished), os.MkdirAll(unfinished, 0o755)); err != nil {
		return err
	}

	for replica := range replicas {
		file := DataFile(unfinished, replica)
		if err := cache.Run(ctx, unfinished, nil, bin, "format", "--cluster=0", fmt.Sprint("--replica=", replica),
			fmt.Sprint("--replica-count=", replicas), file); err != nil {
			return fmt.Errorf("cannot create the TigerBeetle data file %s (it takes about 1.1 GiB): %w", file, err)
		}

		if err := reserve(file, reserveBytes); err != nil {
			return fmt.Errorf("cannot reserve %d MiB of the disk for the TigerBeetle data file %s: %w; reserve less (--ledger-reserve), or free some space",
				reserveBytes>>20, file, err)
		}
	}

	return os.Rename(unfinished, folder)
}

// DataFile returns the data file of one replica in the folder that FormatCluster created.
func DataFile(folder string, replica int) string {
	return filepath.Join(folder, fmt.Sprintf("0_%d.tigerbeetle", replica))
}

// StartArguments returns the server's arguments to serve the data file at path. addresses are the
// IP:port of all replicas, comma-separated; the data file says which of them this is. cacheGrid
// is the size of its page cache, such as "512MiB". The server ends when its file would grow above limitGiB: that
// setting, and statsd, it has only with --experimental.
//
// Not --development: it lowers the request limit from 8189 events to 253.
func StartArguments(path, addresses, cacheGrid string, limitGiB int) []string {
	return []string{"start", "--experimental", "--addresses=" + addresses, "--cache-grid=" + cacheGrid,
		fmt.Sprintf("--limit-storage=%dGiB", limitGiB), path}
}

// LimitGiB is how large a server lets its data file grow if nobody says otherwise. LimitGiBMax is the most that it
// takes.
const (
	LimitGiB    = 16 << 10
	LimitGiBMax = 64 << 10
)

// releaseMax bounds the wait for a data file.
const releaseMax = 30 * time.Second

// AwaitRelease returns when no server holds the data file at path. The kernel keeps the lock of a
// killed server until io_uring has ended its last writes. On a busy machine that takes longer than
// a new server waits before it gives up, 0.1 s.
func AwaitRelease(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() // and the lock

	for giveUp := time.Now().Add(releaseMax); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}

		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(giveUp) {
			return fmt.Errorf("a TigerBeetle server holds the data file %s: %w", path, err)
		}
	}
}

// Answers reports whether a server answers requests, by what it has logged since its start. An
// open port proves nothing: the server opens it before it replays its log. One of several
// replicas answers while it is in touch with a majority.
func Answers(log []byte) bool {
	last := bytes.LastIndex(log, []byte("transition_to_"))
	return last >= 0 && bytes.HasPrefix(log[last:], []byte("transition_to_normal"))
}
