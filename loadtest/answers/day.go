package answers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// dayReading is a bank's statement of a day, or of a part of it.
type dayReading struct {
	bank             pix.ISPB
	day              pix.Day
	opening, closing int64
	lines            []dayLine
	sums             map[string]int64 // by counterparty and direction
}

// dayLine is a line of such a statement. A debit is negative.
type dayLine struct {
	at                time.Time
	id, counterparty  string
	centavos, balance int64 // the balance after it
}

func (d dayReading) String() string { return fmt.Sprintf("statement of %s for %v", d.bank, d.day) }

// ReadDays reads the statements of all banks, twice, from the day in which the ledger began until
// now by its own clock.
func (c *Clients) ReadDays(ctx context.Context, client tigerbeetle.Client) error {
	first, err := dateOf(client, false)
	if err != nil {
		return err
	}
	until, err := dateOf(client, true)
	if err != nil {
		return err
	}
	for _, bank := range c.banks() {
		for day := pix.DayOf(first); day.Begins().Before(until); day = day.Next() {
			to := until
			if ends := day.Next().Begins(); ends.Before(to) {
				to = ends
			}
			path := fmt.Sprintf("/v1/participants/%s/statements/%v?format=csv&until=%s", bank, day, url.QueryEscape(to.Format(time.RFC3339Nano)))
			reading, digest, err := c.readDay(ctx, path, bank, day)
			if err != nil {
				return err
			}
			_, again, err := c.readDay(ctx, path, bank, day)
			if err != nil {
				return err
			}
			c.Judge.takeDay(reading, digest == again)
		}
	}
	return nil
}

// dateOf returns when the ledger made its first or its last transfer.
func dateOf(client tigerbeetle.Client, last bool) (time.Time, error) {
	found, err := client.QueryTransfers(tb.QueryFilter{Ledger: ledger.Ledger, Limit: 1, Flags: tb.QueryFilterFlags{Reversed: last}.ToUint32()})
	if err != nil || len(found) == 0 {
		return time.Time{}, fmt.Errorf("the ledger has %d transfers (%w)", len(found), err)
	}
	return time.Unix(0, int64(found[0].Timestamp)).UTC(), nil //nolint:gosec // Unix time
}

// readDay reads one statement, until it is whole.
func (c *Clients) readDay(ctx context.Context, path string, bank pix.ISPB, day pix.Day) (reading dayReading, digest [sha256.Size]byte, err error) {
	for {
		response, err := c.do(ctx, &c.streams, call{holder: keys.CentralBank, method: http.MethodGet, path: path})
		if err == nil {
			var text []byte
			text, err = io.ReadAll(response.Body)
			response.Body.Close()
			switch {
			case err != nil: // it broke off
			case response.StatusCode == http.StatusOK:
				if reading, err = parseDay(bank, day, text); err != nil {
					err = fmt.Errorf("%s: %w", path, err)
				}
				return reading, sha256.Sum256(text), err
			case response.StatusCode != http.StatusConflict && !unavailable(response.StatusCode, nil): // the day ends soon by the ledger's clock
				return reading, digest, fmt.Errorf("%s: %d %s", path, response.StatusCode, text)
			default:
				err = fmt.Errorf("%d %s", response.StatusCode, text)
			}
		}
		if !again(ctx) {
			return reading, digest, fmt.Errorf("%s was not answered: %w", path, err)
		}
	}
}

// parseDay reads a statement in CSV.
func parseDay(bank pix.ISPB, day pix.Day, text []byte) (dayReading, error) {
	reading := dayReading{bank: bank, day: day, sums: map[string]int64{}}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return reading, err
	}
	if len(rows) < 3 || rows[1][0] != "opening" || rows[len(rows)-1][0] != "closing" {
		return reading, errors.New("it does not lead from an opening to a closing balance")
	}
	for _, row := range rows[1:] {
		column := 6 // amount_centavos
		if row[0] == "opening" || row[0] == "closing" {
			column = 7
		}
		centavos, err := strconv.ParseInt(row[column], 10, 64)
		if err != nil {
			return reading, fmt.Errorf("the row %q: %w", row, err)
		}
		if row[5] == "debit" {
			centavos = -centavos
		}
		switch row[0] {
		case "opening":
			reading.opening = centavos
		case "closing":
			reading.closing = centavos
		case "line":
			line := dayLine{id: row[3], counterparty: row[4], centavos: centavos}
			if line.at, err = time.Parse(time.RFC3339Nano, row[1]); err == nil {
				line.balance, err = strconv.ParseInt(row[7], 10, 64)
			}
			if err != nil {
				return reading, fmt.Errorf("the row %q: %w", row, err)
			}
			reading.lines = append(reading.lines, line)
		case "sum":
			reading.sums[row[4]+" "+row[5]] = centavos
		}
	}
	return reading, nil
}

// takeDay takes a statement of a day, and whether it was the same a second time.
func (j *Judge) takeDay(reading dayReading, same bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdict.Days++
	j.verdict.DayLines += len(reading.lines)
	j.days = append(j.days, reading)
	if !same {
		j.contradict(reading.String(), "it was not the same when it was read again", "", "")
	}
}

// concludeDays requires that the statements of all banks agree with each other and with the ledger:
// each continues the one before, its lines lead from opening to closing and to its sums, every
// movement between banks stands in both, each line is of an instant in which the reserve had the line's
// balance, and the last one closes with the reserve.
func (j *Judge) concludeDays(client tigerbeetle.Client) error {
	type side struct {
		bank pix.ISPB
		line dayLine
	}
	sides := map[string][]side{}
	closing := map[pix.ISPB]int64{}
	for _, day := range j.days {
		if day.opening != closing[day.bank] {
			j.contradict(day.String(), "it does not open with the closing balance of the day before", fmt.Sprint(closing[day.bank]), fmt.Sprint(day.opening))
		}
		balance, sums := day.opening, map[string]int64{}
		for _, line := range day.lines {
			balance += line.centavos
			direction := " credit"
			if line.centavos < 0 {
				direction = " debit"
			}
			sums[line.counterparty+direction] += line.centavos
			sides[line.id] = append(sides[line.id], side{day.bank, line})
		}
		if balance != day.closing || !maps.Equal(sums, day.sums) {
			j.contradict(day.String(), "the lines do not sum up", fmt.Sprintf("they lead to %d and %v", balance, sums), fmt.Sprintf("it says %d and %v", day.closing, day.sums))
		}
		closing[day.bank] = day.closing
	}
	for _, id := range slices.Sorted(maps.Keys(sides)) {
		both := sides[id]
		if len(both) == 1 && both[0].line.counterparty == keys.CentralBank {
			continue
		}
		if len(both) != 2 || both[0].line.centavos+both[1].line.centavos != 0 ||
			both[0].line.counterparty != string(both[1].bank) || both[1].line.counterparty != string(both[0].bank) {
			j.contradict(id, "the statements of two banks do not agree about it", fmt.Sprintf("%+v", both), "")
		}
	}
	for bank, balance := range closing {
		history, err := allOf(ledger.ReserveAccount(bank), client.GetAccountBalances, func(b tb.AccountBalance) uint64 { return b.Timestamp })
		if err != nil {
			return err
		}
		had := map[int64]int64{} // by the Unix time in nanoseconds at which it began
		for _, b := range history {
			had[int64(b.Timestamp)] = ledger.Less(b.CreditsPosted, b.DebitsPosted) //nolint:gosec // Unix time
		}
		for _, day := range j.days {
			for _, line := range day.lines {
				if has, known := had[line.at.UnixNano()]; day.bank == bank && (!known || has != line.balance) {
					j.contradict(day.String()+", line "+line.id, "the reserve had another balance at that instant, or did not change", fmt.Sprint(has, known), fmt.Sprint(line.balance, " at ", line.at))
				}
			}
		}
		found, err := client.LookupAccounts([]tb.Uint128{ledger.ReserveAccount(bank)})
		if err != nil || len(found) == 0 {
			return fmt.Errorf("the ledger does not say what the reserve of %s is: %w", bank, err)
		}
		if reserve := ledger.Less(found[0].CreditsPosted, found[0].DebitsPosted); reserve != balance {
			j.contradict("statements of "+string(bank), "the last one does not close with the reserve", fmt.Sprint(reserve), fmt.Sprint(balance))
		}
	}
	return nil
}
