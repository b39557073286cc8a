package answers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// Config says where clients call, and who they are.
type Config struct {
	Doors      []string          // addresses of the HTTP API; each request goes to the next one
	Dial       host.Dial         // nil: the machine's network
	Keys       map[string]string // by holder
	Population sandbox.Population
	// Guests are accounts of a bank beside the population, all that it has opened. They pay and are paid, too.
	Guests []pix.Account
	Judge  *Judge
	Seed   uint64
	// Asks is how many states clients read a second, besides those of their own payments. They read
	// half as many statements and balances.
	Asks float64
}

// Clients pay over HTTP: they submit each payment until it is acknowledged, then read its state
// until it has ended. The judge compares all they see. They also read the states of some
// payments of the load, follow the settlements of all participants, and read statements and balances.
type Clients struct {
	Config
	observer *Observer
	accounts []pix.Account // whose statements and balances they read
	random   *rand.Rand
	http     http.Client
	streams  http.Client

	turn      atomic.Uint64 // of the doors
	all       sync.WaitGroup
	waiting   atomic.Int64
	submitted atomic.Int64
	watched   atomic.Int64 // payments whose events were read
	refused   atomic.Int64 // answers that no fault explains
	detail    atomic.Pointer[string]
	calm      atomic.Bool // there are no faults: nothing is excused
}

const (
	clientsMax    = 500
	guestShare    = 8 // one submission in this many is from or to a guest
	accountsMax   = 16
	asksAtOnce    = 16
	followedShare = 10 // one in this many chosen payments of clients is followed by events
	streamFor     = time.Minute
	// finishMax bounds the wait for what streams have not told at the end. They keep alive every
	// 15 s, and a producer asks the ledger again every second.
	finishMax = time.Minute
)

// NewClients returns clients that have not called yet.
func NewClients(config Config) *Clients {
	dial := config.Dial
	if dial == nil {
		dial = host.System().Dial
	}

	c := &Clients{Config: config, random: rand.New(rand.NewPCG(config.Seed, 2)),
		http: http.Client{Timeout: 2 * requestTimeout,
			// one for each client: to dial for each request costs more than all else that they do
			Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: clientsMax,
				IdleConnTimeout: 5 * time.Second}},
		streams: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
	for i := range min(accountsMax, config.Population.Customers) {
		c.accounts = append(c.accounts, config.Population.Customer(i))
	}

	return c
}

// banks returns the participants: the population, and the banks of guests.
func (c *Clients) banks() (banks []pix.ISPB) {
	for i := range c.Population.Banks {
		banks = append(banks, c.Population.Bank(i))
	}

	for _, guest := range c.Guests {
		banks = append(banks, guest.ISPB)
	}

	return slices.Compact(banks)
}

// Begin opens the settlements stream of each participant, so that each knows where it begins.
// Call it before anything is sent, and Observe after it.
func (c *Clients) Begin(ctx context.Context) error {
	for _, bank := range c.banks() {
		c.Judge.follow(bank)

		for c.Judge.position(bank) == "" {
			err := c.follow(ctx, bank, requestTimeout, func() bool { return true })
			if c.Judge.position(bank) == "" && !again(ctx) {
				return fmt.Errorf("no front door opens a stream of settlements: %w; the last try: %w",
					context.Cause(ctx), cmp.Or(err, io.EOF))
			}
		}
	}

	return nil
}

// Pay starts clients at a rate until sending ends. The clients go on until patience ends.
func (c *Clients) Pay(sending, patience context.Context, rate float64, observer *Observer) {
	c.observer = observer
	c.send(sending, patience, rate)
}

// PayInCalm pays for a time when there are no faults any more. Nothing is excused: each request is
// answered, each payment is accepted, unless another amount was sent under its id and came first, and
// each id ends as the payee's account says, with an amount that was sent under it.
func (c *Clients) PayInCalm(ctx context.Context, sendFor time.Duration, rate float64) {
	c.calm.Store(true)
	defer c.calm.Store(false)
	sending, cancel := context.WithTimeout(ctx, sendFor)
	defer cancel()
	payments := c.send(sending, ctx, rate)
	c.Wait()

	for _, s := range payments {
		if !s.accepted && !s.denied {
			c.refuseInCalm("%s: it was not accepted", s.id)
			continue
		}

		status, text, _, err := c.ask(ctx, call{holder: string(s.id.Payer()), path: statePath(s.id)})
		if err != nil {
			c.refuseInCalm("%s: %v", s.id, err)
		} else if !s.endedAsWanted(status, text) {
			c.refuseInCalm("%s of %d centavos: it must be %v: %d: %s", s.id, s.centavos, s.wanted, status, text)
		}
	}
}

// endedAsWanted reports whether the answer about a payment's state is what it must be without faults.
func (s *sample) endedAsWanted(status int, text []byte) bool {
	now, err := parseAnswer(text, Span{})
	if err != nil || status != http.StatusOK || now.Status != Ended || now.Outcome != s.wanted {
		return false
	}

	return now.AmountCentavos == s.centavos || s.contested && now.AmountCentavos == s.conflicting().centavos
}

// send starts clients at a rate until sending ends, and returns their payments.
func (c *Clients) send(sending, patience context.Context, rate float64) (sent []*sample) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	owed := 0

	for {
		select {
		case <-sending.Done():
			return sent
		case <-tick.C:
		}

		if owed--; owed >= 0 {
			continue // a batch took this turn
		}

		if c.waiting.Load() >= clientsMax {
			continue // enough payments wait: the clients are only a sample
		}
		bank := c.random.IntN(c.Population.Banks)

		payments := []*sample{c.payment(bank, time.Now())}
		if len(c.Guests) > 0 && c.random.IntN(guestShare) == 0 {
			payments[0] = c.paymentOfGuest(time.Now())
		} else if c.random.IntN(batchShare) == 0 {
			for range c.random.IntN(batchMax) {
				payments = append(payments, c.payment(bank, time.Now()))
			}
			owed = len(payments) - 1
		}
		random := rand.New(rand.NewPCG(c.random.Uint64(), 0))
		c.waiting.Add(int64(len(payments)))
		sent = append(sent, payments...)
		c.all.Go(func() { c.payAll(patience, payments, random) })
	}
}

// Wait returns when all payments of clients have ended, or their patience.
func (c *Clients) Wait() { c.all.Wait() }

// pageMin is the least that a statement's pages hold at the end: after an hour, a line at a time would take too long.
func (c *Clients) pageMin() int { return min(100, int(c.submitted.Load())/1000) }

// Submitted returns how many payments were accepted.
func (c *Clients) Submitted() int64 { return c.submitted.Load() }

// watchedEnough is of how many payments a fault cannot hide every event.
const watchedEnough = 10

// Problems returns what is wrong with the answers besides what the verdict says: what no fault
// explains, and that there were none.
func (c *Clients) Problems(verdict Verdict) (problems []string) {
	if n := c.refused.Load(); n > 0 {
		problems = append(problems,
			fmt.Sprintf("the producer gave %d answers that no fault explains, such as: %s", n, *c.detail.Load()))
	}

	if verdict.Told[toldAnswers] == 0 {
		problems = append(problems, "the producer answered about no payment")
	}

	if c.watched.Load() > watchedEnough && verdict.Told[toldEvents] == 0 {
		problems = append(problems, "no stream told of a payment")
	}

	if c.submitted.Load() == 0 {
		problems = append(problems, "the producer accepted no payment")
	}

	return problems
}

// Ask reads states, statements, balances and settlements until the context ends.
func (c *Clients) Ask(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()

	for i, bank := range c.Judge.banks() {
		random := rand.New(rand.NewPCG(c.Seed, uint64(100+i))) //nolint:gosec // small
		all.Go(func() { c.followOn(ctx, bank, random) })
	}
	all.Go(func() {
		c.askAround(ctx, rand.New(rand.NewPCG(c.Seed, 3)), c.Asks, func(random *rand.Rand) func() {
			if id, found := c.Judge.pick(random); found {
				return func() { c.read(ctx, id) }
			}

			return func() {}
		})
	})
	accounts := slices.Concat(c.accounts, c.Guests)
	c.askAround(ctx, rand.New(rand.NewPCG(c.Seed, 4)), c.Asks/2, func(random *rand.Rand) func() {
		account, limit := accounts[random.IntN(len(accounts))], pageLimits[random.IntN(len(pageLimits))]
		if random.IntN(4) == 0 {
			return func() { c.readStatement(ctx, account, limit, pagesMax) }
		}

		return func() { c.readBalance(ctx, account) }
	})
}

// askAround asks something at a rate until the context ends. If the API is slow, it asks less.
func (c *Clients) askAround(ctx context.Context, random *rand.Rand, rate float64, next func(*rand.Rand) func()) {
	var asks errgroup.Group
	asks.SetLimit(asksAtOnce)

	for host.Sleep(ctx, time.Duration(float64(time.Second)/rate)) {
		question := next(random)
		asks.TryGo(func() error { question(); return nil })
	}
	_ = asks.Wait() // they return none
}

// Finish asks once more about everything, when nothing moves any more: each payment that was
// asked about, each account, and what streams have not told yet. It returns for how many payments
// and accounts there was no answer before the context ended.
func (c *Clients) Finish(ctx context.Context) (untold int64) {
	var without atomic.Int64
	var asks errgroup.Group
	asks.SetLimit(asksAtOnce)

	finish := func(ask func() bool) {
		asks.Go(func() error {
			for !ask() {
				if !again(ctx) {
					without.Add(1)
					break
				}
			}

			return nil
		})
	}
	for _, id := range c.Judge.chosen() {
		finish(func() bool { return c.read(ctx, id) })
	}

	for i, account := range slices.Concat(c.accounts, c.Guests) {
		finish(func() bool { return c.readBalance(ctx, account) })
		finish(func() bool { return c.readStatement(ctx, account, max(pageLimits[i%len(pageLimits)], c.pageMin()), 0) })
	}
	_ = asks.Wait() // they return none

	var streams sync.WaitGroup

	for _, bank := range c.Judge.banks() {
		streams.Go(func() {
			c.followToTheEnd(ctx, bank)
			c.Judge.concludeStream(bank)
		})
	}
	streams.Wait()
	c.http.CloseIdleConnections()

	return without.Load()
}
