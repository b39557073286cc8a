// Package store has the places in which an archive can be.
package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/liquida/liquida/platform/archive"
)

// folder is an archive on a disk. The portable library has folders, too, but does not call fsync, and writes attributes
// beside its files.
type folder struct {
	files
	path string
}

// files is what os.DirFS returns.
type files interface {
	fs.ReadFileFS
	fs.ReadDirFS
	fs.StatFS
}

// Folder returns the archive in a folder, which needs not be there. Its file system must have hard links.
func Folder(path string) archive.Store { return folder{os.DirFS(path).(files), path} }

func (f folder) String() string { return f.path }

// Put makes a link to what it wrote under another name: that fails if the name is taken.
func (f folder) Put(_ context.Context, name string, write func(io.Writer) error) (created bool, err error) {
	name = filepath.Join(f.path, filepath.FromSlash(name))

	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, err
	}

	file, err := os.CreateTemp(dir, archive.Unfinished+"*")
	if err != nil {
		return false, err
	}
	defer os.Remove(file.Name())
	buffer := bufio.NewWriterSize(file, 1<<20)
	err = write(buffer)

	err = errors.Join(err, buffer.Flush(), file.Chmod(0o640), file.Sync(), file.Close())
	if err == nil {
		err = os.Link(file.Name(), name)
	}

	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("cannot write %s: %w", name, err)
	}

	return err == nil, syncFolder(dir)
}

func (f folder) Remove(_ context.Context, name string) error {
	err := os.Remove(filepath.Join(f.path, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}

	return errors.Join(folder.Sync(), folder.Close())
}
