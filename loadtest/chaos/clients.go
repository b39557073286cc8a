package chaos

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/loadtest/history"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// clients pay over HTTP: they submit each payment until it is acknowledged, then read its
// state until it has ended. All they see goes into the history. They also read the states of
// some payments of the load and compare the answers.
type clients struct {
	url        string
	keys       map[string]string // by ISPB
	population sandbox.Population
	recorder   *history.Recorder
	answers    *answers
	observer   *observer
	seed       uint64
	random     *rand.Rand
	http       http.Client
	streams    http.Client

	all       sync.WaitGroup
	waiting   atomic.Int64
	following atomic.Int64
	submitted atomic.Int64
	refused   atomic.Int64 // answers that no fault explains
	detail    atomic.Pointer[string]
}

const (
	clientsMax         = 2000
	requestTimeout     = 10 * time.Second // longer than the producer's timeouts
	submitFor          = time.Minute
	readsAfterwards    = 3
	clientAnswerMax    = 64 << 10
	clientAmountMax    = 1000 // centavos; small, so that the load does not run out of money
	specialClientShare = 20   // one in this many pays to a blocked account
	givingBackShare    = 4    // of one in this many payments of clients a part is given back

	// Reads of chosen payments, open and ended.
	asksPerSecond = 100
	asksAtOnce    = 16
	askAgain      = 200 * time.Millisecond // after no answer
	followedShare = 10                     // one in this many chosen payments of clients is followed by events
	followedMax   = 20                     // at the same time
	streamFor     = time.Minute            // then the stream is opened again
)

func newClients(url string, keys map[string]string, population sandbox.Population, recorder *history.Recorder, answers *answers, o *observer, seed uint64) *clients {
	return &clients{
		url: url, keys: keys, population: population, recorder: recorder, answers: answers, observer: o, seed: seed, random: rand.New(rand.NewPCG(seed, 2)),
		http:    http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}},
		streams: http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// run starts clients at a rate until sending ends. The clients go on until patience ends.
func (c *clients) run(sending, patience context.Context, rate float64) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for {
		select {
		case <-sending.Done():
			return
		case <-tick.C:
		}
		if c.waiting.Load() >= clientsMax {
			continue // enough payments wait: the clients are only a sample
		}
		payment := c.payment(time.Now())
		random := rand.New(rand.NewPCG(c.random.Uint64(), 0))
		c.waiting.Add(1)
		c.all.Go(func() {
			defer c.waiting.Add(-1)
			c.pay(patience, payment, random)
		})
	}
}

// sample is a payment of a client.
type sample struct {
	id    pix.EndToEndID // or of a return
	payee pix.ISPB       // the bank that may give it back
	body  []byte
}

func (c *clients) payment(now time.Time) sample {
	payer := c.population.Customer(c.random.IntN(c.population.Customers))
	payee := c.population.Customer(c.random.IntN(c.population.Customers))
	if c.random.IntN(specialClientShare) == 0 {
		payee = c.population.Special(c.random.IntN(c.population.Banks), sandbox.BlockedBranch)
	}
	id := pix.NewEndToEndID(payer.ISPB, now, c.random)
	body, err := json.Marshal(map[string]any{
		"end_to_end_id": id.String(), "amount_centavos": 1 + c.random.IntN(clientAmountMax), "accepted_at": now.UTC().Format(time.RFC3339),
		"payer": bankAccount{string(payer.ISPB), payer.Branch, payer.Number}, "payee": bankAccount{string(payee.ISPB), payee.Branch, payee.Number},
	})
	if err != nil {
		panic(fmt.Sprintf("cannot encode a payment: %v", err)) // texts and numbers
	}
	return sample{id, payee.ISPB, body}
}

// pay submits a payment or return and reads its state until its end.
func (c *clients) pay(ctx context.Context, payment sample, random *rand.Rand) {
	reported := c.observer.await(payment.id)
	c.recorder.Submitting(payment.id)
	following, stop := context.WithCancel(ctx)
	defer stop()
	var followed sync.WaitGroup
	if payment.payee != "" && c.answers.choose(payment.id) && random.IntN(followedShare) == 0 {
		followed.Go(func() { c.follow(following, payment.id) })
	}
	if !c.submit(ctx, payment) {
		return // its fate is open; the history knows that
	}
	if payment.payee != "" {
		c.submitted.Add(1)
	}
	for afterwards := 0; afterwards < readsAfterwards && ctx.Err() == nil; {
		pause := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		select {
		case <-ctx.Done():
			return
		case <-reported: // the hardest moment: the ledger must know the verdict by now
			afterwards++
			c.read(ctx, payment.id)
			time.Sleep(pause)
		case <-time.After(pause):
			c.read(ctx, payment.id)
		}
	}
	followed.Wait()
	if payment.payee != "" && random.IntN(givingBackShare) == 0 {
		c.giveBack(ctx, payment, random)
	}
}

// giveBack lets the receiving bank give back a part of a settled payment, and then reads the
// payment.
func (c *clients) giveBack(ctx context.Context, payment sample, random *rand.Rand) {
	status, text, err := c.ask(ctx, payment.id, http.MethodGet, statePath(payment.id), nil)
	if err != nil || status != http.StatusOK {
		return // it was read before, and judged
	}
	paid, err := parseAnswer(text, history.Span{})
	if err != nil || !paid.Settled {
		return
	}
	now := time.Now()
	back := pix.NewReturnID(payment.payee, now, random)
	c.pay(ctx, sample{id: pix.EndToEndID(back), body: fmt.Appendf(nil, `{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": %d, "reason_code": "MD06", "accepted_at": %q}`,
		back, payment.id, 1+random.Uint64N(paid.AmountCentavos), now.UTC().Format(time.RFC3339))}, random)
	c.read(ctx, payment.id)
}

// collection is the path to which payments or returns are posted.
func collection(id pix.EndToEndID) string {
	if id[0] == 'D' {
		return "/v1/returns"
	}
	return "/v1/payments"
}

func statePath(id pix.EndToEndID) string { return collection(id) + "/" + id.String() }

func (c *clients) submit(ctx context.Context, payment sample) bool {
	ctx, cancel := context.WithTimeout(ctx, submitFor)
	defer cancel()
	for {
		from := time.Now()
		status, answer, err := c.ask(ctx, payment.id, http.MethodPost, collection(payment.id), payment.body)
		acknowledged := err == nil && status == http.StatusAccepted
		c.recorder.Submitted(payment.id, history.Span{From: from, To: time.Now()}, acknowledged)
		if acknowledged {
			return true
		}
		if err == nil && status/100 == 4 && status != http.StatusTooManyRequests {
			c.refuse("%s: POST: %d: %s", payment.id, status, answer)
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askAgain):
		}
	}
}

// askAround reads chosen payments, also those of the load, until the context ends.
func (c *clients) askAround(ctx context.Context) {
	random := rand.New(rand.NewPCG(c.seed, 3))
	room := make(chan struct{}, asksAtOnce)
	tick := time.NewTicker(time.Second / asksPerSecond)
	defer tick.Stop()
	var asks sync.WaitGroup
	defer asks.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if id, found := c.answers.pick(random); found {
			select {
			case room <- struct{}{}:
				asks.Go(func() { defer func() { <-room }(); c.read(ctx, id) })
			default: // the API is slow now: ask no more
			}
		}
	}
}

// confirm reads each chosen payment once more. It returns for how many there was no answer.
func (c *clients) confirm(ctx context.Context) (untold int64) {
	var without atomic.Int64
	var asks sync.WaitGroup
	room := make(chan struct{}, asksAtOnce)
	for _, id := range c.answers.chosen() {
		room <- struct{}{}
		asks.Go(func() {
			defer func() { <-room }()
			for !c.read(ctx, id) {
				select {
				case <-ctx.Done():
					without.Add(1)
					return
				case <-time.After(askAgain):
				}
			}
		})
	}
	asks.Wait()
	return without.Load()
}

// follow reads the events of a payment until its end, on as many streams as that takes.
func (c *clients) follow(ctx context.Context, id pix.EndToEndID) {
	defer c.following.Add(-1)
	if c.following.Add(1) > followedMax {
		return
	}
	for !c.stream(ctx, id) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(askAgain):
		}
	}
}

// stream reads one stream of events. It reports whether the payment has ended.
func (c *clients) stream(ctx context.Context, id pix.EndToEndID) bool {
	ctx, cancel := context.WithTimeout(ctx, streamFor)
	defer cancel()
	from := time.Now()
	response, err := c.request(ctx, &c.streams, id, http.MethodGet, "/v1/payments/"+id.String()+"/events", nil)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		explained := response.StatusCode/100 == 5 || response.StatusCode == http.StatusTooManyRequests
		if !explained {
			c.refuse("%s: GET events: %d", id, response.StatusCode)
		}
		return !explained
	}
	var before *answer
	data := ""
	lines := bufio.NewScanner(io.LimitReader(response.Body, clientAnswerMax))
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "data: "); found {
			data = text
		}
		if lines.Text() != "" || data == "" {
			continue // an empty line ends an event
		}
		now, err := parseAnswer([]byte(data), history.Span{From: from, To: time.Now()})
		if err != nil {
			c.refuse("%s: the event %q: %v", id, data, err)
			return true
		}
		now.event = true
		c.answers.take(id, now, before)
		if now.Status == history.Ended {
			return true
		}
		before, data = &now, ""
	}
	return false
}

// read reads the state of a payment or return. It reports whether there was an answer.
func (c *clients) read(ctx context.Context, id pix.EndToEndID) bool {
	from := time.Now()
	status, text, err := c.ask(ctx, id, http.MethodGet, statePath(id), nil)
	if err != nil || status/100 == 5 || status == http.StatusTooManyRequests {
		return false
	}
	seen := answer{Span: history.Span{From: from, To: time.Now()}, Status: history.Unknown}
	if status != http.StatusNotFound {
		if status != http.StatusOK {
			err = errors.New("it is not a state")
		} else {
			seen, err = parseAnswer(text, seen.Span)
		}
		if err != nil {
			c.refuse("%s: GET: %d: %s (%v)", id, status, text, err)
			return true
		}
	}
	c.recorder.Read(id, seen.Span, history.Read{Status: seen.Status, Outcome: seen.Outcome, DecidedAt: seen.DecidedAt, ReturnedCentavos: seen.ReturnedCentavos})
	c.answers.take(id, seen, nil)
	return true
}

// request asks as the payer's bank (for a return: the bank that gives back). If the id names no
// bank of the population, it asks as the central bank.
func (c *clients) request(ctx context.Context, client *http.Client, id pix.EndToEndID, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+cmp.Or(c.keys[string(id.Payer())], c.keys[keys.CentralBank]))
	return client.Do(request)
}

func (c *clients) ask(ctx context.Context, id pix.EndToEndID, method, path string, body []byte) (status int, answer []byte, err error) {
	response, err := c.request(ctx, &c.http, id, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, clientAnswerMax))
	return response.StatusCode, answer, err
}

func (c *clients) refuse(format string, arguments ...any) {
	c.refused.Add(1)
	detail := fmt.Sprintf(format, arguments...)
	c.detail.CompareAndSwap(nil, &detail)
}
