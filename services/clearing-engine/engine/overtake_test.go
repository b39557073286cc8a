package engine

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// Whatever is overtaken, and in whatever order records arrive and finish: the lowest unfinished
// offset is committed, and the hint holds finished records only.
func TestOffsetsOfWhatWasOvertaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const records = 200
		o := newOffsets(stream.Hint{})
		var finished, taken, arrived [records]bool
		var ranges []stream.Span
		young, last := int64(0), int64(0) // the next record, and the first of the last stretch
		arrive := func(at int64) { o.track(at, at); arrived[at] = true }

		for range rapid.IntRange(1, 400).Draw(t, "moves") {
			var open []int64

			for at := range int64(records) {
				if arrived[at] && !finished[at] {
					open = append(open, at)
				}
			}

			switch rapid.IntRange(0, 4).Draw(t, "move") {
			case 0:
				if young < records {
					arrive(young)
					young++
				}
			case 1:
				if len(ranges) > 0 {
					arrive(ranges[0].From)

					if ranges[0].From++; ranges[0].From == ranges[0].To {
						ranges = ranges[1:]
					}
				}
			case 2:
				if to := young + rapid.Int64Range(1, 20).Draw(t, "jump"); young > 0 && to < records {
					ranges = append(ranges, stream.Span{From: young, To: to})
					o.overtake(to)
					young, last = to, to
				}
			case 3:
				if len(open) > 0 {
					at := rapid.SampledFrom(open).Draw(t, "take")
					o.take(at)
					taken[at] = true
				}
			case 4:
				if len(open) > 0 {
					at := rapid.SampledFrom(open).Draw(t, "finish")
					o.finish(at)
					finished[at], taken[at] = true, true
				}
			}

			for at := range int64(records) {
				if arrived[at] && o.overtaken(at) != (at < last) {
					t.Fatalf("offset %d is overtaken: %t, and the last stretch begins at %d", at, o.overtaken(at), last)
				}
			}
		}
		o.again()

		c, changed := o.toCommit()
		if !changed {
			if arrived[0] {
				t.Fatal("a record arrived and nothing is to commit")
			}

			return
		}

		lowest := int64(slices.Index(finished[:], false))
		if lowest < 0 {
			lowest = records
		}

		if c.next != lowest {
			t.Fatalf("commits %d, and %d is the lowest unfinished", c.next, lowest)
		}

		h := stream.ReadHint(c.next, c.hint)
		for at := c.next; at < records; at++ {
			if h.Holds(at) != finished[at] {
				t.Fatalf("offset %d: hint says %t, finished is %t", at, h.Holds(at), finished[at])
			}
		}

		untaken := last
		for untaken < young && taken[untaken] {
			untaken++
		}

		if h.Taken != untaken {
			t.Fatalf("the hint says that all from %d to %d are taken, and %d is not", last, h.Taken, untaken)
		}
	})
}

// The hint of an engine before this one shows what it left overtaken: a run of unfinished
// records that is longer than what it may have in work.
func TestAHintShowsWhatWasOvertaken(t *testing.T) {
	spans := func(s ...stream.Span) []stream.Span { return s }
	for name, c := range map[string]struct {
		hint stream.Hint
		want int64
	}{
		"nothing": {stream.Hint{Taken: -1}, 0},
		"in flight": {
			stream.Hint{Base: 1000, Spans: spans(stream.Span{From: 1100, To: 1200}), Taken: 1300}, 0},
		"one": {
			stream.Hint{Base: 1000, Spans: spans(stream.Span{From: 1101, To: 1200}), Taken: 1300}, 1101},
		"two": {
			stream.Hint{Base: 1000, Spans: spans(stream.Span{From: 1500, To: 1600}, stream.Span{From: 2000, To: 2001},
				stream.Span{From: 2050, To: 2060}), Taken: 2060}, 2000},
		"above nothing is finished": {
			stream.Hint{Base: 1000, Spans: spans(stream.Span{From: 1010, To: 1020}), Taken: 1121}, 1121},
		"nothing is finished": {stream.Hint{Base: 1000, Taken: 1101}, 1101},
	} {
		if to := overtakenBelow(c.hint, 100); to != c.want {
			t.Errorf("%s: overtaken up to %d, want %d", name, to, c.want)
		}
	}
}

// Records that wait less and less, as after an outage, are not overtaken, and neither are
// records that nobody takes, as during one.
func TestOnlyWhatWaitsLongerAndLongerIsOvertaken(t *testing.T) {
	const deadline = 40 * time.Second

	for name, c := range map[string]struct {
		written, taken func(second int) int64 // up to which offset
		want           bool
	}{
		"twice the capacity": {func(s int) int64 {
			return 200 * int64(s)
		}, func(s int) int64 { return 100 * int64(s) }, true},
		"a tenth too much": {func(s int) int64 {
			return 110 * int64(s)
		}, func(s int) int64 { return 100 * int64(s) }, true},
		"half of it": {func(s int) int64 {
			return 50 * int64(s)
		}, func(s int) int64 { return 50 * int64(s) }, false},
		"an outage": {func(s int) int64 { return 50 * int64(s) }, func(int) int64 { return 0 }, false},
		"after an outage of 36 s": {func(s int) int64 {
			return 50 * int64(s)
		}, func(s int) int64 { return min(50*int64(s), max(0, 100*int64(s-36))) }, false},
		"a backlog that only waits": {func(s int) int64 {
			return 100 * int64(s)
		}, func(s int) int64 { return 100 * int64(max(0, s-30)) }, false},
	} {
		w, began, overtook := waited{}, time.Now(), false
		for second := range 600 {
			now := began.Add(time.Duration(second) * time.Second)
			next, end := c.taken(second), c.written(second)
			w.observe(next, end, deadline, now)

			to, found := w.younger(next, deadline-2*time.Second, deadline, now)
			if overtook = overtook || found; found &&
				(to <= next || to > end || to < c.written(second-12) || to > c.written(second-10)) {
				t.Errorf("%s, second %d: the record after %d is %d, the end is %d", name, second, next, to, end)
			}

			if found {
				break
			}
		}

		if overtook != c.want {
			t.Errorf("%s: overtaken: %t", name, overtook)
		}
	}
}

// handDown writes the commit that an engine leaves which has not read the records of partition 0
// below an offset, because younger ones overtook them.
func (w *world) handDown(offset int64) {
	w.t.Helper()
	var commit kadm.Offsets
	commit.Add(kadm.Offset{Topic: stream.Payments, Partition: 0, At: 0, LeaderEpoch: -1,
		Metadata: stream.WriteHint(0, slices.Values([]stream.Span(nil)), offset)})

	if err := kadm.NewClient(w.client).CommitAllOffsets(w.t.Context(), stream.EngineGroup, commit); err != nil {
		w.t.Fatal(err)
	}
}

func smallRoom(c *Config) { c.WorkingMax = 16 }

// A younger copy may be decided before an older one that it overtook. With the same content they
// are one payment. Of two contents the one that is held first is paid, and the other is a dead
// letter.
func TestACopyMayOvertake(t *testing.T) {
	inWorld(t, func(w *world) {
		var equal, conflicting []*pixv1.PaymentOrder
		for range 10 {
			equal, conflicting = append(equal, w.order()), append(conflicting, w.order())
		}

		const fillers = 200 // so the younger ones come first
		for range fillers {
			w.pay()
		}
		var older []string

		for _, order := range slices.Concat(equal, conflicting) {
			w.send(order.EndToEndId, order)
		}
		w.handDown(fillers + 20)

		for i, order := range slices.Concat(equal, conflicting) {
			if i >= len(equal) {
				value, _ := order.MarshalVT()
				older = append(older, string(value))
				order.AmountCentavos = 999
			}
			w.send(order.EndToEndId, order)
		}
		w.ledger.pace = 10 * time.Millisecond
		defer w.bank()()
		e := w.start(smallRoom)
		w.await("the end", func() bool { return w.committed() == fillers+40 })
		reports := w.reports()
		letters := w.letters()

		for i, order := range slices.Concat(equal, conflicting) {
			of := reports[order.EndToEndId]
			if len(of) == 0 || slices.ContainsFunc(of, func(r *pixv1.SettlementReport) bool {
				return r.Status != settled || r.AmountCentavos != of[0].AmountCentavos
			}) {
				t.Errorf("the reports of order %d are %v", i, of)
			}
		}

		if len(letters) != len(conflicting) {
			t.Errorf("%d dead letters of %d conflicting orders", len(letters), len(conflicting))
		}
		overtaken := 0

		for _, letter := range letters {
			if slices.Contains(older, string(letter.Payload)) {
				overtaken++
			}
		}

		if overtaken == 0 {
			t.Error("no younger order was decided before an older one")
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// What was overtaken was past its deadline either because it waited here, or because it came late.
// Only the first is for the overload to answer for.
func TestWhatCameLateIsNotRefusedForTheOverload(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		const each = 10 // both together are more than may work
		want := map[string]string{}

		for i := range 2 * each {
			order, reason := w.order(), "LQ10"
			if i%2 == 0 {
				order.AcceptedAtUnixMs, reason = time.Now().Add(-11*time.Hour).UnixMilli(), "LQ13"
			}
			w.send(order.EndToEndId, order)
			want[order.EndToEndId] = reason
		}
		w.handDown(2 * each)
		time.Sleep(time.Minute)
		want[w.pay().String()] = ""
		e := w.start(smallRoom)
		w.await("the end", func() bool { return w.committed() == 2*each+1 })

		reports := w.reports()
		for id, reason := range want {
			if of := reports[id]; len(of) != 1 || of[0].ReasonCode != reason {
				t.Errorf("the reports of %s are %v, want %q", id, of, reason)
			}
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// What was overtaken may hold a batch that no client can read, also in front and at its end.
func TestAnUnreadableBatchWasOvertaken(t *testing.T) {
	for name, batch := range hostileBatches(t) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.latency = time.Millisecond
				defer w.bank()()
				end := int64(0)
				spoil := func() {
					raw, offsets, _ := batch()
					if _, err := hostile.Produce(w.t.Context(), w.client, stream.Payments, 0, raw); err != nil {
						t.Fatal(err)
					}
					end += offsets
				}
				pay := func() { w.pay(); end++ }
				spoil()

				for range 20 {
					pay()
				}
				spoil()
				pay()
				spoil()
				w.handDown(end)
				pay()
				e := w.start(smallRoom)
				w.await("the last offset", func() bool { return w.committed() == end })

				if n := len(w.reports()); n != 22 || w.lettersOf(pix.ReasonUnreadable) != 3 {
					t.Errorf("%d reports and %d dead letters of what cannot be read", n,
						w.lettersOf(pix.ReasonUnreadable))
				}

				if _, err := e.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The client may also forget what was overtaken.
func TestWhatWasOvertakenAndForgottenIsFetchedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()

		const orders = 200
		for range orders {
			w.pay()
		}
		w.handDown(orders - 1)
		w.ledger.pace = 10 * time.Millisecond
		e, end := w.open(smallRoom)
		defer end()
		w.await("some of what was overtaken", func() bool { return w.committed() > 0 })
		e.overtakenReader.PauseFetchPartitions(map[string][]int32{stream.Payments: {0}})
		time.Sleep(5 * time.Second)

		if e.overtaken() == 0 {
			t.Fatal("all is read: nothing was forgotten")
		}
		w.await("the end", func() bool { return w.committed() == orders })
	})
}

// A partition may be lost and come back while records of it are on their way from the client. What
// is below the new range is finished.
func TestRecordsFromBeforeTheRangeAreDropped(t *testing.T) {
	reader, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"),
		kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			return nil, net.ErrClosed
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	e := &Engine{common: common{config: &Config{ReturnsPerSecond: 1},
		room: room.New(room.Limits{Payments: 100, Working: 100, Bytes: 1 << 20}, time.Now()), log: zap.NewNop()},
		overtakenReader: reader}
	p := newPartition(&e.common, nil, 0, stream.Hint{}, true)
	e.owned = map[int32]*partition{0: p}
	p.offsets.begin(50)
	e.setAside(p, stream.Span{From: 50, To: 60})

	var records []*kgo.Record
	for offset := range int64(52) {
		records = append(records, &kgo.Record{Topic: stream.Payments, Offset: offset})
	}

	if _, err := e.takeOvertaken(p, records); err != nil {
		t.Fatal(err)
	}

	if taken, _ := e.room.InFlight(); taken != 2 || p.overtaken.reading().at() != 52 {
		t.Errorf("%d records are taken, and the next one is %d", taken, p.overtaken.reading().at())
	}
}

// Engines come and go while younger orders overtake older ones. Each order has one outcome, and
// payments settle all the time. An order that was overtaken is never rejected with LQ13. What an engine had in flight
// as it ended is overtaken by the next one, and may be past its deadline when that comes to it.
func TestEnginesComeAndGoUnderOverload(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		const capacity, offered, lasts = 20, 60, 240 // payments a second; seconds
		w.ledger.pace = time.Second / (capacity * 6)
		const inFlight = 100
		small := func(c *Config) { c.InFlightMax, c.WorkingMax, c.InFlightPSPShare = inFlight, inFlight, 1 }
		e, ended := w.start(small), 0
		began := time.Now()

		for second := range lasts {
			for range offered {
				w.pay()
			}

			if second > 60 && second%40 == 0 {
				if _, err := e.end(); err != nil {
					t.Fatal(err)
				}
				e = w.start(small)
				ended++
			}
			time.Sleep(time.Until(began.Add(time.Duration(second+1) * time.Second)))
		}
		time.Sleep(2 * time.Minute) // for what was overtaken
		w.await("the end", func() bool { return w.committed() == offered*lasts })

		reports, count, per20Seconds := w.reports(), map[string]int{}, [lasts / 20]int{}
		for id, of := range reports {
			if slices.ContainsFunc(of, func(r *pixv1.SettlementReport) bool {
				return r.Status != of[0].Status || r.ReasonCode != of[0].ReasonCode
			}) {
				t.Errorf("the reports of %s differ: %v", id, of)
			}
			count[of[0].ReasonCode]++
		}

		for _, record := range w.records(stream.Settlements) {
			if i := int(record.Timestamp.Sub(began) / (20 * time.Second)); i < len(per20Seconds) &&
				reports[string(record.Key)][0].Status == settled {
				per20Seconds[i]++
			}
		}

		if len(reports) != offered*lasts {
			t.Errorf("%d of %d orders have a report", len(reports), offered*lasts)
		}

		for i, n := range per20Seconds {
			if n < 20*capacity*3/5 {
				t.Errorf("from second %d on, %d payments settled in 20 s; %v", 20*i, n, per20Seconds)
			}
		}

		if count["AB03"] > ended*inFlight || count["LQ13"] > 0 {
			t.Errorf("outcomes: %v", count)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}
