package engine

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"sort"
	"sync"
)

// offsets tracks which records of one partition are finished. The lowest unfinished offset
// may be committed.
type offsets struct {
	mu      sync.Mutex
	next    int64 // may be committed; -1 before the first record
	window  []entry
	start   int // window[:start] is committed or may be
	changed bool
	hint    hint
}

// entry is a record of the window.
type entry struct {
	offset   int64
	finished bool
}

func newOffsets(h hint) *offsets { return &offsets{next: -1, hint: h} }

// track notes a record's arrival. It returns true if the hint of an earlier commit says
// that the record is finished.
func (o *offsets) track(offset int64) (finished bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next < 0 {
		o.next = offset
		if offset < o.hint.base {
			o.hint = hint{} // the hint is of another log
		}
	}
	finished = o.hint.holds(offset)
	o.window = append(o.window, entry{offset, finished})
	o.advance()
	return finished
}

// finish notes that a record is finished.
func (o *offsets) finish(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	window := o.window[o.start:]
	i := sort.Search(len(window), func(i int) bool { return window[i].offset >= offset })
	if i == len(window) || window[i].offset != offset || window[i].finished {
		broken("an offset is tracked and finished once: %d", offset)
	}
	window[i].finished = true
	o.changed = true
	o.advance()
}

func (o *offsets) advance() {
	for o.start < len(o.window) && o.window[o.start].finished {
		o.next = o.window[o.start].offset + 1
		o.start++
		o.changed = true
	}
	const slack = 1024
	if o.start > slack && o.start > len(o.window)/2 {
		o.window = slices.Delete(o.window, 0, o.start)
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
	return o.next, encodeHint(o.next, o.window[o.start:]), true
}

// again makes the next toCommit return the state although it did not change, because the
// last commit failed.
func (o *offsets) again() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed = true
}

// hint is what a committed offset cannot say: which records above it are finished. Without
// it, one silent bank turns a restart into minutes of redelivery. Losing it costs time and
// changes no outcome.
type hint struct {
	base  int64
	spans []span // ascending
}

type span struct{ from, to int64 } // offsets from ≤ x < to

func (h hint) holds(offset int64) bool {
	i := sort.Search(len(h.spans), func(i int) bool { return h.spans[i].to > offset })
	return i < len(h.spans) && h.spans[i].from <= offset
}

const (
	hintVersion = "1:"
	// hintBytesMax keeps the text below the broker's limit for commit metadata (4096 by
	// default). The lowest offsets are kept, what does not fit is left out.
	hintBytesMax = 3000
)

// encodeHint writes the finished spans above next: gap, length, gap, length … as varints.
func encodeHint(next int64, window []entry) string {
	var packed []byte
	at := next
	for i := 0; i < len(window); {
		if !window[i].finished {
			i++
			continue
		}
		from := window[i].offset
		to := from + 1
		for i++; i < len(window) && window[i].finished && window[i].offset == to; i++ {
			to++
		}
		if len(packed)+2*binary.MaxVarintLen64 > hintBytesMax {
			break
		}
		packed = binary.AppendUvarint(packed, uint64(from-at))
		packed = binary.AppendUvarint(packed, uint64(to-from))
		at = to
	}
	if len(packed) == 0 {
		return ""
	}
	return hintVersion + base64.RawStdEncoding.EncodeToString(packed)
}

// decodeHint reads what encodeHint wrote for a commit at next. Anything else gives an
// empty hint.
func decodeHint(next int64, metadata string) hint {
	if len(metadata) < len(hintVersion) || metadata[:len(hintVersion)] != hintVersion {
		return hint{}
	}
	packed, err := base64.RawStdEncoding.DecodeString(metadata[len(hintVersion):])
	if err != nil {
		return hint{}
	}
	h := hint{base: next}
	at := next
	for len(packed) > 0 {
		gap, n := binary.Uvarint(packed)
		if n <= 0 {
			return hint{}
		}
		length, m := binary.Uvarint(packed[n:])
		if m <= 0 || gap > 1<<40 || length > 1<<40 {
			return hint{}
		}
		packed = packed[n+m:]
		from := at + int64(gap)
		at = from + int64(length)
		h.spans = append(h.spans, span{from, at})
	}
	return h
}
