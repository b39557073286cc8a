package history

import (
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func span(from, to int) Span { return Span{at(from), at(to)} }

var (
	settled = Outcome{Settled: true}
	silent  = Outcome{Reason: "AB03"}
	unknown = Read{Status: Unknown}
	held    = Read{Status: Reserved}
)

func reported(ms int, o Outcome) Report {
	return Report{At: at(ms), Outcome: o, AmountCentavos: 100}
}

func ended(o Outcome, decided int) Read {
	return Read{Status: Ended, Outcome: o, DecidedAt: at(decided)}
}

// Stories that must be clean, and each with one thing wrong that must be found.
func TestCheck(t *testing.T) {
	id := pix.EndToEndID([]byte("E1000000120260504120000000abcdef"))
	sent := func(r *Recorder) { r.Submitted(id, span(0, 10), true) }
	for _, test := range []struct {
		name string
		want string // kind of the violation; empty: clean
		tell func(r *Recorder)
	}{
		{"a payment's life", "", func(r *Recorder) {
			r.Read(id, span(11, 12), unknown)
			r.Read(id, span(13, 14), held)
			r.Reported(id, reported(20, settled))
			r.Read(id, span(21, 23), ended(settled, 19))
		}},
		{"read as ended before its report", "", func(r *Recorder) {
			r.Read(id, span(15, 16), ended(settled, 12))
			r.Reported(id, reported(20, settled))
		}},
		{"a read under way while it ends may say either", "", func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Read(id, span(15, 30), held)
			r.Read(id, span(31, 32), ended(settled, 18))
		}},
		{"reported twice", "", func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Reported(id, reported(25, settled))
		}},
		{"rejected by the ledger's own timeout, before any verdict", "", func(r *Recorder) {
			r.Read(id, span(15, 16), Read{Status: Ended, Outcome: silent})
			r.Read(id, span(40, 41), ended(silent, 30))
			r.Reported(id, reported(31, silent))
		}},
		{"never reported", NeverEnded, func(r *Recorder) { r.Read(id, span(11, 12), held) }},
		{"reported as two things", OutcomeChanged, func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Reported(id, reported(25, silent))
		}},
		{"reported with two amounts", OutcomeChanged, func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Reported(id, Report{At: at(25), Outcome: settled, AmountCentavos: 101})
		}},
		{"read as another thing than reported", OutcomeChanged, func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Read(id, span(30, 31), ended(silent, 10))
		}},
		{"reported, and the ledger only decided later", ReportTooEarly, func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Read(id, span(30, 31), ended(settled, 22))
		}},
		{"reserved after its report", NotOneStory, func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Read(id, span(22, 23), held)
		}},
		{"unknown after its report", NotOneStory, func(r *Recorder) {
			r.Reported(id, reported(20, settled))
			r.Read(id, span(22, 23), unknown)
		}},
		{"unknown after it was reserved", NotOneStory, func(r *Recorder) {
			r.Read(id, span(11, 12), held)
			r.Read(id, span(13, 14), unknown)
			r.Reported(id, reported(20, settled))
		}},
		{"reserved after it had ended", NotOneStory, func(r *Recorder) {
			r.Read(id, span(11, 12), ended(settled, 11))
			r.Read(id, span(13, 14), held)
			r.Reported(id, reported(20, settled))
		}},
		{"reserved before it was sent", NotOneStory, func(r *Recorder) {
			r.Read(id, span(-10, -5), held)
			r.Reported(id, reported(20, settled))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewRecorder()
			r.Submitting(id)
			sent(r)
			test.tell(r)
			v := r.Check(0)
			switch {
			case test.want == "" && !v.Clean:
				t.Errorf("not clean: %v", v.Violations)
			case test.want != "" && (v.Clean || v.ViolationCount != 1 || v.Violations[0].Kind != test.want):
				t.Errorf("found %v, must be one %q", v.Violations, test.want)
			}
		})
	}
}

// A submission without an acknowledgement may arrive much later, or never.
func TestUnacknowledgedSubmission(t *testing.T) {
	id := pix.EndToEndID([]byte("E1000000120260504120000000abcdef"))
	r := NewRecorder()
	r.Submitting(id)
	r.Submitted(id, span(0, 10), false)
	r.Read(id, span(11, 12), unknown)
	if v := r.Check(0); !v.Clean {
		t.Errorf("never arrived: %v", v.Violations)
	}
	r.Reported(id, reported(500, settled))
	if v := r.Check(0); !v.Clean {
		t.Errorf("arrived late: %v", v.Violations)
	}
}

// The tolerance is what clocks may differ by, and nothing more.
func TestTolerance(t *testing.T) {
	id := pix.EndToEndID([]byte("E1000000120260504120000000abcdef"))
	r := NewRecorder()
	r.Submitting(id)
	r.Submitted(id, span(0, 10), true)
	r.Reported(id, reported(20, settled))
	r.Read(id, span(24, 25), held) // if the engine's clock is 5 ms behind
	if v := r.Check(5 * time.Millisecond); !v.Clean {
		t.Errorf("within the tolerance: %v", v.Violations)
	}
	if v := r.Check(2 * time.Millisecond); v.Clean {
		t.Error("not found beyond the tolerance")
	}
}

// Payments of others are known by their reports only, and those must agree.
func TestReportsOfOthers(t *testing.T) {
	id := pix.EndToEndID([]byte("E1000000120260504120000000abcdef"))
	r := NewRecorder()
	r.Reported(id, reported(1, settled))
	r.Reported(id, reported(2, settled))
	if v := r.Check(0); !v.Clean || v.ReportedOnly != 1 || v.Reports != 2 {
		t.Errorf("repeated: %+v", v)
	}
	r.Reported(id, reported(3, silent))
	if v := r.Check(0); v.Clean || v.Violations[0].Kind != OutcomeChanged {
		t.Errorf("changed: %+v", v)
	}
}

// Returns have one end each, and together never give back more than was paid.
func TestReturns(t *testing.T) {
	paid, other := pix.EndToEndID([]byte("E1000000120260504120000000abcdef")), pix.EndToEndID([]byte("E1000000120260504120000000abcdeg"))
	first, second := pix.ReturnID([]byte("D1000000220260504120000000abcdef")), pix.ReturnID([]byte("D1000000220260504120000000abcdeg"))
	give := func(r *Recorder, id pix.ReturnID, of pix.EndToEndID, centavos uint64, o Outcome) {
		r.ReturnReported(id, of, Report{At: at(30), Outcome: o, AmountCentavos: centavos})
	}
	for _, test := range []struct {
		name string
		want string // kind of the violation; empty: clean
		tell func(r *Recorder)
	}{
		{"all of it, in parts", "", func(r *Recorder) { give(r, first, paid, 40, settled); give(r, second, paid, 60, settled) }},
		{"reported twice", "", func(r *Recorder) { give(r, first, paid, 60, settled); give(r, first, paid, 60, settled) }},
		{"too much, of which one is rejected", "", func(r *Recorder) {
			give(r, first, paid, 60, settled)
			give(r, second, paid, 60, Outcome{Reason: "AM09"})
		}},
		{"reported before its payment", "", func(r *Recorder) { give(r, first, other, 100, settled); r.Reported(other, reported(40, settled)) }},
		{"too much", ReturnedTooMuch, func(r *Recorder) { give(r, first, paid, 41, settled); give(r, second, paid, 60, settled) }},
		{"of a payment that was rejected", ReturnedTooMuch, func(r *Recorder) { r.Reported(other, reported(20, silent)); give(r, first, other, 1, settled) }},
		{"of a payment that nobody made", ReturnedTooMuch, func(r *Recorder) { give(r, first, other, 1, settled) }},
		{"two ends", OutcomeChanged, func(r *Recorder) { give(r, first, paid, 60, silent); give(r, first, paid, 60, settled) }},
		{"two amounts", OutcomeChanged, func(r *Recorder) { give(r, first, paid, 60, settled); give(r, first, paid, 61, settled) }},
		{"two originals", OutcomeChanged, func(r *Recorder) { give(r, first, paid, 60, settled); give(r, first, other, 60, settled) }},
	} {
		for _, story := range []bool{false, true} { // of the payment: by name only, and whole
			r := NewRecorder()
			if story {
				r.Submitting(paid)
				r.Submitted(paid, span(0, 10), true)
			}
			r.Reported(paid, reported(20, settled))
			test.tell(r)
			v := r.Check(0)
			switch {
			case test.want == "" && !v.Clean:
				t.Errorf("%s: not clean: %v", test.name, v.Violations)
			case test.want != "" && (v.Clean || v.ViolationCount != 1 || v.Violations[0].Kind != test.want):
				t.Errorf("%s: found %v, must be one %q", test.name, v.Violations, test.want)
			}
		}
	}
}

// What is read of a payment never tells less than was given back before, nor more than ever was.
func TestReadsOfWhatWasGivenBack(t *testing.T) {
	paid := pix.EndToEndID([]byte("E1000000120260504120000000abcdef"))
	first, second := pix.ReturnID([]byte("D1000000220260504120000000abcdef")), pix.ReturnID([]byte("D1000000220260504120000000abcdeg"))
	read := func(r *Recorder, from, to int, returned uint64) {
		x := ended(settled, 15)
		x.ReturnedCentavos = returned
		r.Read(paid, span(from, to), x)
	}
	for _, test := range []struct {
		name string
		want string
		tell func(r *Recorder)
	}{
		{"as they come", "", func(r *Recorder) {
			read(r, 21, 22, 0)
			read(r, 28, 29, 40) // the ledger knows before the report
			read(r, 45, 46, 40)
			read(r, 55, 56, 100)
		}},
		{"a read under way may say either", "", func(r *Recorder) { read(r, 25, 60, 0); read(r, 25, 60, 100); read(r, 25, 60, 40) }},
		{"less than was reported", ReturnedDiffers, func(r *Recorder) { read(r, 45, 46, 0) }},
		{"less than was read", ReturnedDiffers, func(r *Recorder) { read(r, 21, 22, 40); read(r, 23, 24, 0) }},
		{"more than ever was", ReturnedDiffers, func(r *Recorder) { read(r, 55, 56, 101) }},
	} {
		r := NewRecorder()
		r.Submitting(paid)
		r.Submitted(paid, span(0, 10), true)
		r.Reported(paid, reported(20, settled))
		for range 2 { // the engine may report again
			r.ReturnReported(first, paid, Report{At: at(30), Outcome: settled, AmountCentavos: 40})
		}
		r.ReturnReported(second, paid, Report{At: at(50), Outcome: settled, AmountCentavos: 60})
		test.tell(r)
		v := r.Check(0)
		if v.Clean != (test.want == "") || !v.Clean && (v.ViolationCount != 1 || v.Violations[0].Kind != test.want) {
			t.Errorf("%s: found %v, want %q", test.name, v.Violations, test.want)
		}
	}
}

// A return that a client sends has a story as a payment has.
func TestTheStoryOfAReturn(t *testing.T) {
	paid, back := pix.EndToEndID([]byte("E1000000120260504120000000abcdef")), pix.ReturnID([]byte("D1000000220260504120000000abcdef"))
	for _, goesBack := range []bool{false, true} {
		r := NewRecorder()
		r.Reported(paid, reported(5, settled))
		r.Submitting(pix.EndToEndID(back))
		r.Submitted(pix.EndToEndID(back), span(10, 12), true)
		r.ReturnReported(back, paid, reported(20, settled))
		r.Read(pix.EndToEndID(back), span(22, 23), ended(settled, 19))
		if goesBack {
			r.Read(pix.EndToEndID(back), span(25, 26), held)
		}
		if v := r.Check(0); v.Clean == goesBack || v.Returns != 1 {
			t.Errorf("goes back: %t, found %v", goesBack, v)
		}
	}
}

func TestBalances(t *testing.T) {
	r := NewRecorder()
	r.Balances([]int64{100, 200})
	r.Balances([]int64{100, 200})
	if v := r.Check(0); !v.Clean || v.BalanceReads != 2 {
		t.Errorf("%+v", v)
	}
	r.Balances([]int64{99, 201})
	if v := r.Check(0); v.ViolationCount != 2 || v.Violations[0].Kind != MoneyNotInPlace {
		t.Errorf("a centavo went from one bank to another: %+v", v)
	}
}
