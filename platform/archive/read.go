package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Archive reads the segments of an archive as they were found, fast if in their order.
type Archive struct {
	folder fs.FS
	places []place
	files  [len(folders)]*reader // what was read last, by kind
}

// place is where the rows of a segment are.
type place struct {
	Manifest
	merged bool              // in the files of its day: it has none
	before [len(folders)]int // rows of its day before its own
}

// Open finds the segments of an archive. They are not verified.
func Open(folder fs.FS) (*Archive, error) {
	a := &Archive{folder: folder}

	days, err := daysOf(folder)
	for _, day := range days {
		places, wrong := placesOf(folder, day)
		if wrong != nil {
			return nil, wrong
		}
		a.places = append(a.places, places...)
	}

	return a, err
}

// Manifests returns all manifests of an archive in their order. They are not verified.
func Manifests(folder fs.FS) ([]Manifest, error) {
	a, err := Open(folder)
	if err != nil {
		return nil, err
	}

	all := make([]Manifest, len(a.places))
	for i := range all {
		all[i] = a.places[i].Manifest
	}

	return all, nil
}

// DayEnds returns the manifest of the last segment of each day.
func DayEnds(folder fs.FS) ([]Manifest, error) {
	days, err := daysOf(folder)
	var ends []Manifest

	for _, day := range days {
		end, wrong := again(func() ([]Manifest, error) { return manifestsOf(folder, day, 1) })
		if wrong != nil {
			return nil, wrong
		}
		ends = append(ends, end...)
	}

	return ends, err
}

// Segments yields the segments of which some may be after a time, verified, and each behind the one before.
func Segments(folder fs.FS, after uint64) iter.Seq2[*Segment, error] {
	return func(yield func(*Segment, error) bool) {
		a, err := Open(folder)
		if err == nil && len(a.places) == 0 {
			err = ErrEmpty
		}

		if err != nil {
			yield(nil, err)
			return
		}
		defer a.close()
		previous := Manifest{}

		for i := range a.places {
			m := a.places[i].Manifest
			err := m.Follows(previous)

			previous = m
			if err == nil && m.To <= after {
				continue
			}

			var s *Segment
			if err == nil {
				s, err = a.verified(i)
			}

			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// verified reads a segment, and returns what is wrong with its rows. The manifest must follow.
func (a *Archive) verified(i int) (*Segment, error) {
	p := &a.places[i]
	s := &Segment{Manifest: p.Manifest}

	var err error
	if s.PaymentRows, err = rowsOf[Payment](a, p, payments); err == nil {
		s.RecordRows, err = rowsOf[Record](a, p, records)
	}

	if err == nil {
		s.AccountRows, err = rowsOf[Account](a, p, accounts)
	}

	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", p.Name, err)
	}

	root, err := treeOf(s).root()
	if err != nil {
		return nil, err
	}

	if root.String() != p.Root {
		return nil, fmt.Errorf("segment %s: the root of its rows is %v, and its manifest says %s: rows were changed, moved, left out or added",
			p.Name, root, p.Root)
	}

	return s, nil
}

// daysOf returns the days that have a folder of manifests.
func daysOf(folder fs.FS) (days []string, err error) {
	entries, err := fs.ReadDir(folder, ManifestsFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	for _, entry := range entries {
		if day, is := cutDay(entry.Name()); is {
			days = append(days, day)
		}
	}

	return days, err
}

// placesOf returns the segments of a day.
func placesOf(folder fs.FS, day string) ([]place, error) {
	all, err := again(func() ([]Manifest, error) { return manifestsOf(folder, day, 0) })
	if err != nil {
		return nil, err
	}

	_, err = fs.Stat(folder, fileOf(ManifestsFolder, day, merged))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	places, before := make([]place, len(all)), [len(folders)]int{}
	for i := range all {
		places[i] = place{Manifest: all[i], merged: err == nil, before: before}
		for kind, count := range all[i].counts() {
			before[kind] += count
		}
	}

	return places, nil
}

// again tries once more if a file is missing: the day may just have been merged.
func again[R any](try func() (R, error)) (R, error) {
	found, err := try()
	if errors.Is(err, fs.ErrNotExist) {
		return try()
	}

	return found, err
}

// manifestsOf returns the last manifests of a day in their order; 0: all. If there is one file of all, it counts alone.
func manifestsOf(folder fs.FS, day string, last int) ([]Manifest, error) {
	dir := path.Dir(fileOf(ManifestsFolder, day, merged))

	entries, err := fs.ReadDir(folder, dir)
	if err != nil {
		return nil, err
	}
	whole := merged + ".json"
	var names []string
	found := false

	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == whole:
			found = true
		case path.Ext(name) == ".json":
			names = append(names, dir+"/"+name)
		}
	}

	if !found { // or else it was written meanwhile, and some of the others may be gone
		_, err := fs.Stat(folder, dir+"/"+whole)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		found = err == nil
	}

	if found {
		return readMerged(folder, dir+"/"+whole, last)
	}

	if last > 0 {
		names = names[max(0, len(names)-last):]
	}

	all := make([]Manifest, len(names))
	for i, name := range names { // sorted, as minutes are
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}

		if err := json.Unmarshal(text, &all[i]); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", name, err)
		}

		if err := all[i].standsIn(name, all[i].Name); err != nil {
			return nil, err
		}
	}

	return all, nil
}

// readMerged reads the last manifests of a finished day; 0: all. Its last segment is the first line, so that who wants
// the end of each day reads little.
func readMerged(folder fs.FS, name string, last int) (all []Manifest, err error) {
	var file io.Reader

	if last > 0 {
		opened, err := folder.Open(name)
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		file = bufio.NewReader(opened)
	} else {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		file = bytes.NewReader(text)
	}

	for lines := json.NewDecoder(file); last == 0 || len(all) < last; {
		var m Manifest
		if err := lines.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", name, err)
		}

		if err := m.standsIn(name, merged); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	slices.Reverse(all)

	return all, nil
}

// standsIn returns what is wrong with a manifest in a file.
func (m *Manifest) standsIn(file, name string) error {
	if m.Format != format {
		return fmt.Errorf("%s has format %d, and this program knows %d: a newer version may read it", file,
			m.Format, format)
	}

	if fileOf(ManifestsFolder, m.Day, name) != file {
		return fmt.Errorf("%s is the manifest of %s: files were moved", file, m.Name)
	}

	return nil
}

// lookUp returns the manifest that an archive has of a segment; the zero one: none.
func lookUp(folder fs.FS, m *Manifest) (Manifest, error) {
	file := m.File(ManifestsFolder)
	var there Manifest

	text, err := fs.ReadFile(folder, file)
	if err == nil {
		err = json.Unmarshal(text, &there)
		return there, cmp.Or(err, there.standsIn(file, m.Name))
	}

	all := []Manifest(nil)
	if errors.Is(err, fs.ErrNotExist) {
		all, err = readMerged(folder, fileOf(ManifestsFolder, m.Day, merged), 0)
	}

	if errors.Is(err, fs.ErrNotExist) {
		return there, nil
	}

	if i := slices.IndexFunc(all, func(is Manifest) bool { return is.Name == m.Name }); i >= 0 {
		there = all[i]
	} else if err == nil {
		err = fmt.Errorf("the finished day %s has no segment %s: %w", m.Day, m.Name, ErrInTheWay)
	}

	return there, err
}

// close closes what is open.
func (a *Archive) close() {
	for _, file := range a.files {
		if file != nil {
			file.file.Close()
		}
	}
}

// reader reads a file of rows, forwards.
type reader struct {
	name   string
	file   fs.File
	group  parquet.RowGroup
	rows   any                // the *parquet.GenericReader of the group; nil: not begun
	groups []parquet.RowGroup // the next ones
	at     int                // the next row
	end    int                // behind the group
	count  int                // of the file
}

// rowsOf reads the rows of a kind of a segment.
func rowsOf[R any](a *Archive, p *place, kind int) ([]R, error) {
	want := p.counts()[kind]
	if want == 0 {
		return nil, nil
	}

	file, from, err := a.find(p, kind)
	if err != nil {
		return nil, err
	}
	rows := make([]R, want)

	return rows, readRows(file, from, rows)
}

// find returns the file that has the rows of a segment, not read beyond the first of them, and that row.
func (a *Archive) find(p *place, kind int) (file *reader, from int, err error) {
	if !p.merged {
		file, err = a.open(p.File(folders[kind]), 0)
		if err == nil {
			return file, 0, file.has(p.counts()[kind])
		}

		if !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, err
		}
	}
	missing := err

	file, err = a.open(fileOf(folders[kind], p.Day, merged), p.before[kind])
	if err != nil {
		return nil, 0, cmp.Or(missing, err)
	}

	if !p.merged { // it was merged since its segments were found, and may then not have been over
		return file, p.before[kind], nil
	}
	want := 0

	for i := range a.places {
		if a.places[i].Day == p.Day {
			want += a.places[i].counts()[kind]
		}
	}

	return file, p.before[kind], file.has(want)
}

// open opens a file, unless it is the last one and not read beyond a row.
func (a *Archive) open(name string, from int) (*reader, error) {
	kind := slices.IndexFunc(folders[:], func(folder string) bool { return strings.HasPrefix(name, folder+"/") })
	if file := a.files[kind]; file != nil {
		if file.name == name && file.at <= from {
			return file, nil
		}
		file.file.Close()
		a.files[kind] = nil
	}

	file, err := openRows(a.folder, name)
	if err == nil {
		a.files[kind] = file
	}

	return file, err
}

// openRows opens a file of rows, which is read in parts: that of a day may be larger than the memory.
func openRows(folder fs.FS, name string) (*reader, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	parts, can := file.(io.ReaderAt)
	if !can {
		return nil, errors.Join(fmt.Errorf("%s cannot be read in parts", name), file.Close())
	}
	// The filters of ids are read when one is asked, and pages are read one after the other.
	opened, err := parquet.OpenFile(parts, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s is damaged: %w", name, err), file.Close())
	}

	return &reader{name: name, file: file, groups: opened.RowGroups(), count: int(opened.NumRows())}, nil
}

func (r *reader) has(want int) error {
	if r.count != want {
		return fmt.Errorf("%s has %d rows, and its manifests say %d: rows were left out or added", r.name,
			r.count, want)
	}

	return nil
}

// to goes to the group that has a row.
func (r *reader) to(row int) error {
	for row >= r.end {
		if len(r.groups) == 0 {
			return fmt.Errorf("%s ends before its row %d: rows were left out", r.name, row)
		}
		r.at = r.end
		r.end += int(r.groups[0].NumRows())
		r.group, r.groups, r.rows = r.groups[0], r.groups[1:], nil
	}

	return nil
}

// readRows reads the rows from a place on.
func readRows[R any](r *reader, from int, rows []R) error {
	for len(rows) > 0 {
		if err := r.to(from); err != nil {
			return err
		}

		if r.rows == nil {
			r.rows = parquet.NewGenericRowGroupReader[R](r.group)
		}

		group := r.rows.(*parquet.GenericReader[R]) // a folder has one kind
		if from > r.at {
			if err := group.SeekToRow(int64(from-r.end) + r.group.NumRows()); err != nil {
				return fmt.Errorf("%s is damaged: %w", r.name, err)
			}
		}

		n, err := group.Read(rows[:min(len(rows), r.end-from)])
		if n == 0 {
			return fmt.Errorf("%s is damaged: its row %d cannot be read: %w", r.name, from,
				cmp.Or(err, io.ErrUnexpectedEOF))
		}
		rows, from = rows[n:], from+n
		r.at = from
	}

	return nil
}
