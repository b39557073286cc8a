package simulation

import (
	"bytes"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// scenario is a world in which a test says what happens and when. Its deadlines are those as
// shipped: 40 s for a payment, 60 s for a hold. Times in a scenario are virtual.
type scenario struct {
	*world
	random *rand.Rand
	seed   uint64
	loads  []*sending
}

var scenarioSeeds = flag.Int("scenario-seeds", 1,
	"how many worlds play each scenario: the seed changes load, times and targets")

// inVirtualTime plays a scenario with some seeds, each in a process of its own. In that process
// it plays the scenario.
func inVirtualTime(t *testing.T, scene func(s *scenario)) {
	if *resultFile != "" {
		inBubble(t, func(t *testing.T, log io.Writer) {
			random := chance(*firstSeed, 0)
			s := &scenario{world: newWorld(t, random, log, nodesMax, noon), random: random, seed: *firstSeed}
			defer func() {
				if t.Failed() {
					t.Log("what happened, in virtual time:\n" + strings.Join(s.trace, "\n"))
				}
			}()
			scene(s)
		})

		return
	}
	needLocks(t)
	t.Parallel()

	for i := range uint64(*scenarioSeeds) { //nolint:gosec // not negative
		seed := *firstSeed + i
		said, err := play(t.Context(), t.TempDir(), t.Name(), seed, "-result=none", "-log="+*logFile)
		t.Logf("seed %d\n%s", seed, said)

		if err != nil {
			t.Fatalf("seed %d: %v\nto run it again: go test -tags synctests -run '^%s$' ./loadtest/simulation -args -seed %d",
				seed, err, t.Name(), seed)
		}
	}
}

// start starts the banks and some engines, and waits for the engines.
func (s *scenario) start(engines int) {
	s.startBanks()

	for i := range engines {
		s.startEngine(i)
		s.ready(s.engine(i))
	}
}

func (s *scenario) engine(number int) *service { return s.services[1+number] }

// sending is a load under way.
type sending struct {
	s      *scenario
	ended  chan struct{}
	result *load.Result
	err    error
}

// send starts a load. Good payments may end with an allowed reason, because of faults.
func (s *scenario) send(what string, rate float64, payments int, excused ...pix.Reason) *sending {
	s.t.Helper()

	parsed, err := mix.Parse(what)
	kit.Must(s.t, err)
	config := s.load(parsed, rate, payments, s.seed)
	config.Allowed, config.Faults = excused, len(excused) > 0
	r := &sending{s: s, ended: make(chan struct{})}
	s.loads = append(s.loads, r)
	go func() { defer close(r.ended); r.result, r.err = load.Run(s.ends, config) }()

	return r
}

// duringFaults are the reasons with which an outage may make a good payment end.
var duringFaults = []pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonTooLate, pix.ReasonPastDeadline}

// wait returns how many good payments ended by a fault, when every payment of a load has its outcome. At least so large
// a share of them must have settled, so that no scenario passes because everything was rejected.
func (r *sending) wait(settled float64) (excused int) {
	t := r.s.t
	t.Helper()
	<-r.ended

	if r.err != nil {
		t.Fatalf("the load fails: %v", r.err)
	}

	if float64(r.result.Settled) < settled*float64(r.result.Sent) || r.result.Dropped > 0 {
		t.Errorf("%d of %d payments settled, at least %.0f %% must; %d sends were dropped", r.result.Settled,
			r.result.Sent, settled*100, r.result.Dropped)
	}

	for _, outcome := range r.result.Outcomes {
		excused += outcome.Excused
	}

	return excused
}

// verdict waits until nothing is in flight, and fails the test unless all judges are content.
func (s *scenario) verdict() audit.Summary {
	s.t.Helper()
	var results []*load.Result

	for _, r := range s.loads {
		<-r.ended
		results = append(results, r.result)
	}

	verdict, problems := s.judge(results...)
	for _, problem := range problems {
		s.t.Error(problem)
	}
	s.t.Log(verdict.String())

	return verdict.Summary
}

// pass lets virtual time pass.
func (s *scenario) pass(low, high time.Duration) { time.Sleep(between(s.random, low, high)) }

// stop stops a service in order. It stays down for a while.
func (s *scenario) stop(of *service, down time.Duration) {
	s.note("%s stops for %v", of.name, down)
	of.mu.Lock()
	of.down = down
	l := of.life
	of.mu.Unlock()
	l.stop()
	<-l.dead
}

// ready waits until a service says that it is ready, in a life that goes on.
func (s *scenario) ready(of *service) {
	s.t.Helper()
	s.eventually(of.name+" to be ready", func() bool {
		select {
		case <-of.now().dead:
			return false
		default:
			code, _ := s.get(of, "/readyz")
			return code == http.StatusOK
		}
	})
}

// metric returns a value by its name and labels, as /metrics prints them.
func (s *scenario) metric(of *service, name string) float64 {
	s.t.Helper()
	_, said := s.get(of, "/metrics")
	_, after, found := strings.Cut(said, "\n"+name+" ")
	text, _, _ := strings.Cut(after, "\n")

	value, err := strconv.ParseFloat(text, 64)
	if !found || err != nil {
		s.t.Fatalf("%s has no metric %s (%v):\n%s", of.name, name, err, said)
	}

	return value
}

// eventually waits for a condition, for at most 5 virtual minutes.
func (s *scenario) eventually(what string, holds func() bool) {
	s.t.Helper()

	for giveUp := time.Now().Add(5 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(giveUp) {
			s.t.Fatalf("still not after 5 minutes: %s", what)
		}
	}
}

// written returns how many records topics have had.
func (s *scenario) written(topics ...string) (n int64) {
	s.t.Helper()

	for _, topic := range topics {
		records, err := s.records(s.ends, topic)
		kit.Must(s.t, err)
		n += records
	}

	return n
}

// order writes orders to partitions that the seed chooses.
func (s *scenario) order(values ...[]byte) {
	s.t.Helper()

	for _, value := range values {
		s.produce(&kgo.Record{Topic: stream.Payments, Partition: int32(s.random.IntN(partitions)),
			Value: bytes.Clone(value)})
	}
}

// produce writes a record to the partition that it names.
func (s *scenario) produce(record *kgo.Record) {
	s.t.Helper()

	kit.Must(s.t, s.client.ProduceSync(s.ends, record).FirstErr())
}
