package stream

import (
	"encoding/base64"
	"encoding/binary"
	"iter"
	"sort"
	"strings"
)

// Hint is what an engine adds to a committed offset, in the metadata of the commit: which
// records above it are finished, and up to where all records are taken. Without the first,
// one silent bank turns a restart into minutes of redelivery. The front door measures the
// age of its backlog by the second, because a silent bank holds the committed offset back.
// Losing a hint costs time and changes no outcome.
type Hint struct {
	Base  int64  // the committed offset
	Spans []Span // finished, ascending
	// Taken: the ledger has an answer about every record below, or is not asked about it.
	// -1: the engine does not say.
	Taken int64
}

// Span is the offsets From ≤ x < To.
type Span struct{ From, To int64 }

// Holds reports whether a record is finished.
func (h Hint) Holds(offset int64) bool {
	i := sort.Search(len(h.Spans), func(i int) bool { return h.Spans[i].To > offset })
	return i < len(h.Spans) && h.Spans[i].From <= offset
}

const (
	hintVersion = "1:"
	// hintBytesMax keeps the text below the broker's limit for commit metadata (4096 by
	// default). The lowest offsets are kept, what does not fit is left out.
	hintBytesMax = 3000
)

// WriteHint writes the finished spans above base as varints: gap, length, gap, length … The
// pair without a length says where taken is: no finished span holds it. An engine that does not
// know this pair reads an empty span, so old and new engines read each other's hints.
func WriteHint(base int64, spans iter.Seq[Span], taken int64) string {
	var packed []byte
	at, said := base, false
	add := func(s Span) {
		packed = binary.AppendUvarint(packed, uint64(s.From-at))
		packed = binary.AppendUvarint(packed, uint64(s.To-s.From))
		at = s.To
	}

	for span := range spans {
		if len(packed)+4*binary.MaxVarintLen64 > hintBytesMax {
			break
		}

		if !said && span.From >= taken {
			add(Span{taken, taken})
			said = true
		}
		add(span)
	}

	if !said {
		add(Span{taken, taken})
	}

	return hintVersion + base64.RawStdEncoding.EncodeToString(packed)
}

// IsHint reports whether the metadata of a commit is of an engine. Another member of the group writes other
// metadata: such a commit says nothing about what is finished.
func IsHint(metadata string) bool { return strings.HasPrefix(metadata, hintVersion) }

// ReadHint reads what WriteHint wrote for a commit at base. Anything else gives an empty hint.
func ReadHint(base int64, metadata string) Hint {
	none := Hint{Taken: -1}
	text, known := strings.CutPrefix(metadata, hintVersion)

	packed, err := base64.RawStdEncoding.DecodeString(text)
	if !known || err != nil {
		return none
	}
	h := Hint{Base: base, Taken: -1}
	at := base

	for len(packed) > 0 {
		gap, n := binary.Uvarint(packed)
		if n <= 0 {
			return none
		}

		length, m := binary.Uvarint(packed[n:])
		if m <= 0 || gap > 1<<40 || length > 1<<40 {
			return none
		}
		packed = packed[n+m:]
		from := at + int64(gap)

		at = from + int64(length)
		if length == 0 {
			h.Taken = from
			continue
		}
		h.Spans = append(h.Spans, Span{from, at})
	}

	return h
}
