package e2e

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/stream"
)

// An engine whose clock is minutes wrong, either way, is not ready, fetches nothing and decides
// nothing. With the right clock it goes on: payments that waited past their deadline are
// rejected, and later ones settle.
func TestClockWrong(t *testing.T) {
	s := start(t, 1)
	engine := stack.EngineName(0)
	s.must(s.Kill(engine))
	var load *loadRun
	for _, offset := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		_, err := s.StartToDie(engine, "ENGINE_CLOCK_OFFSET="+offset.String()) // Kill ends it
		s.must(err)
		s.eventually("not ready because of its clock", func() bool {
			err := s.Ready(t.Context(), engine)
			return err != nil && strings.Contains(err.Error(), "clock: this machine's clock differs")
		})
		if owned := s.metric(engine, "pix_partitions_owned"); owned != 0 {
			t.Errorf("the engine owns %v partitions, which others could clear", owned)
		}
		skew := time.Duration(s.metric(engine, "pix_ledger_clock_skew_seconds") * float64(time.Second))
		if (skew - offset).Abs() > 10*time.Second {
			t.Errorf("the engine's metric says that its clock is off by %s: it is by %s", skew, offset)
		}
		if load == nil {
			load = s.load(200, 6000, duringFaults...)
			s.eventually("payments wait", func() bool { return s.ends(stream.Payments) > 100 })
			time.Sleep(deadline) // until the backlog is past its deadline
		} else {
			time.Sleep(2 * time.Second)
		}
		s.nothingDecided()
		s.must(s.Kill(engine))
	}
	s.must(s.StartProcess(engine))
	s.ready(engine)
	result := load.wait()
	s.settledAtLeast(result, 0.2)
	excused := 0
	for _, outcome := range result.Outcomes {
		excused += outcome.Excused
	}
	if excused == 0 {
		t.Error("no payment ended by its deadline: there was no backlog older than that")
	}
	s.audit()
}

// nothingDecided fails the test if anything was decided since the stack started.
func (s *system) nothingDecided() {
	t := s.t
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()))
	s.must(err)
	defer client.Close()
	commits, err := kadm.NewClient(client).FetchOffsets(t.Context(), stream.EngineGroup)
	s.must(err)
	commits.Each(func(o kadm.OffsetResponse) {
		if o.At > 0 {
			t.Errorf("offset %d of partition %d is committed", o.At, o.Partition)
		}
	})
	for _, topic := range []string{stream.AuthorizationRequests, stream.Settlements, stream.DeadLetters} {
		if n := s.ends(topic); n > 0 {
			t.Errorf("there are %d records in %s", n, topic)
		}
	}
	books, err := tigerbeetle.NewClient(tb.ToUint128(0), strings.Split(s.TigerBeetleAddresses(), ","))
	s.must(err)
	defer books.Close()
	for _, code := range []uint16{ledger.CodeLeg1, ledger.CodeLeg2, ledger.CodeLeg3, ledger.CodeReceipt} {
		found, err := books.QueryTransfers(tb.QueryFilter{Code: code, Limit: 1})
		s.must(err)
		if len(found) > 0 {
			t.Errorf("the ledger holds a transfer of code %d: %v", code, found[0])
		}
	}
}

// ends returns the number of records in a topic.
func (s *system) ends(topic string) int64 {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()))
	s.must(err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(s.t.Context(), topic)
	s.must(err)
	records := int64(0)
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
	return records
}

// metric returns the value of an engine's metric without labels.
func (s *system) metric(engine, name string) float64 {
	s.t.Helper()
	response, err := http.Get(s.TelemetryURL(engine) + "/metrics")
	s.must(err)
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	s.must(err)
	for line := range strings.Lines(string(metrics)) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			s.must(err)
			return value
		}
	}
	s.t.Fatalf("%s has no metric %s", engine, name)
	return 0
}

func (s *system) eventually(what string, holds func() bool) {
	s.t.Helper()
	for giveUp := time.Now().Add(time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(giveUp) {
			s.t.Fatalf("after a minute still not: %s", what)
		}
	}
}
