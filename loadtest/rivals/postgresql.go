package rivals

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
)

//go:embed schema.sql
var schema string

// PostgreSQL is a Ledger on PostgreSQL. Each call is one transaction and one round trip.
type PostgreSQL struct {
	pool  *pgxpool.Pool
	early bool
}

// CreatePostgreSQL creates schema, accounts and opening balances in an empty database.
func CreatePostgreSQL(ctx context.Context, url string, population sandbox.Population) error {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("schema.sql: %w", err)
	}
	var accounts, banks [][]any
	for id, balance := range Opening(population) {
		accounts = append(accounts, []any{uuid(id), balance.DebitsPosted, balance.CreditsPosted, limited(id)})
	}
	for i := range population.Banks {
		ispb := population.Bank(i)
		banks = append(banks, []any{number(ispb), uuid(ledger.TransitAccount(ispb)), uuid(ledger.ReserveAccount(ispb))})
	}
	if _, err := db.CopyFrom(ctx, pgx.Identifier{"account"}, []string{"id", "debits_posted", "credits_posted", "limited"}, pgx.CopyFromRows(accounts)); err != nil {
		return err
	}
	if _, err := db.CopyFrom(ctx, pgx.Identifier{"bank"}, []string{"ispb", "transit", "reserve"}, pgx.CopyFromRows(banks)); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "VACUUM ANALYZE")
	return err
}

// OpenPostgreSQL connects to a database of CreatePostgreSQL. With early, locks are released
// before the commit is on disk; results still come after it (schema.sql).
func OpenPostgreSQL(ctx context.Context, url string, connections int, early bool) (*PostgreSQL, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &PostgreSQL{pool, early}, nil
}

// Close closes all connections.
func (p *PostgreSQL) Close() { p.pool.Close() }

// Hold runs phase 1 of a batch in one transaction.
func (p *PostgreSQL) Hold(ctx context.Context, payments []Payment) ([]PaymentResult, error) {
	n := len(payments)
	ids, payers, payees := make([][16]byte, n), make([][16]byte, n), make([][16]byte, n)
	texts, amounts := make([]string, n), make([]int64, n)
	payerBanks, payeeBanks := make([]int32, n), make([]int32, n)
	for i, payment := range payments {
		ids[i], texts[i] = uuid(ledger.IDsOf(payment.ID).Pending(1)), payment.ID.String()
		payers[i], payees[i] = uuid(ledger.CustomerAccount(payment.Payer)), uuid(ledger.CustomerAccount(payment.Payee))
		payerBanks[i], payeeBanks[i] = number(payment.Payer.ISPB), number(payment.Payee.ISPB)
		amounts[i] = int64(payment.AmountCentavos)
	}
	if n == 1 {
		straight, err := p.straight(ctx, "CALL hold_one($1, $2, $3, $4, $5, $6, $7, $8)", ids[0], texts[0], payers[0], payees[0], payerBanks[0], payeeBanks[0], amounts[0])
		if straight || err != nil {
			return []PaymentResult{{Outcome: Held}}, err
		}
	}
	return p.ask(ctx, n, "CALL hold($1, $2, $3, $4, $5, $6, $7, $8, NULL, NULL, NULL)", ids, texts, payers, payees, payerBanks, payeeBanks, amounts)
}

// Resolve runs phase 2 of a batch in one transaction.
func (p *PostgreSQL) Resolve(ctx context.Context, decisions []Decision) ([]PaymentResult, error) {
	n := len(decisions)
	ids, accepts, reasons := make([][16]byte, n), make([]bool, n), make([]string, n)
	for i, decision := range decisions {
		ids[i], accepts[i] = uuid(ledger.IDsOf(decision.ID).Pending(1)), decision.Accept
		if !decision.Accept {
			reasons[i] = decision.Reason.String()
		}
	}
	if n == 1 {
		straight, err := p.straight(ctx, "CALL resolve_one($1, $2, $3, $4)", ids[0], accepts[0], reasons[0])
		if straight && accepts[0] || err != nil {
			return []PaymentResult{{Outcome: Posted}}, err
		}
		if straight {
			return []PaymentResult{{Outcome: Voided, Reason: decisions[0].Reason}}, nil
		}
	}
	return p.ask(ctx, n, "CALL resolve($1, $2, $3, $4, NULL, NULL, NULL)", ids, accepts, reasons)
}

// straight tries the fast path for one payment. It returns false, and nothing was written, if
// the payment is not new, exceeds a balance, or names something that does not exist.
func (p *PostgreSQL) straight(ctx context.Context, statement string, payment ...any) (bool, error) {
	_, err := p.pool.Exec(ctx, statement, append([]any{p.early}, payment...)...)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code {
		case "23505", "23514", "P0002": // unique_violation, check_violation, no_data_found
			return false, nil
		}
	}
	return err == nil, err
}

func (p *PostgreSQL) ask(ctx context.Context, n int, statement string, batch ...any) ([]PaymentResult, error) {
	var outcomes, reasons []string
	var again []bool
	if err := p.pool.QueryRow(ctx, statement, append([]any{p.early}, batch...)...).Scan(&outcomes, &reasons, &again); err != nil {
		return nil, err
	}
	if len(outcomes) != n {
		return nil, fmt.Errorf("PostgreSQL returned %d results for %d payments", len(outcomes), n)
	}
	results := make([]PaymentResult, n)
	for i := range results {
		results[i] = PaymentResult{Outcome: Outcome(outcomes[i]), Again: again[i]}
		if reasons[i] != "" {
			var err error
			if results[i].Reason, err = pix.ParseReason(reasons[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// Balances reads all accounts in one snapshot.
func (p *PostgreSQL) Balances(ctx context.Context) (Books, error) { return balances(ctx, p.pool) }

func balances(ctx context.Context, db interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}) (Books, error) {
	rows, err := db.Query(ctx, "SELECT id, debits_pending, debits_posted, credits_pending, credits_posted FROM account")
	if err != nil {
		return nil, err
	}
	books, id, b := Books{}, [16]byte{}, Balance{}
	_, err = pgx.ForEachRow(rows, []any{&id, &b.DebitsPending, &b.DebitsPosted, &b.CreditsPending, &b.CreditsPosted}, func() error {
		books[fromUUID(id)] = b
		return nil
	})
	return books, err
}

// number is an ISPB for PostgreSQL. The ISPBs of the sandbox are digits.
func number(ispb pix.ISPB) int32 {
	n, err := strconv.ParseInt(string(ispb), 10, 32)
	if err != nil {
		panic(fmt.Sprintf("ISPB %q is not a number: %v", ispb, err))
	}
	return int32(n)
}
