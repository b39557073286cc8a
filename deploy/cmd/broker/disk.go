package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/liquida/liquida/platform/settings"
)

// loudDisk ends the process when kfake warns of a failed write. kfake itself would go on: it
// acknowledges offsets and topics that it could not write, and a batch too when it comes again,
// because it already noted the batch's sequence number. kfake logs the warning in the goroutine
// that answers, before the answer, so nothing is acknowledged that is not written.
type loudDisk struct {
	kfake.Logger
	folder string
}

func (l loudDisk) Logf(level kfake.LogLevel, message string, arguments ...any) {
	l.Logger.Logf(level, message, arguments...)

	if level > kfake.LogLevelWarn {
		return
	}

	for _, argument := range arguments {
		err, isError := argument.(error)
		if errno := syscall.Errno(0); isError && errors.As(err, &errno) {
			l.stop(err)
		}
	}
}

func (l loudDisk) stop(err error) {
	fmt.Fprintf(os.Stderr, "broker: cannot keep data in BROKER_DATA_DIR %s: %v: stopping before it acknowledges anything that is not written; free some space or repair the disk, then start again\n",
		l.folder, err)
	os.Exit(settings.ExitFailure)
}

// cutTornEnd removes an unfinished last entry, which a full disk or a power cut leaves, from one of
// kfake's append logs. kfake would append behind it, and the next start would stop reading there:
// offsets would go back.
func cutTornEnd(path string) error {
	log, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}
	// An entry is the length and the CRC32-C of its body, 4 bytes each, then the body.
	const header = 8

	whole := 0
	for len(log)-whole >= header {
		entry := log[whole:]

		length := int(binary.LittleEndian.Uint32(entry))
		if length < 2 || length > len(entry)-header || // each has a version
			crc32.Checksum(entry[header:header+length], castagnoli) != binary.LittleEndian.Uint32(entry[4:]) {
			break
		}
		whole += header + length
	}

	if whole == len(log) {
		return nil
	}
	fmt.Fprintf(os.Stderr, "broker: %s: removing %d bytes of an unfinished entry\n", path, len(log)-whole)

	return os.Truncate(path, int64(whole))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
