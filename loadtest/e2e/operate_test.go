package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
)

// What docs/operating.md promises.
const (
	bitesWithin = 2 * time.Second // after an act something may still begin that the act forbids
)

// actReasons are the reasons with which acts and frozen engines may make a good payment end.
var actReasons = append([]pix.Reason{pix.ReasonPayeePSPSilent, pix.ReasonTooLate}, load.ActReasons...)

// operation is a clearing house with two front doors, whose people act on it while payments flow.
type operation struct {
	*system
	doors  [2]string
	ledger tigerbeetle.Client
	frozen []audit.Interval

	stop    chan struct{}
	loaded  chan error // what load.Run returned
	result  *load.Result
	settled atomic.Int64
	agreed  func() int // ends the looks at the books, and returns how many there were
}

// operate starts a clearing house, sends it payments of every kind, and looks at its books all the time.
// allowed are the reasons with which good payments may end.
func operate(t *testing.T, allowed []pix.Reason) *operation {
	t.Helper()
	o := &operation{system: start(t, 2), stop: make(chan struct{}), loaded: make(chan error, 1)}
	second, err := o.AddProducer(t.Context())
	o.must(err)
	o.doors = [2]string{o.ProducerURL(), second}
	o.ledger, err = ledger.Connect(ledger.Config{Addresses: strings.Split(o.TigerBeetleAddresses(), ",")})
	o.must(err)
	t.Cleanup(o.ledger.Close)
	weights, err := mix.Parse("demo")
	o.must(err)
	go func() {
		var err error
		o.result, err = load.Run(context.Background(), load.Config{
			Stream: o.Kafka(), Population: population, Mix: weights, MixName: "demo", Rate: operateRate, Payments: 3600 * operateRate, Seed: 1, Stop: o.stop,
			DrainTimeout: drainTimeout, OutstandingMax: 1_000_000, Allowed: allowed, Faults: true,
			LedgerHolds: load.LedgerHolds(func() (tigerbeetle.Client, error) { return o.ledger, nil }),
			Progress:    func(s load.Snapshot) { o.settled.Store(int64(s.Settled)) }, ProgressEvery: 100 * time.Millisecond,
		})
		o.loaded <- err
	}()
	o.agreed = o.watchBooks()
	o.settle(2 * operateRate)
	return o
}

// operateRate is how many payments a second the load sends.
const operateRate = 30

// settle waits until so many payments more of the load have settled.
func (o *operation) settle(payments int64) {
	o.t.Helper()
	goal := o.settled.Load() + payments
	o.within(5*time.Minute, "the load settles", func() bool { return o.settled.Load() >= goal })
}

// watchBooks reads all participants until it is told to end: at each instant reserve and transit of a
// bank are what its books say.
func (o *operation) watchBooks() (end func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int)
	api := o.api(0, keys.CentralBank)
	go func() {
		looks := 0
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			for p, err := range api.Participants(ctx) {
				if err != nil {
					break // the door may be busy; what it says is judged
				}
				if looks++; p.ThreeLegs == nil || !p.ThreeLegs.Holds {
					o.t.Errorf("the books of %s do not agree: %+v, reserve %+v, transit %+v", p.ISPB, p.ThreeLegs, p.Reserve, p.Transit)
				}
			}
		}
		ended <- looks
	}()
	var looks int
	once := sync.OnceFunc(func() { cancel(); looks = <-ended })
	o.t.Cleanup(once)
	return func() int { once(); return looks }
}

// judge ends the load and judges all that happened. The audit must have met refusals with these reasons.
func (o *operation) judge(reasons ...pix.Reason) string {
	o.t.Helper()
	close(o.stop)
	o.must(<-o.loaded)
	looks := o.agreed()
	if !o.result.Passed || looks == 0 {
		o.t.Fatalf("%s, %d looks at the books: %+v", o.result.Verdict(), looks, o.result.Failures)
	}
	kafka, err := o.Kafka().Options()
	o.must(err)
	secrets, err := audit.ReadSecrets(o.AnswerKeysFile())
	o.must(err)
	verdict, err := audit.Run(o.t.Context(), audit.Config{
		Kafka: kafka, Ledger: o.ledger, Secrets: secrets, Deadline: deadline, HoldMax: pendingTimeout, Wait: pendingTimeout + 30*time.Second,
		LateRequests: o.frozen, Behind: o.Kafka().Behind, Log: func(string, ...any) {},
	})
	o.must(err)
	if !verdict.Clean || len(verdict.Summary.Unread()) > 0 {
		var text strings.Builder
		verdict.Write(&text)
		o.t.Fatal(text.String())
	}
	for _, reason := range reasons {
		if verdict.Summary.ReasonsChecked[reason.String()] == 0 {
			o.t.Errorf("no payment was refused with %s: what asks for it met nothing", reason)
		}
	}
	return fmt.Sprintf("%d payments ended as they must, books agreed at each of %d looks; %s", o.result.Sent, looks, verdict)
}

// carryOut does steps in turn and prints a line for each, with what it measured and, in brackets, what is promised.
func (o *operation) carryOut(steps []step) {
	for _, step := range steps {
		began := time.Now()
		measured := step.do()
		fmt.Printf("%5.1f s  %-48s %s\n", time.Since(began).Seconds(), step.name, measured)
	}
}

type step struct {
	name string
	do   func() string
}

// TestOperate runs a clearing house as its people do. Acts that race or come again are tests of the producer.
func TestOperate(t *testing.T) {
	o := operate(t, actReasons)
	o.carryOut([]step{
		{"a sixth bank joins, and is paid and pays", o.join},
		{"its outflow is capped, and payments race for it", o.cap},
		{"a bank is suspended and resumed", o.suspend},
		{"a key is rotated", o.rotate},
		{"a bank is suspended while every engine is frozen", o.freeze},
		{"load and audit judge", func() string { return o.judge(pix.ReasonInactivePSP, pix.ReasonOutflowCapped) }},
	})
}

// api returns a client of a front door.
func (o *operation) api(door int, caller string) *client.Client {
	o.t.Helper()
	key, err := client.ReadKey(o.keyPath(caller))
	o.must(err)
	return o.with(door, key)
}

func (o *operation) with(door int, key string) *client.Client {
	o.t.Helper()
	api, err := client.New(o.doors[door], key)
	o.must(err)
	return api
}

// keyPath is where the programs of a caller find its key.
func (o *operation) keyPath(caller string) string {
	path, err := filepath.Abs(filepath.Join(filepath.Dir(o.AnswerKeysFile()), "keys", caller))
	o.must(err)
	return path
}

// does runs liquida, which must succeed.
func (o *operation) does(caller string, arguments ...string) {
	o.t.Helper()
	if got := o.liquida(o.doors[0], caller)(arguments...); got.Code != exitDone {
		o.t.Fatalf("liquida %v: %s%s", arguments, got.Out, got.Err)
	}
}

// onParticipant runs liquida as the central bank.
func (o *operation) onParticipant(arguments ...string) (done client.ParticipantActDone) {
	o.t.Helper()
	got := o.liquida(o.doors[0], keys.CentralBank)(append(arguments, "--json")...)
	if got.Code != exitDone {
		o.t.Fatalf("liquida %v: %s%s", arguments, got.Out, got.Err)
	}
	o.must(json.Unmarshal([]byte(got.Out), &done))
	return done
}

// customer returns a customer of a bank of the population.
func customer(bank, i int) client.Account {
	a := population.Customer(bank + i*population.Banks)
	return client.Account{ISPB: string(a.ISPB), Branch: a.Branch, Number: a.Number}
}

// send pays, as the payer's bank, and waits for the end.
func (o *operation) send(door int, from, to client.Account, centavos int64) client.PaymentState {
	o.t.Helper()
	state, err := o.api(door, from.ISPB).Pay(o.t.Context(), client.Payment{Payer: from, Payee: to, AmountCentavos: centavos}, 5*time.Minute)
	o.must(err)
	if !state.Final() {
		o.t.Fatalf("payment %s from %s to %s has no end: %s", state.EndToEndID, from, to, state.Status)
	}
	return state
}

// settles pays 1.00, which must settle.
func (o *operation) settles(from, to client.Account) client.PaymentState {
	o.t.Helper()
	state := o.send(0, from, to, 100)
	if state.ReasonCode != "" {
		o.t.Fatalf("payment %s from %s to %s was %s %s, and must settle", state.EndToEndID, from, to, state.Status, state.ReasonCode)
	}
	return state
}

// givesBack gives a part of a payment back, which must end so.
func (o *operation) givesBack(payment client.PaymentState, centavos int64, end string) {
	o.t.Helper()
	state, err := o.api(0, payment.Payee.ISPB).GiveBack(o.t.Context(), client.ReturnOrder{OriginalEndToEndID: payment.EndToEndID, AmountCentavos: centavos, ReasonCode: "MD06"}, 5*time.Minute)
	o.must(err)
	if state.Status != end {
		o.t.Fatalf("the return of %s was %s %s, and must be %s", payment.EndToEndID, state.Status, state.ReasonCode, end)
	}
}

// bites tries until an act has its effect. It returns how long after the act the last try began that it
// had no effect on, and fails the test if that is longer than what is promised.
func (o *operation) bites(acted time.Time, try func() (effect bool)) (last time.Duration) {
	o.t.Helper()
	for ; ; time.Sleep(20 * time.Millisecond) {
		began := time.Since(acted)
		if try() {
			return last
		}
		if last = began; began > bitesWithin {
			o.t.Fatalf("the act has no effect on what began %.2f s after it: %v are promised", began.Seconds(), bitesWithin)
		}
	}
}

// paying is a try for bites: payments end with one reason before the act has its effect, and with another then.
func (o *operation) paying(from, to client.Account, before, then string) func() bool {
	return func() bool {
		state := o.send(0, from, to, 100)
		if state.ReasonCode != before && state.ReasonCode != then {
			o.t.Fatalf("payment %s from %s to %s was %s %s", state.EndToEndID, from, to, state.Status, state.ReasonCode)
		}
		return state.ReasonCode == then
	}
}

// known is bites for a key, which both front doors know in the end, or not.
func (o *operation) known(acted time.Time, key, bank string, known bool) (last time.Duration) {
	o.t.Helper()
	for door := range o.doors {
		api := o.with(door, key)
		last = max(last, o.bites(acted, func() bool {
			_, err := api.Participant(o.t.Context(), bank)
			if err != nil {
				o.refused("a request", err, http.StatusUnauthorized)
			}
			return (err == nil) == known
		}))
	}
	return last
}

// refused fails the test unless the HTTP API refused with this status.
func (o *operation) refused(what string, err error, status int) {
	o.t.Helper()
	if problem := new(client.Problem); !errors.As(err, &problem) || problem.Status != status {
		o.t.Errorf("%s: the answer must be %d, and is %v", what, status, err)
	}
}

// lastHold returns how long after a suspension money of a payment was last held for the bank, before an
// end. Both times are the ledger's.
func (o *operation) lastHold(bank string, suspended, end time.Time) (last time.Duration) {
	o.t.Helper()
	for _, code := range []uint16{ledger.CodeLeg1, ledger.CodeLeg3} {
		found, err := o.ledger.GetAccountTransfers(tb.AccountFilter{
			AccountID: ledger.TransitAccount(pix.ISPB(bank)), Code: code, TimestampMin: uint64(suspended.UnixNano()) + 1, TimestampMax: uint64(end.UnixNano()), Limit: 8189, //nolint:gosec // after 1970
			Flags: tb.AccountFilterFlags{Debits: true, Credits: true, Reversed: true}.ToUint32(),
		})
		o.must(err)
		for _, transfer := range found {
			if transfer.TransferFlags().Pending {
				last = max(last, time.Unix(0, int64(transfer.Timestamp)).Sub(suspended)) //nolint:gosec // after 1970
			}
		}
	}
	if last > bitesWithin {
		o.t.Errorf("a payment of %s was begun %.2f s after its suspension: %v are promised", bank, last.Seconds(), bitesWithin)
	}
	return last
}

// joined is an account of the bank that joins.
var joined = client.Account{ISPB: "10000006", Branch: "0001", Number: "1"}

func (o *operation) join() string {
	began := time.Now()
	first, again := o.onParticipant("participant", "register", joined.ISPB, "--id", "ticket-1").Act, o.onParticipant("participant", "register", joined.ISPB, "--id", "ticket-1").Act
	if first.ID != again.ID || !first.At.Equal(again.At) {
		o.t.Errorf("registered twice under one id: %+v and %+v", first, again)
	}
	o.does(keys.CentralBank, "key", "make", joined.ISPB, o.keyPath(joined.ISPB))
	o.does(keys.CentralBank, "key", "name", joined.ISPB, o.keyPath(joined.ISPB))
	var said bytes.Buffer
	if err := o.Run(o.t.Context(), &said, &said, "bootstrap", "participant", joined.ISPB); err != nil {
		o.t.Fatalf("%v: %s", err, said.Bytes())
	}
	o.onParticipant("participant", "liquidity", "in", joined.ISPB, "1000000.00")
	o.does(joined.ISPB, "account", "open", joined.String())
	o.does(joined.ISPB, "account", "deposit", joined.String(), "1000.00")
	o.settles(customer(0, 0), joined)
	o.settles(joined, customer(1, 0))
	return fmt.Sprintf("%.1f s from its registration to its second payment", time.Since(began).Seconds())
}

// cap caps what leaves the bank, and lets payments race for it through both front doors and engines.
func (o *operation) cap() string {
	const tries, affordable = 40, 20
	acted := time.Now()
	for _, window := range ledger.Windows {
		o.onParticipant("participant", "cap", joined.ISPB, window.String(), "0.01", "--window", "15m")
	}
	last := o.bites(acted, o.paying(joined, customer(0, 0), "", "LQ12"))
	time.Sleep(time.Until(acted.Add(bitesWithin))) // both engines
	participant, err := o.api(0, joined.ISPB).Participant(o.t.Context(), joined.ISPB)
	o.must(err)
	for _, c := range participant.OutflowCaps {
		limit := c.CapCentavos - c.LeftCentavos + 100*affordable
		o.onParticipant("participant", "cap", joined.ISPB, c.When, fmt.Sprintf("%d.%02d", limit/100, limit%100), "--window", "15m")
	}
	time.Sleep(bitesWithin)
	var all sync.WaitGroup
	var settled atomic.Int32
	apis := [2]*client.Client{o.api(0, joined.ISPB), o.api(1, joined.ISPB)}
	for i := range tries {
		all.Go(func() {
			state, err := apis[i%2].Pay(o.t.Context(), client.Payment{Payer: joined, Payee: customer(i%population.Banks, 0), AmountCentavos: 100}, 5*time.Minute)
			switch {
			case err == nil && state.Status == client.Settled:
				settled.Add(1)
			case err != nil || state.ReasonCode != "LQ12":
				o.t.Errorf("payment %s was %s %s: %v", state.EndToEndID, state.Status, state.ReasonCode, err)
			}
		})
	}
	all.Wait()
	if settled.Load() != affordable {
		o.t.Errorf("of %d payments of 1.00 at once %d settled: the cap left %d.00", tries, settled.Load(), affordable)
	}
	return fmt.Sprintf("of %d payments of 1.00 at once %d settled; the cap first bit on what began after %.2f s (%v)", tries, settled.Load(), last.Seconds(), bitesWithin)
}

func (o *operation) suspend() string {
	bank, other := customer(1, 1), customer(0, 1)
	to, from := o.settles(other, bank), o.settles(bank, other)
	suspended := o.onParticipant("participant", "suspend", bank.ISPB).Act.At
	acted := time.Now()
	o.bites(acted, o.paying(other, bank, "", "DS27"))
	o.bites(acted, o.paying(bank, other, "", "DS27"))
	time.Sleep(time.Until(acted.Add(bitesWithin))) // the return may be of another engine than the payments
	o.givesBack(to, 50, client.Rejected)
	o.givesBack(from, 50, client.Settled) // stolen money comes back
	time.Sleep(time.Until(acted.Add(2 * bitesWithin)))
	resumed := o.onParticipant("participant", "resume", bank.ISPB).Act.At
	acted = time.Now()
	back := max(o.bites(acted, o.paying(other, bank, "DS27", "")), o.bites(acted, o.paying(bank, other, "DS27", "")))
	return fmt.Sprintf("last payment begun %.2f s after the act (%v), last refused %.2f s after its end (%v); a return to it settled",
		o.lastHold(bank.ISPB, suspended, resumed).Seconds(), bitesWithin, back.Seconds(), bitesWithin)
}

// newKey makes and names another key of a bank, which its programs then use. Only its digest travels. It returns how
// long a front door did not know it.
func (o *operation) newKey(bank string) (last time.Duration) {
	file := filepath.Join(o.t.TempDir(), "key")
	o.does(keys.CentralBank, "key", "make", bank, file)
	o.onParticipant("key", "name", bank, file)
	key, err := client.ReadKey(file)
	o.must(err)
	last = o.known(time.Now(), key, bank, true)
	o.must(os.Rename(file, o.keyPath(bank)))
	return last
}

// rotate replaces the key of a bank.
func (o *operation) rotate() string {
	bank, oldFile := string(population.Bank(2)), filepath.Join(o.t.TempDir(), "old")
	old, err := client.ReadKey(o.keyPath(bank))
	o.must(err)
	o.must(os.WriteFile(oldFile, []byte(old+"\n"), 0o600))
	known := o.newKey(bank)
	o.does(bank, "key", "revoke", bank, oldFile)
	refused := o.known(time.Now(), old, bank, false)
	return fmt.Sprintf("the new key known after %.2f s (%v), the old one last taken after %.2f s (%v)", known.Seconds(), bitesWithin, refused.Seconds(), bitesWithin)
}

// freeze suspends a bank while no engine can learn of it: none may begin anything stale.
func (o *operation) freeze() string {
	const frozenFor = 10 * time.Second
	bank := customer(3, 3)
	each := func(do func(string) error) {
		for i := range 2 {
			o.must(do(stack.EngineName(i)))
		}
	}
	frozen := time.Now()
	each(o.Pause)
	thaw := sync.OnceFunc(func() { each(o.Resume) })
	defer thaw() // also after an error: a frozen process does not stop in order
	suspended := o.onParticipant("participant", "suspend", bank.ISPB).Act.At
	time.Sleep(frozenFor)
	thaw()
	o.frozen = append(o.frozen, audit.Interval{From: frozen, To: time.Now()})
	o.within(5*time.Minute, "the backlog is behind the engines", func() bool {
		reason := o.send(0, customer(0, 3), bank, 100).ReasonCode
		return reason == "DS27"
	})
	o.settle(operateRate)
	resumed := o.onParticipant("participant", "resume", bank.ISPB).Act.At
	last := o.lastHold(bank.ISPB, suspended, resumed)
	o.bites(time.Now(), o.paying(customer(0, 3), bank, "DS27", ""))
	return fmt.Sprintf("frozen for %v; last payment begun %.2f s after the act (%v)", frozenFor, last.Seconds(), bitesWithin)
}
