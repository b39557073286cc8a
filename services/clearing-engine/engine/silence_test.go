package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// A PSP is silent once its oldest question is over 5 s old, or once it has given no answer for
// over 2 s: then all of its questions are stuck.
func TestWhoIsSilent(t *testing.T) {
	s := &silence{max: 1000}
	q := &questions{silence: s}
	expect := func(what string, open, stuck int) {
		t.Helper()
		if o, k := q.count(); o != open || k != stuck || s.stuck.Load() != int64(stuck) {
			t.Errorf("%s: %d open, %d stuck (%d in all); want %d and %d", what, o, k, s.stuck.Load(), open, stuck)
		}
	}
	lost, _ := q.ask(100)
	expect("just asked", 1, 0)
	for second := int64(100); second < 110; second++ {
		asked, _ := q.ask(second)
		q.end(asked, second, true)
	}
	expect("one lost answer of eleven", 1, 1)
	q.end(lost, 110, false)
	expect("nothing is open", 0, 0)
	var asked []int64
	for second := int64(110); second < 113; second++ {
		for range 10 {
			at, _ := q.ask(second)
			asked = append(asked, at)
		}
	}
	expect("no answer for 2 s", 30, 0)
	q.age(113)
	expect("no answer for 3 s", 30, 30)
	q.end(asked[29], 113, true)
	expect("it answers again", 29, 0)
	q.age(1000)
	expect("all are old", 29, 29)
	for _, at := range asked[:29] {
		q.end(at, 1000, false)
	}
	expect("all have ended", 0, 0)
	if s.psps.Load() != 0 {
		t.Errorf("%d PSPs are silent, want 0", s.psps.Load())
	}
}

// However questions come and go, each is counted once, and old ones are those over 5 s old.
func TestQuestionsAreCountedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &silence{max: 1000}
		q := &questions{silence: s}
		var open []int64
		second := int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			second += rapid.SampledFrom([]int64{0, 0, 0, 1, 1, 2, 7, 30}).Draw(t, "passed")
			behind := max(0, second-rapid.Int64Range(0, 1).Draw(t, "behind"))
			if len(open) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				q.end(open[i], behind, rapid.Bool().Draw(t, "answered"))
				open = slices.Delete(open, i, i+1)
			} else {
				asked, _ := q.ask(behind)
				open = append(open, asked)
			}
			q.age(second)
			old := 0
			for _, asked := range open {
				if second-asked > silentSeconds {
					old++
				}
			}
			if n, stuck := q.count(); n != len(open) || q.old != old || stuck != old && stuck != n || s.stuck.Load() != int64(stuck) {
				t.Fatalf("%d open, %d old, %d stuck, %d in all; want %d open and %d old", n, q.old, stuck, s.stuck.Load(), len(open), old)
			}
		}
	})
}

// Four of five banks are silent, and more is paid to them than the room holds. They hold at
// most half of it. Payments to the fifth bank keep their latency, and none is refused.
func TestSilentBanksLeaveHalfOfTheRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		silent := []string{"10000003", "10000004", "10000005", "10000006"}
		defer w.bank(silent...)()
		e := w.start(func(c *Config) { c.InFlightMax, c.InFlightPayerShare = 400, 1 })
		sent := map[string]time.Time{} // to the fifth bank
		for range 60 {
			for i := range 40 {
				order := w.order()
				order.Payee.Ispb = silent[i%4]
				w.send(order.EndToEndId, order)
			}
			sent[w.pay().String()] = time.Now()
			time.Sleep(time.Second)
		}
		reported := map[string]time.Time{}
		for _, record := range w.records(stream.Settlements) {
			reported[string(record.Key)] = record.Timestamp
		}
		reports := w.reports()
		for id, at := range sent {
			if len(reports[id]) != 1 || reports[id][0].Status != settled || reported[id].Sub(at) > time.Second {
				t.Errorf("a payment to the fifth bank was reported after %v: %v", reported[id].Sub(at), reports[id])
			}
		}
		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// Shares count per engine, because the room does: with two engines a sender has a share of each
// room, and both leave the same part of theirs to the others. One bank sends copies and pays to
// silent banks without end, in both engines' partitions. Payments of others keep their latency.
func TestSharesHoldInEachOfTwoEngines(t *testing.T) {
	inWorld(t, func(w *world) {
		silent := []string{"10000003", "10000004", "10000005", "10000006"}
		defer w.bank(silent...)()
		change := func(c *Config) { c.InFlightMax, c.WorkingMax = 400, 100 }
		engines := []*worker{w.start(change), w.start(change)}
		w.await("both engines", func() bool { return w.members() == 2 })
		sent := map[string]time.Time{} // by another bank
		for range 30 {
			for partition := range int32(2) {
				copied := w.order()
				copied.Payee.Ispb = silent[0]
				for i := range 60 {
					w.sendTo(partition, copied.EndToEndId, copied)
					order := w.order()
					order.Payee.Ispb = silent[i%4]
					w.sendTo(partition, order.EndToEndId, order)
				}
				order := w.order()
				order.EndToEndId = pix.NewEndToEndID("10000007", time.Now(), w.random).String()
				order.Payer.Ispb = "10000007"
				w.sendTo(partition, order.EndToEndId, order)
				sent[order.EndToEndId] = time.Now()
			}
			time.Sleep(time.Second)
		}
		reported, reports := map[string]time.Time{}, w.reports()
		for _, record := range w.records(stream.Settlements) {
			reported[string(record.Key)] = record.Timestamp
		}
		for id, at := range sent {
			if len(reports[id]) != 1 || reports[id][0].Status != settled || reported[id].Sub(at) > time.Second {
				t.Errorf("a payment of another bank was reported after %v: %v", reported[id].Sub(at), reports[id])
			}
		}
		for _, e := range engines {
			if _, err := e.end(); err != nil {
				t.Error(err)
			}
		}
	})
}
