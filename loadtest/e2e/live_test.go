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

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/live"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
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
func (s *system) watch(client tigerbeetle.Client) *watched {
	s.t.Helper()
	kafka, err := s.Kafka().Options()
	s.must(err)
	audit := live.New(live.Config{Kafka: kafka, Ledger: client, Share: 0.05, Behind: s.Kafka().Behind, Log: s.t.Logf})
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

// The light is amber while ledger or broker are frozen. A frozen engine, a killed ledger, a killed broker and a time
// without any engine make nothing red, and after them every payment is checked.
func TestLiveAuditStaysGreen(t *testing.T) {
	s := start(t, 2)

	w := s.watch(s.ledgerClient())
	for process, says := range map[string]string{stack.TigerBeetle: "the ledger has said nothing",
		stack.Broker: "the broker has said nothing"} {
		w.turns(live.Green)
		s.must(s.Pause(process))
		s.eventually("the light is amber: "+says, func() bool { // at first it only lags
			return w.Light().Colour == live.Amber && strings.Contains(w.Light().Text, says)
		})
		s.must(s.Resume(process))
	}
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
	kit.AwaitWithin(t, 10*time.Minute, "all are checked", func() (bool, string) {
		l := w.Light()
		return l.Colour == live.Red || l.Colour == live.Green && l.Checked >= want,
			fmt.Sprintf("%d of %d, the light is %s: %s", l.Checked, want, l.Colour, l.Text)
	})

	if l := w.Light(); l.Colour == live.Red {
		t.Errorf("the light is red, and nothing was wrong: %s %+v", l.Text, l.Findings)
	}
	s.audit()
}

// Each lie that is planted makes a green light red, and it names the payment, while 500 payments a second flow.
func TestLiveAuditTurnsRed(t *testing.T) {
	s := start(t, 1)
	client := s.ledgerClient()
	content := pix.Content{
		Payer: pix.Account{ISPB: "10000001", Branch: sandbox.RichBranch, Number: "1"},
		Payee: pix.Account{ISPB: "10000002", Branch: "0001", Number: "1"}, AmountCentavos: 4321,
	}
	// write writes transfers to the ledger, which must take all of them.
	write := func(transfers ...tb.Transfer) {
		failed, err := client.CreateTransfers(transfers)
		s.must(err)

		if len(failed) > 0 {
			t.Fatalf("the ledger does not take it: %v", failed)
		}
	}
	load := s.load(500, 1_000_000, "--mix", "settling")
	load.progress(500)

	for _, lie := range []struct {
		name  string
		kind  string // of the finding
		plant func() (names string)
	}{
		{"settled without an order", audit.UnexplainedMoney, func() string {
			id := pix.NewEndToEndID("10000001", time.Now(), rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))))
			write(ledger.AppendReserve(nil, id, content, 60)...)
			write(ledger.AppendPost(nil, id, false)...)

			return id.String()
		}},
		{"a deposit without an act", audit.MoneyWithoutAct, func() string {
			payer := content.Payer
			deposit := tb.Transfer{ID: tb.ID(), DebitAccountID: ledger.TransitAccount(payer.ISPB),
				CreditAccountID: ledger.CustomerAccount(payer), UserData128: ledger.CustomerAccount(payer),
				Amount: tb.ToUint128(1), Ledger: ledger.Ledger, Code: uint16(ledger.Deposit),
				Flags: tb.TransferFlags{Linked: true}.ToUint16()}
			write(deposit, tb.Transfer{ID: tb.ID(), DebitAccountID: ledger.IssuanceAccount,
				CreditAccountID: ledger.RefusalsAccount, Ledger: ledger.Ledger, Code: ledger.CodeClockProbe})
			b := deposit.ID.Bytes()
			slices.Reverse(b[:])

			return fmt.Sprintf("%x", b)
		}},
	} {
		w := s.watch(client) // what was before it began it does not judge
		s.eventually(lie.name+": the light has begun", func() bool { return w.Light().Checked > 0 })

		w.turns(live.Green)
		names := lie.plant()
		written := time.Now()
		s.eventually(lie.name+" is found", func() bool {
			return slices.ContainsFunc(w.Light().Findings, func(found live.Finding) bool {
				kind, _, _ := strings.Cut(found.Text, ":")
				return kind == lie.kind &&
					(found.Payment == names || strings.Contains(found.Text, names))
			})
		})

		if w.Light().Colour != live.Red {
			t.Errorf("%s: the light is %s", lie.name, w.Light().Colour)
		}
		t.Logf("%s: red after %.2f s", lie.name, time.Since(written).Seconds())
		w.stop()
	}
}
