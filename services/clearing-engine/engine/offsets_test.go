package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/stream"
)

// Records finish in any order. The lowest unfinished offset is committed, and the hint holds
// finished records only.
func TestOffsetsCommitOnlyTheFinishedPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOffsets(stream.Hint{})
		var begun []int64
		finished, taken := map[int64]bool{}, map[int64]bool{}

		at := rapid.Int64Range(0, 1000).Draw(t, "first")
		for range rapid.IntRange(1, 200).Draw(t, "moves") {
			var open []int64

			for _, b := range begun {
				if !finished[b] {
					open = append(open, b)
				}
			}

			if len(open) == 0 || rapid.Bool().Draw(t, "begin") {
				if o.track(at, at) {
					t.Fatalf("offset %d is finished before it began", at)
				}
				begun = append(begun, at)
				at += rapid.Int64Range(1, 3).Draw(t, "gap") // logs have holes

				continue
			}

			which := rapid.SampledFrom(open).Draw(t, "finish")
			if rapid.Bool().Draw(t, "take") {
				o.take(which)
				taken[which] = true
				continue
			}
			o.finish(which)
			finished[which] = true
		}

		c, changed := o.toCommit()
		if !changed {
			if len(finished) > 0 {
				t.Fatal("something finished and nothing is to commit")
			}

			return
		}

		for _, b := range begun {
			if b < c.next && !finished[b] {
				t.Fatalf("commits %d, and %d is not finished", c.next, b)
			}
		}

		for _, b := range begun { // and no finished record is held back
			if !finished[b] {
				break
			}

			if b >= c.next {
				t.Fatalf("commits %d, although everything up to %d is finished", c.next, b)
			}
		}
		h := stream.ReadHint(c.next, c.hint)
		untaken := at

		for _, b := range slices.Backward(begun) {
			if !finished[b] && !taken[b] {
				untaken = b
			}
		}

		if h.Taken > untaken || h.Taken <= begun[len(begun)-1] && h.Taken != untaken {
			t.Fatalf("the hint says that all below %d are taken, and %d is not", h.Taken, untaken)
		}

		for _, b := range begun {
			if b >= c.next && h.Holds(b) != finished[b] {
				t.Fatalf("offset %d: hint says %v, finished is %v", b, h.Holds(b), finished[b])
			}
		}

		if _, again := o.toCommit(); again {
			t.Fatal("nothing changed since the commit")
		}
	})
}

func TestHintStaysWithinTheBrokersLimitAndIsNeverWrong(t *testing.T) {
	o := newOffsets(stream.Hint{})

	const records = 100_000
	for i := range int64(records) {
		o.track(i, i)
	}

	for i := int64(1); i < records; i += 2 { // the worst case: every other one
		o.finish(i)
	}

	c, _ := o.toCommit()
	if c.next != 0 || len(c.hint) > 4096 {
		t.Fatalf("commits %d with %d bytes of metadata", c.next, len(c.hint))
	}

	h := stream.ReadHint(c.next, c.hint)
	if !h.Holds(1) || h.Holds(0) || h.Holds(2) {
		t.Fatal("the hint does not say what is finished")
	}

	resumed := newOffsets(h)
	for i := range int64(records) {
		if resumed.track(i, i) && i%2 == 0 {
			t.Fatalf("offset %d is skipped and was not finished", i)
		}
	}
}

func TestForeignMetadataIsNoHint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.String(), func(s string) string {
			return "1:" + s
		})).Draw(t, "metadata")
		stream.ReadHint(7, text) // must not panic
	})

	if h := stream.ReadHint(7, "somebody else's"); h.Holds(7) || h.Holds(8) {
		t.Fatal("foreign metadata counts as a hint")
	}
	// A hint of an earlier log must not skip records of a new one.
	h := stream.ReadHint(100,
		stream.WriteHint(100, finishedSpans([]entry{{100, 100, false, true}, {101, 101, true, true}}), 102))

	o := newOffsets(h)
	for i := range int64(200) {
		if o.track(i, i) {
			t.Fatalf("offset %d of a new log is skipped", i)
		}
	}
}

// What cannot be read is one record at its last offset. While it is in flight, its first offset is
// committed: from within it, the next engine would write a dead letter about a part of it.
func TestUnreadableIsCommittedFromItsFirst(t *testing.T) {
	o := newOffsets(stream.Hint{})
	o.track(106, 108)
	o.take(108)

	if c, changed := o.toCommit(); !changed || c.next != 106 {
		t.Fatalf("committed %d (%v), want 106", c.next, changed)
	}
	o.finish(108)

	if c, changed := o.toCommit(); !changed || c.next != 109 {
		t.Fatalf("committed %d (%v), want 109", c.next, changed)
	}
}

// The hint says that all of it is finished: an engine that lets younger orders overtake the rest begins
// with none within it.
func TestHintHoldsAllOfWhatIsUnreadable(t *testing.T) {
	o := newOffsets(stream.Hint{})
	o.track(106, 106)
	o.track(107, 607)
	o.track(608, 608)
	o.take(106)

	if c, _ := o.toCommit(); stream.ReadHint(c.next, c.hint).Taken != 107 {
		t.Fatalf("taken up to %d, want 107", stream.ReadHint(c.next, c.hint).Taken)
	}
	o.finish(607)
	o.finish(608)
	c, _ := o.toCommit()

	h := stream.ReadHint(c.next, c.hint)
	if !slices.Equal(h.Spans, []stream.Span{{From: 107, To: 609}}) {
		t.Fatalf("the hint holds %v, want 107 to 609", h.Spans)
	}

	if to := overtakenBelow(h, 100); to != 0 {
		t.Fatalf("an order is overtaken up to %d: one is unfinished", to)
	}

	o = newOffsets(h)
	if o.track(106, 106) || !o.track(107, 607) || !o.track(608, 608) {
		t.Fatal("the next engine finishes other records")
	}
}

func TestFinishingTwiceIsNoticed(t *testing.T) {
	o := newOffsets(stream.Hint{})
	o.track(1, 1)
	o.track(2, 2)
	o.finish(2)
	defer func() {
		if recover() == nil {
			t.Fatal("an offset was finished twice without a panic")
		}
	}()
	o.finish(2)
}

// At 10,000 payments/s on 16 partitions, with 2 % silent banks and a deadline of 40 s, the
// hint holds all finished records of a partition. A crash then costs the redelivery of the
// silent banks' payments, not of all payments behind them.
func TestHintHoldsADeadlineOfSilentPayments(t *testing.T) {
	const perSecond, deadline, silentPercent = 10_000 / 16, 40, 2
	random := rand.New(rand.NewPCG(1, 0))
	var window []entry
	silent := 0

	for offset := range int64(perSecond * deadline) {
		finished := random.IntN(100) >= silentPercent
		if !finished {
			silent++
		}
		window = append(window, entry{offset, offset, finished, true})
	}

	text := stream.WriteHint(0, finishedSpans(window), perSecond*deadline)
	if len(text) > 4096 {
		t.Fatalf("the hint has %d bytes, a broker takes 4096", len(text))
	}

	h, again := stream.ReadHint(0, text), 0
	for _, record := range window {
		if !h.Holds(record.offset) {
			again++
		}
	}

	if again != silent {
		t.Errorf("%d records would be delivered again, %d are unfinished; the hint has %d bytes", again,
			silent, len(text))
	}
}
