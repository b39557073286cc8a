package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"

	"github.com/liquida/liquida/platform/archive"
)

// Open returns the archive in a folder, or in a bucket: s3://bucket/prefix?region=R, and what else the library takes,
// such as endpoint and use_path_style. Credentials come from the environment, as for other programs. ctx ends what is
// read.
func Open(ctx context.Context, place string) (archive.Store, error) {
	if !strings.Contains(place, "://") {
		return Folder(place), nil
	}

	at, err := url.Parse(place)
	if err == nil && (at.Scheme != "s3" || at.Host == "" || at.User != nil) {
		err = errors.New("it must be a folder, or s3://bucket/prefix and parameters; credentials are taken from the environment")
	}

	if err != nil {
		return nil, fmt.Errorf("the archive cannot be at %q: %w", place, err)
	}

	in, err := new(s3blob.URLOpener).OpenBucketURL(ctx, at)
	if err != nil {
		return nil, err
	}

	if prefix := strings.Trim(at.Path, "/"); prefix != "" {
		in = blob.PrefixedBucket(in, prefix+"/")
	}

	return &bucket{ctx, in, place}, nil
}

// bucket is an archive in a bucket. It reads by itself what the library has as a file system, too: that one takes a
// request that failed for a file that is not there.
type bucket struct {
	ctx   context.Context // io/fs has none
	in    *blob.Bucket
	place string
}

// patience is how long a request may take, or a part of a file that is written: a bucket that says nothing must not
// stop the archive silently.
const patience = time.Minute

func (b *bucket) String() string { return b.place }

// Put lets the bucket refuse what is there.
func (b *bucket) Put(ctx context.Context, name string, write func(io.Writer) error) (created bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(patience, func() { cancel(fmt.Errorf("%v has not taken %s for %v", b, name, patience)) })
	late.Stop()
	defer late.Stop()

	object, err := b.in.NewWriter(ctx, name,
		&blob.WriterOptions{IfNotExist: true, ContentType: "application/octet-stream", MaxConcurrency: 2})
	if err != nil {
		return false, err
	}
	buffer := bufio.NewWriterSize(waiting{object, late}, 1<<20)

	err = errors.Join(write(buffer), buffer.Flush())
	if err != nil {
		cancel(err) // or else what is written would be there
	}
	late.Reset(patience)

	closed := object.Close()
	if err == nil && closed != nil {
		if _, missing := b.Stat(name); missing == nil { // refused, perhaps by a server that did not read on
			return false, nil
		}
	}

	if err = errors.Join(err, closed); err != nil {
		return false, fmt.Errorf("cannot write %s: %w", name, errors.Join(context.Cause(ctx), err))
	}

	return true, nil
}

// waiting lets time run only while the bucket takes something.
type waiting struct {
	to   io.Writer
	late *time.Timer
}

func (w waiting) Write(p []byte) (int, error) {
	w.late.Reset(patience)
	defer w.late.Stop()
	return w.to.Write(p)
}

func (b *bucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	err := b.in.Delete(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}

	return err
}

// object is what a bucket says of a file or a folder.
type object struct {
	name    string
	size    int64
	changed time.Time
	dir     bool
}

func (o object) Name() string       { return o.name }
func (o object) Size() int64        { return o.size }
func (o object) ModTime() time.Time { return o.changed }
func (o object) IsDir() bool        { return o.dir }
func (o object) Sys() any           { return nil }
func (o object) Mode() fs.FileMode {
	if o.dir {
		return fs.ModeDir
	}

	return 0
}

func (b *bucket) wrong(name string, err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		err = fs.ErrNotExist
	}

	return &fs.PathError{Op: "read", Path: b.place + ": " + name, Err: err}
}

func (b *bucket) Stat(name string) (fs.FileInfo, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()

	is, err := b.in.Attributes(ctx, name)
	if err != nil {
		return nil, b.wrong(name, err)
	}

	return object{path.Base(name), is.Size, is.ModTime, false}, nil
}

func (b *bucket) ReadFile(name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()

	content, err := b.in.ReadAll(ctx, name)
	if err != nil {
		return nil, b.wrong(name, err)
	}

	return content, nil
}

// ReadDir returns what is in a folder, which is there if something is in it.
func (b *bucket) ReadDir(name string) (entries []fs.DirEntry, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()

	for list := b.in.List(&blob.ListOptions{Prefix: name + "/", Delimiter: "/"}); ; {
		is, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return nil, &fs.PathError{Op: "list", Path: b.place + ": " + name, Err: err}
		}
		entries = append(entries, fs.FileInfoToDirEntry(object{path.Base(is.Key), is.Size, is.ModTime, is.IsDir}))
	}

	if len(entries) == 0 {
		return nil, &fs.PathError{Op: "list", Path: b.place + ": " + name, Err: fs.ErrNotExist}
	}

	return entries, nil
}

// Open opens a file, not a folder.
func (b *bucket) Open(name string) (fs.File, error) {
	is, err := b.Stat(name)
	if err != nil {
		return nil, err
	}

	return &objectFile{FileInfo: is, in: b, name: name, blocks: map[int64][]byte{}}, nil
}

// objectFile is a file of a bucket, read in blocks of which it keeps the last ones: the columns of a row group.
type objectFile struct {
	fs.FileInfo
	in   *bucket
	name string
	at   int64

	lock   sync.Mutex
	blocks map[int64][]byte
	order  []int64 // in which they were read
}

const (
	blockSize = 1 << 20
	blocksMax = 32
)

func (f *objectFile) Stat() (fs.FileInfo, error) { return f.FileInfo, nil }
func (f *objectFile) Close() error               { return nil }

// Read asks for no more than it is asked for: who reads the end of a day needs the first line only.
func (f *objectFile) Read(p []byte) (int, error) {
	if f.at >= f.Size() {
		return 0, io.EOF
	}
	part, err := f.in.part(f.name, f.at, min(int64(len(p)), f.Size()-f.at))
	f.at += int64(len(part))

	return copy(p, part), err
}

func (f *objectFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.lock.Lock()
	defer f.lock.Unlock()

	for n < len(p) {
		at := off + int64(n)
		if at >= f.Size() {
			return n, io.EOF
		}

		block, err := f.block(at / blockSize)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], block[at%blockSize:])
	}

	return n, nil
}

func (f *objectFile) block(number int64) ([]byte, error) {
	if block, known := f.blocks[number]; known {
		return block, nil
	}
	first := number * blockSize

	block, err := f.in.part(f.name, first, min(blockSize, f.Size()-first))
	if err != nil {
		return nil, err
	}

	if len(f.order) == blocksMax {
		delete(f.blocks, f.order[0])
		f.order = f.order[1:]
	}
	f.blocks[number], f.order = block, append(f.order, number)

	return block, nil
}

// part reads a part of a file.
func (b *bucket) part(name string, from, length int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()

	reader, err := b.in.NewRangeReader(ctx, name, from, length, nil)
	if err != nil {
		return nil, b.wrong(name, err)
	}
	defer reader.Close()

	part := make([]byte, length)
	if _, err := io.ReadFull(reader, part); err != nil {
		return nil, b.wrong(name, err)
	}

	return part, nil
}
