package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/archive"
	"github.com/liquida/liquida/platform/archive/past"
	"github.com/liquida/liquida/platform/archive/store"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/rebuild"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
)

func openLedger(t *testing.T) tigerbeetle.Client {
	t.Helper()
	return connect(t, startLedger(t))
}

func write(t *testing.T, client tigerbeetle.Client, transfers []tb.Transfer) {
	t.Helper()

	results, err := client.CreateTransfers(transfers)
	if err != nil || len(results) > 0 {
		t.Fatalf("the ledger refuses %v: %v %v", transfers[0].Code, results, err)
	}
}

// dying is a client that ends after some requests that write.
type dying struct {
	tigerbeetle.Client
	left int
}

var errKilled = errors.New("killed")

func (d *dying) CreateAccounts(accounts []tb.Account) ([]tb.AccountEventResult, error) {
	if d.left--; d.left < 0 {
		return nil, errKilled
	}

	return d.Client.CreateAccounts(accounts)
}

func (d *dying) CreateTransfers(transfers []tb.Transfer) ([]tb.TransferEventResult, error) {
	if d.left--; d.left < 0 {
		return nil, errKilled
	}

	return d.Client.CreateTransfers(transfers)
}

// populated gives a ledger a small population, with this deposit of each customer.
func populated(t *testing.T, client tigerbeetle.Client, depositCentavos uint64) sandbox.Population {
	t.Helper()
	var config Config
	kit.Must(t, settings.Parse(&config))
	config.Population.Customers, config.Population.DepositCentavos = 50, depositCentavos
	kit.Must(t, Populate(t.Context(), &config, client))

	return config.Population
}

// history is a ledger with everything that a clearing house writes, and what of it may end.
type history struct {
	settled, capped, open, expired pix.EndToEndID
	content                        pix.Content
}

func live(t *testing.T, client tigerbeetle.Client) (h history) {
	t.Helper()
	p := populated(t, client, 1_000_000)
	h.content = pix.Content{Payer: p.Customer(0), Payee: p.Customer(1), AmountCentavos: 100}
	const window = 3600
	capTo := func(id string, centavos int64) {
		act := ledger.Act{Kind: ledger.DayCapped, Bank: h.content.Payer.ISPB, Centavos: centavos, WindowSeconds: window,
			ByCentralBank: true}
		account := accountOf(t, client, ledger.AllowanceAccount(act.Bank, ledger.Day))
		write(t, client, ledger.GrantOf(account).AppendAdjustment(
			ledger.AppendAct(nil, "central-bank", id, act), centavos))
	}
	random := rand.New(rand.NewPCG(1, 2))
	newID := func() pix.EndToEndID { return pix.NewEndToEndID(h.content.Payer.ISPB, time.Now(), random) }
	hold := func(capped bool, timeoutSeconds uint32) pix.EndToEndID {
		id := newID()

		chain := ledger.AppendReserve(nil, id, h.content, timeoutSeconds)
		if capped {
			chain = ledger.AppendCap(chain, id, h.content, ledger.Day, window)
		}
		write(t, client, chain)

		return id
	}
	reason := pix.ReasonPayeePSPSilent
	capTo("cap", 100_000)

	for range 30 {
		h.settled, h.capped = hold(false, 60), hold(true, 60)
		write(t, client, ledger.AppendPost(nil, h.settled, false))
		write(t, client, ledger.AppendPost(nil, h.capped, false))
		write(t, client, ledger.AppendVoid(nil, hold(false, 60), false, reason))
		void := hold(true, 60)
		write(t, client, ledger.AppendCapVoid(ledger.AppendVoid(nil, void, false, reason), void, reason))
		write(t, client, ledger.AppendReceipt(nil, newID(), h.content, reason, true))
		kit.Must(t, kit.ErrorOf(ledger.ProbeClock(client, time.Now, 5)))
		returned := pix.ReturnContent{Original: h.settled, AmountCentavos: 10, Reason: pix.MustReason("MD06")}
		back := pix.NewReturnID(h.content.Payee.ISPB, time.Now(), random)
		write(t, client, ledger.AppendReturnedMark(
			ledger.AppendReturnReserve(nil, back, returned, 0, h.content, 60), h.settled))
		write(t, client, ledger.AppendReturnPost(nil, back, returned, 0, false))
	}
	capTo("cap-2", 5000) // a cap that is lowered takes what is free, whatever holds are left out
	h.open, h.expired = hold(true, 3600), hold(true, 1)
	time.Sleep(4 * time.Second) // the ledger lets it expire
	write(t, client, ledger.AppendReceipt(nil, h.expired, h.content, reason, true))

	return h
}

func accountOf(t *testing.T, client tigerbeetle.Client, id ledger.AccountID) tb.Account {
	t.Helper()

	found, err := client.LookupAccounts([]tb.Uint128{id})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}

	return found[0]
}

// transfersOf returns all transfers, without the mark that links them.
func transfersOf(t *testing.T, client tigerbeetle.Client) []tb.Transfer {
	t.Helper()
	all, err := client.QueryTransfers(tb.QueryFilter{Limit: 8189})
	kit.Must(t, err)

	for i := range all {
		all[i].Flags &^= 1
	}

	return all
}

// bring brings a past into a ledger, and ends what the past leaves to be ended.
func bring(t *testing.T, client tigerbeetle.Client, source rebuild.Source) error {
	t.Helper()
	target := rebuild.Target{Client: client, EventsMax: eventsMax, Progress: func(int, int, time.Time) {}}

	err := target.Import(t.Context(), source)
	if err == nil {
		_, _, err = target.HoldAllowances(t.Context(), source, nil, time.Now())
	}

	if err == nil {
		err = target.End(t.Context(), ledger.Identity{})
	}

	if err == nil {
		err = target.Mark(t.Context())
	}

	return err
}

const eventsMax = 100 // so few that pages and requests cut everywhere

// A past comes into an empty ledger as it was, from a copy or an archive, however often archiver and import are killed.
// What nothing has ended is left out, and legs 4 of the window that runs hold their allowance again.
func TestImport(t *testing.T) {
	t.Parallel()
	from := openLedger(t)
	h := live(t, from)

	random := rand.New(rand.NewPCG(3, 4))
	for range 7 { // so that a segment ends behind the hold that expired, also if a minute has ended
		id := pix.NewEndToEndID(h.content.Payer.ISPB, time.Now(), random)
		write(t, from, ledger.AppendReceipt(nil, id, h.content, pix.ReasonPayeePSPSilent, true))
	}
	whole, killed := t.TempDir(), t.TempDir()

	end := archived(t, from, whole, eventsMax, 1<<30)
	if again := archived(t, from, killed, 150, 3); again != end {
		t.Fatalf("an archive that was killed often ends with %+v, the other with %+v", again, end)
	}
	copied := rebuild.Ledger{Client: from, EventsMax: eventsMax}
	had := map[tb.Uint128]tb.Transfer{}
	ends := map[tb.Uint128]uint64{} // of holds

	for chain, err := range copied.Chains(t.Context(), 0) {
		kit.Must(t, err)

		for _, transfer := range chain {
			transfer.Flags &^= 1
			had[transfer.ID], ends[transfer.PendingID] = transfer, transfer.Timestamp
		}
	}

	for name, c := range map[string]struct {
		source rebuild.Source
		to     uint64
	}{"a copy": {copied, 1 << 63}, "an archive": {past.Source{Folder: os.DirFS(killed)}, end.To}} {
		into := openLedger(t)
		for kills := 0; ; kills++ {
			if err := bring(t, &dying{into, 1 + kills%3}, c.source); err == nil {
				break
			} else if !errors.Is(err, errKilled) {
				t.Fatalf("%s: %v", name, err)
			}
		}

		if err := bring(t, into, c.source); !errors.Is(err, rebuild.ErrDone) {
			t.Errorf("a ledger with a marker: %v", err)
		}

		missing, more := map[tb.Uint128]bool{}, 0
		for id, transfer := range had { // an archive lacks leg 4 of what had expired, which frees nothing any more
			missing[id] = transfer.Timestamp <= c.to && ends[id] <= c.to &&
				(c.to == 1<<63 || transfer.Code != ledger.CodeLeg4)
		}

		for _, got := range transfersOf(t, into) {
			if was, known := had[got.ID]; !known {
				more++
			} else if got != was {
				t.Fatalf("%s: brought as %+v, want %+v", name, got, was)
			}
			delete(missing, got.ID)
		}

		for id, is := range missing {
			if is {
				t.Errorf("%s: was not brought: %+v", name, had[id])
			}
		}

		if more > 32 || more < 31 || more < 32 && c.to == 1<<63 { // the last one may be in no segment yet
			t.Errorf("%s: %d transfers were not in the past, want 30 legs 4 of settled payments, the end and the marker",
				name, more)
		}
		accounts, err := from.QueryAccounts(tb.QueryFilter{Limit: 8189})
		kit.Must(t, err)

		for _, was := range accounts {
			got := accountOf(t, into, was.ID)
			if got.Timestamp != was.Timestamp || got.UserData128 != was.UserData128 || c.to == 1<<63 &&
				(got.CreditsPosted != was.CreditsPosted || got.DebitsPosted != was.DebitsPosted) {
				t.Fatalf("%s: %s is %+v, want %+v", name, ledger.AccountName(was.ID), got, was)
			}
		}
		// An order that comes again is known if it had ended. What had expired may be held once more, and can never
		// settle.
		for id, want := range map[pix.EndToEndID]tb.CreateTransferResult{h.settled: tb.TransferExistsWithDifferentFlags,
			h.open: tb.TransferOK, h.expired: tb.TransferOK} {
			order := ledger.AppendReserve(nil, id, h.content, 60)

			results, err := into.CreateTransfers(order)
			if got := ledger.ResultOf(order, 0, results); err != nil || got.Status != want {
				t.Errorf("%s: an order that comes again gets %v %v, want %v", name, got.Status, err, want)
			}
		}

		post := ledger.AppendPost(nil, h.expired, false)
		if results, err := into.CreateTransfers(post); err != nil || !ledger.ResultOf(post, 0, results).Exists() {
			t.Errorf("%s: a payment that was rejected can be posted: %v %v", name, results, err)
		}
	}

	// An archive takes no other ledger.
	another := ledgermodel.New().Connect(nil)
	live(t, another)
	_, err := past.New(t.Context(), another, eventsMax, store.Folder(whole), 7)
	kit.Says(t, err, "another ledger, or an older copy")
}

// What was reported gets its verdict although the reports are in no order that works: a payment waits for what its
// payer spends, and only where nothing comes the central bank lends it, and takes back what it can. It has the time of
// its report.
func TestForward(t *testing.T) {
	t.Parallel()
	now := time.Now()
	clock := func() time.Time { return now }
	from, into := ledgermodel.New().ConnectAt(clock), ledgermodel.New().ConnectAt(clock)
	p := populated(t, from, 100)
	source := rebuild.Ledger{Client: from, EventsMax: eventsMax}
	target := rebuild.Target{Client: into, EventsMax: 15, Progress: func(int, int, time.Time) {}}
	kit.Must(t, target.Import(t.Context(), source))
	ends, err := source.End(t.Context())
	kit.Must(t, err)
	now = now.Add(time.Minute)

	random := rand.New(rand.NewPCG(1, 2))
	told := func(from, to pix.Account, centavos uint64) rebuild.Told {
		return rebuild.Told{ID: pix.NewEndToEndID(from.ISPB, now, random), Settled: true,
			Content: pix.Content{Payer: from, Payee: to, AmountCentavos: centavos}}
	}
	a, b, c, d := p.Customer(0), p.Customer(1), p.Customer(2), p.Customer(3)
	spends := told(b, c, 150) // what a brings
	back := func(original pix.EndToEndID) rebuild.Told {
		return rebuild.Told{ID: pix.EndToEndID(pix.NewReturnID(c.ISPB, now, random)), Return: true, Settled: true,
			Content: pix.Content{Payer: c, Payee: b, AmountCentavos: 10},
			Returns: pix.ReturnContent{Original: original, AmountCentavos: 10, Reason: pix.MustReason("MD06")}}
	}
	refused := told(a, b, 7)
	refused.Settled, refused.Reason = false, pix.MustReason("AC06")

	all := []rebuild.Told{back(spends.ID), back(spends.ID), refused, back(told(a, b, 1).ID), spends, told(a, b, 60),
		told(c, d, 400), // of which 150 are lost, and come back
		told(a, c, 20), told(d, c, 450)}
	for i := range all { // between the past and now, and the last one by a clock that is ahead
		all[i].At = ends.Add(time.Duration(i+1) * time.Second)
	}
	all[len(all)-1].At = now.Add(time.Hour)

	result, err := target.Forward(t.Context(), all, ends, now)
	if err != nil || result.Settled != 7 || result.Rejected != 1 || len(result.Impossible) != 1 ||
		len(result.Loans) != 1 {
		t.Fatalf("%+v %v", result, err)
	}

	if loan := result.Loans[0]; loan.Act.Kind != ledger.Deposit || loan.Act.Account != c ||
		loan.Act.Centavos != loan.Returned {
		t.Errorf("the loan is %+v", loan)
	}

	for customer, want := range map[pix.Account]int64{a: 20, b: 30, c: 300, d: 50} {
		account := accountOf(t, into, ledger.CustomerAccount(customer))
		if got := ledger.Less(account.CreditsPosted, account.DebitsPosted); got != want ||
			account.DebitsPending != (tb.Uint128{}) {
			t.Errorf("%s has %d centavos, want %d", ledger.AccountName(account.ID), got, want)
		}
	}

	verdict, err := into.LookupTransfers([]tb.Uint128{ledger.IDsOf(refused.ID).Verdict()})
	if err != nil || len(verdict) != 1 ||
		time.Unix(0, int64(verdict[0].Timestamp)).Sub(all[2].At).Abs() > time.Microsecond {
		t.Errorf("%v: the refusal told at %v is %+v", err, all[2].At, verdict)
	}
}

// archived archives a ledger into a folder, and begins anew after each so many steps, as after kill -9. Finished days
// are merged.
func archived(t *testing.T, client tigerbeetle.Client, folder string, eventsMax, stepsOfALife int) archive.Manifest {
	t.Helper()

	for {
		a, err := past.New(t.Context(), client, eventsMax, store.Folder(folder), 7)
		kit.Must(t, err)

		for range stepsOfALife {
			p, all, err := a.Step(t.Context())
			for _, end := range p.Ended {
				err = errors.Join(err, archive.Merge(t.Context(), store.Folder(folder), end))
			}
			kit.Must(t, err)

			if all {
				return p.Last
			}
		}
	}
}

// The questions of docs/archive.md have the answers that the rows have, asked with the real DuckDB and pandas.
func TestProgramsOfOthersReadAnArchive(t *testing.T) {
	python := os.Getenv("STATEMENT_READERS")
	if python == "" {
		t.Skip("STATEMENT_READERS names no python with duckdb: make test-readers")
	}
	client := openLedger(t)
	h := live(t, client)
	folder := t.TempDir()
	archived(t, client, filepath.Join(folder, "archive"), 8189, 1<<30)
	document, err := filepath.Abs("../../docs/archive.md")
	kit.Must(t, err)
	said := kit.RunCommand(t, nil, python, "-c", askArchive, document, folder, h.capped.String())

	var answers struct {
		Queries [][][]any
		Pandas  string
	}
	if err := json.Unmarshal([]byte(said.Out), &answers); err != nil || said.Code != 0 || len(answers.Queries) != 5 {
		t.Fatal(said.Out, said.Err, err)
	}
	totals, err := archive.Verify(os.DirFS(filepath.Join(folder, "archive")), func(archive.Manifest) {},
		func(archive.DayEnd) {})
	kit.Must(t, err)
	sum := func(query, column int) (all float64) {
		for _, row := range answers.Queries[query] {
			all += row[column].(float64)
		}

		return math.Round(all * 100)
	}
	is := []float64{sum(0, 2), sum(0, 3), sum(1, 2), sum(3, 2), sum(3, 3)} // by hour, by reason, by pair of banks
	settled, centavos := float64(totals.Settled)*100, float64(totals.SettledCentavos)
	want := []float64{settled, centavos, float64(totals.Rejected+totals.Refused) * 100, settled, centavos}
	slowest, one := answers.Queries[2], answers.Queries[4]

	if !slices.Equal(is, want) || len(slowest) != 10 || slowest[0][1].(float64) < slowest[9][1].(float64) ||
		len(one) != 1 || one[0][1] != h.capped.String() {
		t.Errorf("sums are %v, want %v; the slowest are %v, and one is %v", is, want, slowest, one)
	}

	if count := fmt.Sprint(int(answers.Queries[3][0][2].(float64))); !strings.Contains(answers.Pandas, count) {
		t.Errorf("pandas says %s, want a pair with %s", answers.Pandas, count)
	}
}

// askArchive runs what a document asks, in the folder of an archive, for one payment.
const askArchive = `
import contextlib, io, json, os, re, sys
import duckdb
text = open(sys.argv[1]).read()
os.chdir(sys.argv[2])
queries = re.findall("\x60\x60\x60sql\n(.*?)\x60\x60\x60", text, re.S)
queries[4] = re.sub("'2026-11-24' AND '2026-11-26'", "'2020-01-01' AND '2099-12-31'", queries[4])
queries[4] = re.sub("id = '.*?'", "id = '" + sys.argv[3] + "'", queries[4])
answers = [duckdb.sql(query).fetchall() for query in queries]
said = io.StringIO()
with contextlib.redirect_stdout(said):
    exec(re.search("\x60\x60\x60python\n(.*?)\x60\x60\x60", text, re.S)[1])
print(json.dumps({"Queries": answers, "Pandas": said.getvalue()}, default=str))
`

// Days are those of São Paulo. The ledger says how the archive of each ends: who writes another one must stop.
func TestAnArchiveKnowsDays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 2, 50, 0, 0, time.UTC) // ten minutes before midnight there
	client := ledgermodel.New().ConnectAt(func() time.Time { return now })
	population := populated(t, client, 1_000_000)
	random := rand.New(rand.NewPCG(1, 2))
	content := pix.Content{Payer: population.Customer(0), Payee: population.Customer(1), AmountCentavos: 100}
	hold := func() pix.EndToEndID {
		id := pix.NewEndToEndID(content.Payer.ISPB, now, random)
		write(t, client, ledger.AppendReserve(nil, id, content, 60))
		return id
	}

	settle := func(after time.Duration) {
		now = now.Add(after)
		id := hold()
		now = now.Add(time.Second)
		write(t, client, ledger.AppendPost(nil, id, false))
	}
	for range 3 {
		settle(time.Second)
	}
	killed, folder := t.TempDir(), t.TempDir()
	now = time.Date(2026, 3, 1, 2, 59, 40, 0, time.UTC)
	id := hold() // from day to day
	settle(time.Second)
	settle(20 * time.Second)
	archived(t, client, killed, 100, 1<<30)
	write(t, client, ledger.AppendPost(nil, id, false))
	settle(24 * time.Hour)
	settle(time.Hour)

	end := archived(t, client, folder, 100, 1<<30)
	if again := archived(t, client, killed, 100, 1<<30); again != end || again.Name == "" {
		t.Fatalf("one that was killed while money was held ends with %+v, want %+v", again, end)
	}
	all, err := archive.Manifests(os.DirFS(folder))
	kit.Must(t, err)

	days, ends := map[string]int{}, map[string]string{}
	for _, m := range all {
		days[m.Day] += m.Payments
		ends[m.Day] = m.Chain
	}

	if want := map[string]int{"2026-02-28": 4, "2026-03-01": 2, "2026-03-02": 1}; !maps.Equal(days, want) {
		t.Fatalf("payments by day are %v, want %v", days, want)
	}

	if merged, err := filepath.Glob(filepath.Join(folder, "payments", "day=*", "day.parquet")); err != nil ||
		len(merged) != 2 {
		t.Errorf("the days that are over are not in one file each: %v", merged)
	}

	for text, over := range map[string]bool{"2026-02-28": true, "2026-03-01": true, "2026-03-02": false} {
		day, err := pix.ParseDay(text)
		kit.Must(t, err)
		chain, err := tlog.ParseHash(ends[text])
		kit.Must(t, err)

		found, err := client.LookupTransfers([]tb.Uint128{ledger.ArchivedID(day)})
		if err != nil || len(found) > 0 != over || over &&
			found[0].UserData128 != ledger.Archived(day, chain).UserData128 {
			t.Errorf("of %s the ledger says %+v %v", text, found, err)
		}
	}

	// Its ledger is given up and gets another identity. That changes nothing, and no rebuild would bring it: an
	// archive does not end with it.
	now = now.Add(time.Hour)
	is, err := ledger.ReadIdentity(t.Context(), client)
	kit.Must(t, err)
	write(t, client, []tb.Transfer{ledger.Renewal(2, is)})
	settle(time.Hour)

	end = archived(t, client, folder, 100, 1<<30)
	if again := archived(t, client, t.TempDir(), 8189, 3); again != end {
		t.Errorf("a new archive ends with %+v, want %+v", again, end)
	}
	brings := false

	for chain, err := range (past.Source{Folder: os.DirFS(folder)}).Chains(t.Context(), 0) {
		kit.Must(t, err)

		for _, transfer := range chain {
			brings = brings || transfer.ID.String() == end.LastID
		}
	}

	if !brings {
		t.Errorf("the archive ends with %s, and a rebuild does not bring that", end.LastID)
	}

	a, err := past.New(t.Context(), client, 100, store.Folder(t.TempDir()), 3) // cut otherwise
	for range 100 {
		if err == nil {
			_, _, err = a.Step(t.Context())
		}
	}

	if !errors.As(err, new(*past.Wrong)) {
		t.Errorf("an archive with other segments: %v", err)
	}
}
