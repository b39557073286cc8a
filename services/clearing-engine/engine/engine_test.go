package engine

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/clearing-engine/metrics"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

const (
	settled  = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	rejected = pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT
)

// A payment and a return of it go their whole way. Then the engine stops in order: it has
// committed what is finished, and nothing of it is left.
func TestAnEngineSettlesAndStops(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start()
		payment := w.pay()
		w.await("the payment's report", func() bool { return len(w.reports()[payment.String()]) == 1 })
		back := w.giveBack(payment, 40)
		w.await("the return's report", func() bool { return len(w.reports()[back.String()]) == 1 })

		for _, id := range []string{payment.String(), back.String()} {
			if report := w.reports()[id][0]; report.Status != settled || report.Payer == nil || report.Payee == nil {
				t.Errorf("the report is %v", report)
			}
		}

		for _, record := range append(w.records(stream.Settlements), w.records(stream.AuthorizationRequests)...) {
			if string(record.Key) != payment.String() || record.Partition != 0 {
				t.Errorf("%s, partition %d has the key %s", record.Topic, record.Partition, record.Key)
			}
		}

		took, err := e.end()
		if err != nil || took > 5*time.Second {
			t.Errorf("it stopped after %v with %v", took, err)
		}

		if at := w.committed(); at != 2 {
			t.Errorf("it committed %d, want 2", at)
		}
	})
}

// The deadline is exact: a silent bank's payment is voided at the deadline, at the latest a
// tick later.
func TestASilentBanksPaymentEndsAtItsDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start(func(c *Config) { c.Deadline = 7 * time.Second })
		sent := time.Now()
		payment := w.pay()
		w.await("the report", func() bool { return len(w.records(stream.Settlements)) == 1 })

		report := w.reports()[payment.String()][0]
		if report.Status != rejected || report.ReasonCode != "AB03" {
			t.Errorf("the report is %v", report)
		}

		if took := w.records(stream.Settlements)[0].Timestamp.Sub(sent); took < 7*time.Second ||
			took > 7*time.Second+3*tickInterval {
			t.Errorf("it was reported after %v, its deadline is 7s", took)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// A member that loses a partition may commit last what it was given with it, below what the owner has committed since:
// the owner commits again, although nothing comes after it.
func TestACommitThatWentBackIsMadeAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start()
		w.pay()
		w.await("the first commit", func() bool { return w.committed() == 1 })

		wentBack := false
		w.broker.ControlKey(int16(kmsg.OffsetCommit), func(request kmsg.Request) (kmsg.Response, error, bool) {
			w.broker.KeepControl()

			for _, topic := range request.(*kmsg.OffsetCommitRequest).Topics {
				if first := &topic.Partitions[0]; first.Partition == 0 && first.Offset == 2 && !wentBack {
					first.Offset, wentBack = 1, true
				}
			}

			return nil, nil, false
		})
		w.pay()
		w.await("the same commit again", func() bool { return w.committed() == 2 })

		if _, err := e.end(); err != nil || !wentBack {
			t.Errorf("%v; the commit went back: %v", err, wentBack)
		}
	})
}

// Orders with an id that is in flight wait. An equal one shares the report; one with other
// content becomes a dead letter and changes nothing.
func TestDuplicatesWaitForTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start()
		order := w.order()
		conflict := w.order()

		conflict.EndToEndId, conflict.AmountCentavos = order.EndToEndId, 99
		for _, order := range []*pixv1.PaymentOrder{order, order, conflict, order} {
			w.send(order.EndToEndId, order)
		}
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })
		defer w.bank()()
		w.await("the last offset", func() bool { return w.committed() == 4 })

		if reports := w.reports()[order.EndToEndId]; len(reports) != 1 || reports[0].Status != settled ||
			reports[0].AmountCentavos != 100 {
			t.Errorf("the reports are %v", reports)
		}

		letters := w.records(stream.DeadLetters)
		if len(letters) != 1 || len(w.reports()) != 1 {
			t.Fatalf("%d dead letters, reports %v", len(letters), w.reports())
		}

		var letter pixv1.DeadLetter
		if err := letter.UnmarshalVT(letters[0].Value); err != nil || letter.ReasonCode != "DUPL" ||
			letter.Offset != 2 || !strings.Contains(letter.Reason, order.EndToEndId) {
			t.Errorf("the dead letter is %v (%v)", &letter, err)
		}

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// A silent bank's payment holds the committed offset back. After a restart the hint of the
// commit saves the finished ones behind it a redelivery: only the silent one is written again.
func TestARestartSkipsWhatTheHintHolds(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.bank("10000003")
		first := w.start(func(c *Config) { c.Deadline, c.PendingTimeout = time.Hour, 2*time.Hour })
		silent := w.order()
		silent.Payee.Ispb = "10000003"
		w.send(silent.EndToEndId, silent)

		for range 10 {
			w.pay()
		}
		w.await("ten reports", func() bool { return len(w.reports()) == 10 })

		if _, err := first.end(); err != nil {
			t.Fatal(err)
		}

		if at := w.committed(); at != 0 {
			t.Errorf("it committed %d, want 0", at)
		}
		before := len(w.ledger.written())
		stop()
		defer w.bank()()
		second := w.start(func(c *Config) { c.Deadline, c.PendingTimeout = time.Hour, 2*time.Hour })
		w.await("the last offset", func() bool { return w.committed() == 11 })

		if again := w.ledger.written()[before:]; len(again) != 2 { // its hold, which exists, and its post
			t.Errorf("%d chains after the restart, want 2: %+v", len(again), again)
		}

		if _, err := second.end(); err != nil {
			t.Error(err)
		}
	})
}

// Two engines share the partitions. When one stops, the other has them all.
func TestEnginesShareThePartitions(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		one := w.start()
		w.await("all partitions", func() bool { return w.members() == 1 })
		two := w.start()
		w.await("two members", func() bool { return w.members() == 2 })

		for range 10 {
			w.pay()
			order := w.order()
			w.sendTo(1, order.EndToEndId, order)
			time.Sleep(time.Second)
		}
		w.await("all reports", func() bool { return len(w.reports()) == 20 })

		if _, err := one.end(); err != nil {
			t.Error(err)
		}
		w.await("one member", func() bool { return w.members() == 1 })
		id := w.pay()
		w.await("the report", func() bool { return len(w.reports()[id.String()]) == 1 })

		if _, err := two.end(); err != nil {
			t.Error(err)
		}
	})
}

// A result that a payment cannot have halts the engine: from then on it writes nothing,
// sends nothing and commits nothing, also about other payments.
func TestAnImpossibleResultHaltsTheEngine(t *testing.T) {
	inWorld(t, func(w *world) {
		defer w.bank()()
		e := w.start(func(c *Config) { c.CommitInterval = 10 * time.Second })
		first := w.pay()
		w.await("the first payment's report", func() bool { return len(w.reports()) == 1 })
		w.ledger.set(func() { w.ledger.overflows = true })
		w.pay()

		err := e.wait()
		if err == nil || !strings.Contains(err.Error(), "TransferOverflowsCredits") {
			t.Fatalf("it ended with %v", err)
		}
		written := len(w.ledger.written())
		w.pay()
		time.Sleep(time.Minute)

		if more := len(w.ledger.written()) - written; more != 0 {
			t.Errorf("%d chains were written after the failure", more)
		}

		if reports := w.reports(); len(reports) != 1 || len(reports[first.String()]) != 1 {
			t.Errorf("reports: %v", reports)
		}

		if at := w.committed(); at > 0 {
			t.Errorf("it committed %d after the failure", at)
		}
	})
}

// An engine that is asked to stop does not wait for an absent ledger, neither before it
// began nor in the middle of payments.
func TestAnEngineStopsWithoutItsLedger(t *testing.T) {
	inWorld(t, func(w *world) {
		w.ledger.leave()
		e := w.start()
		time.Sleep(time.Minute)

		if took, err := e.end(); err != nil || took > time.Second {
			t.Errorf("before it began, it stopped after %v with %v", took, err)
		}
		w.ledger.comeBack()

		e = w.start()
		w.pay()
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })
		w.ledger.leave()
		w.pay()
		time.Sleep(time.Minute)

		if took, err := e.end(); err != nil || took > 5*time.Second {
			t.Errorf("it stopped after %v with %v", took, err)
		}
		w.ledger.comeBack()

		if at := w.committed(); at > 0 {
			t.Errorf("it committed %d, and nothing is finished", at)
		}
	})
}

// An engine that stops in order leaves the group, also with an instance id: another one
// takes over at once, and finishes what was begun.
func TestAnotherEngineTakesOver(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.start(func(c *Config) { c.InstanceID = "first"; c.SessionTimeout = 30 * time.Second })
		payment := w.pay()
		w.await("the request", func() bool { return len(w.records(stream.AuthorizationRequests)) == 1 })

		if _, err := first.end(); err != nil {
			t.Fatal(err)
		}
		defer w.bank()()
		second := w.start(func(c *Config) { c.InstanceID = "second" })
		started := time.Now()
		w.await("the report", func() bool { return len(w.reports()[payment.String()]) == 1 })

		if took := time.Since(started); took > 15*time.Second {
			t.Errorf("it took over after %v", took)
		}

		if report := w.reports()[payment.String()][0]; report.Status != settled {
			t.Errorf("the report is %v", report)
		}

		if _, err := second.end(); err != nil {
			t.Error(err)
		}
	})
}

// A crash point calls the host's way to die.
func TestACrashPointDiesAsTheHostSays(t *testing.T) {
	inWorld(t, func(w *world) {
		e := w.start(func(c *Config) { c.CrashAt = string(afterPhase1Answered) + ":1" })
		w.pay()
		<-e.died

		if _, err := e.end(); err != nil {
			t.Error(err)
		}
	})
}

// An engine that stops and the client that loses its partitions may release one at the same time.
func TestAPartitionIsReleasedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		client := w.connect()
		defer client.Close()
		e := &Engine{direct: client, owned: map[int32]*partition{}}
		e.metrics = metrics.New(prometheus.NewRegistry(), room.New(room.Limits{}, time.Now()),
			chainNames[chainReserve:])
		p := &partition{number: 1, done: make(chan struct{})}
		p.owned, p.release = context.WithCancel(context.Background())
		e.owned[1] = p
		go func() { <-p.owned.Done(); close(p.done) }()

		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { e.release([]*partition{p}) })
		}
		both.Wait()
		next := &partition{number: 1}

		e.owned[1] = next
		if e.release([]*partition{p}); e.owned[1] != next {
			t.Error("it released the partition's next life")
		}
	})
}
