package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// names returns how the ledger names the partitions' logs.
func (w *world) names() []ledger.Origin {
	w.t.Helper()

	var names []ledger.Origin
	for _, transfer := range w.ledger.of(ledger.CodeOrigin) {
		names = append(names, ledger.OriginOf(transfer))
	}

	return names
}

// settle runs an engine until n more payments are settled and committed.
func (w *world) settle(n int) {
	w.t.Helper()
	e := w.start()
	defer w.bank()()

	var last pix.EndToEndID
	for range n {
		last = w.pay()
	}
	w.await("the last report", func() bool { return len(w.reports()[last.String()]) == 1 })

	if _, err := e.end(); err != nil {
		w.t.Fatal(err)
	}

	if at := w.committed(); at != int64(n) {
		w.t.Fatalf("%d is committed, want %d", at, n)
	}
}

// makeAnew deletes a topic and creates it again.
func (w *world) makeAnew(topic string) {
	w.t.Helper()

	admin := kadm.NewClient(w.client)
	if _, err := admin.DeleteTopic(w.t.Context(), topic); err != nil {
		w.t.Fatal(err)
	}

	if _, err := admin.CreateTopic(w.t.Context(), 2, 1, nil, topic); err != nil {
		w.t.Fatal(err)
	}
	w.client.Close() // it would not produce to a topic that was made anew
	w.client = w.connect()
}

// refuses says that an engine, started twice, ends with an error and clears nothing.
func (w *world) refuses(want ...string) {
	w.t.Helper()

	before, at := len(w.ledger.written()), w.committed()
	for range 2 {
		err := w.start().wait()
		for _, part := range append(want, "ForeignLog in deploy/runbook.md", "_GIVEN_UP") {
			if err == nil || !strings.Contains(err.Error(), part) {
				w.t.Fatalf("the engine ended with %v, which does not say %q", err, part)
			}
		}
	}

	if after := len(w.ledger.written()); after != before || w.committed() != at {
		w.t.Errorf("it wrote %d chains, and the commit went from %d to %d", after-before, at, w.committed())
	}
}

func TestTheLogIsNamedBeforeAnythingIsClearedAndOnlyOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.settle(2)

		names := w.names()
		if len(names) != 1 || names[0].Log != 1 || names[0].Partition != 0 || names[0].Offset != 0 {
			t.Fatalf("the ledger has %+v", names)
		}

		if named, held := w.ledger.of(ledger.CodeOrigin)[0].Timestamp,
			w.ledger.of(ledger.CodeLeg1)[0].Timestamp; held < named {
			t.Errorf("a payment was held at %d, before the log was named at %d", held, named)
		}
		again := w.start()
		time.Sleep(time.Minute)

		if _, err := again.end(); err != nil {
			t.Error(err)
		}

		if after := w.names(); len(after) != 1 || after[0] != names[0] {
			t.Errorf("the names changed to %+v", after)
		}
	})
}

// Logs from before there were names.
func TestALogThatExistsIsAdopted(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 3 {
			w.pay()
		}

		if _, err := kadm.NewClient(w.client).DeleteRecords(w.t.Context(),
			kadm.Offsets{stream.Payments: {0: {Topic: stream.Payments, At: 1}}}); err != nil {
			t.Fatal(err)
		}
		e := w.start()
		defer w.bank()()
		w.await("the reports", func() bool { return len(w.reports()) == 2 })

		if _, err := e.end(); err != nil {
			t.Error(err)
		}

		if names := w.names(); len(names) != 1 || names[0].Offset != 1 {
			t.Errorf("the ledger has %+v", names)
		}
	})
}

func TestATopicMadeAnewIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.settle(3)
		w.makeAnew(stream.Payments)
		w.refuses("partition 0 of pix.payments ends at offset 0, and the ledger's log has a record at 0")

		for range 5 {
			w.pay()
		}
		w.refuses("partition 0 of pix.payments is not the ledger's log")
	})
}

func TestATopicMadeAnewUnderARunningEngineStopsIt(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		defer w.bank()()
		first := w.pay()
		w.await("the report", func() bool { return len(w.reports()[first.String()]) == 1 })
		w.makeAnew(stream.Payments)

		for range 5 {
			w.pay()
		}

		if err := e.wait(); err == nil || !strings.Contains(err.Error(), "not the ledger's log") {
			t.Errorf("the engine ended with %v", err)
		}
		w.refuses("not the ledger's log")
	})
}

func TestATopicThatWasCutIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.settle(3)

		if _, err := kadm.NewClient(w.client).DeleteRecords(w.t.Context(),
			kadm.Offsets{stream.Payments: {0: {Topic: stream.Payments, At: 2}}}); err != nil {
			t.Fatal(err)
		}
		w.refuses("partition 0 of pix.payments begins at offset 2, and the ledger's log begins at 0")
	})
}

func TestACommitOutsideOfTheLogIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.settle(3)
		w.commit(100, stream.WriteHint(100, slices.Values([]stream.Span(nil)), 100))
		w.refuses("engines have finished all below offset 100 of pix.payments, partition 0, and the partition has the offsets 0 to 3")
	})
}

// A debugging consumer with the engines' group id commits what no engine has finished. That counts for nothing, and
// the engines' own commit is there again. The same if somebody deletes the commits.
func TestAStrangersCommitCountsForNothing(t *testing.T) {
	for name, meddle := range map[string]func(*world){
		"commits ahead": func(w *world) { w.commit(5, "") },
		"commits back":  func(w *world) { w.commit(0, "member-1") },
		"deletes":       func(w *world) { w.forget() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.settle(2)

				for range 3 {
					w.pay()
				}
				meddle(w)
				defer w.bank()()
				e, began := w.start(), time.Now()
				w.await("all reports", func() bool { return len(w.reports()) == 5 && w.committed() == 5 })

				if took := time.Since(began); took > 5*time.Second { // of virtual time
					t.Errorf("the engine went on after %v", took)
				}

				if reports := w.records(stream.Settlements); len(reports) != 5 {
					t.Errorf("%d reports of 5 payments", len(reports))
				}
				meddle(w) // as far as a broker lets it, while an engine has the partition
				w.await("the own commit again", func() bool { return w.committed() == 5 })

				if _, err := e.end(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// An older copy of the ledger is put back under an engine that runs. It notices with its next pulse, although nobody
// pays.
func TestAnOlderLedgerIsNoticedWithAPulse(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start()
		id := w.pay()
		w.await("the report", func() bool { return len(w.reports()[id.String()]) == 1 })
		older := w.ledger.books.Clone()
		time.Sleep(6 * time.Second) // a pulse
		w.ledger.replace(older)
		began := time.Now()

		if err := e.wait(); err == nil || !strings.Contains(err.Error(), "the ledger is older than the topics") {
			t.Errorf("the engine ended with %v", err)
		}

		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("it was noticed after %v", took)
		}
		w.refuses("the ledger is older than the topics")
	})
}

// An idle engine writes one checkpoint for each pulse, however many partitions it has: a broker may keep them all.
func TestAnIdleEngineWritesOneCheckpointForEachPulse(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()

		e := w.start()
		for partition := range int32(2) {
			order := w.order()
			w.sendTo(partition, order.EndToEndId, order)
		}
		w.await("the reports", func() bool { return len(w.reports()) == 2 })
		time.Sleep(10 * time.Second) // the commits
		before := len(w.records(stream.Checkpoints))
		const pulses = 20
		time.Sleep(pulses * 5 * time.Second)

		if written := len(w.records(stream.Checkpoints)) - before; written < pulses-1 || written > pulses+1 {
			t.Errorf("%d checkpoints in %d pulses", written, pulses)
		}

		if _, err := e.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// The ledger's identity is renewed under an engine that runs: it must not name the former one again.
func TestARenewedIdentityEndsAnEngine(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		w.await("the engine", func() bool { return w.members() == 1 })

		is, err := ledger.ReadIdentity(w.t.Context(), w.ledger.Client)
		if err != nil {
			t.Fatal(err)
		}
		w.ledger.put(ledger.Renewal(2, is))

		if err := e.wait(); err == nil || !strings.Contains(err.Error(), "ledger") {
			t.Errorf("the engine ended with %v", err)
		}
		w.takeLedger()
		e = w.start()
		w.await("the engine again", func() bool { return w.members() == 1 })

		if _, err := e.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// An engine that has no partition yet looks again when it gets some.
func TestAnOlderLedgerIsNoticedAtAJoin(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		first := w.start()
		id := w.pay()
		w.await("the report", func() bool { return len(w.reports()[id.String()]) == 1 })
		older := w.ledger.books.Clone()
		seldom := func(c *Config) { c.PulseInterval = time.Minute }
		second := w.start(seldom)
		w.await("a share for the second engine", func() bool { return w.members() == 2 })
		id = w.pay()
		w.await("the report", func() bool { return len(w.reports()[id.String()]) == 1 })
		w.ledger.replace(older)

		if _, err := first.end(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()

		if err := second.wait(); err == nil || !strings.Contains(err.Error(), "the ledger is older than the topics") {
			t.Errorf("the engine ended with %v", err)
		}

		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it was noticed after %v, with a pulse", took)
		}
	})
}

// Without commit and checkpoint the engine finds out what was told, and tells nobody anything twice.
func TestWhatWasToldIsFinished(t *testing.T) {
	inWorld(t, func(w *world) {
		w.settle(3)

		if _, err := hostile.Produce(w.t.Context(), w.client, stream.Payments, 0,
			hostile.Garbage(time.Now().UnixMilli()).Encode()); err != nil {
			t.Fatal(err)
		}
		e := w.start()
		w.await("a dead letter", func() bool { return len(w.deadLetters()) == 1 && w.committed() > 3 })

		end := w.committed()
		if _, err := e.end(); err != nil {
			t.Fatal(err)
		}
		open := w.pay()
		w.forget()
		w.checkpoint(-1, "")
		defer w.bank()()
		e = w.start()
		w.await("the open payment", func() bool {
			return len(w.reports()[open.String()]) == 1 && w.committed() == end+1
		})

		if reports, letters := w.records(stream.Settlements), w.deadLetters(); len(reports) != 4 || len(letters) != 1 {
			t.Errorf("%d reports of 4 payments, %d dead letters", len(reports), len(letters))
		}

		if _, err := e.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// problems returns why the first engine is not ready.
func (w *world) problems() map[string]string {
	w.t.Helper()

	var answer struct{ Problems map[string]string }
	if err := json.Unmarshal(w.telemetry("/readyz"), &answer); err != nil {
		w.t.Fatal(err)
	}

	return answer.Problems
}

// telemetry asks the engine's own HTTP server.
func (w *world) telemetry(path string) []byte {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return w.network.DialContext(ctx, network, address)
		}}}

	response, err := client.Get("http://127.0.0.1:9103" + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}

	return text
}

// A transaction that nobody ends keeps all later records of its partition back. The engine
// says so, and clears the other partition.
func TestAHangingTransactionIsNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		defer w.bank()()
		first := w.pay()
		w.await("the report", func() bool { return len(w.reports()[first.String()]) == 1 })

		hanging := w.connect(kgo.TransactionalID("hanging"), kgo.TransactionTimeout(10*time.Minute),
			kgo.ProducerBatchCompression(kgo.NoCompression()))
		defer hanging.Close()

		if err := hanging.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		order := w.order()

		value, _ := order.MarshalVT()
		if err := hanging.ProduceSync(w.t.Context(),
			&kgo.Record{Topic: stream.Payments, Key: []byte(order.EndToEndId), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		behind := w.pay()
		w.await("the engine to say that it is not ready", func() bool { return w.problems()[needProgress] != "" })

		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it said so after %v", took)
		}

		for _, part := range []string{"partition 0 stands still at offset 1", order.EndToEndId, "transaction"} {
			if said := w.problems()[needProgress]; !strings.Contains(said, part) {
				t.Errorf("it says %q, without %q", said, part)
			}
		}

		for _, series := range []string{`pix_partitions_standing{partition="0"} 1`,
			`pix_partitions_standing{partition="1"} 0`} {
			if said := w.telemetry("/metrics"); !bytes.Contains(said, []byte(series)) {
				t.Errorf("there is no %s in the metrics", series)
			}
		}
		other := w.order()
		w.sendTo(1, other.EndToEndId, other)
		w.await("the report of the other partition", func() bool { return len(w.reports()[other.EndToEndId]) == 1 })

		if got := w.reports(); len(got[behind.String()])+len(got[order.EndToEndId]) > 0 {
			t.Errorf("it read past an open transaction: %v", got)
		}

		if err := hanging.EndTransaction(w.t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		w.await("the report behind", func() bool { return len(w.reports()[behind.String()]) == 1 })
		w.await("the engine to be ready", func() bool { return len(w.problems()) == 0 })

		if got := w.reports()[order.EndToEndId]; len(got) > 0 {
			t.Errorf("an order that was withdrawn is cleared: %v", got)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// A payment that waits for its bank is normal work; one that is never finished is not.
func TestAnUnfinishedPaymentIsNamedOnlyAfterItsDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		silent := w.pay()

		began := time.Now()
		for time.Since(began) < 39*time.Second {
			time.Sleep(time.Second)

			if said := w.problems(); len(said) > 0 {
				t.Fatalf("after %v it says %v", time.Since(began), said)
			}
		}
		w.await("the report", func() bool { return len(w.reports()[silent.String()]) == 1 })
		w.ledger.leave()
		stuck := w.pay()
		w.await("the engine to name it", func() bool {
			said := w.problems()[needProgress]
			return strings.Contains(said, stuck.String()) && strings.Contains(said, "offset 1") &&
				strings.Contains(said, "waits for the ledger to write its reserve")
		})
		w.ledger.comeBack()
		w.await("the engine to be ready", func() bool { return len(w.problems()) == 0 })

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}
