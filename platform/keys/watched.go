package keys

import (
	"io/fs"
	"os"
	"time"
)

// Watched is what a file of keys or secrets says. It is read again when the file changes, so that a
// change needs no restart. It is not safe for concurrent use.
type Watched[T any] struct {
	file    string
	read    func(file string) (T, error)
	seen    fs.FileInfo
	away    bool
	checked time.Time
	value   T
}

// WatchInterval is how often the file is looked at.
const WatchInterval = time.Second

// Watch reads a file, which must be right.
func Watch[T any](file string, read func(file string) (T, error)) (*Watched[T], error) {
	w := &Watched[T]{file: file, read: read}
	err := w.look()
	return w, err
}

// Now returns what the file says: at most a second ago, or if it cannot be read what it said before.
// The error says what is wrong with a changed file, once for each change.
func (w *Watched[T]) Now() (T, error) {
	if time.Since(w.checked) < WatchInterval {
		return w.value, nil
	}
	err := w.look()

	return w.value, err
}

func (w *Watched[T]) look() error {
	w.checked = time.Now()

	about, err := os.Stat(w.file)
	if err != nil {
		if w.away {
			return nil
		}
		w.away = true

		return err
	}
	same := !w.away && w.seen != nil && os.SameFile(about, w.seen) && about.ModTime().Equal(w.seen.ModTime()) &&
		about.Size() == w.seen.Size()
	w.away, w.seen = false, about // before it is read: a change meanwhile is seen the next time

	if same {
		return nil
	}

	value, err := w.read(w.file)
	if err == nil {
		w.value = value
	}

	return err
}
