package payment

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
)

func returnOf(t interface{ Fatal(...any) }, suffix string, amount uint64) pix.Return {
	id, err := pix.ParseReturnID("D10000002202611161200abcdefghij" + suffix)
	if err != nil {
		t.Fatal(err)
	}

	return pix.Return{ID: id, AcceptedAt: monday, ReturnContent: pix.ReturnContent{
		Original: order(t, 100, monday).ID, AmountCentavos: amount, Reason: pix.ReturnReasons[0],
	}}
}

// settledOriginal is the trace of a new return of a settled payment.
func settledOriginal(left uint64) ReturnTrace {
	return ReturnTrace{Settled: true, SettledAt: monday.Add(-time.Hour),
		Original: pix.Content{Payer: payer, Payee: payee, AmountCentavos: 100}, SlotFree: true, LeftCentavos: left}
}

func TestEveryWayIntoAReturn(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(*pix.Return, *ReturnTrace)
		refusal pix.Reason
		want    Command
	}{
		"all that is left": {func(*pix.Return, *ReturnTrace) {}, pix.ReasonNone, Command{Action: Reserve}},
		"a centavo too much": {func(_ *pix.Return, tr *ReturnTrace) {
			tr.LeftCentavos--
		}, pix.ReasonNone, Command{Refuse, pix.ReasonReturnExceeds, ""}},
		"no slot": {func(_ *pix.Return, tr *ReturnTrace) {
			tr.SlotFree = false
		}, pix.ReasonNone, Command{Refuse, pix.ReasonReturnsUsedUp, ""}},
		"nothing settled": {func(_ *pix.Return, tr *ReturnTrace) {
			*tr = ReturnTrace{SlotFree: true}
		}, pix.ReasonNone, Command{Refuse, pix.ReasonNothingSettled, ""}},
		"not the payee's PSP": {func(r *pix.Return, _ *ReturnTrace) {
			r.ID[8] = '3'
		}, pix.ReasonNone, Command{Refuse, pix.ReasonNotThePayee, ""}},
		"too late": {func(_ *pix.Return, tr *ReturnTrace) {
			tr.SettledAt = monday.AddDate(0, 0, -91)
		}, pix.ReasonNone, Command{Refuse, pix.ReasonReturnTooLate, ""}},
		"zero": {func(r *pix.Return, _ *ReturnTrace) {
			r.AmountCentavos = 0
		}, pix.ReasonNone, Command{Refuse, pix.ReasonZeroAmount, ""}},
		"past the deadline": {func(r *pix.Return, _ *ReturnTrace) {
			r.AcceptedAt = monday.Add(-patience)
		}, pix.ReasonNone, Command{Refuse, pix.ReasonPastDeadline, ""}},
		"the bank is busy": {func(*pix.Return, *ReturnTrace) {}, pix.ReasonPayeePSPBusy,
			Command{Refuse, pix.ReasonPayeePSPBusy, ""}},
		"held before": {func(_ *pix.Return, tr *ReturnTrace) {
			tr.Held, tr.HeldAt, tr.SameContent, tr.LeftCentavos = true, monday, true, 0
		}, pix.ReasonPayeePSPBusy, Command{Action: Authorize}},
		"held by another content": {func(_ *pix.Return, tr *ReturnTrace) {
			tr.Held, tr.HeldAt = true, monday
		}, pix.ReasonNone, Command{DeadLetter, pix.ReasonConflict, ""}},
		"decided before": {func(_ *pix.Return, tr *ReturnTrace) {
			tr.Decided, tr.SameContent, tr.Verdict = true, true, Outcome{Reason: pix.ReasonReturnExceeds}
		}, pix.ReasonNone, Command{Report, pix.ReasonReturnExceeds, ""}},
	} {
		r, trace := returnOf(t, "0", 40), settledOriginal(40)
		c.spoil(&r, &trace)

		p, first := BeginReturn(r, monday, patience, c.refusal)
		if first != (Command{Action: Inspect}) {
			t.Fatalf("%s: begins with %+v", name, first)
		}

		if got := p.Inspected(JudgeReturn(r, &p.Order, trace), monday); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}

		if trace.Settled && (p.Order.Payer != payee || p.Order.Payee != payer ||
			p.Order.AmountCentavos != r.AmountCentavos) {
			t.Errorf("%s: the money goes as %+v", name, p.Order.Content)
		}
	}
}

func TestAReturnWhoseSlotIsTakenLooksAgain(t *testing.T) {
	r := returnOf(t, "0", 40)
	p, _ := BeginReturn(r, monday, patience, pix.ReasonNone)
	p.Inspected(JudgeReturn(r, &p.Order, settledOriginal(100)), monday)

	if got := p.Reserved(Reservation{Taken: true}); got != (Command{Action: Inspect}) {
		t.Fatalf("got %+v", got)
	}

	if got := p.Inspected(JudgeReturn(r, &p.Order, settledOriginal(39)),
		monday); got != (Command{Refuse, pix.ReasonReturnExceeds, ""}) {
		t.Fatalf("got %+v", got)
	}

	if got := p.Inspected(JudgeReturn(r, &p.Order, settledOriginal(39)), monday); got.Action != Halt {
		t.Fatalf("an unasked look-up: got %+v", got)
	}
}

// slots is what the ledger promises for the returns of one payment of 100 centavos: an id is
// taken once or burnt, a return has one verdict, a hold expires.
type slots struct {
	holders  []int // by slot: which return, or burnt
	heldAt   map[int]time.Time
	verdicts map[int]Outcome
}

const burnt = -1

// returner is one engine that works on one return.
type returner struct {
	which   int
	order   pix.Return
	payment Payment
	command Command
	slot    int
	burnt   map[int]bool
	seen    *ReturnTrace // read but not used yet: others may write meanwhile
}

// Several engines work on the returns of one payment, in any order. They die and begin again
// at any point. They never give back more than was paid, and all reports of a return are
// equal to its verdict.
func TestReturnsNeverExceedThePayment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, short := monday, rapid.IntRange(0, 9).Draw(t, "payee has spent it") == 0
		s := &slots{heldAt: map[int]time.Time{}, verdicts: map[int]Outcome{}}
		amounts := rapid.SliceOfN(rapid.Uint64Range(1, 70), 2, 4).Draw(t, "amounts")
		begin := func(which int) *returner {
			r := &returner{which: which, order: returnOf(t, string(rune('0'+which)), amounts[which]),
				burnt: map[int]bool{}}
			r.payment, r.command = BeginReturn(r.order, now, patience, pix.ReasonNone)

			return r
		}

		var engines []*returner
		for which := range amounts {
			engines = append(engines, begin(which), begin(which))
		}
		reports := map[int][]Outcome{}
		read := func(r *returner) *ReturnTrace {
			trace, free := settledOriginal(100), -1

			for slot := range len(s.holders) + 1 + len(r.burnt) {
				switch {
				case slot < len(s.holders) && s.holders[slot] == r.which:
					trace.Held, trace.HeldAt, trace.SameContent, r.slot = true, s.heldAt[r.which], true, slot
				case slot < len(s.holders) && s.holders[slot] != burnt:
					if v, decided := s.verdicts[s.holders[slot]]; !decided || v.Settled {
						trace.LeftCentavos -= min(trace.LeftCentavos, amounts[s.holders[slot]])
					}
				case free < 0 && !r.burnt[slot]:
					free = slot
				}
			}

			if !trace.Held {
				r.slot = free
			}

			if v, decided := s.verdicts[r.which]; decided {
				trace.Decided, trace.Verdict, trace.SameContent = true, v, true
			}

			return &trace
		}
		reserve := func(r *returner) Reservation {
			for len(s.holders) <= r.slot {
				s.holders = append(s.holders, burnt-1) // free
			}

			switch held := s.holders[r.slot]; {
			case held == burnt:
				r.burnt[r.slot] = true
				return Reservation{Taken: true}
			case held >= 0:
				return Reservation{Taken: true}
			case short:
				s.holders[r.slot] = burnt
				short = rapid.Bool().Draw(t, "still short")
				return Reservation{Leg: 1, Reason: pix.ReasonPayerShort}
			}

			for _, held := range s.holders {
				if held == r.which {
					t.Fatalf("return %d is in two slots: %v", r.which, s.holders)
				}
			}
			s.holders[r.slot], s.heldAt[r.which] = r.which, now

			return Reservation{Held: true}
		}
		resolve := func(r *returner) Resolution {
			v, decided := s.verdicts[r.which]
			switch {
			case decided && v == r.payment.Outcome:
				return Written
			case decided:
				return Taken
			case r.command.Action != Refuse && !now.Before(s.heldAt[r.which].Add(60*time.Second)):
				return Expired
			}
			s.verdicts[r.which] = r.payment.Outcome

			return Written
		}
		step := func(r *returner) {
			switch r.command.Action {
			case Inspect:
				if r.seen == nil {
					r.seen = read(r)
					return
				}
				trace := *r.seen
				r.seen = nil
				r.command = r.payment.Inspected(JudgeReturn(r.order, &r.payment.Order, trace), now)
			case Reserve:
				r.command = r.payment.Reserved(reserve(r))
			case Post, Void, Refuse:
				r.command = r.payment.Resolved(resolve(r))
			case Authorize:
				r.command = Command{}
			case Report:
				reports[r.which] = append(reports[r.which], r.payment.Outcome)
				r.command = Command{}
			case DeadLetter, Halt:
				t.Fatalf("got %+v for a return that conflicts with nothing", r.command)
			}
		}

		for range rapid.IntRange(1, 120).Draw(t, "moves") {
			i := rapid.IntRange(0, len(engines)-1).Draw(t, "engine")
			r := engines[i]

			switch rapid.SampledFrom(
				[]string{"step", "step", "step", "step", "response", "response", "reject", "clock", "crash"}).Draw(
				t, "move") {
			case "step":
				step(r)
			case "response":
				if c := r.payment.Responded(true, pix.ReasonNone, now); c.Action != Wait {
					r.command = c
				}
			case "reject":
				if c := r.payment.Responded(false, pix.ReasonPayeeBlocked, now); c.Action != Wait {
					r.command = c
				}
			case "clock":
				now = now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "seconds")) * time.Second)
			case "crash":
				engines[i] = begin(r.which)
			}
		}
		now = now.Add(time.Hour)

		for range 60 {
			for _, r := range engines {
				if c := r.payment.Ticked(now); c.Action != Wait {
					r.command = c
				}
				step(r)
			}
		}
		var back uint64

		for which, amount := range amounts {
			verdict, decided := s.verdicts[which]
			if !decided || len(reports[which]) == 0 {
				t.Fatalf("return %d has no end: %v, %v", which, s.verdicts, reports)
			}

			for _, report := range reports[which] {
				if report != verdict {
					t.Fatalf("return %d was reported %+v, its verdict is %+v", which, report, verdict)
				}
			}

			if verdict.Settled {
				back += amount
			}
		}

		if back > 100 {
			t.Fatalf("%d given back of 100: %v, %v", back, amounts, s.verdicts)
		}
	})
}
