package payment

import (
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

const patience = 40 * time.Second

var (
	monday = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	payer  = pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	payee  = pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"}
)

func order(t interface{ Fatal(...any) }, amount uint64, acceptedAt time.Time) pix.Order {
	id, err := pix.ParseEndToEndID("E10000001202611161200abcdefghijk")
	if err != nil {
		t.Fatal(err)
	}

	return pix.Order{ID: id, Content: pix.Content{Payer: payer, Payee: payee, AmountCentavos: amount},
		AcceptedAt: acceptedAt}
}

func begin(t *testing.T, amount uint64, acceptedAt time.Time, refusal pix.Reason) (*Payment, Command) {
	p, command := Begin(order(t, amount, acceptedAt), monday, patience, refusal)
	return &p, command
}

// allThere: all accounts of an ordinary payment exist.
var allThere = Accounts{PayerPSP: true, PayeePSP: true, Payer: true, Payee: true}

func TestEveryWayThroughAPayment(t *testing.T) {
	held := Trace{Held: true, HeldAt: monday, SameContent: true}
	nothing := Trace{}
	decided := func(o Outcome) Trace {
		return Trace{Held: true, HeldAt: monday, Decided: true, Verdict: o, SameContent: true}
	}
	settled := Outcome{Settled: true}
	rejected := func(r pix.Reason) Outcome { return Outcome{Reason: r} }
	later := monday.Add(patience)

	type step func(*Payment) Command
	reserved := func(r Reservation) step { return func(p *Payment) Command { return p.Reserved(r) } }
	inspected := func(tr Trace, now time.Time) step { return func(p *Payment) Command { return p.Inspected(tr, now) } }
	diagnosed := func(a Accounts) step { return func(p *Payment) Command { return p.Diagnosed(a) } }
	responded := func(ok bool, r pix.Reason) step {
		return func(p *Payment) Command { return p.Responded(ok, r, later.Add(-1)) }
	}
	ticked := func(now time.Time) step { return func(p *Payment) Command { return p.Ticked(now) } }
	resolved := func(r Resolution) step { return func(p *Payment) Command { return p.Resolved(r) } }

	type move struct {
		step step
		want Command
	}
	act := func(a Action) Command { return Command{Action: a} }
	because := func(a Action, r pix.Reason) Command { return Command{Action: a, Reason: r} }
	none := pix.ReasonNone

	for name, c := range map[string]struct {
		amount   uint64
		accepted time.Time
		refusal  pix.Reason
		first    Command
		moves    []move
		outcome  Outcome
	}{
		"settled": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Held: true}), act(Authorize)},
			{responded(true, none), act(Post)},
			{resolved(Written), act(Report)},
		}, settled},
		"rejected by the bank": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Held: true}), act(Authorize)},
			{responded(false, pix.ReasonPayeeBlocked), because(Void, pix.ReasonPayeeBlocked)},
			{resolved(Written), because(Report, pix.ReasonPayeeBlocked)},
		}, rejected(pix.ReasonPayeeBlocked)},
		"bank silent": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Held: true}), act(Authorize)},
			{ticked(later.Add(-1)), act(Wait)},
			{ticked(later), because(Void, pix.ReasonPayeePSPSilent)},
			{responded(true, none), act(Wait)}, // a late response changes nothing
			{resolved(Written), because(Report, pix.ReasonPayeePSPSilent)},
		}, rejected(pix.ReasonPayeePSPSilent)},
		"accepted past the deadline, before the tick": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Held: true}), act(Authorize)},
			{func(p *Payment) Command {
				return p.Responded(true, none, later)
			}, because(Void, pix.ReasonPayeePSPSilent)},
			{ticked(later), act(Wait)},
			{resolved(Written), because(Report, pix.ReasonPayeePSPSilent)},
		}, rejected(pix.ReasonPayeePSPSilent)},
		"void meets a post": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Held: true}), act(Authorize)},
			{ticked(later), because(Void, pix.ReasonPayeePSPSilent)},
			{resolved(Taken), act(Inspect)},
			{inspected(decided(settled), later), act(Report)},
		}, settled},
		"accepted, but the hold had expired": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Held: true}), act(Authorize)},
			{responded(true, none), act(Post)},
			{resolved(Expired), because(Refuse, pix.ReasonPayeePSPSilent)},
			{resolved(Written), because(Report, pix.ReasonPayeePSPSilent)},
		}, rejected(pix.ReasonPayeePSPSilent)},
		"redelivered after the verdict": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Taken: true}), act(Inspect)},
			{inspected(decided(rejected(pix.ReasonPayeeClosed)), later), because(Report, pix.ReasonPayeeClosed)},
		}, rejected(pix.ReasonPayeeClosed)},
		"redelivered before the verdict, in time": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Taken: true}), act(Inspect)},
			{inspected(held, later.Add(-time.Second)), act(Authorize)},
			{responded(true, none), act(Post)},
			{resolved(Written), act(Report)},
		}, settled},
		"redelivered before the verdict, too late": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Taken: true}), act(Inspect)},
			{inspected(held, later), because(Void, pix.ReasonPayeePSPSilent)},
			{resolved(Written), because(Report, pix.ReasonPayeePSPSilent)},
		}, rejected(pix.ReasonPayeePSPSilent)},
		"conflicting duplicate": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Taken: true}), act(Inspect)},
			{inspected(Trace{Held: true, HeldAt: monday}, monday), because(DeadLetter, pix.ReasonConflict)},
		}, Outcome{}},
		"conflicting with a receipt, found when posting": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Held: true}), act(Authorize)},
			{responded(true, none), act(Post)},
			{resolved(Taken), act(Inspect)},
			{inspected(Trace{Decided: true}, monday), because(DeadLetter, pix.ReasonConflict)},
		}, Outcome{}},
		"zero amount": {0, monday, none, act(Inspect), []move{
			{inspected(nothing, monday), act(Diagnose)},
			{diagnosed(allThere), because(Refuse, pix.ReasonZeroAmount)},
			{resolved(Written), because(Report, pix.ReasonZeroAmount)},
		}, rejected(pix.ReasonZeroAmount)},
		"zero amount of an unknown PSP": {0, monday, none, act(Inspect), []move{
			{inspected(nothing, monday), act(Diagnose)},
			{diagnosed(Accounts{}), because(Refuse, pix.ReasonUnknownPayerPSP)},
			{resolved(Written), because(Report, pix.ReasonUnknownPayerPSP)},
		}, rejected(pix.ReasonUnknownPayerPSP)},
		"too late on arrival": {100, monday.Add(-patience), none, act(Inspect), []move{
			{inspected(nothing, monday), act(Diagnose)},
			{diagnosed(allThere), because(Refuse, pix.ReasonPastDeadline)},
			{resolved(Written), because(Report, pix.ReasonPastDeadline)},
		}, rejected(pix.ReasonPastDeadline)},
		"too late on arrival, but settled before": {100, monday.Add(-time.Hour), none, act(Inspect), []move{
			{inspected(decided(settled), monday), act(Report)},
		}, settled},
		"inactive now, but begun before": {100, monday, pix.ReasonInactivePSP, act(Inspect), []move{
			{inspected(held, monday), act(Authorize)},
			{responded(true, none), act(Post)},
			{resolved(Written), act(Report)},
		}, settled},
		"bank busy": {100, monday, pix.ReasonPayeePSPBusy, act(Inspect), []move{
			{inspected(nothing, monday), act(Diagnose)},
			{diagnosed(allThere), because(Refuse, pix.ReasonPayeePSPBusy)},
			{resolved(Taken), act(Inspect)},
			{inspected(decided(rejected(pix.ReasonPayerShort)), monday), because(Report, pix.ReasonPayerShort)},
		}, rejected(pix.ReasonPayerShort)},
		"payer short": {100, monday, none, act(Reserve), []move{
			{reserved(Reservation{Leg: 1, Reason: pix.ReasonPayerShort}), because(Refuse, pix.ReasonPayerShort)},
			{resolved(Written), because(Report, pix.ReasonPayerShort)},
		}, rejected(pix.ReasonPayerShort)},
	} {
		t.Run(name, func(t *testing.T) {
			p, command := begin(t, c.amount, c.accepted, c.refusal)
			if command != c.first {
				t.Fatalf("begins with %+v, want %+v", command, c.first)
			}

			for i, m := range c.moves {
				if got := m.step(p); got != m.want {
					t.Fatalf("move %d: got %+v, want %+v", i+1, got, m.want)
				}
			}

			if p.Outcome != c.outcome {
				t.Fatalf("outcome %+v, want %+v", p.Outcome, c.outcome)
			}
		})
	}
}

func TestDiagnosisOfARefusalWhoseReasonIsLost(t *testing.T) {
	for _, c := range []struct {
		leg      int
		accounts Accounts
		want     pix.Reason
	}{
		{1, Accounts{}, pix.ReasonUnknownPayerPSP},
		{1, Accounts{PayerPSP: true, PayeePSP: true, Payee: true}, pix.ReasonPayerMissing},
		{1, allThere, pix.ReasonPayerShort},
		{2, Accounts{PayerPSP: true, Payer: true}, pix.ReasonUnknownPayeePSP},
		{2, allThere, pix.ReasonReserveShort},
		{3, Accounts{PayerPSP: true, Payer: true}, pix.ReasonUnknownPayeePSP},
		{3, Accounts{PayerPSP: true, PayeePSP: true, Payer: true}, pix.ReasonPayeeMissing},
		{3, allThere, pix.ReasonPayeeMissing}, // opened since
	} {
		p, _ := begin(t, 100, monday, pix.ReasonNone)
		if got := p.Reserved(Reservation{Leg: c.leg}); got.Action != Diagnose {
			t.Fatalf("leg %d refused: got %+v, want Diagnose", c.leg, got)
		}

		if got := p.Diagnosed(c.accounts); got != (Command{Action: Refuse, Reason: c.want}) {
			t.Errorf("leg %d, %+v: got %+v, want refusal with %s", c.leg, c.accounts, got, c.want)
		}
	}
}

func TestTheImpossibleHalts(t *testing.T) {
	p, _ := begin(t, 100, monday, pix.ReasonNone)
	if got := p.Resolved(Written); got.Action != Halt {
		t.Errorf("a result of phase 2 before phase 1: got %+v, want Halt", got)
	}

	if got := p.Diagnosed(allThere); got.Action != Halt {
		t.Errorf("an unasked diagnosis: got %+v, want Halt", got)
	}
	p, _ = begin(t, 100, monday, pix.ReasonNone)
	p.Reserved(Reservation{Taken: true})

	if got := p.Inspected(Trace{}, monday); got.Action != Halt {
		t.Errorf("phase 1 exists and cannot be found: got %+v, want Halt", got)
	}
}
