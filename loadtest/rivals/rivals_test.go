package rivals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/deploy/postgres"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

// poor is a population where funds and reserves are often short.
var poor = sandbox.Population{Banks: 2, Customers: 8, DepositCentavos: 1000, ReserveCentavos: 2500}

// startPostgreSQL runs a real server, or skips the test if there is none.
func startPostgreSQL(t *testing.T, population sandbox.Population) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // as root, the server runs as another user
		t.Fatal(err)
	}
	server, err := postgres.Start(t.Context(), filepath.Join(dir, "postgres"), nil)
	if errors.Is(err, postgres.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := CreatePostgreSQL(t.Context(), server.URL, population); err != nil {
		t.Fatal(err)
	}
	return server.URL
}

func openPostgreSQL(t *testing.T, url string, connections int, early bool) *PostgreSQL {
	t.Helper()
	store, err := OpenPostgreSQL(t.Context(), url, connections, early)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func startTigerBeetle(t *testing.T, population sandbox.Population) *TigerBeetle {
	t.Helper()
	server, err := ledgertest.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	store, err := CreateTigerBeetle(server.Config, population)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// checkAtEnd must run after all stores are closed.
func checkAtEnd(t *testing.T, url string, population sandbox.Population, payments int) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(t.Context()))
	if err := checkPostgreSQL(t.Context(), db, Opening(population), payments); err != nil {
		t.Error(err)
	}
}

var random = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) //nolint:gosec // ids of tests

func newPayment(population sandbox.Population, payer, payee int, centavos uint64) Payment {
	content := pix.Content{Payer: population.Customer(payer), Payee: population.Customer(payee), AmountCentavos: centavos}
	return Payment{ID: pix.NewEndToEndID(content.Payer.ISPB, time.Now(), random), Content: content}
}

// TestResults states the result of each request, and the balances after it, and then gives random
// requests to the same servers: the start of one costs seconds of CPU.
func TestResults(t *testing.T) {
	url := startPostgreSQL(t, poor)
	early := startPostgreSQL(t, poor)
	beetle := startTigerBeetle(t, poor)
	for name, store := range map[string]Ledger{
		"PostgreSQL":                openPostgreSQL(t, url, 2, false),
		"PostgreSQL, early release": openPostgreSQL(t, early, 2, true),
		"TigerBeetle":               beetle,
	} {
		t.Run(name, func(t *testing.T) { checkResults(t, store) })
	}
	t.Run("the same books", func(t *testing.T) { checkSameBooks(t, openPostgreSQL(t, url, 1, false), beetle) })
}

// checkResults gives back all that it moves.
// Customers 0, 2, 4, 6 are at one bank, 1, 3, 5, 7 at the other; each owns 1000, each bank 2500.
func checkResults(t *testing.T, store Ledger) {
	opening := Opening(poor)
	hold := func(want []PaymentResult, payments ...Payment) {
		t.Helper()
		got, err := store.Hold(t.Context(), payments)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Hold returned %v, %v; want %v", got, err, want)
		}
	}
	resolve := func(want []PaymentResult, decisions ...Decision) {
		t.Helper()
		got, err := store.Resolve(t.Context(), decisions)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Resolve returned %v, %v; want %v", got, err, want)
		}
	}
	balances := func(want Books) {
		t.Helper()
		got, err := store.Balances(t.Context())
		if err = errors.Join(err, got.Check(opening)); err != nil {
			t.Error(err)
		}
		if err := got.Differ(want); want != nil && err != nil {
			t.Error(err)
		}
	}

	// One payer, three payments in one batch: the second does not fit behind the first, the third does.
	first, second, third := newPayment(poor, 0, 1, 600), newPayment(poor, 0, 1, 600), newPayment(poor, 0, 2, 400)
	short := PaymentResult{Outcome: Refused, Reason: pix.ReasonPayerShort}
	hold([]PaymentResult{{Outcome: Held}, short, {Outcome: Held}}, first, second, third)
	balances(nil)

	// Again: the same results, nothing written. With other content: a conflict.
	shortAgain := short
	shortAgain.Again = true
	more, elsewhere := first, first
	more.AmountCentavos++
	elsewhere.Payee = poor.Customer(3)
	hold([]PaymentResult{{Outcome: Held, Again: true}, shortAgain, {Outcome: Conflict, Again: true}, {Outcome: Conflict, Again: true}}, first, second, more, elsewhere)

	// A void returns what was held; a post moves it; the first verdict stands.
	blocked := Decision{third, false, pix.ReasonPayeeBlocked}
	resolve([]PaymentResult{{Outcome: Posted}, {Outcome: Voided, Reason: pix.ReasonPayeeBlocked}}, Decision{Payment: first, Accept: true}, blocked)
	after := Opening(poor)
	after.Settle(first.Content)
	balances(after)
	resolve([]PaymentResult{{Outcome: Posted, Again: true}, {Outcome: Voided, Reason: pix.ReasonPayeeBlocked, Again: true}, shortAgain},
		Decision{first, false, pix.ReasonPayeePSPSilent}, Decision{Payment: third, Accept: true}, Decision{Payment: second, Accept: true})
	hold([]PaymentResult{{Outcome: Posted, Again: true}}, first)
	balances(after)

	// Twice in one batch; within one bank; a reserve that is short although no payer is; nobody there.
	twice := newPayment(poor, 2, 4, 10)
	hold([]PaymentResult{{Outcome: Held}, {Outcome: Held, Again: true}}, twice, twice)
	resolve([]PaymentResult{{Outcome: Posted}, {Outcome: Posted, Again: true}}, Decision{Payment: twice, Accept: true}, Decision{Payment: twice, Accept: true})
	after.Settle(twice.Content)
	balances(after)
	all, last := []Payment{newPayment(poor, 2, 1, 900), newPayment(poor, 4, 1, 900)}, newPayment(poor, 6, 1, 900)
	hold([]PaymentResult{{Outcome: Held}, {Outcome: Held}, {Outcome: Refused, Reason: pix.ReasonReserveShort}}, all[0], all[1], last)
	missing := newPayment(poor, 1, 2, 5)
	missing.Payee.Number = "77"
	nobody := newPayment(poor, 1, 2, 5)
	nobody.Payer.Number = "77"
	hold([]PaymentResult{{Outcome: Refused, Reason: pix.ReasonPayeeMissing}, {Outcome: Refused, Reason: pix.ReasonPayerMissing}}, missing, nobody)
	balances(nil)

	// Everything given back: each owns what it owned.
	closed := PaymentResult{Outcome: Voided, Reason: pix.ReasonPayeeClosed}
	resolve([]PaymentResult{closed, closed}, Decision{all[0], false, pix.ReasonPayeeClosed}, Decision{all[1], false, pix.ReasonPayeeClosed})
	balances(after)
	for _, back := range []Payment{newPayment(poor, 1, 0, 600), newPayment(poor, 4, 2, 10)} {
		hold([]PaymentResult{{Outcome: Held}}, back)
		resolve([]PaymentResult{{Outcome: Posted}}, Decision{Payment: back, Accept: true})
		after.Settle(back.Content)
	}
	balances(after)
	for id, balance := range opening {
		if after[id].posted() != balance.posted() {
			t.Errorf("%v owns %d, and owned %d", id, after[id].posted(), balance.posted())
		}
	}
}

// checkSameBooks gives both ledgers the same random requests and wants the same results and
// the same balances, after each.
func checkSameBooks(t *testing.T, elephant *PostgreSQL, beetle *TigerBeetle) {
	var seen []Payment
	outcomes := map[Outcome]int{}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(t, name) }
		recent := func(name string) Payment { return seen[max(0, len(seen)-1-pick(name, 40))] }
		var batch, fresh []Payment
		for range 1 + pick("size", 12) {
			switch kind := pick("kind", 8); {
			case kind == 0 && len(seen) > 0: // again
				batch = append(batch, recent("again"))
			case kind == 2 && len(fresh) > 0: // twice in one batch
				batch = append(batch, fresh[pick("twice", len(fresh))])
			case kind == 1 && len(seen) > 0: // with other content, and the same banks: between refusal and receipt TigerBeetle knows only the legs
				other := recent("conflict")
				if len(fresh) > 0 && pick("in this batch", 2) == 0 {
					other = fresh[pick("conflict", len(fresh))]
				}
				other.AmountCentavos += 1 + uint64(pick("more", 3))
				batch = append(batch, other)
			default:
				payer := pick("payer", poor.Customers)
				payment := newPayment(poor, payer, (payer+1+pick("payee", poor.Customers-1))%poor.Customers, 1+uint64(pick("centavos", 700)))
				if pick("missing", 20) == 0 {
					payment.Payee.Number = "77"
				}
				batch, fresh = append(batch, payment), append(fresh, payment)
			}
		}
		check := func(what string, ask func(Ledger) ([]PaymentResult, error)) {
			a, err := ask(elephant)
			if err != nil {
				t.Fatal(err)
			}
			b, err := ask(beetle)
			if err != nil {
				t.Fatal(err)
			}
			for i := range max(len(a), len(b)) {
				if a[i] != b[i] {
					t.Fatalf("%s, payment %d: PostgreSQL results %+v, TigerBeetle %+v", what, i, a[i], b[i])
				}
				outcomes[a[i].Outcome]++
			}
		}
		check("hold", func(l Ledger) ([]PaymentResult, error) { return l.Hold(context.Background(), batch) })
		seen = append(seen, fresh...) // only now: phase 2 before phase 1 burns the payment's ids in TigerBeetle
		var decisions []Decision
		for range pick("decisions", 12) { // also again, also against an earlier verdict
			decision := Decision{Payment: recent("which"), Accept: pick("accept", 3) > 0}
			if !decision.Accept {
				decision.Reason = pix.ReasonPayeeBlocked
			}
			decisions = append(decisions, decision)
		}
		if len(decisions) > 0 {
			check("resolve", func(l Ledger) ([]PaymentResult, error) { return l.Resolve(context.Background(), decisions) })
		}
		a, errA := elephant.Balances(context.Background())
		b, errB := beetle.Balances(context.Background())
		if err := errors.Join(errA, errB, a.Differ(b), a.Check(Opening(poor))); err != nil {
			t.Fatal(err)
		}
	})
	for _, outcome := range []Outcome{Held, Posted, Voided, Refused, Conflict} {
		if outcomes[outcome] == 0 {
			t.Errorf("no payment ever had the result %s: %v", outcome, outcomes)
		}
	}
}

// TestConcurrent lets many connections hold and resolve payments of the same few accounts,
// each batch sent twice and in opposite orders, while a reader looks for an overdraft.
func TestConcurrent(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("early=%v", early), func(t *testing.T) {
			const connections, rounds, size = 6, 15, 20
			url := startPostgreSQL(t, poor)
			store := openPostgreSQL(t, url, 2*connections+1, early)
			opening := Opening(poor)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var writers, reader sync.WaitGroup
			reader.Go(func() {
				for ctx.Err() == nil {
					books, err := store.Balances(t.Context())
					if err = errors.Join(err, books.Check(opening)); err != nil {
						t.Error(err)
						return
					}
				}
			})
			for connection := range connections {
				var batches [rounds][]Payment
				for round := range batches {
					for range size {
						payer := random.IntN(poor.Customers)
						batches[round] = append(batches[round], newPayment(poor, payer, (payer+1+random.IntN(poor.Customers-1))%poor.Customers, 1+random.Uint64N(200)))
					}
				}
				work := func(reverse bool) {
					for _, batch := range batches {
						if reverse {
							batch = slices.Clone(batch)
							slices.Reverse(batch)
						}
						if _, err := store.Hold(t.Context(), batch); err != nil {
							t.Error(err)
							return
						}
						var decisions []Decision
						for i, payment := range batch {
							decisions = append(decisions, Decision{payment, (connection+i)%5 > 0 != reverse, pix.ReasonPayeeClosed})
						}
						if _, err := store.Resolve(t.Context(), decisions); err != nil {
							t.Error(err)
							return
						}
					}
				}
				writers.Go(func() { work(false) })
				writers.Go(func() { work(true) })
			}
			writers.Wait()
			stop()
			reader.Wait()
			store.Close()
			checkAtEnd(t, url, poor, connections*rounds*size)
		})
	}
}
