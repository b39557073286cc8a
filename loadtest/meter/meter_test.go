package meter

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// What is reserved for a file to grow into is not stored yet.
func TestReservedIsNotStored(t *testing.T) {
	folder := t.TempDir()
	file, err := os.Create(filepath.Join(folder, "file"))
	kit.Must(t, err)
	defer file.Close()
	const reserved, wrote = 64 << 20, 1 << 20

	err = syscall.Fallocate(int(file.Fd()), 0, 0, reserved)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("the file system reserves nothing")
	}
	kit.Must(t, err)
	kit.Must(t, kit.ErrorOf(file.WriteAt(make([]byte, wrote), reserved/2)))
	kit.Must(t, file.Sync())
	sample, err := Read(nil, folder)
	kit.Must(t, err)

	if sample.Stored < wrote || sample.Stored > wrote+1<<16 {
		t.Errorf("%d bytes are stored, %d were written and %d reserved", sample.Stored, wrote, reserved)
	}
}
