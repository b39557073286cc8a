package bootstrap

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/rebuild"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
)

const eventsMax = 40 // as few as a large chain allows, so that pages and requests cut everywhere

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

// killedOften does something with a client that dies after a few requests, until it comes to its end.
func killedOften(t *testing.T, client tigerbeetle.Client, do func(tigerbeetle.Client) error) {
	t.Helper()
	for killed := 0; ; killed++ {
		err := do(&dying{client, 1 + killed%3})
		if err == nil {
			return
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
}

// history is a ledger with everything that a clearing house writes, and what of it may end.
type history struct {
	settled, capped, open, expired pix.EndToEndID
	content                        pix.Content
}

// populated gives a ledger a small population, with this deposit of each customer; 0: the usual one.
func populated(t *testing.T, client tigerbeetle.Client, depositCentavos uint64) sandbox.Population {
	t.Helper()
	var config Config
	kit.Must(t, settings.Parse(&config))
	config.Population.Customers = 50
	config.Population.DepositCentavos = cmp.Or(depositCentavos, config.Population.DepositCentavos)
	kit.Must(t, Populate(t.Context(), &config, client))
	return config.Population
}

func live(t *testing.T, client tigerbeetle.Client) (h history) {
	t.Helper()
	p := populated(t, client, 0)
	h.content = pix.Content{Payer: p.Customer(0), Payee: p.Customer(1), AmountCentavos: 100}
	act := ledger.Act{Kind: ledger.DayCapped, Bank: h.content.Payer.ISPB, Centavos: 100_000, WindowSeconds: 3600, ByCentralBank: true}
	account := func() tb.Account {
		found, err := client.LookupAccounts([]tb.Uint128{ledger.AllowanceAccount(act.Bank, ledger.Day)})
		if err != nil || len(found) != 1 {
			t.Fatal(err)
		}
		return found[0]
	}
	write(t, client, ledger.GrantOf(account()).AppendAdjustment(ledger.AppendAct(nil, "central-bank", "cap", act), act.Centavos))
	random := rand.New(rand.NewPCG(1, 2))
	pay := func(outcome func(id pix.EndToEndID) []tb.Transfer, capped bool, timeoutSeconds uint32) pix.EndToEndID {
		id := pix.NewEndToEndID(h.content.Payer.ISPB, time.Now(), random)
		hold := ledger.AppendReserve(nil, id, h.content, timeoutSeconds)
		if capped {
			hold = ledger.AppendCap(hold, id, h.content, ledger.Day, act.WindowSeconds)
		}
		write(t, client, hold)
		if outcome != nil {
			write(t, client, outcome(id))
		}
		return id
	}
	settle := func(id pix.EndToEndID) []tb.Transfer { return ledger.AppendPost(nil, id, false) }
	for range 30 {
		h.settled = pay(settle, false, 60)
		h.capped = pay(settle, true, 60)
		pay(func(id pix.EndToEndID) []tb.Transfer {
			return ledger.AppendVoid(nil, id, false, pix.ReasonPayeePSPSilent)
		}, false, 60)
		pay(func(id pix.EndToEndID) []tb.Transfer {
			return ledger.AppendCapVoid(ledger.AppendVoid(nil, id, false, pix.ReasonPayeePSPSilent), id, pix.ReasonPayeePSPSilent)
		}, true, 60)
		refused := pix.NewEndToEndID(h.content.Payer.ISPB, time.Now(), random)
		write(t, client, ledger.AppendReceipt(nil, refused, h.content, pix.ReasonPayeePSPSilent, true))
		kit.Must(t, kit.ErrorOf(ledger.ProbeClock(client, time.Now, 5)))
		returned := pix.ReturnContent{Original: h.settled, AmountCentavos: 10, Reason: pix.MustReason("MD06")}
		back := pix.NewReturnID(h.content.Payee.ISPB, time.Now(), random)
		write(t, client, ledger.AppendReturnedMark(ledger.AppendReturnReserve(nil, back, returned, 0, h.content, 60), h.settled))
		write(t, client, ledger.AppendReturnPost(nil, back, returned, 0, false))
	}
	// A cap that is lowered takes what is free, whatever holds are left out.
	act.Centavos = 5000
	write(t, client, ledger.GrantOf(account()).AppendAdjustment(ledger.AppendAct(nil, "central-bank", "cap-2", act), act.Centavos))
	h.open = pay(nil, true, 3600)
	h.expired = pay(nil, true, 1)
	kit.Await(t, "a hold that expires", func() (bool, string) {
		results, err := client.CreateTransfers(ledger.AppendPost(nil, h.expired, false)[:1])
		if err != nil || len(results) != 1 {
			t.Fatal(results, err)
		}
		return results[0].Result == tb.TransferPendingTransferExpired || results[0].Result == tb.TransferLinkedEventChainOpen && expired(t, client, h.expired), results[0].Result.String()
	})
	write(t, client, ledger.AppendReceipt(nil, h.expired, h.content, pix.ReasonPayeePSPSilent, true))
	return h
}

func expired(t *testing.T, client tigerbeetle.Client, id pix.EndToEndID) bool {
	t.Helper()
	found, err := client.LookupTransfers([]tb.Uint128{ledger.IDsOf(id).Pending(1)})
	if err != nil || len(found) != 1 {
		t.Fatal(err)
	}
	return time.Since(time.Unix(0, int64(found[0].Timestamp))) > 3*time.Second
}

// A past comes into an empty ledger as it was, however often the import is killed. What nothing has ended is left out,
// and legs 4 of the window that runs hold their allowance again.
func TestImport(t *testing.T) {
	t.Parallel()
	from, into := openLedger(t), openLedger(t)
	h := live(t, from)
	source := rebuild.Ledger{Client: from, EventsMax: eventsMax}
	bring := func(client tigerbeetle.Client) error {
		target := rebuild.Target{Client: client, EventsMax: eventsMax, Progress: func(int, int, time.Time) {}}
		if err := target.Import(t.Context(), source); err != nil {
			return err
		}
		if _, _, err := target.HoldAllowances(t.Context(), source, nil, time.Now()); err != nil {
			return err
		}
		if err := target.End(t.Context(), ledger.Identity{}); err != nil {
			return err
		}
		return target.Mark(t.Context())
	}
	killedOften(t, into, bring)
	if err := bring(into); !errors.Is(err, rebuild.ErrDone) {
		t.Errorf("a ledger with a marker: %v", err)
	}

	was, is := all(t, from), all(t, into)
	ended := map[tb.Uint128]tb.Transfer{}
	for _, transfer := range was.transfers {
		if transfer.PendingID != (tb.Uint128{}) {
			ended[transfer.PendingID] = transfer
		}
	}
	there := map[tb.Uint128]tb.Transfer{}
	for _, transfer := range is.transfers {
		there[transfer.ID] = transfer
	}
	kept := 0
	for _, before := range was.transfers {
		want := rebuild.Kept([]tb.Transfer{before}, ended)
		if len(want) == 0 {
			continue
		}
		kept++
		got := there[before.ID]
		got.Flags, want[0].Flags = got.Flags&^1, want[0].Flags&^1 // linked
		if got != want[0] {
			t.Fatalf("brought as %+v, want %+v", got, want[0])
		}
	}
	if legs := len(is.transfers) - kept; legs != 32 { // 30 settled payments under a cap, the end of the rebuild, and the marker
		t.Errorf("%d transfers were not in the past, want 30 legs 4, the end and the marker", legs)
	}
	if len(was.accounts) != len(is.accounts) {
		t.Fatalf("%d accounts, want %d", len(is.accounts), len(was.accounts))
	}
	for i, before := range was.accounts {
		got := is.accounts[i]
		if got.ID != before.ID || got.Timestamp != before.Timestamp || got.CreditsPosted != before.CreditsPosted || got.DebitsPosted != before.DebitsPosted {
			t.Fatalf("%s is %+v, want %+v", ledger.AccountName(before.ID), got, before)
		}
		if !before.AccountFlags().History {
			continue
		}
		if a, b := posted(t, from, before.ID), posted(t, into, before.ID); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("the history of %s differs: %d and %d lines", ledger.AccountName(before.ID), len(a), len(b))
		}
	}
	allowance := func(client tigerbeetle.Client) int64 {
		found, err := client.LookupAccounts([]tb.Uint128{ledger.AllowanceAccount(h.content.Payer.ISPB, ledger.Day)})
		if err != nil || len(found) != 1 {
			t.Fatal(err)
		}
		return ledger.GrantOf(found[0]).Left(1 << 40)
	}
	// The two holds that nothing has ended are not there: one comes from the log again, and an engine frees that of the other.
	if a, b := allowance(from), allowance(into); b != a+2*int64(h.content.AmountCentavos) {
		t.Errorf("of the cap %d are left, %d before", b, a)
	}
	if a, b := identity(t, from), identity(t, into); a == b || b.Number != 1 {
		t.Errorf("the identity %v became %v", a, b)
	}
	for id, want := range map[pix.EndToEndID]tb.CreateTransferResult{h.settled: tb.TransferExistsWithDifferentFlags, h.open: tb.TransferOK} {
		results, err := into.CreateTransfers(ledger.AppendReserve(nil, id, h.content, 60))
		kit.Must(t, err)
		if got := ledger.ResultOf(ledger.AppendReserve(nil, id, h.content, 60), 0, results); got.Status != want {
			t.Errorf("an order that comes again gets %v, want %v", got.Status, want)
		}
	}
	// What had expired may be held once more, and can never settle: its verdict is there.
	write(t, into, ledger.AppendReserve(nil, h.expired, h.content, 60))
	results, err := into.CreateTransfers(ledger.AppendPost(nil, h.expired, false))
	if err != nil || !ledger.ResultOf(ledger.AppendPost(nil, h.expired, false), 0, results).Exists() {
		t.Errorf("a payment that was rejected can be posted: %v %v", results, err)
	}
}

// After a transfer of now nothing older can be brought, and the import says so.
func TestImportAfterSomebodyWrote(t *testing.T) {
	t.Parallel()
	from, into := openLedger(t), openLedger(t)
	live(t, from)
	target := rebuild.Target{Client: &dying{into, 4}, EventsMax: eventsMax, Progress: func(int, int, time.Time) {}}
	if err := target.Import(t.Context(), rebuild.Ledger{Client: from, EventsMax: eventsMax}); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	kit.Must(t, kit.ErrorOf(ledger.ProbeClock(into, time.Now, 0)))
	target.Client = into
	if err := target.Import(t.Context(), rebuild.Ledger{Client: from, EventsMax: eventsMax}); err == nil {
		t.Error("went on behind a transfer of now")
	}
}

type books struct {
	accounts  []tb.Account
	transfers []tb.Transfer
}

func all(t *testing.T, client tigerbeetle.Client) (b books) {
	t.Helper()
	transfers, err := client.QueryTransfers(tb.QueryFilter{Limit: 8189})
	kit.Must(t, err)
	b.transfers = transfers
	found, err := client.QueryAccounts(tb.QueryFilter{Limit: 8189})
	kit.Must(t, err)
	b.accounts = found
	return b
}

type balance struct {
	At              uint64
	Credits, Debits tb.Uint128
}

// posted returns the history of what an account had, at each change of it.
func posted(t *testing.T, client tigerbeetle.Client, id tb.Uint128) (lines []balance) {
	t.Helper()
	found, err := client.GetAccountBalances(tb.AccountFilter{AccountID: id, Limit: 8189, Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()})
	kit.Must(t, err)
	for _, b := range found {
		line := balance{b.Timestamp, b.CreditsPosted, b.DebitsPosted}
		if n := len(lines); n == 0 || lines[n-1].Credits != line.Credits || lines[n-1].Debits != line.Debits {
			lines = append(lines, line)
		}
	}
	return lines
}

func identity(t *testing.T, client tigerbeetle.Client) ledger.Identity {
	t.Helper()
	is, err := ledger.ReadIdentity(t.Context(), client)
	kit.Must(t, err)
	return is
}

// imported returns a ledger into which the past of a small population was brought, and where that ends.
func imported(t *testing.T, depositCentavos uint64) (client tigerbeetle.Client, p sandbox.Population, ends time.Time) {
	t.Helper()
	from, into := openLedger(t), openLedger(t)
	p = populated(t, from, depositCentavos)
	source := rebuild.Ledger{Client: from, EventsMax: eventsMax}
	target := rebuild.Target{Client: into, EventsMax: eventsMax, Progress: func(int, int, time.Time) {}}
	kit.Must(t, target.Import(t.Context(), source))
	ends, err := source.End(t.Context())
	kit.Must(t, err)
	return into, p, ends
}

// What was reported gets its verdict although the reports are in no order that works: a payment waits for what its payer
// spends, and only where nothing comes the central bank lends it, and takes back what it can. It has the time of its
// report, and however often all this is killed, the ledger is the same.
func TestForward(t *testing.T) {
	t.Parallel()
	client, p, ends := imported(t, 100)
	killed, _, _ := imported(t, 100)
	random, now := rand.New(rand.NewPCG(1, 2)), time.Now()
	told := func(from, to pix.Account, centavos uint64) rebuild.Told {
		return rebuild.Told{At: now, ID: pix.NewEndToEndID(from.ISPB, now, random), Settled: true, Content: pix.Content{Payer: from, Payee: to, AmountCentavos: centavos}}
	}
	a, b, c, d := p.Customer(0), p.Customer(1), p.Customer(2), p.Customer(3)
	all := []rebuild.Told{
		told(b, c, 150), // spends what the next one brings
		told(a, b, 60),
		told(c, d, 400), // of which 150 are lost, and come back
		told(a, c, 20),
		told(d, c, 450),
	}
	back := func() rebuild.Told {
		return rebuild.Told{At: now, ID: pix.EndToEndID(pix.NewReturnID(c.ISPB, now, random)), Return: true, Settled: true,
			Content: pix.Content{Payer: c, Payee: b, AmountCentavos: 10}, Returns: pix.ReturnContent{Original: all[0].ID, AmountCentavos: 10, Reason: pix.MustReason("MD06")}}
	}
	refused := told(a, b, 7)
	refused.Settled, refused.Reason = false, pix.MustReason("AC06")
	lost := back()
	lost.Returns.Original = told(a, b, 1).ID
	all = append([]rebuild.Told{back(), back(), refused, lost}, all...)
	for i := range all { // between the past and now, and the last one by a clock that is ahead
		all[i].At = ends.Add(time.Duration(i+1) * now.Sub(ends) / 20)
	}
	all[len(all)-1].At = now.Add(time.Hour)
	forward := func(client tigerbeetle.Client) (rebuild.Forwarded, error) {
		for i := range all {
			found, err := client.LookupTransfers([]tb.Uint128{ledger.IDsOf(all[i].ID).Verdict()})
			kit.Must(t, err)
			all[i].Done = len(found) > 0
		}
		target := rebuild.Target{Client: client, EventsMax: 15}
		return target.Forward(t.Context(), all, ends, time.Now())
	}
	result, err := forward(client)
	kit.Must(t, err)
	if result.Settled != 7 || result.Rejected != 1 || len(result.Impossible) != 1 || len(result.Loans) != 1 {
		t.Fatalf("%+v", result)
	}
	loan := result.Loans[0]
	if loan.Act.Kind != ledger.Deposit || loan.Act.Account != c || loan.Act.Centavos != loan.Returned {
		t.Errorf("the loan is %+v", loan)
	}
	var ids []tb.Uint128
	for _, account := range []pix.Account{a, b, c, d} {
		ids = append(ids, ledger.CustomerAccount(account))
	}
	found, err := client.LookupAccounts(ids)
	if err != nil || len(found) != 4 {
		t.Fatal(err)
	}
	for i, want := range []int64{20, 30, 300, 50} {
		if got := ledger.Less(found[i].CreditsPosted, found[i].DebitsPosted); got != want || found[i].DebitsPending != (tb.Uint128{}) {
			t.Errorf("%s has %d centavos, want %d", ledger.AccountName(ids[i]), got, want)
		}
	}
	verdict, err := client.LookupTransfers([]tb.Uint128{ledger.IDsOf(refused.ID).Verdict()})
	if err != nil || len(verdict) != 1 || time.Unix(0, int64(verdict[0].Timestamp)).Sub(all[2].At).Abs() > time.Microsecond {
		t.Errorf("%v: the refusal told at %v is %+v", err, all[2].At, verdict)
	}

	killedOften(t, killed, func(client tigerbeetle.Client) error { return kit.ErrorOf(forward(client)) })
	again, err := forward(killed)
	if err != nil || len(again.Impossible) != 1 || len(again.Loans) != 1 || again.Loans[0] != loan {
		t.Errorf("%v: one that was killed says %+v, want %+v", err, again, result)
	}
	if got, want := outcomes(t, killed), outcomes(t, client); !maps.Equal(got, want) {
		t.Errorf("after kills the ledger has %v, want %v", got, want)
	}
}

// outcomes are the transfers that a ledger has, but for their times.
func outcomes(t *testing.T, client tigerbeetle.Client) map[tb.Uint128]tb.Transfer {
	t.Helper()
	has := map[tb.Uint128]tb.Transfer{}
	for _, transfer := range all(t, client).transfers {
		transfer.Timestamp = 0
		if transfer.Code != ledger.CodeFunding && transfer.Code != ledger.CodeTold && transfer.Code < uint16(ledger.Joined) {
			has[transfer.ID] = transfer
		}
	}
	return has
}
