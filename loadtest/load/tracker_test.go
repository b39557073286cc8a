package load

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// scene is a tracker with one open payment, to which a test lets things happen.
type scene struct {
	t       *testing.T
	tracker *tracker
	payment mix.Payment
	open    *openPayment
}

func newScene(t *testing.T, c mix.Case, allowed ...pix.Reason) *scene {
	population := sandbox.Population{Banks: 5, Customers: 5000, DepositCentavos: 100_000_000,
		ReserveCentavos: 1_000_000_000_000}
	generator := mix.NewGenerator(population, rand.New(rand.NewPCG(1, 0)))
	s := &scene{t: t, tracker: newTracker(allowed, false)}
	s.tracker.start = time.Now()
	s.payment = generator.Payment(c, time.Now())
	s.open = s.tracker.add(s.payment, time.Now())

	return s
}

// ack acknowledges message i, at the offset 10+i.
func (s *scene) ack(i int) { s.tracker.acknowledged(s.open, i, record{3, int64(10 + i)}, nil) }

func (s *scene) letter(i int, reason pix.Reason) {
	s.tracker.letter(record{3, int64(10 + i)}, reason, time.Now())
}

// tell gives the tracker a report: settled, or rejected with a reason.
func (s *scene) tell(report *pixv1.SettlementReport, reason string,
	change []func(*pixv1.SettlementReport)) (next bool) {
	report.Status, report.ReasonCode = pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC, reason
	if reason != "" {
		report.Status = pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT
	}

	for _, c := range change {
		c(report)
	}
	value, err := report.MarshalVT()
	kit.Must(s.t, err)

	return s.tracker.report(report, value, time.Now()) != nil
}

// report reports the payment with the amount of message i.
func (s *scene) report(i int, reason string, change ...func(*pixv1.SettlementReport)) (next bool) {
	return s.tell(&pixv1.SettlementReport{
		EndToEndId: s.payment.Name, Payer: mix.AccountMessage(s.payment.Payer),
		Payee:          mix.AccountMessage(s.payment.Payee),
		AmountCentavos: []mix.Message{s.payment.First, s.payment.Second}[i].AmountCentavos,
	}, reason, change)
}

// back reports the payment's return k.
func (s *scene) back(k int, reason string, change ...func(*pixv1.SettlementReport)) {
	r := s.payment.Returns[k]

	report := &pixv1.SettlementReport{EndToEndId: r.ID.String(), OriginalEndToEndId: r.Original,
		AmountCentavos: r.AmountCentavos}
	if reason == "" {
		report.Payer, report.Payee = mix.AccountMessage(s.payment.Payee), mix.AccountMessage(s.payment.Payer)
	}

	if s.tell(report, reason, change) {
		s.t.Fatal("after the report of a return something is sent")
	}
}

// paid settles the payment and acknowledges its returns.
func (s *scene) paid() {
	s.ack(0)

	if !s.report(0, "") {
		s.t.Fatal("the returns of a settled payment must be sent")
	}

	for k := range s.payment.Returns {
		s.ack(firstReturn + k)
	}
}

func TestOutcomes(t *testing.T) {
	const (
		open     = "open"
		expected = "as expected"
		excused  = "excused"
	)

	dupl, ab03 := pix.ReasonConflict, pix.ReasonPayeePSPSilent
	for _, test := range []struct {
		name    string
		of      mix.Case
		allowed []pix.Reason
		happens func(*scene)
		want    string // open, as expected, excused, or a part of what is wrong
	}{
		{"settles", mix.Accepted, nil, func(s *scene) { s.ack(0); s.report(0, "") }, expected},
		{"nothing comes", mix.Accepted, nil, func(s *scene) { s.ack(0) }, open},
		{"cannot be sent", mix.Accepted, nil, func(s *scene) {
			s.tracker.acknowledged(s.open, 0, record{}, errors.New("no broker"))
		}, "no broker"},
		{"is rejected instead", mix.Accepted, nil, func(s *scene) {
			s.ack(0)
			s.report(0, "AB03")
		}, "rejected AB03, but it must be settled"},
		{"is rejected instead, which is allowed", mix.Accepted, []pix.Reason{ab03}, func(s *scene) {
			s.ack(0)
			s.report(0, "AB03")
		}, excused},
		{"another amount", mix.Accepted, nil, func(s *scene) {
			s.ack(0)
			s.report(0, "", func(r *pixv1.SettlementReport) { r.AmountCentavos++ })
		}, "centavos"},

		{"garbage becomes a dead letter", mix.Undecodable, nil, func(s *scene) {
			s.ack(0)
			s.letter(0, pix.ReasonMalformed)
		}, expected},
		{"a report of what must be a dead letter", mix.Future, nil, func(s *scene) {
			s.ack(0)
			s.report(0, "AB03")
		}, "must be a dead letter DT02"},

		{"the same twice: two reports that differ", mix.Twice, nil, func(s *scene) {
			s.ack(0)
			s.report(0, "")
			s.report(0, "AB03")
		}, "different bytes"},

		{"again: reported again", mix.Again, nil, func(s *scene) {
			s.ack(0)
			s.report(0, "")
			s.ack(1)
			s.report(0, "")
		}, expected},

		{"conflict: the second wins", mix.Conflict, nil, func(s *scene) {
			s.ack(0)
			s.ack(1)
			s.letter(0, dupl)
			s.report(1, "")
		}, expected},
		{"conflict: the winner has the dead letter", mix.Conflict, nil, func(s *scene) {
			s.ack(0)
			s.ack(1)
			s.letter(0, dupl)
			s.report(0, "")
		}, "a report and a dead letter"},
		{"returned: settles, once for both messages", mix.Returned, nil, func(s *scene) {
			s.paid()
			s.back(0, "")
		}, expected},
		{"returned: a dead letter", mix.Returned, nil, func(s *scene) {
			s.paid()
			s.letter(3, dupl)
		}, "dead letter DUPL, but it must be settled"},
		{"returned: forwards again", mix.Returned, nil, func(s *scene) {
			s.paid()
			s.back(0, "", func(r *pixv1.SettlementReport) { r.Payer, r.Payee = r.Payee, r.Payer })
		}, "the report is about"},
		{"race: the first settles", mix.ReturnsRace, nil, func(s *scene) {
			s.paid()
			s.back(0, "")
			s.back(1, "AM09")
		}, expected},
		{"race: both settle", mix.ReturnsRace, nil, func(s *scene) {
			s.paid()
			s.back(0, "")
			s.back(1, "")
		}, "given back"},
		{"too much: settles", mix.ReturnTooMuch, nil, func(s *scene) {
			s.paid()
			s.back(0, "")
		}, "settled, but it must be rejected AM09"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, test.of, test.allowed...)
			test.happens(s)
			count := s.tracker.counts[test.of]
			got := open

			switch {
			case count.AsExpected == 1:
				got = expected
			case count.Excused == 1:
				got = excused
			case count.Wrong == 1:
				got = s.tracker.result.Failures[0].Problem
			}

			if !strings.Contains(got, test.want) {
				t.Fatalf("it is %q, it must be %q", got, test.want)
			}

			if ended := got != open; ended != (s.tracker.waiting() == 0) || ended &&
				len(s.tracker.byID)+len(s.tracker.byRecord)+len(s.tracker.nameless) > 0 {
				t.Fatalf("%d payments wait, %d, %d and %d are remembered", s.tracker.waiting(), len(s.tracker.byID),
					len(s.tracker.byRecord), len(s.tracker.nameless))
			}
			s.tracker.giveUp()

			if count := s.tracker.counts[test.of]; (got == open) != (count.Missing == 1) || s.tracker.waiting() != 0 {
				t.Fatalf("given up on, it counts as %+v", count)
			}
		})
	}
}
