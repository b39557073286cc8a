package tigerbeetle

import (
	"errors"
	"os"
	"syscall"
)

// reserve extends a file by blocks that are allocated and not yet written. If the file system
// cannot do that, the file grows as it is written.
func reserve(path string, bytes int64) error {
	if bytes == 0 {
		return nil
	}

	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}

	info, err := file.Stat()
	if err == nil {
		err = syscall.Fallocate(int(file.Fd()), 0, info.Size(), bytes)
	}

	if errors.Is(err, syscall.EOPNOTSUPP) {
		err = nil
	}

	return errors.Join(err, file.Close())
}
