package simulation

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/pix"
)

// result is what became of a world.
type result struct {
	Ended    bool          // false: it broke off
	Active   time.Duration // virtual time until load and faults were over
	Payments int
	Faults   map[string]int
	Trace    []string
	Problems []string // empty: all judges are content
}

// allowed are the reasons with which faults may make a good payment end.
var allowed = []pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonPayeePSPBusy, pix.ReasonTooLate, pix.ReasonPastDeadline,
	pix.ReasonTooManyReturns, rejectedByBank}

// Bounds of virtual time. A hold that nobody resolves ends 60 s after its order.
const (
	drainMax = 5 * time.Minute
	quietMax = 5 * time.Minute
	// rejoinMax is how long a service may be away after the last fault: a request to join its group
	// that the broker has lost fails after a minute.
	rejoinMax = 70 * time.Second
)

// beginOf returns when the world of a seed begins. In one of four a day or a window of caps ends in São Paulo
// meanwhile.
func beginOf(seed uint64) time.Time {
	if random := chance(seed, 1<<32+8); random.IntN(4) == 0 {
		ends := time.Duration([]int{11, 15, 21}[random.IntN(3)]) * time.Hour
		return noon.Add(ends - between(random, 2*time.Minute, 4*time.Minute)) // all banks have joined by then
	}

	return noon
}

// live makes the world of a seed, lets it live, and judges it.
func live(t *testing.T, seed uint64, log io.Writer) result {
	random := chance(seed, 0)
	w := newWorld(t, random, log, nodesMaxOf(seed), beginOf(seed))

	loses := losesLedger(seed)
	if loses {
		time.Sleep(70 * time.Second) // an archive begins when a minute is over
		w.began = time.Now()
	}
	// A bank counts from the time that the engine gave its question. The clock of an engine may be 70 s behind.
	w.bankConfig.Profiles.LateDelay += 70 * time.Second
	if isSparse(seed) {
		// A producer looks at the backlog five times in this age. With the default that would be most of its
		// requests to Kafka, for a backlog that few payments cannot make.
		w.producerConfig.Overload.Age = 5 * time.Second
	}
	w.startBanks()

	w.engineCount = 2 + random.IntN(2)
	for i := range w.engineCount {
		w.startEngine(i)
	}

	for i := range 1 + random.IntN(2) {
		w.startProducer(i)
	}
	w.startArchivers(chance(seed, 1<<32+5))
	pace := paceOf(seed, random)
	events := plan(seed, w.lanes(), pace, pace.sending()+20*time.Second)
	w.note("seed %d: %d engines, %d producers, %d nodes of Kafka, %+v, latency %v", seed, w.engineCount, len(w.doors),
		w.broker.nodes, pace, w.latency)
	var r result
	open := func() bool { // what clients were told before does not hold in a ledger that is built again
		err := w.beginDoor(seed, pace)
		if err != nil {
			r.Problems = []string{fmt.Sprintf("the front door does not open: %v", err)}
		}

		return err == nil
	}

	if err := w.invite(seed); err != nil {
		r.Problems = []string{err.Error()}
		return r
	}

	if !loses && !open() {
		return r
	}
	var faults sync.WaitGroup
	// A load that cannot begin is a fault of the operator, not of the clearing house.
	beginFaults := sync.OnceFunc(func() { faults.Go(func() { w.breakThings(events) }) })

	config := w.load(everyCase(random), pace.rate, pace.payments, seed)
	config.Allowed = slices.Concat(allowed, load.ActReasons) // the audit knows the register
	config.Sending = func(id pix.EndToEndID) {
		beginFaults()

		if w.door != nil {
			w.door.judge.Choose(id)
		}
	}

	if loses {
		faults.Go(func() { w.loseLedger(chance(seed, 1<<32+7), pace.sending()) })
	} else {
		w.door.begin(pace.sending(), pace.rate)
	}
	loaded, err := load.Run(t.Context(), config)
	beginFaults() // if it sent no payment
	faults.Wait()
	r.Active = time.Since(w.began)

	if loses {
		if !open() {
			return r
		}
		w.door.begin(0, pace.rate)
	}
	w.door.end()

	var problems []string
	if err != nil {
		problems = append(problems, fmt.Sprintf("the load fails: %v", err))
	}
	w.disarm()
	w.awaitRejoin(chance(seed, 1<<32+2))
	problems = append(problems, w.calm(t.Context(), seed)...)
	_, judged := w.judge(loaded)
	r.Ended, r.Faults, r.Trace, r.Problems = true, w.count, w.trace, append(problems, judged...)
	r.Payments = pace.payments + calmPayments + int(w.door.clients.Submitted())

	return r
}

// load returns a load on which faults may have their effects.
func (w *world) load(what mix.Mix, rate float64, payments int, seed uint64) load.Config {
	return load.Config{
		Stream: w.engineConfig.Stream, Kafka: w.kafka(), Population: population, Mix: what, Rate: rate,
		Payments: payments,
		Seed:     seed, DrainTimeout: drainMax, OutstandingMax: 100_000, Allowed: allowed, Faults: true,
	}
}

// judge waits until nothing is in flight, and asks all judges.
func (w *world) judge(loads ...*load.Result) (verdict audit.Verdict, problems []string) {
	complain := func(format string, arguments ...any) {
		problems = append(problems, fmt.Sprintf(format, arguments...))
	}

	for _, loaded := range loads {
		if loaded == nil || loaded.Passed {
			continue
		}
		complain("load: %d failures", loaded.FailureCount)

		for _, f := range loaded.Failures {
			complain("  %s %s %s: %s", f.EndToEndID, f.Case, f.Record, f.Problem)
		}
	}

	secrets, err := audit.ReadSecrets(w.sealsFile)
	if err != nil {
		complain("%v", err)
	}

	if w.archiverConfig != nil {
		problems = append(problems, w.concludeArchive()...)
	}

	verdict, err = audit.Run(w.t.Context(), audit.Config{
		Kafka: w.kafka(), Ledger: w.ledger.Connect(nil), Wait: quietMax,
		Deadline: w.engineConfig.Deadline, DeadlineMin: w.deadlineMin, ShortDeadlines: w.shortDeadlines,
		HoldMax:          w.engineConfig.PendingTimeout,
		TakeOverInterval: w.takeOverInterval(), WrongClocks: w.wrongClocks, LateRequests: w.lateRequests,
		Secrets: secrets, Behind: w.engineConfig.Stream.Behind, Log: func(string, ...any) {},
	})
	if err != nil {
		complain("the audit fails: %v", err)
	} else if !verdict.Clean {
		var text bytes.Buffer
		verdict.Write(&text)
		complain("%s", text.String())
	}

	if w.archiverConfig != nil && !w.rebuilt && err == nil {
		folder := os.DirFS(w.archiverConfig.Folder)
		// concludeArchive says why not
		totals, _ := archive.Verify(folder, func(archive.Manifest) {}, func(archive.DayEnd) {})

		if settled := verdict.Summary.Settled + verdict.Summary.Returned; totals.Settled != settled {
			complain("archive: it has %d settled payments, the ledger %d", totals.Settled, settled)
		}
	}

	problems = append(problems, verdict.Summary.Unread...)
	if problem := w.planted.Problem(verdict.Summary.DeadLetters[pix.ReasonUnreadable.String()]); err == nil &&
		problem != "" {
		complain("%s", problem)
	}

	if w.door != nil {
		problems = append(problems, w.door.problems()...)
	}

	return verdict, append(problems, w.judgeRest()...)
}

// takeOverInterval returns how soon after one take-over an engine can have another. One that the
// broker forgets loses its partitions again and again.
func (w *world) takeOverInterval() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.count[memberUnknown] > 0 {
		return 250 * time.Millisecond
	}

	return time.Second
}

// everyCase returns a mix with every case of loads, half of it good payments.
func everyCase(random *rand.Rand) (m mix.Mix) {
	sum := 0

	for _, c := range mix.Cases() {
		m[c] = 1 + random.IntN(5)
		sum += m[c]
	}
	m[mix.Accepted] += sum

	return m
}

// inFlight are the metrics of engines, the last one of front doors, that are 0 while nothing is in flight. What they
// leak is lost room: the engine slows down and at last fetches nothing, the front door refuses.
var inFlight = []string{"pix_payments_in_flight", "pix_in_flight_bytes", "pix_payments_waiting_for_psp",
	"pix_payer_share_taken", "pix_http_pool_taken"}

// restMax bounds the time until an engine, which may just start, says what it has in flight.
const restMax = time.Minute

// judgeRest returns what engines and front doors still have in flight when every payment has ended.
func (w *world) judgeRest() (problems []string) {
	for _, s := range w.all() {
		last := ""

		for until := time.Now().Add(restMax); (s.clients != nil || strings.HasPrefix(s.name, "engine-")) &&
			time.Now().Before(until); time.Sleep(time.Second) {
			_, metrics := w.get(s, "/metrics")
			if last = leaks(metrics); last == "" {
				break
			}
		}

		if last != "" {
			problems = append(problems,
				fmt.Sprintf("rest: %s: every payment has ended, and its metrics say %s", s.name, last))
		}
	}

	return problems
}

// leaks returns the first metric of inFlight that is not 0, or all of them if they are neither an engine's nor a front
// door's.
func leaks(metrics string) string {
	if !strings.Contains(metrics, "\n"+inFlight[0]+" ") && !strings.Contains(metrics, "\n"+inFlight[4]+"{") {
		return metrics
	}

	for line := range strings.Lines(metrics) {
		for _, name := range inFlight {
			if rest, is := strings.CutPrefix(line, name); is && strings.ContainsAny(rest[:1], " {") &&
				!strings.HasSuffix(line, " 0\n") {
				return line
			}
		}
	}

	return ""
}
