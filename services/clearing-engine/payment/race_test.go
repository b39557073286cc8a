package payment

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

// model is what the ledger promises for one EndToEndId: one phase 1, one verdict, a
// timeout. The test assumes nothing more of it.
type model struct {
	held     bool
	heldAt   time.Time
	failed   bool // the id of leg 1 is burnt
	verdict  *Outcome
	timeout  time.Duration
	payerBad bool
}

func (b *model) expired(now time.Time) bool {
	return b.held && (b.verdict == nil) && !now.Before(b.heldAt.Add(b.timeout))
}

func (b *model) reserve(now time.Time) Reservation {
	switch {
	case b.held:
		return Reservation{Taken: true}
	case b.failed:
		return Reservation{Leg: 1}
	case b.payerBad:
		b.failed = true
		return Reservation{Leg: 1, Reason: pix.ReasonPayerShort}
	}
	b.held, b.heldAt = true, now

	return Reservation{Held: true}
}

func (b *model) resolve(o Outcome, receipt bool, now time.Time) Resolution {
	switch {
	case b.verdict != nil && *b.verdict == o:
		return Written
	case b.verdict != nil:
		return Taken
	case !receipt && b.expired(now):
		return Expired
	}
	b.verdict = &o

	return Written
}

func (b *model) trace() Trace {
	t := Trace{Held: b.held, HeldAt: b.heldAt, SameContent: b.held || b.verdict != nil}
	if b.verdict != nil {
		t.Decided, t.Verdict = true, *b.verdict
	}

	return t
}

// engine is one engine at work on the payment; command is what it does next.
type engine struct {
	payment Payment
	command Command
	asked   bool
}

// Two engines work on one payment, in any order. They die and begin again at any point, the
// bank responds, is silent or says both, and the clock passes deadline and timeout. All
// reports are equal to the verdict.
func TestWhateverHappensThereIsOneOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := monday
		b := &model{timeout: 60 * time.Second, payerBad: rapid.Bool().Draw(t, "payer short")}
		refusals := []pix.Reason{pix.ReasonNone, pix.ReasonNone, pix.ReasonInactivePSP, pix.ReasonPayeePSPBusy}
		ord := order(t, rapid.SampledFrom([]uint64{100, 100, 100, 0}).Draw(t, "amount"), monday)
		start := func() *engine {
			e := &engine{}
			e.payment, e.command = Begin(ord, now, patience, rapid.SampledFrom(refusals).Draw(t, "refusal"))
			return e
		}
		engines := []*engine{start(), start()}
		var reports []Outcome

		step := func(e *engine) {
			switch e.command.Action {
			case Reserve:
				e.command = e.payment.Reserved(b.reserve(now))
			case Inspect:
				e.command = e.payment.Inspected(b.trace(), now)
			case Diagnose:
				e.command = e.payment.Diagnosed(allThere)
			case Post, Void, Refuse:
				e.command = e.payment.Resolved(b.resolve(e.payment.Outcome, e.command.Action == Refuse, now))
			case Authorize:
				e.command, e.asked = Command{}, true
			case Report:
				reports = append(reports, e.payment.Outcome)
				e.command = Command{}
			case DeadLetter, Halt:
				t.Fatalf("got %+v for a payment that conflicts with nothing", e.command)
			}
		}

		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			i := rapid.IntRange(0, 1).Draw(t, "engine")
			e := engines[i]

			switch rapid.SampledFrom([]string{"step", "step", "step", "response", "reject", "clock", "crash"}).Draw(
				t, "move") {
			case "step":
				step(e)
			case "response":
				if c := e.payment.Responded(true, pix.ReasonNone, now); c.Action != Wait {
					e.command = c
				}
			case "reject":
				if c := e.payment.Responded(false, pix.ReasonPayeeBlocked, now); c.Action != Wait {
					e.command = c
				}
			case "clock":
				now = now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
				for _, e := range engines {
					if c := e.payment.Ticked(now); c.Action != Wait {
						e.command = c
					}
				}
			case "crash":
				engines[i] = start()
			}
		}
		// In the end the time is over and all finish.
		now = now.Add(time.Hour)

		for range 20 {
			for _, e := range engines {
				if c := e.payment.Ticked(now); c.Action != Wait {
					e.command = c
				}
				step(e)
			}
		}

		if len(reports) == 0 || b.verdict == nil {
			t.Fatalf("no report although time ran out: engines %+v %+v", engines[0], engines[1])
		}

		for _, r := range reports {
			if r != *b.verdict {
				t.Fatalf("reported %+v, the ledger says %+v (all: %+v)", r, *b.verdict, reports)
			}
		}
	})
}
