package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// merged is the name of the files of a finished day. It stands behind those of segments.
const merged = "day"

// groupRows is how many rows a row group has at least, but for the last one: it ends with a segment. Query engines want
// some 100,000.
var groupRows = 100_000 // tests have smaller ones

// bitsOfID is how many bits the filter for ids has for each: one in a hundred is found in vain.
const bitsOfID = 10

// writeRows writes a file of rows, part by part.
func writeRows[R any](file io.Writer, kind int, parts iter.Seq[[]R]) error {
	options := []parquet.WriterOption{parquet.Compression(&parquet.Zstd)}
	if kind == payments {
		options = append(options, parquet.BloomFilters(parquet.SplitBlockFilter(bitsOfID, "id")))
	}

	writer, group := parquet.NewGenericWriter[R](file, options...), 0
	for part := range parts {
		if group >= groupRows {
			group = 0

			if err := writer.Flush(); err != nil {
				return err
			}
		}

		group += len(part)
		if _, err := writer.Write(part); err != nil {
			return err
		}
	}

	return writer.Close()
}

// Merge makes one file of each kind of a day's segments, the last of which is end: the day must be over. What it was
// killed in it goes on with, and several may do it at once. The file of the manifests decides: with it the day's files
// are valid and those of its segments are not, and are removed. Before it is written, all rows are read back and
// verified.
func Merge(ctx context.Context, store Store, end Manifest) error {
	_, err := fs.Stat(store, fileOf(ManifestsFolder, end.Day, merged))
	if errors.Is(err, fs.ErrNotExist) {
		err = merge(ctx, store, end)
	}

	if err != nil {
		return fmt.Errorf("the day %s: %w", end.Day, err)
	}

	return sweep(ctx, store, end.Day)
}

func merge(ctx context.Context, store Store, end Manifest) error {
	if days, err := daysOf(store); err != nil || !slices.ContainsFunc(days, func(day string) bool {
		return day > end.Day
	}) {
		return cmp.Or(err, errors.New("it is not over: no day after it is in the archive"))
	}

	places, err := placesOf(store, end.Day)
	if err != nil {
		return err
	}

	if len(places) == 0 || places[len(places)-1].Manifest != end {
		return fmt.Errorf("it does not end with the segment %s: segments were left out or added", end.Name)
	}
	from := &Archive{folder: store, places: places}
	defer from.close()

	for kind := range slices.Backward(folders[:]) { // payments last: until the end a query finds them twice
		if err := from.merge(ctx, store, kind); err != nil {
			return err
		}
	}

	if err := verifyMerged(ctx, store, places); err != nil {
		return err
	}
	_, err = store.Put(ctx, fileOf(ManifestsFolder, end.Day, merged), func(file io.Writer) error {
		lines := json.NewEncoder(file)
		for i := range slices.Backward(places) {
			if err := lines.Encode(&places[i].Manifest); err != nil {
				return err
			}
		}

		return nil
	})

	return err
}

// merge writes the file of a kind, unless it is there.
func (a *Archive) merge(ctx context.Context, store Store, kind int) error {
	last := &a.places[len(a.places)-1]

	name := fileOf(folders[kind], last.Day, merged)
	if last.before[kind]+last.counts()[kind] == 0 {
		return nil
	}

	if _, err := fs.Stat(store, name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := store.Put(ctx, name, func(file io.Writer) error {
		switch kind {
		case payments:
			return mergeRows[Payment](ctx, a, file, kind)
		case records:
			return mergeRows[Record](ctx, a, file, kind)
		default:
			return mergeRows[Account](ctx, a, file, kind)
		}
	})

	return err
}

func mergeRows[R any](ctx context.Context, a *Archive, file io.Writer, kind int) error {
	var wrong error
	err := writeRows(file, kind, func(yield func([]R) bool) {
		for i := range a.places {
			rows, err := rowsOf[R](a, &a.places[i], kind)
			if wrong = errors.Join(err, ctx.Err()); wrong != nil || !yield(rows) {
				return
			}
		}
	})

	return errors.Join(wrong, err)
}

// verifyMerged reads the files of a day.
func verifyMerged(ctx context.Context, folder fs.FS, places []place) error {
	day := &Archive{folder: folder, places: slices.Clone(places)}
	defer day.close()

	previous := Manifest{Chain: places[0].Previous, To: places[0].From}
	for i := range day.places {
		day.places[i].merged = true
		if err := errors.Join(ctx.Err(), places[i].Follows(previous)); err != nil {
			return err
		}

		if _, err := day.verified(i); err != nil {
			return fmt.Errorf("its files or those of its segments are damaged, and nothing was removed: %w", err)
		}
		previous = places[i].Manifest
	}

	return nil
}

// sweep removes from the folders of a merged day what is not valid: the files of its segments, the manifests last, and
// what was left half-written.
func sweep(ctx context.Context, store Store, day string) error {
	for _, folder := range append(folders[:], ManifestsFolder) {
		dir := path.Dir(fileOf(folder, day, merged))

		entries, err := fs.ReadDir(store, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if !slices.ContainsFunc(entries, func(entry fs.DirEntry) bool {
			return strings.HasPrefix(entry.Name(), merged+".")
		}) {
			return errors.Join(err, fmt.Errorf(
				"%s has no file of the day, and its manifests are merged: a copy from two times; nothing was removed there",
				dir))
		}

		for _, entry := range entries {
			name := entry.Name()
			if strings.HasPrefix(name, merged+".") || strings.HasPrefix(name, Unfinished) && isNew(entry) {
				continue
			}

			if err := store.Remove(ctx, dir+"/"+name); err != nil {
				return err
			}
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// Unfinished is how the names of files begin while they are written.
const Unfinished = ".writing-"

// isNew reports whether another archiver may be writing a file.
func isNew(entry fs.DirEntry) bool {
	info, err := entry.Info()
	return err == nil && time.Since(info.ModTime()) < time.Hour
}

// cutDay returns the day of the name of a folder.
func cutDay(folder string) (day string, is bool) { return strings.CutPrefix(folder, "day=") }
