package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// watched is a live audit of a clearing house.
type watched struct {
	*live.Audit
	s    *system
	stop func()
}

// ledgerClient returns a client of the ledger.
func (s *system) ledgerClient() tigerbeetle.Client {
	s.t.Helper()
	client, err := ledger.Connect(ledger.Config{Addresses: strings.Split(s.TigerBeetleAddresses(), ",")})
	s.must(err)
	s.t.Cleanup(client.Close)
	return client
}

// watch starts a live audit.
func (s *system) watch(client tigerbeetle.Client, change ...func(*live.Config)) *watched {
	s.t.Helper()
	kafka, err := s.Kafka().Options()
	s.must(err)
	config := live.Config{Kafka: kafka, Ledger: client, Behind: s.Kafka().Behind, Log: s.t.Logf}
	for _, change := range change {
		change(&config)
	}
	audit, err := live.Open(config)
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = audit.Run(ctx) // it ends by cancel
	}()
	w := &watched{audit, s, func() { cancel(); <-ended }}
	s.t.Cleanup(w.stop)
	return w
}

// turns waits until the light has a colour.
func (w *watched) turns(colour string) live.Light {
	w.s.t.Helper()
	w.s.eventually("the light is "+colour, func() bool { return w.Light().Colour == colour })
	return w.Light()
}

// checks waits until so many payments were checked and the light is green, and fails the test if it is red. An
// audit whose share is small, or whose ledger is slow, may take many times as long as the load.
func (w *watched) checks(want int64) live.Light {
	w.s.t.Helper()
	kit.AwaitWithin(w.s.t, 10*time.Minute, "all are checked", func() (bool, string) {
		l := w.Light()
		return l.Colour == live.Red || l.Colour == live.Green && l.Checked >= want, fmt.Sprintf("%d of %d, the light is %s: %s", l.Checked, want, l.Colour, l.Text)
	})
	l := w.Light()
	if l.Colour == live.Red {
		w.s.t.Errorf("the light is red, and nothing was wrong: %s", l.Text)
		for _, f := range l.Findings {
			w.s.t.Logf("%s %s", f.Payment, f.Text)
		}
	}
	return l
}

// A frozen engine, a killed ledger, a killed broker and a time without any engine make nothing red, and after
// them every payment is checked.
func TestLiveAuditStaysGreen(t *testing.T) {
	s := start(t, 2)
	w := s.watch(s.ledgerClient())
	w.turns(live.Green)
	load := s.load(300, 15_000, duringFaults...)
	engines := []string{stack.EngineName(0), stack.EngineName(1)}
	load.progress(500)
	s.must(s.Pause(engines[0]))
	time.Sleep(deadline + 2*time.Second)
	s.must(s.Resume(engines[0]))
	for _, killed := range [][]string{{stack.TigerBeetle}, {stack.Broker}, engines} {
		load.progress(500)
		for _, process := range killed {
			s.must(s.Kill(process))
		}
		for _, process := range killed {
			s.must(s.StartProcess(process))
		}
		s.ready(append(killed, engines...)...)
	}
	result := load.wait()
	want := int64(result.Settled + result.Rejected + result.Returned + result.ReturnsRejected)
	t.Logf("%s; %d had an outcome", w.checks(want).Text, want)
	s.audit()
}

// The light is amber while ledger or broker are frozen, and while it lags. Then it is green again, and nothing
// is left out.
func TestLiveAuditSaysWhatItDoesNotSee(t *testing.T) {
	s := start(t, 1)
	client := s.ledgerClient()
	w := s.watch(client)
	w.turns(live.Green)
	for process, says := range map[string]string{stack.TigerBeetle: "the ledger has said nothing", stack.Broker: "the broker has said nothing"} {
		s.must(s.Pause(process))
		s.eventually("the light is amber: "+says, func() bool {
			l := w.Light()
			return l.Colour == live.Amber && strings.Contains(l.Text, says) && strings.Contains(l.Text, "checked to")
		})
		s.must(s.Resume(process))
		w.turns(live.Green)
	}
	s.ready(stack.EngineName(0))
	// Its share is too small for what follows, and keeps it reading for seconds after the last one, however fast the
	// machine is.
	slow := s.watch(client, func(c *live.Config) { c.Share = 0.0015 })
	s.eventually("the slow one has begun", func() bool { return !strings.HasPrefix(slow.Light().Text, "nothing is checked") })
	result := s.load(500, 2500, duringFaults...).wait()
	want := int64(result.Settled + result.Rejected + result.Returned + result.ReturnsRejected)
	s.eventually("the slow one lags", func() bool {
		l := slow.Light()
		return l.Colour == live.Amber && strings.HasPrefix(l.Text, "checked to") && strings.HasSuffix(l.Text, "s behind")
	})
	t.Log(slow.Light().Text)
	for _, one := range []*watched{w, slow} {
		t.Log(one.checks(want).Text)
	}
}

// forger is somebody who can write to the ledger and to every topic.
type forger struct {
	s      *system
	ledger tigerbeetle.Client
	kafka  *kgo.Client
	random *rand.Rand
}

func (s *system) forger(client tigerbeetle.Client) *forger {
	s.t.Helper()
	kafka, err := s.Kafka().Client(kgo.ClientID("forger"))
	s.must(err)
	s.t.Cleanup(kafka.Close)
	return &forger{s, client, kafka, rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))}
}

// content returns what a payment to an account of another bank moves.
func (f *forger) content(payee string) pix.Content {
	return pix.Content{
		Payer: pix.Account{ISPB: "10000001", Branch: sandbox.RichBranch, Number: "1"}, Payee: pix.Account{ISPB: "10000002", Branch: payee, Number: "1"}, AmountCentavos: 4321,
	}
}

func (f *forger) newID() pix.EndToEndID {
	return pix.NewEndToEndID("10000001", time.Now(), f.random)
}

// order sends an order, and returns when the ledger has a transfer of it.
func (f *forger) order(id pix.EndToEndID, c pix.Content, until tb.Uint128) {
	f.s.t.Helper()
	value, err := proto.Marshal(&pixv1.PaymentOrder{EndToEndId: id.String(), Payer: mix.AccountMessage(c.Payer), Payee: mix.AccountMessage(c.Payee), AmountCentavos: c.AmountCentavos, AcceptedAtUnixMs: time.Now().UnixMilli()})
	f.s.must(err)
	f.send(stream.Payments, id, value)
	f.s.eventually("the ledger has the payment", func() bool {
		found, err := f.ledger.LookupTransfers([]tb.Uint128{until})
		f.s.must(err)
		return len(found) == 1
	})
}

func (f *forger) send(topic string, id pix.EndToEndID, value []byte) {
	f.s.t.Helper()
	f.s.must(f.kafka.ProduceSync(f.s.t.Context(), &kgo.Record{Topic: topic, Key: []byte(id.String()), Value: value}).FirstErr())
}

// report writes a report of a payment.
func (f *forger) report(id pix.EndToEndID, c pix.Content, status pixv1.SettlementStatus, reason string) {
	f.s.t.Helper()
	value, err := proto.Marshal(&pixv1.SettlementReport{EndToEndId: id.String(), Status: status, ReasonCode: reason, Payer: mix.AccountMessage(c.Payer), Payee: mix.AccountMessage(c.Payee), AmountCentavos: c.AmountCentavos})
	f.s.must(err)
	f.send(stream.Settlements, id, value)
}

// write writes transfers to the ledger, which must take all of them.
func (f *forger) write(transfers ...tb.Transfer) {
	f.s.t.Helper()
	failed, err := f.ledger.CreateTransfers(transfers)
	f.s.must(err)
	if len(failed) > 0 {
		f.s.t.Fatalf("the ledger does not take it: %v", failed)
	}
}

// Each lie that is planted makes a green light red, and it names the payment, while 500 payments a second flow.
func TestLiveAuditTurnsRed(t *testing.T) {
	s := start(t, 1)
	client := s.ledgerClient()
	f := s.forger(client)
	load := s.load(500, 1_000_000, "--mix", "settling")
	load.progress(500)

	const ordinary, silent = "0001", sandbox.SilentBranch
	money := func(code uint16, debit, credit tb.Uint128) tb.Transfer {
		return tb.Transfer{ID: tb.ID(), DebitAccountID: debit, CreditAccountID: credit, Amount: tb.ToUint128(1), Ledger: ledger.Ledger, Code: code}
	}
	named := func(transfer tb.Transfer) string {
		b := transfer.ID.Bytes()
		slices.Reverse(b[:])
		return fmt.Sprintf("%x", b)
	}
	minted := func(transfer tb.Transfer) (names string) {
		f.write(transfer)
		return named(transfer)
	}
	held := func() (pix.EndToEndID, pix.Content) {
		id, c := f.newID(), f.content(silent)
		f.order(id, c, ledger.IDsOf(id).Pending(1))
		return id, c
	}
	settled := func() (pix.EndToEndID, pix.Content) {
		id, c := f.newID(), f.content(ordinary)
		f.order(id, c, ledger.IDsOf(id).Verdict())
		return id, c
	}
	const acsc, rjct = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT
	only := func(kind string) []string { return []string{kind} }
	// The last ones break the laws of balances: after them no light is green.
	green := true
	for _, lie := range []struct {
		name  string
		kinds []string // of the finding: one of them
		after bool     // a new light is green again
		plant func() (names string)
	}{
		{"settled without an order", only(audit.UnexplainedMoney), true, func() string {
			id, c := f.newID(), f.content(ordinary)
			f.write(ledger.AppendReserve(nil, id, c, 60)...)
			f.write(ledger.AppendPost(nil, id, false)...)
			return id.String()
		}},
		{"held for another payee", only(audit.WrongTransfer), true, func() string {
			id, c := f.newID(), f.content(ordinary)
			other := c
			other.Payee.Number = "2"
			f.write(ledger.AppendReserve(nil, id, other, 60)...)
			f.order(id, c, ledger.IDsOf(id).Pending(1))
			return id.String()
		}},
		// Beside the engine's report it is another one; after it, the payment may be forgotten already.
		{"a report that contradicts the ledger", []string{audit.ReportsDiffer, audit.LedgerDisagrees}, true, func() string {
			id, c := settled()
			f.report(id, c, rjct, "AB03")
			return id.String()
		}},
		{"a report without an order", only(audit.ReportWithoutOrder), true, func() string {
			id := f.newID()
			f.report(id, f.content(ordinary), acsc, "")
			return id.String()
		}},
		{"a second verdict: a leg moves again", only(audit.WrongTransfer), false, func() string {
			id, c := settled()
			again := ledger.AppendReserve(nil, id, c, 60)[2]
			b := again.ID.Bytes()
			b[0] |= 15
			again.ID, again.Flags, again.Timeout = tb.BytesToUint128(b), 0, 0
			f.write(again)
			return id.String()
		}},
		{"one leg posted of a held payment", only(audit.LegsDisagree), false, func() string {
			id, _ := held()
			leg := ledger.AppendPost(nil, id, false)[0]
			leg.Flags = tb.TransferFlags{PostPendingTransfer: true}.ToUint16()
			f.write(leg)
			return id.String()
		}},
		{"a deposit without an act", only(audit.MoneyWithoutAct), false, func() string {
			c := f.content(ordinary)
			deposit := money(uint16(ledger.Deposit), ledger.TransitAccount(c.Payer.ISPB), ledger.CustomerAccount(c.Payer))
			deposit.UserData128, deposit.Flags = deposit.CreditAccountID, tb.TransferFlags{Linked: true}.ToUint16()
			probe := money(ledger.CodeClockProbe, ledger.IssuanceAccount, ledger.RefusalsAccount)
			probe.Amount = tb.Uint128{}
			f.write(deposit, probe)
			return named(deposit)
		}},
		{"money of a forged kind", only(audit.UnexplainedMoney), false, func() string {
			return minted(money(99, ledger.IssuanceAccount, ledger.ReserveAccount("10000001")))
		}},
	} {
		w := s.watch(client) // what was before it began it does not judge
		s.eventually(lie.name+": the light has begun", func() bool { return w.Light().Checked > 0 })
		if green {
			w.turns(live.Green)
		}
		planted := time.Now()
		names := lie.plant()
		written := time.Now()
		var found *live.Finding
		s.eventually(lie.name+" is found", func() bool {
			for _, finding := range w.Light().Findings {
				kind, _, _ := strings.Cut(finding.Text, ":")
				if slices.Contains(lie.kinds, kind) && (finding.Payment == names || strings.Contains(finding.Text, names)) {
					found = &finding
					return true
				}
			}
			return false
		})
		if w.Light().Colour != live.Red {
			t.Errorf("%s: the light is %s", lie.name, w.Light().Colour)
		}
		t.Logf("%-52s red after %5.2f s (planted within %.2f s): %s %s", lie.name, max(0, found.At.Sub(written).Seconds()), written.Sub(planted).Seconds(), found.Payment, found.Text)
		if green = green && lie.after; !green {
			s.eventually("the laws are broken after "+lie.name, func() bool {
				return slices.ContainsFunc(w.Light().Findings, func(finding live.Finding) bool { return strings.HasPrefix(finding.Text, audit.BrokenLaw) })
			})
		}
		w.stop()
	}
}
