package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

const (
	readPast    = "settlements from the start" // has no end of its own
	readAll     = "all at once"                // by four banks
	readReturns = 64                           // of one payment
	readLines   = 1000                         // of one account
	// readPayRate is what the first bank pays a second, and reads ten times less often.
	readPayRate = 100
	// readBeside is what another bank pays a second meanwhile.
	readBeside = 400
	// slice is how long a flood is measured, and the quiet between two.
	slice = 5 * time.Second
	// underWay is how long a flood, or the quiet, goes on before it is measured. It is longer than a read waits for
	// its turn as shipped: what goes on is measured, with its refusals, and not the first requests of a thousand
	// connections.
	underWay = 9 * time.Second
)

// reader is a bank that reads all it may.
type reader struct {
	*session
	bank                  int
	ispb                  pix.ISPB
	account, payment, day string // paths
	doors                 []*load.Callers
}

const patience = 15 * time.Second // longer than a read waits for its turn

// floods are what a reader may do, each on so many connections, and for so long.
var floods = []struct {
	name        string
	connections int
	patience    time.Duration
	path        func(*reader) string
}{
	{"nobody", 0, patience, nil}, // what the machine does alone
	{"a payment with 64 returns", 64, patience, func(r *reader) string { return r.payment }},
	{"statements of 1,000 lines", 64, patience, func(r *reader) string { return r.account + "/statement?limit=1000" }},
	{"statements of days", 64, patience, func(r *reader) string { return r.day }},
	{"balances", 64, patience, func(r *reader) string {
		return accountPath(r.population.Customer(
			r.bank + r.population.Banks*rand.IntN(r.population.Customers/r.population.Banks)))
	}},
	{"participants", 64, patience, func(r *reader) string { return "/v1/participants/" + string(r.ispb) }},
	{"what is refused", 64, patience, func(*reader) string { return "/v1/payments/none" }},
	{readPast, 4, slice, func(r *reader) string { return "/v1/settlements?from=start&participant=" + string(r.ispb) }},
}

// readNames are those of the floods, and of all together.
func readNames() (names []string) {
	for _, flood := range floods {
		names = append(names, flood.name)
	}

	return append(names, readAll)
}

// read sends a flood until ctx ends. What is refused is tried again.
func (r *reader) read(ctx context.Context, flood int) {
	var all sync.WaitGroup
	for i := range floods[flood].connections {
		all.Go(func() {
			for ctx.Err() == nil {
				lasts, cancel := context.WithTimeout(ctx, floods[flood].patience)
				door, path := r.doors[i%len(r.doors)], floods[flood].path(r)
				answer, _ := door.Send(lasts, http.MethodGet, path, string(r.ispb), nil)
				cancel()

				switch answer.Status { // none if the flood's end came before
				case http.StatusOK, http.StatusUnprocessableEntity:
					r.reads.Add(1)
				case http.StatusTooManyRequests:
					r.refused.Add(1)
				}
			}
		})
	}
	all.Wait()
}

// while runs an act beside a flood, and ends the flood after it.
func while(ctx context.Context, flood func(context.Context), act func() error) error {
	flooding, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	sending.Go(func() { flood(flooding) })
	defer sending.Wait()
	defer stop()

	return act()
}

// underReads measures the payments of the first bank, and its reads, at two front doors: while nobody reads, beside
// each flood of the second bank, and beside all floods of four banks.
func (m *session) underReads(ctx context.Context) error {
	second, err := m.AddProducer(ctx)
	if err != nil {
		return err
	}
	doors := func() []*load.Callers { // of each bank: it waits for no connection of another's
		return []*load.Callers{load.NewCallers(m.ProducerURL(), m.keys), load.NewCallers(second, m.keys)}
	}
	var readers []*reader

	for bank := 1; bank < m.population.Banks; bank++ {
		reader := &reader{session: m, bank: bank, ispb: m.population.Bank(bank), doors: doors()}
		if err := reader.prepare(ctx); err != nil {
			return err
		}
		readers = append(readers, reader)
	}
	everything := func(ctx context.Context) {
		var all sync.WaitGroup

		for _, reader := range readers {
			for flood := range floods {
				all.Go(func() { reader.read(ctx, flood) })
			}
		}
		all.Wait()
	}
	payer := &payer{doors: doors(), population: m.population, rate: m.rate}
	stop := m.startFlood(ctx)

	for flood, of := range floods {
		if err == nil {
			err = m.phase(ctx, payer, of.name, func(ctx context.Context) { readers[0].read(ctx, flood) })
		}
	}

	if err == nil {
		err = m.phase(ctx, payer, readAll, everything)
	}

	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	m.run.verdict = "every payment settled"

	return m.maximumBeside(ctx, everything)
}

// phase measures the payments beside a flood.
func (m *session) phase(ctx context.Context, payer *payer, name string, flood func(context.Context)) error {
	m.reads.Store(0)
	m.refused.Store(0)
	turns := max(1, int(m.RateDuration/slice))

	each, err := byTurns(ctx, flood, turns, func(ctx context.Context) (map[string]float64, error) {
		paid := newPaid()
		err := payer.pay(ctx, paid)
		m.run.sum(readFigures, name+", failed", float64(paid.failed.Load()))

		return paid.milliseconds(), err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	flooding := float64(turns) * (slice + underWay).Seconds()
	m.run.set(readFigures, name+", answers", float64(m.reads.Load())/flooding)
	m.run.set(readFigures, name+", refused", float64(m.refused.Load())/flooding)

	for what, values := range each {
		m.run.set(readFigures, name+", "+what, spreadOf(values).median)
	}

	return nil
}

// maximumBeside measures what settles a second at the most, by turns of one load.
func (m *session) maximumBeside(ctx context.Context, flood func(context.Context)) error {
	var settled atomic.Int64
	var each map[string][]float64

	err := while(ctx, func(ctx context.Context) { // its end is the load's
		each, _ = byTurns(ctx, flood, math.MaxInt, func(ctx context.Context) (map[string]float64, error) {
			before := settled.Load()
			host.Sleep(ctx, slice)
			return map[string]float64{"maximum": float64(settled.Load()-before) / slice.Seconds()}, ctx.Err()
		})
	}, func() error {
		_, err := m.load(ctx, settling, load.Config{Seed: 5, Payments: m.payments,
			ProgressEvery: 100 * time.Millisecond, Progress: func(s load.Snapshot) { settled.Store(int64(s.Settled)) }})
		return err
	})

	times := each["times maximum"]
	if err == nil && len(times) == 0 {
		err = fmt.Errorf("--payments is %d: all had settled within a turn, %v", m.payments, 2*underWay+slice*7/2)
	}
	m.run.set(readFigures, "times maximum", spreadOf(times).median)

	return err
}

// byTurns measures without and with a flood by turns, and relates each figure beside the flood to the mean of those of
// the quiet before and after it: the machine changes within seconds, and a ledger that grows is slower, most of all at
// its beginning.
func byTurns(ctx context.Context, flood func(context.Context), turns int,
	measure func(context.Context) (map[string]float64, error)) (map[string][]float64, error) {
	each := map[string][]float64{}
	wait := func(after time.Duration) (map[string]float64, error) { host.Sleep(ctx, after); return measure(ctx) }
	before, err := wait(underWay)

	for turn := 0; err == nil && turn < turns; turn++ {
		var beside map[string]float64
		err = while(ctx, flood, func() (err error) { beside, err = wait(underWay); return err })
		after, ended := wait(slice / 2)
		err = errors.Join(err, ended)

		for what, flooded := range beside {
			if quiet := (before[what] + after[what]) / 2; err == nil && quiet > 0 {
				each[what] = append(each[what], flooded)
				each["times "+what] = append(each["times "+what], flooded/quiet)
			}
		}
		before = after
	}

	return each, err
}

// prepare makes what the reader reads: an account with lines, a payment with returns, a part of a day.
func (r *reader) prepare(ctx context.Context) error {
	random, next := rand.New(rand.NewPCG(uint64(r.bank), 0)), (r.bank+1)%r.population.Banks
	payer, payee := r.population.Customer(r.bank), r.population.Customer(next)
	var made []*pixv1.PaymentOrder

	for range readLines / 2 { // a hold and a posting each
		id := pix.NewEndToEndID(payer.ISPB, time.Now(), random).String()
		made = append(made, &pixv1.PaymentOrder{EndToEndId: id, Payer: mix.AccountMessage(payer),
			Payee: mix.AccountMessage(payee), AmountCentavos: readReturns})
	}

	calls, err := pays(made, len(made))
	if err != nil {
		return err
	}
	id := made[len(made)-1].EndToEndId
	r.payment, r.account = "/v1/payments/"+id, accountPath(payer)
	calls = append(calls, read(r.ispb, r.payment, `"status":"settled"`))

	for range readReturns {
		body := fmt.Appendf(nil, `{"original_end_to_end_id": %q, "amount_centavos": 1, "reason_code": "MD06"}`, id)
		calls = append(calls, call{http.MethodPost, "/v1/returns", r.population.Bank(next), body, http.StatusAccepted,
			`"status":"accepted"`, 1})
	}

	for _, call := range append(calls, read(r.ispb, r.payment, fmt.Sprintf(`"returned_centavos":%d,`, readReturns))) {
		if err := call.await(ctx, r.doors[0]); err != nil {
			return err
		}
	}
	until := time.Now().UTC() // after all of these
	r.day = fmt.Sprintf("/v1/participants/%s/statements/%v?until=%s", r.ispb, pix.DayOf(until),
		until.Format(time.RFC3339Nano))

	return nil
}

// paid is what became of payments and reads.
type paid struct {
	payments, reads *load.Recorder
	failed          atomic.Int64
}

func newPaid() *paid { return &paid{payments: load.NewRecorder(), reads: load.NewRecorder()} }

func (p *paid) milliseconds() map[string]float64 {
	payments := p.payments.Latency("settled")
	return map[string]float64{"p50": payments.P50, "p99": payments.P99, "reads p50": p.reads.Latency("read").P50}
}

// payer pays as the first bank, by turns at each door, and reads balances.
type payer struct {
	doors      []*load.Callers
	population sandbox.Population
	rate, sent int
}

// pay lasts for a slice. Latencies count from the instant at which a request is due.
func (p *payer) pay(ctx context.Context, to *paid) error {
	flood, bank := load.Flood{Kind: load.Payments, Population: p.population,
		Random: rand.New(rand.NewPCG(6, uint64(p.sent)))}, string(p.population.Bank(0))
	var all sync.WaitGroup
	send := func(due time.Time, recorder *load.Recorder, method, path string, body []byte) {
		door := p.doors[p.sent%len(p.doors)]
		all.Go(func() {
			if answer, err := door.Send(ctx, method, path, bank, body, "Prefer", "wait=30"); err != nil ||
				answer.Status != http.StatusOK {
				to.failed.Add(1)
			}
			recorder.Record(time.Since(due))
		})
	}

	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
		if due.Sub(began) > slice {
			break
		}
		time.Sleep(time.Until(due))

		body, err := json.Marshal(load.Payment(flood.Order(due, n)))
		if err != nil {
			return err
		}

		p.sent++
		if send(due, to.payments, http.MethodPost, "/v1/payments", body); n%10 == 0 {
			send(due, to.reads, http.MethodGet, accountPath(p.population.Customer(p.population.Banks*(n%100))), nil)
		}
	}
	all.Wait()

	return ctx.Err()
}
