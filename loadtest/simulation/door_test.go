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

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// door is the load at the front doors: clients that pay, ask and follow while faults happen, and
// what they saw.
type door struct {
	w        *world
	judge    *answers.Judge
	clients  *answers.Clients
	observer *answers.Observer
	share    float64 // payments over HTTP for each payment at Kafka

	stopAsking context.CancelFunc
	asking     sync.WaitGroup
	paying     sync.WaitGroup
}

const beginMax = time.Minute

// guest is a bank that joins beside the population. It has the ISPB of a real bank, which packs to 0: what
// TigerBeetle takes for "no filter" in a query. So whoever mistakes a zero for nothing shows it here.
const guest pix.ISPB = "00000000"

// guestAccounts are the accounts that the guest opens, with the lowest branch.
var guestAccounts = []pix.Account{{ISPB: guest, Branch: "0000", Number: "1"},
	{ISPB: guest, Branch: "0000", Number: "2"}}

// invite has the guest join with money, a key to the HTTP API, and its accounts.
func (w *world) invite(seed uint64) error {
	acts := []ledger.Act{
		{Kind: ledger.Joined, ByCentralBank: true},
		{Kind: ledger.KeyNamed, Digest: ledger.ActDigest(keys.DigestOf(w.keys[string(guest)])), ByCentralBank: true},
		{Kind: ledger.LiquidityIn, Centavos: int64(population.ReserveCentavos), ByCentralBank: true},
	}
	for _, account := range guestAccounts {
		acts = append(acts, ledger.Act{Kind: ledger.AccountOpened, Account: account},
			ledger.Act{Kind: ledger.Deposit, Account: account, Centavos: int64(population.DepositCentavos)})
	}

	for operator := w.operator(rand.New(rand.NewPCG(seed, 1001)), 0); len(acts) > 0; acts = acts[1:] {
		acts[0].Bank = guest
		if err := operator.Do(acts[0]); err != nil {
			return err
		}
	}

	if err := w.populate(); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // every front door knows the guest's key

	return nil
}

// beginDoor opens the settlements streams, before clients send anything.
func (w *world) beginDoor(seed uint64, p pace) error {
	d := &door{w: w, judge: answers.NewJudge(p.payments, 0),
		share: 0.4 + 0.4*rand.New(rand.NewPCG(seed, 1000)).Float64()}
	d.clients = answers.NewClients(answers.Config{
		Doors: w.doors, Dial: w.dialDoor, Keys: w.keys, Population: population, Guests: guestAccounts,
		Judge: d.judge, Seed: seed, Asks: p.asks,
	})
	ctx, cancel := context.WithTimeout(w.ends, beginMax)
	defer cancel()

	err := d.clients.Begin(ctx)
	if err == nil {
		d.observer, err = answers.Observe(ctx, w.kafka(), d.judge, nil)
	}
	w.door = d

	return err
}

// begin lets clients pay for a time at a share of the load's rate, and ask until the end.
func (d *door) begin(sending time.Duration, rate float64) {
	asking, stopAsking := context.WithCancel(d.w.ends)
	d.stopAsking = stopAsking
	d.asking.Go(func() { d.clients.Ask(asking) })
	patience, losePatience := context.WithTimeout(d.w.ends, sending+drainMax)
	d.paying.Go(func() {
		defer losePatience()
		ends, cancel := context.WithTimeout(d.w.ends, sending)
		defer cancel()
		d.clients.Pay(ends, patience, rate*d.share, d.observer)
		d.clients.Wait()
	})
}

// end returns when all payments of clients have ended and nobody asks any more.
func (d *door) end() {
	d.paying.Wait()
	d.stopAsking()
	d.asking.Wait()
}

// calm lets clients pay when all faults are over.
func (d *door) calm() {
	patience, cancel := context.WithTimeout(d.w.ends, drainMax)
	defer cancel()
	asking, stopAsking := context.WithCancel(patience)
	d.asking.Go(func() { d.clients.Ask(asking) })
	d.clients.PayInCalm(patience, calmFor, calmRate)
	stopAsking()
	d.asking.Wait()
}

// problems asks once more about everything, and judges all that was said.
func (d *door) problems() (problems []string) {
	complain := func(format string, arguments ...any) { problems = append(problems, fmt.Sprintf(format, arguments...)) }
	ctx, cancel := context.WithTimeout(d.w.ends, quietMax)
	defer cancel()

	if err := d.observer.Finish(ctx); err != nil {
		complain("%v", err)
	}

	if untold := d.clients.Finish(ctx); untold > 0 {
		complain("at the end the producers did not answer about %d payments and accounts", untold)
	}

	if err := d.clients.ReadDays(ctx, d.w.ledger.Connect(nil)); err != nil {
		complain("statements of days: %v", err)
	}

	told, err := d.judge.Conclude(d.w.ledger.Connect(nil))
	if err != nil {
		complain("%v", err)
	}
	problems = append(problems, d.clients.Problems(told)...)
	d.w.note("%v", told)

	if !told.Clean {
		text := told.String()
		for _, c := range told.Contradictions {
			text += fmt.Sprintf("\nWRONG %v", c)
		}
		complain("%s", text)
	}

	return problems
}

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
	for since, until := time.Now(),
		time.Now().Add(rejoinMax); !asked || time.Since(since) < rejoinedFor; time.Sleep(500 * time.Millisecond) {
		switch {
		case time.Now().After(until):
			return
		case !w.rejoined():
			since = time.Now()
		case !asked:
			asked, since = true, time.Now()

			generator := mix.NewGenerator(population, random)
			for partition := range int32(partitions) {
				order := &kgo.Record{Topic: stream.Payments, Partition: partition,
					Value: generator.Payment(mix.Accepted, time.Now()).First.Value}
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
		Stream: w.engineConfig.Stream, Kafka: w.kafka(), Population: population, Mix: equally, Rate: 20,
		Payments: calmPayments,
		Seed:     chance(seed, 1<<32).Uint64(), DrainTimeout: drainMax, OutstandingMax: calmPayments,
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
