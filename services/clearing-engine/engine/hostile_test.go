package engine

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// hostileBatches are what a broker without checks takes, with the number of offsets that each has,
// and how many of its first records can be read.
func hostileBatches(t *testing.T) map[string]func() (raw []byte, offsets, readable int64) {
	return map[string]func() ([]byte, int64, int64){
		"a bomb": func() ([]byte, int64, int64) {
			bomb, err := hostile.Bomb(time.Now().UnixMilli(), 64<<20, kgo.CodecGzip)
			if err != nil {
				t.Fatal(err)
			}

			return bomb.Encode(), 1, 0
		},
		"garbage": func() ([]byte, int64, int64) {
			return hostile.Garbage(time.Now().UnixMilli()).Encode(), 3, 0
		},
		"a huge claim": func() ([]byte, int64, int64) {
			return hostile.Claim(time.Now().UnixMilli(), math.MaxInt32).Encode(), math.MaxInt32, 1
		},
		// What stands before it comes in one fetch with the error.
		"records without a byte": func() ([]byte, int64, int64) {
			batch := hostile.New(time.Now().UnixMilli(), nil, nil)
			batch.Records = nil
			return batch.Encode(), 2, 0
		},
		// The client would go on behind the place that the record claims, and leave out what others
		// write there.
		"a record in the place of others": func() ([]byte, int64, int64) {
			batch := hostile.New(time.Now().UnixMilli(), nil)
			batch.Records = hostile.Record(3, []byte("one"))
			return batch.Encode(), 1, 0
		},
		"records in one place": func() ([]byte, int64, int64) {
			batch := hostile.New(time.Now().UnixMilli(), nil, nil)
			batch.Records = append(hostile.Record(1, []byte("one")), hostile.Record(0, []byte("two"))...)
			return batch.Encode(), 2, 0
		},
	}
}

// A batch that cannot be read is one dead letter, the same at each delivery. The payments behind
// it and those of the other partition are paid.
func TestAnUnreadableBatchIsOneDeadLetter(t *testing.T) {
	for name, batch := range hostileBatches(t) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				defer w.bank()()
				e := w.start()
				before := w.pay()
				w.await("the first payment", func() bool { return len(w.reports()[before.String()]) == 1 })
				raw, offsets, readable := batch()

				first, err := hostile.Produce(w.t.Context(), w.client, stream.Payments, 0, raw)
				if err != nil {
					t.Fatal(err)
				}

				var paid []pix.EndToEndID
				for range 5 {
					paid = append(paid, w.pay())
					other := w.order()
					w.sendTo(1, other.EndToEndId, other)
					paid = append(paid, pix.EndToEndID([]byte(other.EndToEndId)))
				}
				end := first + offsets + 5
				w.await("the last offset", func() bool { return w.committed() == end })

				reports := w.reports()
				for _, id := range paid {
					if len(reports[id.String()]) != 1 || reports[id.String()][0].Status != settled {
						t.Errorf("%s has the reports %v", id, reports[id.String()])
					}
				}
				check := func(letters [][]byte) {
					t.Helper()

					if len(letters) != int(readable)+1 {
						t.Fatalf("%d dead letters, want %d", len(letters), readable+1)
					}

					var letter pixv1.DeadLetter
					if err := letter.UnmarshalVT(letters[readable]); err != nil || letter.ReasonCode != "LQ08" ||
						letter.Topic != stream.Payments ||
						letter.Offset != first+readable || letter.LastOffset != first+offsets-1 ||
						letter.PayloadSizeBytes != uint64(len(raw)) {
						t.Fatalf("the dead letter is %s at %d to %d, %d bytes: %s (%v)", letter.ReasonCode,
							letter.Offset, letter.LastOffset, letter.PayloadSizeBytes, letter.Reason, err)
					}
				}
				letters := w.deadLetters()
				check(letters)

				if _, err := e.end(); err != nil {
					t.Fatal(err)
				}

				w.rewind(0)
				e = w.start()
				w.await("the last offset again", func() bool { return w.committed() == end })
				again := w.deadLetters()[len(letters):]
				check(again)

				for i := range again {
					if !bytes.Equal(again[i], letters[i]) {
						t.Errorf("dead letter %d differs at its second delivery", i)
					}
				}

				if _, err := e.end(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// deadLetters returns all dead letters' values.
func (w *world) deadLetters() (values [][]byte) {
	for _, record := range w.records(stream.DeadLetters) {
		if len(record.Key) > 0 {
			w.t.Errorf("a dead letter has the key %q", record.Key)
		}
		values = append(values, record.Value)
	}

	return values
}

// It may be the first thing in its partition, before there is any commit.
func TestAnUnreadableBatchComesFirst(t *testing.T) {
	for name, batch := range hostileBatches(t) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.latency = time.Millisecond
				defer w.bank()()

				raw, offsets, _ := batch()
				if _, err := hostile.Produce(w.t.Context(), w.client, stream.Payments, 0, raw); err != nil {
					t.Fatal(err)
				}
				e := w.start()
				paid := w.pay()
				w.await("the report", func() bool { return len(w.reports()) == 1 })
				w.await("the last offset", func() bool { return w.committed() == offsets+1 })

				if reports := w.reports()[paid.String()]; len(reports) != 1 || reports[0].Status != settled ||
					w.lettersOf(pix.ReasonUnreadable) != 1 {
					t.Errorf("the reports are %v", reports)
				}

				if _, err := e.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Banks write the responses. What cannot be read there is counted and passed over.
func TestUnreadableResponsesAreCounted(t *testing.T) {
	batches := hostileBatches(t)

	batches["larger than the topic takes now"] = func() ([]byte, int64, int64) {
		return hostile.Noise(time.Now().UnixMilli(), 2*stream.BatchBytesMax).Encode(), 1, 0
	}
	for name, batch := range batches {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.latency = time.Millisecond
				e := w.start()
				payment := w.pay()
				w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })

				raw, _, _ := batch()
				if _, err := hostile.Produce(w.t.Context(), w.client, stream.AuthorizationResponses, 0,
					raw); err != nil {
					t.Fatal(err)
				}
				defer w.bank()()
				w.await("the report", func() bool { return len(w.reports()[payment.String()]) == 1 })

				if report := w.reports()[payment.String()][0]; report.Status != settled {
					t.Errorf("the report is %v", report)
				}

				if letters := w.deadLetters(); len(letters) > 0 {
					t.Errorf("%d dead letters", len(letters))
				}

				if n := w.metric(fmt.Sprintf(`pix_authorization_responses_total{fate=%q}`, "unreadable")); n != 1 {
					t.Errorf("%v unreadable batches are counted", n)
				}

				if _, err := e.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A payment whose transfer ids belong to another EndToEndId is a dead letter, and the other one
// is untouched.
func TestTwoIDsInOnePlaceOfTheLedger(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		taken := w.pay()
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })
		second := w.order()
		id := pix.EndToEndID([]byte(second.EndToEndId))

		var legs []tb.Transfer
		for i, code := range []uint16{ledger.CodeLeg1, ledger.CodeLeg2, ledger.CodeLeg3} {
			legs = append(legs, w.ledger.of(code)...)
			legs[i].ID, legs[i].Timestamp = ledger.IDsOf(id).Pending(i+1), 0
		}
		w.ledger.put(legs...)
		w.send(second.EndToEndId, second)
		w.await("the dead letter", func() bool { return len(w.letters()) == 1 })

		if letter := w.letters()[1]; letter == nil || letter.ReasonCode != "LQ07" {
			t.Errorf("the dead letter is %v", letter)
		}
		defer w.bank()()
		w.await("the last offset", func() bool { return w.committed() == 2 })

		reports := w.reports()
		if len(reports) != 1 || len(reports[taken.String()]) != 1 || reports[taken.String()][0].Status != settled {
			t.Errorf("the reports are %v", reports)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// open runs an engine that a test can reach into, until the test calls end.
func (w *world) open(change ...func(*Config)) (e *Engine, end func()) {
	w.t.Helper()
	config, on, running := w.prepare(change...)

	t, err := telemetry.Start("clearing-engine", config.Telemetry, on)
	if err != nil {
		w.t.Fatal(err)
	}

	if e, err = newEngine(config, on, w.ledger, t); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	running.stop = cancel
	go func() { running.ended <- e.run(ctx) }()

	return e, func() {
		w.t.Helper()

		if _, err := running.end(); err != nil {
			w.t.Error(err)
		}
		t.Stop()
	}
}

// A client that does not fetch what it could is told again where it is.
func TestAPartitionThatTheClientForgetsIsFetchedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e, end := w.open()
		defer end()
		before := w.pay()
		w.await("the first payment", func() bool { return len(w.reports()[before.String()]) == 1 })
		synctest.Wait()
		e.group.PauseFetchPartitions(map[string][]int32{stream.Payments: {0}})
		forgotten := w.pay()
		w.await("the forgotten payment", func() bool { return len(w.reports()[forgotten.String()]) == 1 })
	})
}
