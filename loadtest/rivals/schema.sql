-- The payments of the clearing house on PostgreSQL: three legs, two phases, one verdict.

-- The key is made as in TigerBeetle, of kind, ISPB, branch and number: no id is ever looked up.
-- There is no index but the key, and most of each page is free, so that updates of balances are
-- HOT, also while other transactions hold snapshots.
CREATE TABLE account (
    id              uuid    PRIMARY KEY,
    debits_pending  bigint  NOT NULL DEFAULT 0 CHECK (debits_pending >= 0),
    debits_posted   bigint  NOT NULL DEFAULT 0,
    credits_pending bigint  NOT NULL DEFAULT 0 CHECK (credits_pending >= 0),
    credits_posted  bigint  NOT NULL DEFAULT 0,
    limited         boolean NOT NULL,
    CONSTRAINT debits_must_not_exceed_credits
        CHECK (NOT limited OR debits_pending + debits_posted <= credits_posted)
) WITH (fillfactor = 25);

CREATE TABLE bank (
    ispb    integer PRIMARY KEY,
    transit uuid    NOT NULL REFERENCES account,
    reserve uuid    NOT NULL REFERENCES account
);

-- One row holds the three legs, because they follow from it: view entry. The key is made of the
-- EndToEndId, time first. Accounts are not foreign keys: hold() has locked them, and a payment
-- that names a missing account is kept, too, with its refusal.
CREATE TABLE payment (
    id            uuid        PRIMARY KEY,
    payer         uuid        NOT NULL,
    payee         uuid        NOT NULL,
    amount        bigint      NOT NULL CHECK (amount > 0),
    held_at       timestamptz NOT NULL DEFAULT now(),
    payer_bank    integer     NOT NULL,
    payee_bank    integer     NOT NULL,
    end_to_end_id text        NOT NULL
);

CREATE TYPE outcome AS ENUM ('posted', 'voided', 'refused');

-- The key lets a payment end only once, whoever races with whom.
CREATE TABLE verdict (
    payment    uuid        PRIMARY KEY,
    decided_at timestamptz NOT NULL DEFAULT now(),
    outcome    outcome     NOT NULL,
    reason     text        NOT NULL
);

-- Both sides of each leg. Inside one bank there is no leg between reserves.
CREATE VIEW entry AS
SELECT p.id AS payment, e.leg, e.account, e.debit, e.credit
  FROM payment p
  JOIN bank a ON a.ispb = p.payer_bank
  JOIN bank b ON b.ispb = p.payee_bank,
       LATERAL (VALUES (1, p.payer,   p.amount, 0), (1, a.transit, 0, p.amount),
                       (2, a.reserve, p.amount, 0), (2, b.reserve, 0, p.amount),
                       (3, b.transit, p.amount, 0), (3, p.payee,   0, p.amount)) e (leg, account, debit, credit)
 WHERE e.leg <> 2 OR p.payer_bank <> p.payee_bank;

-- The one order of locks: customers (their ids are the highest), transits, and last the few
-- reserves, for which everybody waits. It sorts before it locks, because UPDATE promises no order.
CREATE FUNCTION lock_accounts(payments uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Batches wait for each other at the reserves anyway. They wait here, before the next statement
    -- takes its snapshot: else each would look up again every row that the one before it changed.
    PERFORM pg_advisory_xact_lock(986);
    PERFORM FROM account
      WHERE id IN (SELECT account FROM entry WHERE payment = ANY (payments))
      ORDER BY id DESC FOR NO KEY UPDATE;
END $$;

-- Each phase can release its locks early. It then commits without waiting for the disk, and
-- returns after a second, empty commit that waits. The log is written in order, so a result is
-- as durable as without this, and nobody waits for a reserve while a disk writes. Only a reader
-- may see a balance a moment before it is durable.

-- Phase 1 of a batch, as if its payments came one after another. A refused payment does not
-- affect the others. A payment that comes again gets the result of the first.
CREATE PROCEDURE hold(
    early boolean,
    ids uuid[], end_to_end_ids text[], payers uuid[], payees uuid[], payer_banks integer[], payee_banks integer[], amounts bigint[],
    INOUT outcomes text[], INOUT reasons text[], INOUT again boolean[]
) LANGUAGE plpgsql AS $$
DECLARE
    fresh         uuid[];     -- in the order of the batch
    held          uuid[] := '{}';
    refused       uuid[] := '{}';
    refusals      text[] := '{}';
    payer_spent   bigint[];   -- in this batch before the payment
    reserve_spent bigint[];
    p             record;
    refusal       text;
BEGIN
    IF early THEN SET LOCAL synchronous_commit = off; END IF;
    -- In the order of the key, so that two batches with the same payments cause no deadlock.
    WITH input AS (
        SELECT * FROM unnest(ids, end_to_end_ids, payers, payees, payer_banks, payee_banks, amounts)
            WITH ORDINALITY AS i (id, end_to_end_id, payer, payee, payer_bank, payee_bank, amount, position)
    ), inserted AS (
        INSERT INTO payment (id, end_to_end_id, payer, payee, payer_bank, payee_bank, amount)
        SELECT DISTINCT ON (id) id, end_to_end_id, payer, payee, payer_bank, payee_bank, amount FROM input ORDER BY id, position
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT coalesce(array_agg(id ORDER BY position), '{}') INTO fresh
      FROM (SELECT id, min(position) AS position FROM input JOIN inserted USING (id) GROUP BY id) first;

    PERFORM lock_accounts(fresh);

    payer_spent := array_fill(0::bigint, ARRAY[cardinality(fresh)]);
    reserve_spent := payer_spent;
    FOR p IN
        SELECT f.id, f.position, m.amount, m.payer_bank = m.payee_bank AS same_bank,
               payer.id IS NOT NULL AS payer_known, payee.id IS NOT NULL AS payee_known,
               b.ispb IS NOT NULL AS payee_bank_known,
               payer.credits_posted - payer.debits_posted - payer.debits_pending AS payer_has,
               reserve.credits_posted - reserve.debits_posted - reserve.debits_pending AS reserve_has,
               dense_rank() OVER (ORDER BY m.payer) AS payer_rank,
               dense_rank() OVER (ORDER BY m.payer_bank) AS reserve_rank
          FROM unnest(fresh) WITH ORDINALITY AS f (id, position)
          JOIN payment m ON m.id = f.id
          LEFT JOIN account payer ON payer.id = m.payer
          LEFT JOIN account payee ON payee.id = m.payee
          LEFT JOIN bank a ON a.ispb = m.payer_bank
          LEFT JOIN bank b ON b.ispb = m.payee_bank
          LEFT JOIN account reserve ON reserve.id = a.reserve
         ORDER BY f.position
    LOOP
        refusal := CASE
            WHEN NOT p.payer_known THEN 'AC02'
            WHEN p.payer_has < payer_spent[p.payer_rank] + p.amount THEN 'LQ01'
            WHEN NOT p.payee_bank_known THEN 'RC10'
            WHEN NOT p.same_bank AND p.reserve_has < reserve_spent[p.reserve_rank] + p.amount THEN 'AM04'
            WHEN NOT p.payee_known THEN 'AC03'
        END;
        IF refusal IS NULL THEN
            payer_spent[p.payer_rank] := payer_spent[p.payer_rank] + p.amount;
            IF NOT p.same_bank THEN
                reserve_spent[p.reserve_rank] := reserve_spent[p.reserve_rank] + p.amount;
            END IF;
            held := held || p.id;
        ELSE
            refused := refused || p.id;
            refusals := refusals || refusal;
        END IF;
    END LOOP;

    -- An account is written once, however many payments of the batch use it.
    UPDATE account a
       SET debits_pending = a.debits_pending + d.debits, credits_pending = a.credits_pending + d.credits
      FROM (SELECT account, sum(debit)::bigint AS debits, sum(credit)::bigint AS credits
              FROM entry WHERE payment = ANY (held) GROUP BY account) d
     WHERE a.id = d.account;

    INSERT INTO verdict (payment, outcome, reason)
    SELECT payment, 'refused', reason FROM unnest(refused, refusals) AS r (payment, reason);

    IF early THEN
        COMMIT; -- ends SET LOCAL
        PERFORM pg_logical_emit_message(true, 'durable', '');
    END IF;

    IF cardinality(held) = cardinality(ids) THEN -- all new and none refused, which is the usual case
        outcomes := array_fill('held'::text, ARRAY[cardinality(ids)]);
        reasons := array_fill(''::text, ARRAY[cardinality(ids)]);
        again := array_fill(false, ARRAY[cardinality(ids)]);
        RETURN;
    END IF;
    SELECT array_agg(CASE WHEN same THEN coalesce(outcome::text, 'held') ELSE 'conflict' END ORDER BY position),
           array_agg(CASE WHEN same THEN coalesce(reason, '') ELSE '' END ORDER BY position),
           array_agg(id <> ALL (fresh) OR not_first ORDER BY position)
      INTO outcomes, reasons, again
      FROM (SELECT i.id, i.position, v.outcome, v.reason,
                   (m.payer, m.payee, m.payer_bank, m.payee_bank, m.amount) = (i.payer, i.payee, i.payer_bank, i.payee_bank, i.amount) AS same,
                   row_number() OVER (PARTITION BY i.id ORDER BY i.position) > 1 AS not_first
              FROM unnest(ids, payers, payees, payer_banks, payee_banks, amounts)
                   WITH ORDINALITY AS i (id, payer, payee, payer_bank, payee_bank, amount, position)
              JOIN payment m ON m.id = i.id
              LEFT JOIN verdict v ON v.payment = i.id) answer;
END $$;

-- Phase 2 of a batch: each payment is posted, or voided with a reason. The result is the verdict
-- in the ledger, which may be an earlier one.
CREATE PROCEDURE resolve(
    early boolean,
    ids uuid[], accepts boolean[], void_reasons text[],
    INOUT outcomes text[], INOUT reasons text[], INOUT again boolean[]
) LANGUAGE plpgsql AS $$
DECLARE
    decided uuid[];
    posts   boolean[];
BEGIN
    IF early THEN SET LOCAL synchronous_commit = off; END IF;
    WITH inserted AS (
        INSERT INTO verdict (payment, outcome, reason)
        SELECT DISTINCT ON (i.id) i.id, (CASE WHEN i.accept THEN 'posted' ELSE 'voided' END)::outcome, i.reason
          FROM unnest(ids, accepts, void_reasons) WITH ORDINALITY AS i (id, accept, reason, position)
          JOIN payment p ON p.id = i.id
         ORDER BY i.id, i.position
        ON CONFLICT DO NOTHING
        RETURNING payment, outcome
    )
    SELECT coalesce(array_agg(payment), '{}'), coalesce(array_agg(outcome = 'posted'), '{}')
      INTO decided, posts FROM inserted;

    PERFORM lock_accounts(decided);

    UPDATE account a
       SET debits_pending = a.debits_pending - d.debits, credits_pending = a.credits_pending - d.credits,
           debits_posted = a.debits_posted + d.debits_posted, credits_posted = a.credits_posted + d.credits_posted
      FROM (SELECT e.account, sum(e.debit)::bigint AS debits, sum(e.credit)::bigint AS credits,
                   coalesce(sum(e.debit) FILTER (WHERE v.post), 0)::bigint AS debits_posted,
                   coalesce(sum(e.credit) FILTER (WHERE v.post), 0)::bigint AS credits_posted
              FROM unnest(decided, posts) AS v (payment, post) JOIN entry e ON e.payment = v.payment GROUP BY e.account) d
     WHERE a.id = d.account;

    IF early THEN
        COMMIT; -- ends SET LOCAL
        PERFORM pg_logical_emit_message(true, 'durable', '');
    END IF;

    SELECT array_agg(coalesce(v.outcome::text, 'unknown') ORDER BY i.position),
           array_agg(coalesce(v.reason, '') ORDER BY i.position),
           array_agg(i.nth > 1 OR d.id IS NULL ORDER BY i.position)
      INTO outcomes, reasons, again
      FROM (SELECT id, position, row_number() OVER (PARTITION BY id ORDER BY position) AS nth
              FROM unnest(ids) WITH ORDINALITY AS u (id, position)) i
      LEFT JOIN unnest(decided) AS d (id) ON d.id = i.id
      LEFT JOIN verdict v ON v.payment = i.id;
END $$;

-- The fast path: one payment that is new and covered. Anything else is an error (a key that
-- exists, a limit, a missing account) that writes nothing. Then hold and resolve take over.

-- Changes the balances of a payment's accounts, in the order of locks.
CREATE FUNCTION book(id uuid, pending integer, posted integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e record;
BEGIN
    FOR e IN SELECT account, sum(debit)::bigint AS debit, sum(credit)::bigint AS credit
               FROM entry WHERE payment = book.id GROUP BY account ORDER BY account DESC
    LOOP
        UPDATE account a
           SET debits_pending = debits_pending + pending * e.debit, credits_pending = credits_pending + pending * e.credit,
               debits_posted = debits_posted + posted * e.debit, credits_posted = credits_posted + posted * e.credit
         WHERE a.id = e.account;
        IF NOT FOUND THEN
            RAISE no_data_found USING MESSAGE = 'there is no account ' || e.account;
        END IF;
    END LOOP;
    IF NOT FOUND THEN
        RAISE no_data_found USING MESSAGE = 'there is no payment ' || book.id || ' between known banks';
    END IF;
END $$;

CREATE PROCEDURE hold_one(
    early boolean, id uuid, end_to_end_id text, payer uuid, payee uuid, payer_bank integer, payee_bank integer, amount bigint
) LANGUAGE plpgsql AS $$
BEGIN
    IF early THEN SET LOCAL synchronous_commit = off; END IF;
    INSERT INTO payment (id, end_to_end_id, payer, payee, payer_bank, payee_bank, amount)
    VALUES (hold_one.id, hold_one.end_to_end_id, hold_one.payer, hold_one.payee, hold_one.payer_bank, hold_one.payee_bank, hold_one.amount);
    PERFORM book(hold_one.id, 1, 0);
    IF early THEN
        COMMIT;
        PERFORM pg_logical_emit_message(true, 'durable', '');
    END IF;
END $$;

CREATE PROCEDURE resolve_one(early boolean, id uuid, accept boolean, reason text) LANGUAGE plpgsql AS $$
BEGIN
    IF early THEN SET LOCAL synchronous_commit = off; END IF;
    INSERT INTO verdict (payment, outcome, reason)
    VALUES (id, (CASE WHEN accept THEN 'posted' ELSE 'voided' END)::outcome, resolve_one.reason);
    PERFORM book(id, -1, accept::integer);
    IF early THEN
        COMMIT;
        PERFORM pg_logical_emit_message(true, 'durable', '');
    END IF;
END $$;
