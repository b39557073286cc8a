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

// loudDisk ends the process when kfake warns that the disk failed it. kfake itself would go
// on: it acknowledges offsets and topics that it could not write, and a batch as well if it
// comes a second time, because it has noted the batch's sequence number before. Every warning
// comes in the goroutine that answers, before the answer: who dies here has acknowledged
// nothing that is not written.
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
			fmt.Fprintf(os.Stderr, "broker: cannot keep data in BROKER_DATA_DIR %s: %v: stopping before anything is acknowledged that is not written; make room or mend the disk, and start again\n", l.folder, err)
			os.Exit(settings.ExitFailure)
		}
	}
}

// cutTornEnd removes the entry at the end of one of kfake's append logs that a full disk or a
// power cut has left unfinished. kfake itself leaves it there and appends behind it, where the
// next start would read nothing any more: offsets would go back.
func cutTornEnd(path string) error {
	log, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// An entry: length and CRC32-C of what follows, 4 bytes each, then that.
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
	fmt.Fprintf(os.Stderr, "broker: %s: cutting %d bytes of an unfinished entry\n", path, len(log)-whole)
	return os.Truncate(path, int64(whole))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
