package stream

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Engines before this version wrote hints without a place for what is taken, and read a hint as
// a list of spans. During a rolling upgrade both read each other's.
func TestEnginesOfTwoVersionsReadEachOthersHints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(0, 1000).Draw(t, "base")
		var spans []Span
		var earlier []byte
		at := base

		for range rapid.IntRange(0, 8).Draw(t, "spans") {
			gap, length := rapid.Int64Range(1, 300).Draw(t, "gap"), rapid.Int64Range(1, 300).Draw(t, "length")
			spans = append(spans, Span{at + gap, at + gap + length})
			earlier = binary.AppendUvarint(binary.AppendUvarint(earlier, uint64(gap)), uint64(length))
			at += gap + length
		}

		places := []int64{base, at, at + 5} // never inside of a span
		for _, span := range spans {
			places = append(places, span.From-1, span.To)
		}
		taken := rapid.SampledFrom(places).Draw(t, "taken")

		text := WriteHint(base, slices.Values(spans), taken)
		if h := ReadHint(base, text); h.Base != base || h.Taken != taken || !slices.Equal(h.Spans, spans) {
			t.Fatalf("%v and %d are read as %+v", spans, taken, h)
		}

		if h := ReadHint(base, "1:"+base64.RawStdEncoding.EncodeToString(earlier)); h.Taken != -1 ||
			!slices.Equal(h.Spans, spans) {
			t.Fatalf("%v of an earlier version is read as %+v", spans, h)
		}

		packed, err := base64.RawStdEncoding.DecodeString(text[2:])
		if err != nil || text[:2] != "1:" {
			t.Fatalf("%q: %v", text, err)
		}
		var read Hint // as an earlier version reads it

		for at := base; len(packed) > 0; {
			gap, n := binary.Uvarint(packed)
			length, m := binary.Uvarint(packed[n:])
			packed = packed[n+m:]
			read.Spans = append(read.Spans, Span{at + int64(gap), at + int64(gap+length)})
			at += int64(gap + length)
		}

		for offset := base; offset < at+10; offset++ {
			if want := slices.ContainsFunc(spans, func(s Span) bool {
				return s.From <= offset && offset < s.To
			}); read.Holds(offset) != want {
				t.Fatalf("an earlier version reads %v with %d as %v at %d", spans, taken, read.Spans, offset)
			}
		}
	})
}
