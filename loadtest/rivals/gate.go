package rivals

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// Check returns what is wrong in books that began as opening: an overdraft, money from
// nowhere, or a bank whose reserve and transit do not sum up as before.
func (b Books) Check(opening Books) error {
	var wrong []error
	var sum Balance
	drift := map[pix.ISPB]int64{} // reserve + transit of a bank, less the opening
	for id, balance := range b {
		kind, account := ledger.UnpackAccount(id)
		if limited(id) && balance.DebitsPosted+balance.DebitsPending > balance.CreditsPosted {
			wrong = append(wrong, fmt.Errorf("account %v %v is overdrawn: %+v", kind, account, balance))
		}
		if kind == ledger.Reserve || kind == ledger.Transit {
			drift[account.ISPB] += balance.posted() - opening[id].posted()
		}
		sum.DebitsPending += balance.DebitsPending
		sum.DebitsPosted += balance.DebitsPosted
		sum.CreditsPending += balance.CreditsPending
		sum.CreditsPosted += balance.CreditsPosted
	}
	if sum.DebitsPosted != sum.CreditsPosted || sum.DebitsPending != sum.CreditsPending {
		wrong = append(wrong, fmt.Errorf("debits and credits differ: %+v", sum))
	}
	for bank, centavos := range drift {
		if centavos != 0 {
			wrong = append(wrong, fmt.Errorf("bank %s: reserve and transit together moved by %d centavos", bank, centavos))
		}
	}
	if len(b) != len(opening) {
		wrong = append(wrong, fmt.Errorf("there are %d accounts, not %d", len(b), len(opening)))
	}
	return errors.Join(wrong...)
}

func (b Balance) posted() int64 { return b.CreditsPosted - b.DebitsPosted }

// Differ returns an error that names the first account in which two books differ.
func (b Books) Differ(other Books) error {
	for id := range b {
		if b[id] != other[id] {
			kind, account := ledger.UnpackAccount(id)
			return fmt.Errorf("account %v %v holds %+v, not %+v", kind, account, b[id], other[id])
		}
	}
	if len(b) != len(other) {
		return fmt.Errorf("%d accounts, not %d", len(b), len(other))
	}
	return nil
}

// checkPostgreSQL compares the balances with the payments in the database. Each payment must
// have one verdict, and there must be no deadlock. Close other connections first: they report
// their statistics when they end.
func checkPostgreSQL(ctx context.Context, db *pgx.Conn, opening Books, payments int) error {
	books := Books{}
	for id, balance := range opening {
		books[id] = balance
	}
	rows, err := db.Query(ctx, `
		SELECT account, coalesce(sum(debit) FILTER (WHERE outcome IS NULL), 0)::bigint, coalesce(sum(debit) FILTER (WHERE outcome = 'posted'), 0)::bigint,
		       coalesce(sum(credit) FILTER (WHERE outcome IS NULL), 0)::bigint, coalesce(sum(credit) FILTER (WHERE outcome = 'posted'), 0)::bigint
		  FROM entry LEFT JOIN verdict USING (payment) GROUP BY account`)
	if err != nil {
		return err
	}
	var id [16]byte
	var moved Balance
	if _, err := pgx.ForEachRow(rows, []any{&id, &moved.DebitsPending, &moved.DebitsPosted, &moved.CreditsPending, &moved.CreditsPosted}, func() error {
		balance, ok := books[fromUUID(id)]
		if ok { // else the account does not exist, and its payments were refused
			balance.DebitsPending += moved.DebitsPending
			balance.DebitsPosted += moved.DebitsPosted
			balance.CreditsPending += moved.CreditsPending
			balance.CreditsPosted += moved.CreditsPosted
			books[fromUUID(id)] = balance
		}
		return nil
	}); err != nil {
		return err
	}
	var held, decided int
	if err := db.QueryRow(ctx, "SELECT count(*), count(v.payment) FROM payment p LEFT JOIN verdict v ON v.payment = p.id").Scan(&held, &decided); err != nil {
		return err
	}
	if held != payments || decided != payments {
		return fmt.Errorf("%d payments with %d verdicts: both must be %d", held, decided, payments)
	}
	var deadlocks int
	if err := db.QueryRow(ctx, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks); err != nil {
		return err
	}
	if deadlocks != 0 {
		return fmt.Errorf("%d deadlocks: locks are taken in different orders", deadlocks)
	}
	kept, err := balances(ctx, db)
	if err != nil {
		return err
	}
	return kept.Differ(books)
}
