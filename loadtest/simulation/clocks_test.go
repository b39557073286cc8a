package simulation

import (
	"net/http"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

// An engine whose clock is minutes wrong, either way, is not ready, fetches nothing and decides
// nothing. With the right clock it goes on: payments that waited past their deadline are
// rejected, and later ones settle.
func TestClockWrong(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		engine := s.engine(0)
		var load *sending
		for _, offset := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
			s.engineConfig.ClockOffset = offset
			engine.kill(restartTime, "")
			s.eventually("not ready because of its clock", func() bool {
				code, said := s.get(engine, "/readyz")
				return code == http.StatusServiceUnavailable && strings.Contains(said, `"clock":"this machine's clock differs`)
			})
			if owned := s.metric(engine, "pix_partitions_owned"); owned != 0 {
				s.t.Errorf("the engine owns %v partitions, which others could clear", owned)
			}
			skew := time.Duration(s.metric(engine, "pix_ledger_clock_skew_seconds") * float64(time.Second))
			if (skew - offset).Abs() > time.Second {
				s.t.Errorf("the engine's metric says that its clock is off by %s: it is by %s", skew, offset)
			}
			if load == nil {
				load = s.send("demo", 10, 1000, duringFaults...)
				s.eventually("payments wait", func() bool { return s.written(stream.Payments) > 100 })
				time.Sleep(s.engineConfig.Deadline) // until the backlog is past its deadline
			} else {
				time.Sleep(2 * time.Second)
			}
			s.nothingDecided()
		}
		s.engineConfig.ClockOffset = 0
		engine.kill(restartTime, "")
		s.ready(engine)
		if excused(load.wait(0.2)) == 0 {
			s.t.Error("no payment ended by its deadline: there was no backlog older than that")
		}
		s.verdict()
	})
}

// nothingDecided fails the test if anything was decided since the world began.
func (s *scenario) nothingDecided() {
	t := s.t
	t.Helper()
	commits, err := kadm.NewClient(s.client).FetchOffsets(s.ends, stream.EngineGroup)
	if err != nil {
		t.Fatal(err)
	}
	commits.Each(func(o kadm.OffsetResponse) {
		if o.At > 0 {
			t.Errorf("offset %d of partition %d is committed", o.At, o.Partition)
		}
	})
	for _, topic := range []string{stream.AuthorizationRequests, stream.Settlements, stream.DeadLetters} {
		if n := s.written(topic); n > 0 {
			t.Errorf("there are %d records in %s", n, topic)
		}
	}
	for _, code := range []uint16{ledger.CodeLeg1, ledger.CodeLeg2, ledger.CodeLeg3, ledger.CodeReceipt} {
		found, err := s.ledger.Connect(nil).QueryTransfers(tb.QueryFilter{Code: code, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			t.Errorf("the ledger holds a transfer of code %d: %v", code, found[0])
		}
	}
}

// A frozen program sees nothing, whatever other faults begin and end meanwhile. Otherwise it would
// take orders with a clock that stands still, and its deadlines would be early.
func TestNoFaultWakesAFrozenEngine(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		s.send("plain", 20, 20).wait(1)
		before := s.written(stream.AuthorizationRequests)
		resume := s.engine(0).pause()
		load := s.send("silent=1", 20, 200)
		for _, kind := range []string{"broker is slow", "broker is absent", "broker stalls"} {
			s.fault(brokerFaults, kind, nil, time.Second)
		}
		s.fault(engineFaults, "replies of the ledger stall", s.engine(0), time.Second)
		s.pass(3*time.Second, 4*time.Second)
		if asked := s.written(stream.AuthorizationRequests) - before; asked > 0 {
			s.t.Errorf("a frozen engine asked about %d payments", asked)
		}
		resume()
		load.wait(0)
		s.verdict()
	})
}
