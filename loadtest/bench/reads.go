package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// readFloods are what banks read while another bank pays.
const readFloods operation = "payments while others read"

const (
	readQuiet   = "nobody"      // reads
	readAll     = "all at once" // by four banks
	readReturns = 64            // of one payment
	readLines   = 1000          // of one account
	// readPayRate is what the first bank pays a second, and reads ten times less often.
	readPayRate = 100
	// readBeside is what comes from all banks a second meanwhile.
	readBeside = 400
)

// reader is a bank that reads all it may.
type reader struct {
	ispb               string
	account, payment   string // paths
	day                string
	doors              []*callers
	population         sandbox.Population
	bank               int
	requests, refusals *atomic.Int64
}

// floods are what a reader may do, each on so many connections.
var floods = []struct {
	name        string
	connections int
	path        func(reader) string
}{
	{"a payment with 64 returns", 64, func(r reader) string { return r.payment }},
	{"statements of 1,000 lines", 64, func(r reader) string { return r.account + "/statement?limit=1000" }},
	{"statements of days", 4, func(r reader) string { return r.day }},
	{"balances", 64, func(r reader) string {
		return accountPath(r.population.Customer(r.bank + r.population.Banks*rand.IntN(r.population.Customers/r.population.Banks)))
	}},
	{"participants", 64, func(r reader) string { return "/v1/participants/" + r.ispb }},
	{"settlements from the start", 4, func(r reader) string { return "/v1/settlements?from=start&participant=" + r.ispb }},
}

func accountPath(a pix.Account) string {
	return fmt.Sprintf("/v1/accounts/%s/%s/%s", a.ISPB, a.Branch, a.Number)
}

// read sends a flood until ctx ends. What is refused is tried again.
func (r reader) read(ctx context.Context, flood int) {
	var all sync.WaitGroup
	for i := range floods[flood].connections {
		all.Go(func() {
			for ctx.Err() == nil {
				lasts, cancel := context.WithTimeout(ctx, 5*time.Second) // a stream has no end
				answer, err := r.doors[i%len(r.doors)].Send(lasts, http.MethodGet, floods[flood].path(r), r.ispb, nil)
				cancel()
				if r.requests.Add(1); err == nil && answer.Status == http.StatusTooManyRequests {
					r.refusals.Add(1)
				}
			}
		})
	}
	all.Wait()
}

// underReads measures the payments of the first bank, and its reads, at two front doors: while nobody reads, beside
// each flood of the second bank, and beside all floods of four banks.
func (c Config) underReads(ctx context.Context, s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	keys, err := s.Keys()
	if err != nil {
		return nil, err
	}
	second, err := s.AddProducer(ctx)
	if err != nil {
		return nil, err
	}
	var requests, refusals atomic.Int64
	doors := func() []*callers { // of each bank: it waits for no connection of another's
		return []*callers{{load.NewCallers(s.ProducerURL(), keys)}, {load.NewCallers(second, keys)}}
	}
	var readers []reader
	for bank := 1; bank < population.Banks; bank++ {
		reader := reader{ispb: string(population.Bank(bank)), doors: doors(), population: population, bank: bank, requests: &requests, refusals: &refusals}
		if err := reader.prepare(ctx); err != nil {
			return nil, err
		}
		readers = append(readers, reader)
	}
	kafka, err := s.Kafka().Options()
	if err != nil {
		return nil, err
	}
	beside, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := load.Flood{Kind: load.Payments, PerSecond: readBeside, Population: population, Random: rand.New(rand.NewPCG(4, 0))}.Run(beside, kafka)
		ended <- err
	}()
	run := &Run{verdict: "every payment settled"}
	payer, nothing := &payer{doors: doors(), population: population, rate: r.rate}, func(context.Context) {}
	// phase measures slices of time without and with a flood by turns, because the machine changes.
	phase := func(name string, flood func(context.Context)) error {
		requests.Store(0)
		refusals.Store(0)
		quiet, flooded := newPaid(), newPaid()
		slices := max(1, int(c.RateDuration/slice))
		for range slices {
			for _, to := range []struct {
				*paid
				flood func(context.Context)
			}{{quiet, nothing}, {flooded, flood}} {
				flooding, stop := context.WithCancel(ctx)
				var sending sync.WaitGroup
				sending.Go(func() { to.flood(flooding) })
				host.Sleep(ctx, underWay)
				err := payer.pay(ctx, to.paid)
				stop()
				if sending.Wait(); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		lasted := float64(slices) * (slice + underWay).Seconds()
		for figure, value := range map[string]float64{"requests": float64(requests.Load()) / lasted, "refused": float64(refusals.Load()) / lasted, "failed": float64(flooded.failed.Load())} {
			run.set(readFigures, name+", "+figure, value)
		}
		for when, paid := range map[string]*paid{"quiet": quiet, "flooded": flooded} {
			payments, reads := paid.payments.Latency("settled"), paid.reads.Latency("read")
			for figure, value := range map[string]float64{"p50": payments.P50, "p99": payments.P99, "reads p50": reads.P50} {
				run.set(readFigures, name+", "+when+" "+figure, value)
			}
		}
		return nil
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
	for flood, of := range floods {
		if err == nil {
			err = phase(of.name, func(ctx context.Context) { readers[0].read(ctx, flood) })
		}
	}
	if err == nil {
		err = phase(readAll, everything)
	}
	end()
	if err = errors.Join(err, <-ended); err != nil {
		return nil, err
	}
	for name, flood := range map[string]func(context.Context){"nobody": nothing, readAll: everything} {
		flooding, stop := context.WithCancel(ctx)
		var sending sync.WaitGroup
		sending.Go(func() { flood(flooding) })
		settling, err := mix.Parse("settling")
		if err != nil {
			stop()
			return nil, err
		}
		most, err := load.Run(ctx, load.Config{Stream: s.Kafka(), Population: population, Mix: settling, MixName: "settling", Seed: 5,
			Rate: 1e6, WaitForRoom: true, OutstandingMax: c.OutstandingMax, Payments: r.payments, DrainTimeout: reportsMax})
		stop()
		sending.Wait()
		if err == nil && !most.Passed {
			report.WriteLoad(c.Log, most)
			err = errors.New("the run is not valid: " + most.Verdict())
		}
		if err != nil {
			return nil, err
		}
		run.set(readFigures, name+", maximum", max(most.SteadyPerSecond, most.SettledPerSecond))
	}
	run.set(runFigures, "payments", float64(r.payments))
	return run, nil
}

// prepare makes what the reader reads: an account with lines, a payment with returns, a part of a day.
func (r *reader) prepare(ctx context.Context) error {
	random, next := rand.New(rand.NewPCG(uint64(r.bank), 0)), r.population.Bank((r.bank+1)%r.population.Banks)
	payer := r.population.Customer(r.bank)
	payee := r.population.Customer((r.bank + 1) % r.population.Banks)
	account := func(a pix.Account) client.Account {
		return client.Account{ISPB: string(a.ISPB), Branch: a.Branch, Number: a.Number}
	}
	var lines bytes.Buffer
	id := ""
	for range readLines / 2 { // a hold and a posting each
		id = pix.NewEndToEndID(payer.ISPB, time.Now(), random).String()
		if err := json.NewEncoder(&lines).Encode(client.Payment{EndToEndID: id, Payer: account(payer), Payee: account(payee), AmountCentavos: readReturns}); err != nil {
			return err
		}
	}
	if err := r.await(ctx, http.MethodPost, "/v1/payments:batch", r.ispb, lines.Bytes(), `"status":"accepted"`, readLines/2); err != nil {
		return err
	}
	r.payment, r.account = "/v1/payments/"+id, accountPath(payer)
	if err := r.await(ctx, http.MethodGet, r.payment, r.ispb, nil, `"status":"settled"`, 1); err != nil {
		return err
	}
	for range readReturns {
		body := fmt.Sprintf(`{"original_end_to_end_id": %q, "amount_centavos": 1, "reason_code": "MD06"}`, id)
		if err := r.await(ctx, http.MethodPost, "/v1/returns", string(next), []byte(body), `"status":"accepted"`, 1); err != nil {
			return err
		}
	}
	err := r.await(ctx, http.MethodGet, r.payment, r.ispb, nil, fmt.Sprintf(`"returned_centavos":%d,`, readReturns), 1)
	until := time.Now().Add(-time.Second).UTC()
	r.day = fmt.Sprintf("/v1/participants/%s/statements/%v?until=%s", r.ispb, pix.DayOf(until), until.Format(time.RFC3339))
	return err
}

// await makes a request again until the answer holds a text so many times.
func (r *reader) await(ctx context.Context, method, path, ispb string, body []byte, text string, times int) error {
	for until := time.Now().Add(reportsMax); ; time.Sleep(50 * time.Millisecond) {
		answer, err := r.doors[0].Send(ctx, method, path, ispb, body)
		if err != nil || bytes.Count(answer.Body, []byte(text)) == times {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s does not come to hold %s: %.500s", path, text, answer.Body)
		}
	}
}

// slice is how long a flood is measured, and the quiet between two.
const slice = time.Second

// underWay is how long a flood goes on before it is measured: a thousand requests that begin in one instant are
// another question.
const underWay = 250 * time.Millisecond

// paid is what became of payments and reads.
type paid struct {
	payments, reads *load.Recorder
	failed          atomic.Int64
}

func newPaid() *paid { return &paid{payments: load.NewRecorder(), reads: load.NewRecorder()} }

// payer pays as the first bank, by turns at each door, and reads balances.
type payer struct {
	doors      []*callers
	population sandbox.Population
	rate       int
	sent       int
}

// pay lasts for a slice. Latencies count from the instant at which a request is due.
func (p *payer) pay(ctx context.Context, to *paid) error {
	flood, bank := load.Flood{Kind: load.Payments, Population: p.population, Random: rand.New(rand.NewPCG(6, uint64(p.sent)))}, string(p.population.Bank(0))
	var all sync.WaitGroup
	send := func(due time.Time, recorder *load.Recorder, method, path string, body []byte) {
		door := p.doors[p.sent%len(p.doors)]
		all.Go(func() {
			if answer, err := door.Send(ctx, method, path, bank, body, "Prefer", "wait=30"); err != nil || answer.Status != http.StatusOK {
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

// readsTable shows what reads of others do to payments.
func (r *Result) readsTable() report.Table {
	table := report.Table{Title: "Payments of a bank while others read all they may", Head: []string{"what another bank reads", "p50", "times", "p99", "times", "own reads, p50", "times", "failed", "reads/s", "refused/s"},
		Note: fmt.Sprintf("ms, over HTTP at two front doors, from the instant when a payment is due to the answer that it is settled; last four banks read all of it; %d payments/s of all banks beside. times: of the quiet between", readBeside)}
	for _, row := range r.Rows {
		if row.Figures[readFigures] == nil {
			continue
		}
		of := func(name, figure string) float64 { return row.spread(readFigures, name+", "+figure).median }
		names := []string{}
		for _, flood := range floods {
			names = append(names, flood.name)
		}
		for _, name := range append(names, readAll) {
			cells := []string{name}
			for _, figure := range []string{"p50", "p99", "reads p50"} {
				cells = append(cells, ms(of(name, "flooded "+figure)), fmt.Sprintf("%.1f", of(name, "flooded "+figure)/max(1e-9, of(name, "quiet "+figure))))
			}
			table.Add(append(cells, fmt.Sprintf("%.0f", of(name, "failed")), fmt.Sprintf("%.0f", of(name, "requests")), fmt.Sprintf("%.0f", of(name, "refused")))...)
		}
		table.Note += fmt.Sprintf(". The maximum beside all of it: %s/s, %.2f of %s/s", pix.Thousands(int(of(readAll, "maximum"))), of(readAll, "maximum")/max(1, of("nobody", "maximum")), pix.Thousands(int(of("nobody", "maximum"))))
	}
	return table
}
