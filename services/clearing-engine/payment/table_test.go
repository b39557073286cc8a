package payment

import (
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// transition is a row of the table in the package comment.
type transition struct{ step, event, command, next string }

// table reads the table from the package comment.
func table(t *testing.T) []transition {
	t.Helper()

	file, err := parser.ParseFile(token.NewFileSet(), "payment.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	columns := regexp.MustCompile(` {2,}`)
	var rows []transition

	for line := range strings.Lines(file.Doc.Text()) {
		if !strings.HasPrefix(line, "\t") {
			continue
		}

		cells := columns.Split(strings.TrimSpace(line), -1)
		if len(cells) != 4 {
			t.Fatalf("the table has a row of %d cells: %q", len(cells), line)
		}
		rows = append(rows, transition{cells[0], cells[1], cells[2], cells[3]})
	}

	if len(rows) < 2 || rows[0] != (transition{"step", "event", "command", "next step"}) {
		t.Fatalf("no table in the package comment: %v", rows)
	}

	return rows[1:]
}

// stimulus is an event of the table. prepare says of which order it is, if that matters.
type stimulus struct {
	event   string
	prepare func(*Payment)
	apply   func(*Payment) Command
}

func stimuli() []stimulus {
	held := Trace{Held: true, HeldAt: monday, SameContent: true}
	anyKind := func(*Payment) {}
	aPayment := func(p *Payment) { p.lookFirst = false }
	aReturn := func(p *Payment) { p.lookFirst = true }
	refusing := func(p *Payment) { p.lookFirst, p.refusal = false, pix.ReasonInactivePSP }
	refusedReturn := func(p *Payment) { p.lookFirst, p.refusal = true, pix.ReasonInactivePSP }
	reserved := func(event string, prepare func(*Payment), r Reservation) stimulus {
		return stimulus{event, prepare, func(p *Payment) Command { return p.Reserved(r) }}
	}
	responded := func(event string, accepted bool, reason pix.Reason, at time.Time) stimulus {
		return stimulus{event, anyKind, func(p *Payment) Command { return p.Responded(accepted, reason, at) }}
	}
	ticked := func(event string, at time.Time) stimulus {
		return stimulus{event, anyKind, func(p *Payment) Command { return p.Ticked(at) }}
	}
	resolved := func(event string, r Resolution) stimulus {
		return stimulus{event, anyKind, func(p *Payment) Command { return p.Resolved(r) }}
	}
	inspected := func(event string, prepare func(*Payment), trace Trace, at time.Time) stimulus {
		return stimulus{event, prepare, func(p *Payment) Command { return p.Inspected(trace, at) }}
	}

	return []stimulus{
		reserved("Reserved: held", anyKind, Reservation{Held: true}),
		reserved("Reserved: taken", anyKind, Reservation{Taken: true}),
		reserved("Reserved: refused, reason known", anyKind, Reservation{Leg: 1, Reason: pix.ReasonPayerShort}),
		reserved("Reserved: refused, reason unknown", aPayment, Reservation{Leg: 1}),
		reserved("Reserved: refused, reason unknown, of a return", aReturn, Reservation{Leg: 1}),
		responded("Responded: accepted", true, pix.ReasonNone, monday.Add(patience-1)),
		responded("Responded: rejected", false, pix.ReasonPayeeBlocked, monday.Add(patience-1)),
		responded("Responded: past the deadline", true, pix.ReasonNone, monday.Add(patience)),
		responded("Responded: past the deadline", false, pix.ReasonPayeeBlocked, monday.Add(patience)),
		ticked("Ticked: in time", monday.Add(patience-1)),
		ticked("Ticked: past the deadline", monday.Add(patience)),
		resolved("Resolved: written", Written),
		resolved("Resolved: taken by another verdict", Taken),
		resolved("Resolved: hold expired", Expired),
		inspected("Inspected: another id", anyKind,
			Trace{Held: true, HeldAt: monday, SameContent: true, OtherID: true}, monday),
		inspected("Inspected: verdict", anyKind,
			Trace{Decided: true, Verdict: Outcome{Settled: true}, SameContent: true}, monday),
		inspected("Inspected: other content", anyKind, Trace{Held: true, HeldAt: monday}, monday),
		inspected("Inspected: held, in time", anyKind, held, monday.Add(patience-1)),
		inspected("Inspected: held, past the deadline", anyKind, held, monday.Add(patience)),
		inspected("Inspected: nothing", aPayment, Trace{}, monday),
		inspected("Inspected: nothing, and this engine refuses", refusing, Trace{}, monday),
		inspected("Inspected: nothing, a return that can be held", aReturn, Trace{}, monday),
		inspected("Inspected: nothing, a return to refuse", aReturn, Trace{Refusal: pix.ReasonReturnExceeds}, monday),
		inspected("Inspected: nothing, a return to refuse", refusedReturn, Trace{}, monday),
		{"Diagnosed", anyKind, func(p *Payment) Command { return p.Diagnosed(allThere) }},
		{"Reconsidered: a payment", aPayment, func(p *Payment) Command { return p.Reconsider(monday, pix.ReasonNone) }},
		{"Reconsidered: a payment", refusing, func(p *Payment) Command { return p.Reconsider(monday, pix.ReasonNone) }},
		{"Reconsidered: a payment to refuse", aPayment, func(p *Payment) Command {
			return p.Reconsider(monday, pix.ReasonInactivePSP)
		}},
		{"Reconsidered: a payment to refuse", refusing, func(p *Payment) Command {
			return p.Reconsider(monday, pix.ReasonInactivePSP)
		}},
		{"Reconsidered: a payment to refuse", aPayment, func(p *Payment) Command {
			return p.Reconsider(monday.Add(patience), pix.ReasonNone)
		}},
		{"Reconsidered: a return", aReturn, func(p *Payment) Command { return p.Reconsider(monday, pix.ReasonNone) }},
		{"Reconsidered: a return", refusedReturn, func(p *Payment) Command {
			return p.Reconsider(monday, pix.ReasonNone)
		}},
	}
}

// The table in the package comment is the whole machine: the code does in every step what the
// table says, and nothing else.
func TestTheTableIsTheCode(t *testing.T) {
	type place struct{ step, event string }

	want := map[place]transition{}
	for _, row := range table(t) {
		if at := (place{row.step, row.event}); want[at] != (transition{}) {
			t.Fatalf("the table has two rows for %v", at)
		} else {
			want[at] = row
		}
	}
	seen := map[place]bool{}
	check := func(at place, got transition) {
		t.Helper()

		row, listed := want[at]
		if seen[at] = true; !listed {
			row = transition{at.step, at.event, Halt.String(), at.step}
			if strings.HasPrefix(at.event, "Responded") || strings.HasPrefix(at.event, "Ticked") {
				row.command = Wait.String()
			}
		}

		if got != row {
			t.Errorf("%s, %s: the code does %s and goes to %s; the table says %s and %s (listed: %t)", at.step,
				at.event, got.command, got.next, row.command, row.next, listed)
		}
	}

	payment, command := Begin(order(t, 100, monday), monday, patience, pix.ReasonNone)
	refused, refusedCommand := Begin(order(t, 100, monday), monday, patience, pix.ReasonInactivePSP)
	zero, zeroCommand := Begin(order(t, 0, monday), monday, patience, pix.ReasonNone)
	late, lateCommand := Begin(order(t, 100, monday.Add(-patience)), monday, patience, pix.ReasonNone)
	returned, returnedCommand := BeginReturn(returnOf(t, "0", 40), monday, patience, pix.ReasonNone)

	refusedReturn, refusedReturnCommand := BeginReturn(returnOf(t, "0", 40), monday, patience, pix.ReasonInactivePSP)
	for _, begun := range []struct {
		event   string
		payment Payment
		command Command
	}{
		{"a payment", payment, command},
		{"a payment that this engine refuses", refused, refusedCommand},
		{"a payment that this engine refuses", zero, zeroCommand},
		{"a payment that this engine refuses", late, lateCommand},
		{"a return", returned, returnedCommand},
		{"a return", refusedReturn, refusedReturnCommand},
	} {
		check(place{"begin", begun.event},
			transition{"begin", begun.event, begun.command.Action.String(), begun.payment.step.String()})
	}

	for at := reserving; at <= ended; at++ {
		for _, s := range stimuli() {
			for _, lookFirst := range []bool{false, true} { // of either kind, unless the event is of one
				p, _ := Begin(order(t, 100, monday), monday, patience, pix.ReasonNone)
				p.step, p.lookFirst = at, lookFirst
				s.prepare(&p)
				command := s.apply(&p)
				check(place{at.String(), s.event},
					transition{at.String(), s.event, command.Action.String(), p.step.String()})
			}
		}
	}

	for at := range want {
		if !seen[at] {
			t.Errorf("the table has a row that is no event of this test: %v", at)
		}
	}
}

func TestEveryActionIsInTheTable(t *testing.T) {
	listed := map[string]bool{Wait.String(): true, Halt.String(): true} // by the sentence below the table
	for _, row := range table(t) {
		listed[row.command] = true
	}

	for action := Wait; action <= Halt; action++ {
		if !listed[action.String()] {
			t.Errorf("%s is in no row of the table", action)
		}
	}
}
