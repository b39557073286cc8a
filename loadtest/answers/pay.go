package answers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

const (
	submitFor          = time.Minute
	readsAfterwards    = 3
	pauseMax           = 5 * time.Second // between two reads of an open payment
	clientAmountMax    = 1000            // centavos; small, so that the load does not run out of money
	specialClientShare = 20              // one in this many pays to a blocked account
	givingBackShare    = 4               // of one in this many payments of clients a part is given back
	batchShare         = 20              // one in this many submissions is a batch
	batchMax           = 20              // payments
	waitingShare       = 4               // one in this many submissions waits for the outcome
	waitMax            = 10              // seconds
	impatientShare     = 8               // one in this many clients gives the first try up soon, and sends again
	impatience         = 50 * time.Millisecond
	repeatingShare     = 8  // one in this many sends the order again after its acknowledgement
	conflictingShare   = 20 // one in this many sends another amount under the same id, too
)

// sample is a payment or return of a client.
type sample struct {
	order
	payee    pix.ISPB // the bank that may give it back; empty: a return
	body     []byte
	wanted   Outcome // of a payment, if there is no fault
	reported <-chan struct{}
	chosen   bool // it is asked about
	accepted bool
	contested,
	denied bool // another amount is sent under its id; the answer was that the id belongs to that one
}

// payment returns a payment of a customer of a bank.
func (c *Clients) payment(bank int, now time.Time) *sample {
	payer, payee, wanted := c.customer(bank), c.customer(c.random.IntN(c.Population.Banks)), Outcome{Settled: true}
	if c.random.IntN(specialClientShare) == 0 {
		payee = c.Population.Special(c.random.IntN(c.Population.Banks), sandbox.BlockedBranch)
		wanted = Outcome{Reason: pix.ReasonPayeeBlocked.String()}
	}

	return c.paymentBetween(payer, payee, wanted, now)
}

// paymentOfGuest returns a payment from or to a guest.
func (c *Clients) paymentOfGuest(now time.Time) *sample {
	payer, payee := c.Guests[c.random.IntN(len(c.Guests))], c.customer(c.random.IntN(c.Population.Banks))
	if c.random.IntN(2) == 0 {
		payer, payee = payee, payer
	}

	return c.paymentBetween(payer, payee, Outcome{Settled: true}, now)
}

func (c *Clients) paymentBetween(payer, payee pix.Account, wanted Outcome, now time.Time) *sample {
	s := &sample{order: order{pix.NewEndToEndID(payer.ISPB, now, c.random), 1 + c.random.Uint64N(clientAmountMax)},
		payee: payee.ISPB, wanted: wanted}
	var err error

	s.body, err = json.Marshal(map[string]any{
		"end_to_end_id": s.id.String(), "amount_centavos": s.centavos, "accepted_at": now.UTC().Format(time.RFC3339),
		"payer": bankAccount{string(payer.ISPB), payer.Branch, payer.Number},
		"payee": bankAccount{string(payee.ISPB), payee.Branch, payee.Number},
	})
	if err != nil {
		panic(fmt.Sprintf("cannot encode a payment: %v", err)) // texts and numbers
	}

	return s
}

// customer returns a customer of a bank: of two, one whose statements are read.
func (c *Clients) customer(bank int) pix.Account {
	banks, last := c.Population.Banks, c.Population.Customers
	if c.random.IntN(2) == 0 {
		last = len(c.accounts)
	}

	if bank >= last {
		return c.Population.Customer(c.random.IntN(last))
	}

	return c.Population.Customer(bank + banks*c.random.IntN((last-bank+banks-1)/banks))
}

// conflicting returns the payment with another amount.
func (s *sample) conflicting() *sample {
	other := *s
	other.centavos++
	other.body = bytes.Replace(s.body, fmt.Appendf(nil, `"amount_centavos":%d,`, s.centavos),
		fmt.Appendf(nil, `"amount_centavos":%d,`, other.centavos), 1)

	return &other
}

// announce tells the judge of a payment or return that is about to be sent.
func (c *Clients) announce(s *sample) {
	s.reported = c.observer.await(s.id)
	c.Judge.keep(s.id)
	c.Judge.sending(s.order)
	s.chosen = s.payee != "" && c.Judge.Choose(s.id)
}

// payAll submits payments, in a batch if there are several, and reads the state of each until its
// end.
func (c *Clients) payAll(ctx context.Context, payments []*sample, random *rand.Rand) {
	for _, s := range payments {
		c.announce(s)
	}

	accepted := make([]bool, len(payments))
	if len(payments) > 1 {
		accepted = c.submitBatch(ctx, payments)
	}
	var all sync.WaitGroup

	for i, s := range payments {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		all.Go(func() {
			defer c.waiting.Add(-1)
			c.pay(ctx, s, accepted[i], own)
		})
	}
	all.Wait()
}

// pay submits a payment or return, unless it was accepted in a batch, and reads its state until
// its end.
func (c *Clients) pay(ctx context.Context, s *sample, accepted bool, random *rand.Rand) {
	following, stop := context.WithCancel(ctx)
	defer stop()

	var followed sync.WaitGroup

	if s.chosen && random.IntN(followedShare) == 0 {
		c.watched.Add(1)
		followed.Go(func() { c.followPayment(following, s.id) })
	}
	var others sync.WaitGroup
	defer others.Wait()

	if s.payee != "" && random.IntN(conflictingShare) == 0 {
		s.contested = true
		other, own := s.conflicting(), rand.New(rand.NewPCG(random.Uint64(), 0))
		c.Judge.sending(other.order)
		others.Go(func() { c.submit(ctx, other, own) })
	}

	if accepted = accepted || c.submit(ctx, s, random); !accepted && !s.denied {
		return // its fate is open
	}

	s.accepted = accepted
	if s.payee != "" && accepted {
		c.submitted.Add(1)
	}

	if random.IntN(repeatingShare) == 0 {
		c.submit(ctx, s, random)
	}
	c.accompany(ctx, s, random)
	followed.Wait()

	if s.payee != "" && random.IntN(givingBackShare) == 0 {
		c.giveBack(ctx, s, random)
	}
}

// accompany reads the state of a payment or return until its end, and a few times after it.
func (c *Clients) accompany(ctx context.Context, s *sample, random *rand.Rand) {
	longest := 300 * time.Millisecond
	for afterwards := 0; afterwards < readsAfterwards && ctx.Err() == nil; {
		pause := time.Duration(random.Int64N(int64(longest)))
		select {
		case <-ctx.Done():
			return
		case <-s.reported: // the hardest moment: the ledger must know the verdict by now
			if afterwards++; afterwards == 1 {
				longest = 300 * time.Millisecond
			}
			c.read(ctx, s.id)
			time.Sleep(pause)
		case <-time.After(pause):
			c.read(ctx, s.id)
			longest = min(longest*5/4, pauseMax)
		}
	}
}

// giveBack lets the receiving bank give back a part of a settled payment, and then reads the
// payment.
func (c *Clients) giveBack(ctx context.Context, s *sample, random *rand.Rand) {
	status, text, _, err := c.ask(ctx, call{holder: string(s.id.Payer()), path: statePath(s.id)})
	if err != nil || status != http.StatusOK {
		return // it was read before, and judged
	}

	paid, err := parseAnswer(text, Span{})
	if err != nil || !paid.Settled {
		return
	}
	now := time.Now()
	id := pix.NewReturnID(s.payee, now, random)
	back := &sample{order: order{pix.EndToEndID(id), 1 + random.Uint64N(paid.AmountCentavos)}}
	back.body = fmt.Appendf(nil,
		`{"return_id": %q, "original_end_to_end_id": %q, "amount_centavos": %d, "reason_code": "MD06", "accepted_at": %q}`,
		id, s.id, back.centavos, now.UTC().Format(time.RFC3339))
	c.announce(back)
	c.pay(ctx, back, false, random)
	c.read(ctx, s.id)
}

// collection is the path to which payments or returns are posted.
func collection(id pix.EndToEndID) string {
	if id[0] == 'D' {
		return "/v1/returns"
	}

	return "/v1/payments"
}

func statePath(id pix.EndToEndID) string { return collection(id) + "/" + id.String() }

// submit sends a payment or return until it is accepted, each time the same.
func (c *Clients) submit(ctx context.Context, s *sample, random *rand.Rand) bool {
	ctx, cancel := context.WithTimeout(ctx, submitFor)
	defer cancel()

	post := call{holder: string(s.id.Payer()), method: http.MethodPost, path: collection(s.id), body: s.body}
	if random.IntN(waitingShare) == 0 {
		post.header = map[string]string{"Prefer": fmt.Sprintf("wait=%d", 1+random.IntN(waitMax))}
	}

	patience := requestTimeout + waitMax*time.Second
	if random.IntN(impatientShare) == 0 {
		patience = time.Duration(random.Int64N(int64(impatience)))
	}

	for {
		trying, stop := context.WithTimeout(ctx, patience)
		status, text, span, err := c.ask(trying, post)
		stop()

		switch {
		case err == nil && status/100 == 2:
			c.Judge.learn(s.order, fate{accepted: true})

			if status == http.StatusOK {
				if told, err := parseAnswer(text, span); err == nil && told.AmountCentavos > 0 &&
					told.AmountCentavos != s.centavos {
					c.refuse("%s: POST of %d centavos: the outcome is of other content: %s", s.id, s.centavos, text)
				}
				c.see(s.id, status, text, span)
			}

			return true
		case s.contested && status == http.StatusConflict && bytes.Contains(text, []byte(`"DUPL"`)):
			s.denied = true
			// else it was sent, and the ledger may not have it
			c.Judge.learn(s.order, fate{denied: bytes.Contains(text, []byte(`:other-content"`))})

			return false
		case clockBehind(status, text):
			c.refuseInCalm("%s: POST: %d: %s", s.id, status, text)
		case !unavailable(status, err):
			c.refuse("%s: POST: %d: %s", s.id, status, text)
			return false
		}

		if !again(ctx) {
			return false
		}
		patience = requestTimeout + waitMax*time.Second
	}
}

// clockBehind reports whether a producer refuses an order of now as one of the future: its clock was
// set back since it last compared it with the ledger's.
func clockBehind(status int, text []byte) bool {
	return status == http.StatusUnprocessableEntity && bytes.Contains(text, []byte(`"accepted_at"`))
}

// submitBatch sends payments in one request. It returns which of them were accepted; the others
// are to be sent again.
func (c *Clients) submitBatch(ctx context.Context, payments []*sample) []bool {
	accepted := make([]bool, len(payments))
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	var body bytes.Buffer
	for _, s := range payments {
		body.Write(s.body)
		body.WriteByte('\n')
	}

	status, text, _, err := c.ask(ctx,
		call{holder: string(payments[0].id.Payer()), method: http.MethodPost, path: "/v1/payments:batch",
			body: body.Bytes()})
	if status == http.StatusOK {
		c.readBatch(text, err == nil, accepted)
	} else if !unavailable(status, err) {
		c.refuse("a batch: %d: %s", status, text)
	}

	for i, s := range payments {
		if accepted[i] {
			c.Judge.learn(s.order, fate{accepted: true})
		}
	}

	return accepted
}

// readBatch reads the response to a batch, which has a line for each payment, in their order. It
// notes which were accepted. Only a response that was cut off, or that says it was, may have fewer lines.
func (c *Clients) readBatch(text []byte, whole bool, accepted []bool) {
	lines, last := 0, []byte(nil)

	for line := range bytes.Lines(text) {
		var result struct {
			Line    int
			Status  string
			Problem *struct {
				Status int
				Field  string
			}
		}

		err := json.Unmarshal(line, &result)
		if !whole && !bytes.HasSuffix(line, []byte("\n")) {
			break
		}

		if lines++; err != nil || result.Line != lines || lines > len(accepted) {
			c.refuse("line %d of the response to a batch of %d: %s (%v)", lines, len(accepted), line, err)
			return
		}
		last = line

		p := result.Problem
		switch {
		case p == nil && result.Status == "accepted":
			accepted[lines-1] = true
		case p == nil || !unavailable(p.Status, nil) && p.Field != "accepted_at":
			c.refuse("line %d of the response to a batch: %s", lines, line)
		default:
			c.refuseInCalm("line %d of the response to a batch: %s", lines, line)
		}
	}

	if whole && lines < len(accepted) && !bytes.Contains(last, []byte(`:interrupted"`)) {
		c.refuse("the response to a batch of %d payments is complete and has %d lines; the last: %.300s", len(accepted),
			lines, last)
	}
}
