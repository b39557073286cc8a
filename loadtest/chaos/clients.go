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

// clients are payers who use the front door: they submit until it is acknowledged, and
// keep asking what became of their payment. All they see goes into the history. They ask
// about some payments of the load, too, and compare the answers.
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
	refused   atomic.Int64 // with an answer that no fault explains
	detail    atomic.Pointer[string]
}

const (
	clientsMax         = 2000
	requestTimeout     = 10 * time.Second // longer than the producer's own
	submitFor          = time.Minute
	readsAfterwards    = 3
	clientAnswerMax    = 64 << 10
	clientAmountMax    = 1000 // centavos: the load must not run short for it
	specialClientShare = 20   // of which one pays to a blocked account
	givingBackShare    = 4    // of the payments of clients, of which a part of one is given back

	// Those who ask about any of the chosen payments, under way and finished.
	asksPerSecond = 100
	asksAtOnce    = 16
	askAgain      = 200 * time.Millisecond // after no answer
	followedShare = 10                     // of the chosen payments of clients, of which one is followed by events
	followedMax   = 20                     // at the same time
	streamFor     = time.Minute            // then a stream is opened again
)

func newClients(url string, keys map[string]string, population sandbox.Population, recorder *history.Recorder, answers *answers, o *observer, seed uint64) *clients {
	return &clients{
		url: url, keys: keys, population: population, recorder: recorder, answers: answers, observer: o, seed: seed, random: rand.New(rand.NewPCG(seed, 2)),
		http:    http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}},
		streams: http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// run starts a client at a rate until sending ends. They go on until patience ends.
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
			continue // a sample need not be whole
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
	id    pix.EndToEndID // or a return's
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

// pay submits a payment, or a return, and watches it to its end.
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
		return // its fate stays open, which the history knows
	}
	if payment.payee != "" {
		c.submitted.Add(1)
	}
	for afterwards := 0; afterwards < readsAfterwards && ctx.Err() == nil; {
		pause := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		select {
		case <-ctx.Done():
			return
		case <-reported: // the sharpest moment to ask: the ledger must know already
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

// giveBack has the bank that received a payment give a part of it back, if it has settled,
// and looks what the payment tells of that.
func (c *clients) giveBack(ctx context.Context, payment sample, random *rand.Rand) {
	status, text, err := c.ask(ctx, payment.id, http.MethodGet, statePath(payment.id), nil)
	if err != nil || status != http.StatusOK {
		return // that was read before, and judged
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

// collection is where payments, or returns, are sent to.
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
			c.refuse("%s: POST answered %d: %s", payment.id, status, answer)
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(askAgain):
		}
	}
}

// askAround keeps asking about the chosen payments, also of the load, until the context ends.
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
			default: // the front door is slow now: it is not asked more
			}
		}
	}
}

// confirm asks once more about each chosen payment, and says of how many it was not told.
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

// follow reads the events of a payment until its end, over as many streams as it takes.
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

// stream reads one stream of events; true says that there is no more to read of the payment.
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
			c.refuse("%s: the events answered %d", id, response.StatusCode)
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
			continue // an event that is cut off has no empty line, and is none
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

// read asks what became of a payment, or of a return; false: nobody answered.
func (c *clients) read(ctx context.Context, id pix.EndToEndID) bool {
	from := time.Now()
	status, text, err := c.ask(ctx, id, http.MethodGet, statePath(id), nil)
	if err != nil || status/100 == 5 || status == http.StatusTooManyRequests {
		return false
	}
	seen := answer{Span: history.Span{From: from, To: time.Now()}, Status: history.Unknown}
	if status != http.StatusNotFound {
		if status != http.StatusOK {
			err = errors.New("that is no state")
		} else {
			seen, err = parseAnswer(text, seen.Span)
		}
		if err != nil {
			c.refuse("%s: GET answered %d: %s (%v)", id, status, text, err)
			return true
		}
	}
	c.recorder.Read(id, seen.Span, history.Read{Status: seen.Status, Outcome: seen.Outcome, DecidedAt: seen.DecidedAt, ReturnedCentavos: seen.ReturnedCentavos})
	c.answers.take(id, seen, nil)
	return true
}

// request asks as the payer's bank (of a return: who gives back), or, where that is none of ours, as the central bank.
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
