package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/stream"
)

// What is sent in each world when all faults are over: payments at Kafka, and for a time over HTTP.
const (
	calmPayments = 90
	calmFor      = 5 * time.Second
	calmRate     = 6 // payments over HTTP a second
)

// rejoinedFor is how long all must be well until it counts as calm.
const rejoinedFor = 3 * time.Second

// awaitRejoin returns when all services are ready and back in their groups, and take orders of each
// partition, or after rejoinMax. An engine can own a partition and not fetch it yet, after a request
// that got no response. With no order in it nobody sees that: so each gets one.
func (w *world) awaitRejoin(random *rand.Rand) {
	asked := false
	for since, until := time.Now(), time.Now().Add(rejoinMax); !asked || time.Since(since) < rejoinedFor; time.Sleep(500 * time.Millisecond) {
		switch {
		case time.Now().After(until):
			return
		case !w.rejoined():
			since = time.Now()
		case !asked:
			asked, since = true, time.Now()
			generator := mix.NewGenerator(population, random)
			for partition := range int32(partitions) {
				order := &kgo.Record{Topic: stream.Payments, Partition: partition, Value: generator.Payment(mix.Accepted, time.Now()).First.Value}
				if err := w.client.ProduceSync(w.ends, order).FirstErr(); err != nil {
					w.t.Errorf("an order in the calm: %v", err)
				}
			}
		}
	}
}

// rejoined reports whether all services are ready, all orders are taken, and each member of the
// groups has partitions.
func (w *world) rejoined() bool {
	for _, s := range w.all() {
		if code, _ := w.get(s, "/readyz"); code != http.StatusOK {
			return false
		}
		if s.clients == nil {
			continue
		}
		// A front door may still refuse, because it has not seen that the engines have taken all.
		if _, said := w.get(s, "/metrics"); !strings.Contains(said, "\npix_untaken_seconds 0\n") {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(w.ends, 5*time.Second)
	defer cancel()
	groups, err := kadm.NewClient(w.client).DescribeGroups(ctx, stream.EngineGroup, stream.BankGroup)
	if err != nil {
		return false
	}
	for name, members := range map[string]int{stream.EngineGroup: w.engineCount, stream.BankGroup: 1} {
		group := groups[name]
		if group.State != "Stable" || len(group.Members) != members {
			return false
		}
		for _, member := range group.Members {
			if assigned, isConsumer := member.Assigned.AsConsumer(); !isConsumer || len(assigned.Topics) == 0 {
				return false
			}
		}
	}
	return true
}

// calm sends payments of every case when all faults are over, and returns what is wrong with
// their outcomes. No fault excuses a rejection now. A bug that rejects good payments shows here
// only: before, each could be the work of a fault. Clients pay over HTTP, too, and nothing that the
// front doors fail to do is excused. A forger is there all the time.
func (w *world) calm(ctx context.Context, seed uint64) []string {
	var equally mix.Mix
	for _, c := range mix.Cases() {
		equally[c] = 1
	}
	var forger sync.WaitGroup
	forger.Go(func() { forge(w, nil, chance(seed, 1<<32+1), 10*time.Second) })
	defer forger.Wait()
	var clients sync.WaitGroup
	clients.Go(w.door.calm)
	defer clients.Wait()
	result, err := load.Run(ctx, load.Config{
		Stream: w.engineConfig.Stream, Kafka: w.kafka(), Population: population, Mix: equally, Rate: 20, Payments: calmPayments,
		Seed: chance(seed, 1<<32).Uint64(), DrainTimeout: drainMax, OutstandingMax: calmPayments,
	})
	if err != nil {
		return []string{fmt.Sprintf("load in the calm: it fails: %v", err)}
	}
	if result.Passed {
		return nil
	}
	problems := []string{fmt.Sprintf("load in the calm: %d failures", result.FailureCount)}
	for _, f := range result.Failures {
		problems = append(problems, fmt.Sprintf("  %s %s %s: %s", f.EndToEndID, f.Case, f.Record, f.Problem))
	}
	return problems
}
