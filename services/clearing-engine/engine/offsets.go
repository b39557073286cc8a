package engine

import (
	"iter"
	"slices"
	"sort"
	"sync"

	"github.com/liquida/liquida/platform/stream"
)

// offsets tracks which records of one partition are finished. The lowest unfinished offset
// may be committed.
type offsets struct {
	mu      sync.Mutex
	next    int64 // may be committed; -1 before the first record
	window  []entry
	start   int   // window[:start] is committed or may be
	open    int   // window[:open] is taken
	end     int64 // above the last record
	changed bool
	hint    stream.Hint
}

// entry is a record of the window.
type entry struct {
	offset   int64
	finished bool
	taken    bool // see stream.Hint; what is finished is taken, too
}

func newOffsets(h stream.Hint) *offsets { return &offsets{next: -1, hint: h} }

// track notes the arrival of a record that stands for all from offset first. It returns true if
// the hint of an earlier commit says that the record is finished.
func (o *offsets) track(first, offset int64) (finished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next < 0 {
		o.next = first
		if first < o.hint.Base {
			o.hint = stream.Hint{} // the hint is of another log
		}
	}
	finished = o.hint.Holds(offset)
	o.window = append(o.window, entry{offset, finished, finished})
	o.end = offset + 1
	o.advance()
	return finished
}

// take notes that the ledger has an answer about a record, or is not asked about it.
func (o *offsets) take(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.find(offset); e != nil {
		e.taken = true
		o.advance()
	}
}

// find returns the entry of an offset in the window, or nil. The caller holds the lock.
func (o *offsets) find(offset int64) *entry {
	window := o.window[o.start:]
	i := sort.Search(len(window), func(i int) bool { return window[i].offset >= offset })
	if i == len(window) || window[i].offset != offset {
		return nil
	}
	return &window[i]
}

// lowest returns the lowest unfinished offset.
func (o *offsets) lowest() (offset int64, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.start == len(o.window) {
		return 0, false
	}
	return o.window[o.start].offset, true
}

// finish notes that a record is finished.
func (o *offsets) finish(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.find(offset)
	if e == nil || e.finished {
		broken("an offset is tracked and finished once: %d", offset)
	}
	e.finished, e.taken = true, true
	o.changed = true
	o.advance()
}

func (o *offsets) advance() {
	for o.start < len(o.window) && o.window[o.start].finished {
		o.next = o.window[o.start].offset + 1
		o.start++
		o.changed = true
	}
	for o.open = max(o.open, o.start); o.open < len(o.window) && o.window[o.open].taken; o.open++ {
		o.changed = true
	}
	const slack = 1024
	if o.start > slack && o.start > len(o.window)/2 {
		o.window = slices.Delete(o.window, 0, o.start)
		o.open -= o.start
		o.start = 0
	}
}

// toCommit returns what to commit, if it changed since the last call.
func (o *offsets) toCommit() (next int64, metadata string, changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.changed || o.next < 0 {
		return 0, "", false
	}
	if o.start < len(o.window) && (o.window[o.start].finished || o.window[o.start].offset < o.next) {
		broken("the lowest unfinished offset is committed: %d, and %+v follows", o.next, o.window[o.start])
	}
	o.changed = false
	taken := o.end
	if o.open < len(o.window) {
		taken = o.window[o.open].offset
	}
	return o.next, stream.WriteHint(o.next, finishedSpans(o.window[o.start:]), taken), true
}

// again makes the next toCommit return the state although it did not change, because the
// last commit failed.
func (o *offsets) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed = true
}

// finishedSpans yields the finished spans of a window.
func finishedSpans(window []entry) iter.Seq[stream.Span] {
	return func(yield func(stream.Span) bool) {
		for i := 0; i < len(window); {
			if !window[i].finished {
				i++
				continue
			}
			span := stream.Span{From: window[i].offset, To: window[i].offset + 1}
			for i++; i < len(window) && window[i].finished && window[i].offset == span.To; i++ {
				span.To++
			}
			if !yield(span) {
				return
			}
		}
	}
}
