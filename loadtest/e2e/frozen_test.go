package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// bitesWithin is how long after an act something may still begin that the act forbids.
const bitesWithin = 2 * time.Second

// A bank is suspended while the only engine is frozen, with a backlog of its payments. When the engine
// goes on, it holds nothing for them: two seconds after a suspension nothing begins, but the one request
// that was on its way to the ledger when the engine froze.
func TestFrozenEngineBeginsNothingStale(t *testing.T) {
	s := start(t, 1)
	client, err := ledger.Connect(ledger.Config{Addresses: strings.Split(s.TigerBeetleAddresses(), ",")})
	s.must(err)
	defer client.Close()
	run := time.Now().UnixNano()
	load := s.load(300, 15_000, "--mix", "demo", "--allow", "DS27,AB03,LQ10")
	act := func(round int, kind ledger.ActKind, bank pix.ISPB) time.Time {
		t.Helper()
		id := fmt.Sprintf("frozen-%d-%d-%d", run, round, kind)
		failed, err := client.CreateTransfers(ledger.AppendAct(nil, keys.CentralBank, id, ledger.Act{Kind: kind, Bank: bank, ByCentralBank: true}))
		s.must(err)
		found, err := client.LookupTransfers([]tb.Uint128{ledger.ActRecordID(keys.CentralBank, id)})
		s.must(err)
		if len(failed) > 0 || len(found) != 1 {
			t.Fatalf("%s: %v, %v", kind, failed, found)
		}
		return time.Unix(0, int64(found[0].Timestamp))
	}
	var frozen []audit.Interval
	for round := range 3 {
		bank := population.Bank(round)
		load.progress(300)
		from := time.Now()
		s.must(s.Pause(stack.EngineName(0)))
		suspended := act(round, ledger.Suspended, bank)
		time.Sleep(10 * time.Second)
		s.must(s.Resume(stack.EngineName(0)))
		frozen = append(frozen, audit.Interval{From: from, To: time.Now()})
		load.progress(300)
		resumed := act(round, ledger.Resumed, bank)
		if held := holdsOf(t, client, bank, suspended.Add(bitesWithin), resumed); !ofOneRequest(held) {
			t.Errorf("round %d: %d legs of %s were held after its suspension at %v, such as %+v at %v", round, len(held), bank, suspended, held[0], time.Unix(0, int64(held[0].Timestamp)))
		} else {
			t.Logf("round %d: %d legs of %s were on their way from %v to %v", round, len(held), bank, suspended, resumed)
		}
	}
	load.wait()
	kafka, err := s.Kafka().Options()
	s.must(err)
	secrets, err := audit.ReadSecrets(s.AnswerKeysFile())
	s.must(err)
	verdict, err := audit.Run(t.Context(), audit.Config{
		Kafka: kafka, Ledger: client, Secrets: secrets, Deadline: deadline, HoldMax: pendingTimeout, Wait: pendingTimeout + 20*time.Second,
		LateRequests: frozen, Behind: s.Kafka().Behind, Log: func(string, ...any) {},
	})
	s.must(err)
	if !verdict.Clean {
		var text strings.Builder
		verdict.Write(&text)
		t.Error(text.String())
	}
	if verdict.Summary.ReasonsChecked["DS27"] == 0 {
		t.Error("no payment was refused with DS27: the suspensions met nothing")
	}
}

// ofOneRequest reports whether the ledger may have taken all transfers in one request: it gives them times
// that follow each other by a nanosecond.
func ofOneRequest(transfers []tb.Transfer) bool {
	for _, t := range transfers {
		if difference := int64(t.Timestamp - transfers[0].Timestamp); max(difference, -difference) > 8189 { //nolint:gosec // a century has fewer nanoseconds
			return false
		}
	}
	return true
}

// holdsOf returns the legs of payments that were held for a bank in a time.
func holdsOf(t *testing.T, client tigerbeetle.Client, bank pix.ISPB, from, to time.Time) (held []tb.Transfer) {
	t.Helper()
	for _, code := range []uint16{ledger.CodeLeg1, ledger.CodeLeg3} {
		found, err := client.GetAccountTransfers(tb.AccountFilter{
			AccountID: ledger.TransitAccount(bank), Code: code, TimestampMin: uint64(from.UnixNano()), TimestampMax: uint64(to.UnixNano()), Limit: 8189, //nolint:gosec // after 1970
			Flags: tb.AccountFilterFlags{Debits: true, Credits: true}.ToUint32(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, transfer := range found {
			if transfer.TransferFlags().Pending {
				held = append(held, transfer)
			}
		}
	}
	return held
}
