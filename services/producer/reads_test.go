package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/query"
)

// slowLedger is the real ledger, but each look-up of accounts waits for a permit.
type slowLedger struct {
	tigerbeetle.Client
	permits chan struct{}
	asked   *atomic.Int64
}

func (s slowLedger) LookupAccounts(ids []tb.Uint128) ([]tb.Account, error) {
	s.asked.Add(1)
	<-s.permits
	return s.Client.LookupAccounts(ids)
}

func ctxOf(t *testing.T, bank pix.ISPB) context.Context {
	request := access.With(httptest.NewRequestWithContext(t.Context(), "GET", "/", nil),
		access.Caller{Holder: string(bank)})
	return request.Context()
}

// While payments wait, a bank that reads much is refused after it has taken its part. Another bank reads at once,
// and what paying needs has no part in it: not even that of the bank that reads much.
func TestReadsHaveAShareAndPayingHasNone(t *testing.T) {
	t.Parallel()
	_, client := sharedLedger(t)
	much, little := ownBanks(), ownBanks()
	openBooks(t, client, much)
	openBooks(t, client, little)
	var wait atomic.Bool
	wait.Store(true)
	l, health, _ := queryLedger(t.Context(), t, client, func(c *query.Config) {
		// what is taken comes back after hours
		c.Reads = ledger.ReadsConfig{ReadShare: ledger.ReadShare{Share: 0.0001, Readers: 100}, WaitMax: 2 * time.Second}
		c.Timeout = kit.Patience
	}, wait.Load)
	read := func(of pix.Content) *web.Problem {
		_, problem := l.FindAccounts(ctxOf(t, of.Payer.ISPB), ledger.ReserveAccount(of.Payer.ISPB))
		return problem
	}

	reads := 0
	for until := time.Now().Add(kit.Patience); ; reads++ {
		problem := read(much)
		if problem != nil {
			if problem.Status != http.StatusTooManyRequests || problem.Type != web.Kind("busy") ||
				problem.RetryAfter < time.Second {
				t.Fatalf("after %d reads: %+v", reads, problem)
			}

			break
		}

		if time.Now().After(until) {
			t.Fatalf("%d reads are not refused", reads)
		}
	}

	if reads == 0 {
		t.Error("a bank that has read nothing is refused")
	}

	if problem := read(little); problem != nil {
		t.Errorf("another bank: %+v", problem)
	}
	// from the beginning: a bank that starts takes nothing in before it has them
	acts := func() *web.Problem {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/acts", nil)
		_, problem := l.Acts(access.With(r, access.Caller{Holder: string(much.Payer.ISPB)}))
		return problem
	}
	ctx, pools := ctxOf(t, much.Payer.ISPB), web.NewPools(web.PoolsConfig{ShareMax: 1}, prometheus.NewRegistry())
	id := pix.NewEndToEndID(much.Payer.ISPB, time.Now(), random)

	for what, ask := range map[string]func() *web.Problem{
		"the content of a payment": func() *web.Problem {
			_, problem := l.KnowsPayments(ctx, pools.Pool("payments", "", 1), []query.Order{{ID: id}})
			return problem
		},
		"the original of a return": func() *web.Problem {
			_, _, problem := l.KnowsReturn(ctx, pix.NewReturnID(much.Payee.ISPB, time.Now(), random),
				pix.ReturnContent{Original: id})
			return problem
		},
		"an act": func() *web.Problem {
			_, problem := l.HasJoined(query.Paying(ctx), much.Payer.ISPB)
			return problem
		},
		"the acts so far": acts,
		"an outcome": func() *web.Problem {
			_, problem := l.PaymentWithReturns(query.Paying(ctx), id)
			return problem
		},
	} {
		if problem := ask(); problem != nil {
			t.Errorf("%s: %+v", what, problem)
		}
	}
	kit.Await(t, "the end of the pages of acts that are no reads", func() (bool, string) {
		problem := acts()
		return problem != nil && problem.Type == web.Kind("busy"), fmt.Sprintf("%+v", problem)
	})
	refusals := counted(t, health.Registry, "pix_ledger_reads_refused_total")
	wait.Store(false) // a quiet system gives a reader all of it

	for range 2 * reads {
		if problem := read(much); problem != nil {
			t.Fatalf("while no payment waits: %+v", problem)
		}
	}

	if refused := counted(t, health.Registry, "pix_ledger_reads_refused_total"); refused != refusals || refused < 2 {
		t.Errorf("%v refusals are counted, %v before", refused, refusals)
	}
}

// A bank that has used up its part of the reads, even by requests that are wrong, still follows its acts, and is still
// asked: who pays it waits for both. Another bank, and strangers, have parts of their own.
func TestABankWithoutAPartOfTheReadsIsPaid(t *testing.T) {
	t.Parallel()
	b, r := startBroker(t), makeRing(t)
	order := &kgo.Record{Topic: stream.Payments, Value: []byte("an order that no engine takes")}
	kit.Must(t, b.Client().ProduceSync(t.Context(), order).FirstErr())
	p := startProgram(t, b, aLedger(t), "HTTP_KEYS_FILE="+r.digests, "LEDGER_READ_SHARE=0.0001", "LEDGER_READERS=100",
		"LEDGER_READ_WAIT_MAX=100ms")
	p.asIs = true
	p.AwaitNeed("kafka", false)
	kit.Await(t, "the order", func() (bool, string) {
		return strings.Contains(p.metrics(), "\npix_payments_wait 1\n"), ""
	})
	get := func(key, path string) int {
		return p.ofBank(t.Context(), key, "GET", path, http.NoBody).StatusCode //nolint:bodyclose // ofBank closes it
	}
	one, other := r.of(t, "10000001"), r.of(t, "10000002")

	for _, key := range []string{one, "unknown"} {
		kit.Await(t, "the end of the part", func() (bool, string) {
			status := get(key, "/v1/payments/none")
			return status == http.StatusTooManyRequests, fmt.Sprint(status)
		})
	}

	for _, test := range []struct {
		key, path string
		status    int
	}{
		{one, "/v1/participants/10000001/acts", http.StatusOK},
		{one, "/v1/participants/10000001/questions", http.StatusOK},
		{one, "/v1/participants/10000001/acts?wrong=1", http.StatusTooManyRequests},
		{"unknown", "/v1/participants/10000001/acts", http.StatusTooManyRequests},
		{other, "/v1/payments/none", http.StatusUnprocessableEntity},
	} {
		if status := get(test.key, test.path); status != test.status {
			t.Errorf("%s: %d, want %d", test.path, status, test.status)
		}
	}
}

// Questions of many that come while a look-up is under way share the next one: none is answered by one that was
// sent before it was asked, which could not show what its caller had written before.
func TestReadsShareALookUpThatIsNotSent(t *testing.T) {
	t.Parallel()
	_, client := sharedLedger(t)
	slow := slowLedger{client, make(chan struct{}), new(atomic.Int64)}
	l, health, _ := queryLedger(t.Context(), t, slow, func(c *query.Config) {
		c.Reads.WaitMax, c.Timeout = kit.Patience, kit.Patience
	})
	content := ownBanks()
	account := ledger.ReserveAccount(content.Payer.ISPB)
	var asks sync.WaitGroup
	var found atomic.Int64
	ask := func(bank int) {
		asks.Go(func() {
			accounts, problem := l.FindAccounts(ctxOf(t, pix.ISPB(fmt.Sprint(20000000+bank))), account)
			if problem != nil {
				t.Errorf("%+v", problem)
			}
			found.Add(int64(len(accounts)))
		})
	}
	ask(0)
	kit.Await(t, "the first look-up", func() (bool, string) { return slow.asked.Load() == 1, "" })
	openBooks(t, client, content) // it may not be seen by the first one, and must be by the others

	const others = 50
	for bank := range others {
		ask(1 + bank)
	}
	kit.Await(t, "the questions", func() (bool, string) {
		waiting := counted(t, health.Registry, "pix_ledger_reads_waiting")
		return waiting == others, fmt.Sprint(waiting)
	})
	slow.permits <- struct{}{}
	slow.permits <- struct{}{}
	asks.Wait()

	if n := slow.asked.Load(); n != 2 || found.Load() < others {
		t.Errorf("%d look-ups for %d questions, %d of which found the account", n, 1+others, found.Load())
	}
}

// A page of a statement is read in several requests, and is what one would find.
func TestAPageOfManyLinesIsWhole(t *testing.T) {
	t.Parallel()
	_, client := sharedLedger(t)
	content := ownBanks()
	openBooks(t, client, content)
	const lines = 2*ledger.ReadObjects + 1

	deposits := make([]tb.Transfer, lines)
	for i := range deposits {
		deposits[i] = tb.Transfer{ID: tb.ID(), DebitAccountID: ledger.IssuanceAccount,
			CreditAccountID: ledger.CustomerAccount(content.Payee),
			Amount:          tb.ToUint128(uint64(i + 1)), Ledger: ledger.Ledger, Code: ledger.CodeFunding}
	}
	write(t, client, deposits)
	l, _, _ := queryLedger(t.Context(), t, client, func(c *query.Config) { c.Timeout = kit.Patience })

	for _, limit := range []int{1, ledger.ReadObjects - 1, ledger.ReadObjects, ledger.ReadObjects + 1, lines - 1,
		lines, 1000} {
		next, cursor := lines, ""
		for {
			request := httptest.NewRequestWithContext(ctxOf(t, content.Payee.ISPB), "GET",
				fmt.Sprintf("/?limit=%d%s", limit, cursor), nil)
			for name, value := range map[string]string{"ispb": string(content.Payee.ISPB),
				"branch": content.Payee.Branch, "number": content.Payee.Number} {
				request.SetPathValue(name, value)
			}

			page, problem := l.Statement(request)
			if problem != nil || len(page.Lines) != min(limit, next) {
				t.Fatalf("limit %d: %+v, %d lines, want %d", limit, problem, len(page.Lines), min(limit, next))
			}

			for _, line := range page.Lines {
				if line.AmountCentavos != int64(next) {
					t.Fatalf("limit %d: line %d has %d centavos", limit, next, line.AmountCentavos)
				}
				next--
			}

			if next == 0 || limit == 1 {
				if limit > 1 && page.NextCursor != "" {
					t.Errorf("limit %d: the last page has a cursor", limit)
				}

				break
			}
			cursor = "&cursor=" + page.NextCursor
		}
	}
}
