package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/liquida/liquida/loadtest/history"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// clients are payers who use the front door: they submit until it is acknowledged, and
// keep asking what became of their payment. All they see goes into the history.
type clients struct {
	url        string
	keys       map[string]string // by ISPB
	population sandbox.Population
	recorder   *history.Recorder
	observer   *observer
	random     *rand.Rand
	http       http.Client

	all       sync.WaitGroup
	waiting   atomic.Int64
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
)

func newClients(url string, keys map[string]string, population sandbox.Population, recorder *history.Recorder, o *observer, seed uint64) *clients {
	return &clients{
		url: url, keys: keys, population: population, recorder: recorder, observer: o, random: rand.New(rand.NewPCG(seed, 2)),
		http: http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}},
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
	id   pix.EndToEndID
	body []byte
}

func (c *clients) payment(now time.Time) sample {
	payer := c.population.Customer(c.random.IntN(c.population.Customers))
	payee := c.population.Customer(c.random.IntN(c.population.Customers))
	if c.random.IntN(specialClientShare) == 0 {
		payee = c.population.Special(c.random.IntN(c.population.Banks), sandbox.BlockedBranch)
	}
	type account struct {
		ISPB   string `json:"ispb"`
		Branch string `json:"branch"`
		Number string `json:"number"`
	}
	id := pix.NewEndToEndID(payer.ISPB, now, c.random)
	body, err := json.Marshal(map[string]any{
		"end_to_end_id": id.String(), "amount_centavos": 1 + c.random.IntN(clientAmountMax), "accepted_at": now.UTC().Format(time.RFC3339),
		"payer": account{string(payer.ISPB), payer.Branch, payer.Number}, "payee": account{string(payee.ISPB), payee.Branch, payee.Number},
	})
	if err != nil {
		panic(fmt.Sprintf("cannot encode a payment: %v", err)) // texts and numbers
	}
	return sample{id, body}
}

// pay submits a payment and watches it to its end.
func (c *clients) pay(ctx context.Context, payment sample, random *rand.Rand) {
	reported := c.observer.await(payment.id)
	c.recorder.Submitting(payment.id)
	if !c.submit(ctx, payment) {
		return // its fate stays open, which the history knows
	}
	c.submitted.Add(1)
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
}

func (c *clients) submit(ctx context.Context, payment sample) bool {
	ctx, cancel := context.WithTimeout(ctx, submitFor)
	defer cancel()
	for {
		from := time.Now()
		status, answer, err := c.ask(ctx, payment.id, http.MethodPost, "/v1/payments", payment.body)
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
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *clients) read(ctx context.Context, id pix.EndToEndID) {
	from := time.Now()
	status, answer, err := c.ask(ctx, id, http.MethodGet, "/v1/payments/"+id.String(), nil)
	if err != nil || status/100 == 5 || status == http.StatusTooManyRequests {
		return // nobody answered
	}
	span := history.Span{From: from, To: time.Now()}
	var body struct {
		Status     string    `json:"status"`
		ReasonCode string    `json:"reason_code"`
		DecidedAt  time.Time `json:"decided_at"`
	}
	switch {
	case status == http.StatusNotFound:
		c.recorder.Read(id, span, history.Read{Status: history.Unknown})
	case status != http.StatusOK || json.Unmarshal(answer, &body) != nil:
		c.refuse("%s: GET answered %d: %s", id, status, answer)
	case body.Status == "reserved":
		c.recorder.Read(id, span, history.Read{Status: history.Reserved})
	case body.Status == "settled", body.Status == "rejected":
		outcome := history.Outcome{Settled: body.Status == "settled", Reason: body.ReasonCode}
		c.recorder.Read(id, span, history.Read{Status: history.Ended, Outcome: outcome, DecidedAt: body.DecidedAt})
	default:
		c.refuse("%s: GET answered the status %q", id, body.Status)
	}
}

// ask asks as the payer's bank.
func (c *clients) ask(ctx context.Context, id pix.EndToEndID, method, path string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.keys[string(id.Payer())])
	response, err := c.http.Do(request)
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
