package ledgerfacts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// The real status stands at the failing leg, wherever that is. The legs before and after it say
// linked_event_failed.
func TestOneLegFailsAndTheOthersAreLinked(t *testing.T) {
	p := newPayment(t)
	for failing := range 3 {
		chain := (&payment{newID(t, p.content.Payer.ISPB), p.content, longTimeout}).reserve()
		chain[failing].CreditAccountID = tb.ID() // an account that does not exist
		want := []tb.CreateTransferResult{tb.TransferLinkedEventFailed, tb.TransferLinkedEventFailed,
			tb.TransferLinkedEventFailed}
		want[failing] = tb.TransferCreditAccountNotFound
		expectResults(t, chain, map[uint32]tb.CreateTransferResult{0: want[0], 1: want[1], 2: want[2]})
	}
	expectMoney(t, p, 0, 0)
}

func TestOnlyTheBadChainOfARequestFails(t *testing.T) {
	bad, good := newPayment(t), newPayment(t)
	bad.content.Payee = noCustomer(bad.content.Payee.ISPB)
	expectResults(t, slices.Concat(bad.reserve(), good.reserve(), good.post(), good.reserve()),
		map[uint32]tb.CreateTransferResult{
			0: tb.TransferLinkedEventFailed, 1: tb.TransferLinkedEventFailed, 2: tb.TransferCreditAccountNotFound,
			9: tb.TransferExists, 10: tb.TransferLinkedEventFailed, 11: tb.TransferLinkedEventFailed, // the duplicate
		})
	expectMoney(t, good, 0, amount)
}

func expectMoney(t *testing.T, p *payment, held, moved int64) {
	t.Helper()

	if is := p.money(t); is != fmt.Sprintf("%d,%d", held, moved) {
		t.Errorf("held and moved are %s, want %d,%d", is, held, moved)
	}
}

// expectResults sends a request; want has the results by the places of the transfers that fail.
func expectResults(t *testing.T, request []tb.Transfer, want map[uint32]tb.CreateTransferResult) {
	t.Helper()
	results, err := client.CreateTransfers(request)
	kit.Must(t, err)

	got := map[uint32]tb.CreateTransferResult{}
	for _, result := range results {
		got[result.Index] = result.Result
	}

	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A zero in a field of a query means that the field does not matter. So no query may filter on what a legal id
// makes zero: it would find what is everybody's. An account without an id is no account at all.
func TestAZeroInAFilterIsNoFilter(t *testing.T) {
	zero, other := pix.ISPB("00000000"), pix.ISPB("00000009")
	for _, psp := range []pix.ISPB{zero, other} {
		opened := ledger.NewAccount(ledger.CustomerAccount(pix.Account{ISPB: psp, Branch: "0000", Number: "7"}))
		opened.UserData64 = psp.Pack()
		kit.Must(t, createAccounts(opened))
	}

	for psp, all := range map[pix.ISPB]bool{zero: true, other: false} {
		found, err := client.QueryAccounts(
			tb.QueryFilter{Code: uint16(ledger.Customer), UserData64: psp.Pack(), Limit: 8189})
		kit.Must(t, err)
		banks := map[pix.ISPB]bool{}

		for _, account := range found {
			_, named := ledger.UnpackAccount(account.ID)
			banks[named.ISPB] = true
		}

		if !banks[psp] || banks[zero] != all || len(banks) > 1 != all {
			t.Errorf("with the ISPB %s it finds accounts of %v", psp, banks)
		}
	}

	nobody := tb.AccountFilter{Limit: 8189, Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32()}
	if found, err := client.GetAccountTransfers(nobody); err != nil || len(found) > 0 {
		t.Errorf("an account without an id has transfers: %v %v", found, err)
	}
}

// A request beyond the server's limit ends the process and names the setting to lower.
func TestTooLargeRequestsFail(t *testing.T) {
	b := open(ledger.BatchConfig{EventsMax: 8190, InFlightMax: 1}) // Validate would reject it
	defer b.close()
	b.writer.Write(make(chan ledger.Result, 1), make([]tb.Transfer, 8190))
	b.reader.Read(make(chan []tb.Transfer, 1), make([]tb.Uint128, 8190))

	for range 2 {
		select {
		case err := <-b.failed:
			if !strings.Contains(err.Error(), "8190") ||
				!strings.Contains(err.Error(), "LEDGER_BATCH_EVENTS_MAX must not exceed the server's limit") {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no failure was reported")
		}
	}
}

// A probe with a timeout is a hold of zero, which the ledger dates like any transfer, and ends by itself.
func TestAProbeEndsByItself(t *testing.T) {
	probe, err := ledger.ProbeClock(client, time.Now, 1)
	if err != nil || probe.Unfunded || time.Since(probe.At).Abs() > 10*time.Second {
		t.Fatalf("%+v, %v", probe, err)
	}
	since := uint64(probe.At.UnixNano())

	held, err := client.QueryTransfers(tb.QueryFilter{Code: ledger.CodeClockProbe, TimestampMin: since, Limit: 1})
	if err != nil || len(held) != 1 || !held[0].TransferFlags().Pending || held[0].Amount != (tb.Uint128{}) ||
		held[0].Timestamp != since {
		t.Fatalf("the probe of %d is %+v, %v", since, held, err)
	}
	kit.Await(t, "the end of the probe", func() (bool, string) {
		events, err := client.GetChangeEvents(tb.ChangeEventsFilter{TimestampMin: since, Limit: 8000})
		kit.Must(t, err)

		return slices.ContainsFunc(events, func(e tb.ChangeEvent) bool {
			return e.Type == tb.ChangeEventTwoPhaseExpired && e.TransferID == held[0].ID
		}), "it has not expired"
	})
}
