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
	mu        sync.Mutex
	stretches []*stretch // ascending, at least one
	changed   bool
	hint      stream.Hint
}

// stretch is a part of the partition that is read in its order. What lies between the end of one
// and the first record of the next was overtaken: it is read later, and continues the lower one.
type stretch struct {
	first  int64 // all from here on belongs to it, up to the next stretch
	next   int64 // all below is finished; -1 before the first record
	end    int64 // above the last record
	window []entry
	start  int // window[:start] is committed or may be
	open   int // window[:open] is taken
}

// entry is a record of the window, or several that are finished as one.
type entry struct {
	first    int64 // of those; of a record, its offset
	offset   int64 // of the record, or the last one
	finished bool
	taken    bool // see stream.Hint; what is finished is taken, too
}

func newOffsets(h stream.Hint) *offsets {
	return &offsets{stretches: []*stretch{{first: -1, next: -1}}, hint: h}
}

// begin says where the partition begins, if that is known before its first record.
func (o *offsets) begin(at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stretches[0]
	s.next, s.end = at, at
}

// resume says where a partition begins that others have worked on. That is committed anew, with what they
// said is finished above: the group may have another member's commit.
func (o *offsets) resume(at int64) {
	o.begin(at)
	o.again()
}

// track notes the arrival of a record that stands for all from offset first. It returns true if
// the hint of an earlier commit says that the record is finished.
func (o *offsets) track(first, offset int64) (finished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()

	s := o.of(offset)
	if s.next < 0 {
		s.next = first
		if first < o.hint.Base {
			o.hint = stream.Hint{} // the hint is of another log
		}
	}
	finished = o.hint.Holds(offset)
	s.window = append(s.window, entry{first, offset, finished, finished})
	s.end = offset + 1
	o.advance(s)

	return finished
}

// overtake notes that the records from an offset on are read before those that have not arrived.
func (o *offsets) overtake(to int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stretches = append(o.stretches, &stretch{first: to, next: to, end: to})
	o.changed = true
}

// overtaken reports whether younger records may have arrived before a record.
func (o *offsets) overtaken(offset int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return offset < o.stretches[len(o.stretches)-1].first
}

// take notes that the ledger has an answer about a record, or is not asked about it.
func (o *offsets) take(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()

	if s, e := o.find(offset); e != nil {
		e.taken = true
		o.advance(s)
	}
}

// of returns the stretch of an offset. The caller holds the lock.
func (o *offsets) of(offset int64) *stretch {
	above := sort.Search(len(o.stretches), func(i int) bool { return o.stretches[i].first > offset })
	return o.stretches[max(0, above-1)]
}

// find returns the entry of an offset in its stretch's window, or nil. The caller holds the lock.
func (o *offsets) find(offset int64) (*stretch, *entry) {
	s := o.of(offset)
	window := s.window[s.start:]

	i := sort.Search(len(window), func(i int) bool { return window[i].offset >= offset })
	if i == len(window) || window[i].offset != offset {
		return s, nil
	}

	return s, &window[i]
}

// lowest returns the lowest offset that arrived and is unfinished.
func (o *offsets) lowest() (offset int64, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()

	for _, s := range o.stretches {
		if s.start < len(s.window) {
			return s.window[s.start].offset, true
		}
	}

	return 0, false
}

// finish notes that a record is finished.
func (o *offsets) finish(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()

	s, e := o.find(offset)
	if e == nil || e.finished {
		broken("an offset is tracked and finished once: %d", offset)
	}
	e.finished, e.taken = true, true
	o.changed = true
	o.advance(s)
}

func (o *offsets) advance(s *stretch) {
	for s.start < len(s.window) && s.window[s.start].finished {
		s.next = s.window[s.start].offset + 1
		s.start++
		o.changed = true
	}

	for s.open = max(s.open, s.start); s.open < len(s.window) && s.window[s.open].taken; s.open++ {
		o.changed = true
	}

	const slack = 1024
	if s.start > slack && s.start > len(s.window)/2 {
		s.window = slices.Delete(s.window, 0, s.start)
		s.open -= s.start
		s.start = 0
	}

	for len(o.stretches) > 1 && o.stretches[0].next == o.stretches[1].first {
		o.stretches = slices.Delete(o.stretches, 0, 1)
	}
}

// commitment is what is finished in a partition: all below next, and what the hint says above.
type commitment struct {
	next int64
	hint string
}

// toCommit returns what to commit, if it changed since the last call.
func (o *offsets) toCommit() (c commitment, changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()

	s := o.stretches[0]
	if !o.changed || s.next < 0 {
		return commitment{}, false
	}

	if s.start < len(s.window) && (s.window[s.start].finished || s.window[s.start].first < s.next) {
		broken("the lowest unfinished offset is committed: %d, and %+v follows", s.next, s.window[s.start])
	}

	o.changed = false
	if len(o.stretches) == 1 && s.end == s.next && s.next == o.hint.Base { // nothing has arrived yet
		hint := stream.WriteHint(s.next, slices.Values(o.hint.Spans), max(s.next, o.hint.Taken))
		return commitment{s.next, hint}, true
	}
	last := o.stretches[len(o.stretches)-1] // what was overtaken does not keep others waiting

	taken := last.end
	if last.open < len(last.window) {
		taken = last.window[last.open].first
	}

	return commitment{s.next, stream.WriteHint(s.next, o.finished(), taken)}, true
}

// finished yields the finished spans above what may be committed. The caller holds the lock.
func (o *offsets) finished() iter.Seq[stream.Span] {
	return func(yield func(stream.Span) bool) {
		for i, s := range o.stretches {
			if i > 0 && s.next > s.first && !yield(stream.Span{From: s.first, To: s.next}) {
				return
			}

			for above := range finishedSpans(s.window[s.start:]) {
				if !yield(above) {
					return
				}
			}
		}
	}
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

			span := stream.Span{From: window[i].first, To: window[i].offset + 1}
			for i++; i < len(window) && window[i].finished && window[i].first == span.To; i++ {
				span.To = window[i].offset + 1
			}

			if !yield(span) {
				return
			}
		}
	}
}
