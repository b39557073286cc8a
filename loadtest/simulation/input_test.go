package simulation

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// broken is an order that breaks rules of docs/participant.md.
type broken struct {
	*pixv1.PaymentOrder
	at time.Time // the record's timestamp
}

// suspended is a bank that is suspended, capped one whose single payments are capped at a centavo.
var suspended, capped = population.Bank(3), population.Bank(2)

func (b *broken) payerBank(bank pix.ISPB) {
	b.Payer.Ispb = string(bank)
	b.EndToEndId = "E" + string(bank) + b.EndToEndId[9:]
}

// breaks breaks the rules by their number. Rules without an entry need more than one order, or
// overload.
var breaks = map[int]func(*broken){
	2: func(b *broken) { b.EndToEndId = b.EndToEndId[:31] },
	3: func(b *broken) { b.Payee.Branch = "1" },
	4: func(b *broken) { b.EndToEndId = "E" + string(population.Bank(1)) + b.EndToEndId[9:] },
	5: func(b *broken) { b.AmountCentavos = pix.AmountCentavosMax + 1 },
	6: func(b *broken) {
		b.EndToEndId = b.EndToEndId[:9] + b.at.UTC().Add(-13*time.Hour).Format("200601021504") + b.EndToEndId[21:]
	},
	7:  func(b *broken) { b.at = time.UnixMilli(b.AcceptedAtUnixMs).Add(-6 * time.Second) },
	9:  func(b *broken) { b.payerBank("99999999") },
	10: func(b *broken) { b.AmountCentavos = 0 },
	11: func(b *broken) {
		if b.Payee.Ispb == string(population.Bank(1)) {
			b.Payee.Ispb = string(suspended)
		} else {
			b.payerBank(suspended)
		}
	},
	12: func(b *broken) { b.AcceptedAtUnixMs -= 41_000 },
	13: func(b *broken) {
		b.payerBank(capped)
		b.AmountCentavos = max(b.AmountCentavos, 2)
	},
	16: func(b *broken) { b.Payer.Number = "999999" },
	17: func(b *broken) { b.AmountCentavos = 1 << 62 },
	18: func(b *broken) { b.Payee.Ispb = "99999998" },
	19: func(b *broken) {
		b.Payer.Branch, b.Payer.Number = sandbox.RichBranch, "1"
		b.AmountCentavos = population.ReserveCentavos + 1
	},
	20: func(b *broken) { b.Payee.Number = "999999" },
}

// An order that breaks two rules ends with the code of the first one, as docs/participant.md says.
func TestTheFirstBrokenRuleGivesTheCode(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		codes := rulesOfTheDocument(s.t)
		s.start(1)
		s.act(ledger.Act{Kind: ledger.PaymentCapped, Bank: capped, Centavos: 1})
		s.act(ledger.Act{Kind: ledger.Suspended, Bank: suspended})
		type try struct{ first, second int }
		tried := map[string]try{} // by id, or by place for dead letters
		generator := mix.NewGenerator(population, s.random)

		for first := range breaks {
			for second := range breaks {
				if first > second {
					continue
				}

				b := &broken{&pixv1.PaymentOrder{}, time.Now()}
				kit.Must(s.t, b.UnmarshalVT(generator.Payment(mix.Accepted, b.at).First.Value))
				b.Payee = &pixv1.Account{Ispb: string(population.Bank(1)), Branch: "0001", Number: "2"}
				b.Payer.Branch, b.Payer.Number = "0001", "1"
				b.payerBank(population.Bank(0))
				breaks[second](b)
				breaks[first](b) // what both change is as the first rule has it

				value, err := b.MarshalVT()
				kit.Must(s.t, err)
				record := &kgo.Record{Topic: stream.Payments, Key: []byte(b.EndToEndId), Value: value, Timestamp: b.at}
				s.produce(record)
				tried["report of "+b.EndToEndId], tried[place(record.Partition, record.Offset)] = try{first, second},
					try{first, second}
				time.Sleep(time.Second)
			}
		}
		s.eventually("the outcome of every order", func() bool {
			return s.written(stream.Settlements, stream.DeadLetters) == int64(len(tried)/2)
		})
		ended := map[try]string{}

		err := errors.Join(s.each(stream.Settlements, func(record *kgo.Record) error {
			var report pixv1.SettlementReport
			err := report.UnmarshalVT(record.Value)
			ended[tried["report of "+report.EndToEndId]] = report.ReasonCode

			return err
		}), s.each(stream.DeadLetters, func(record *kgo.Record) error {
			var letter pixv1.DeadLetter
			err := letter.UnmarshalVT(record.Value)
			ended[tried[place(letter.Partition, letter.Offset)]] = letter.ReasonCode

			return err
		}))
		kit.Must(s.t, err)

		if len(ended) != len(tried)/2 {
			s.t.Errorf("%d of %d orders ended", len(ended), len(tried)/2)
		}

		for t, code := range ended {
			if !slices.Contains(codes[t.first], code) {
				s.t.Errorf("an order that breaks the rules %d and %d ends with %q and must end with %q", t.first,
					t.second, code, codes[t.first])
			}
		}
		s.verdict()
	})
}

func place(partition int32, offset int64) string { return fmt.Sprintf("%d/%d", partition, offset) }

// rulesOfTheDocument returns the codes of the rules by their number.
func rulesOfTheDocument(t *testing.T) map[int][]string {
	text, err := os.ReadFile("../../docs/participant.md")
	kit.Must(t, err)
	codes := map[int][]string{}
	_, table, _ := strings.Cut(string(text), "## How an order is judged")

	table, _, _ = strings.Cut(table, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|.* \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		number, err := strconv.Atoi(row[1])
		kit.Must(t, err)
		codes[number] = strings.Split(strings.ReplaceAll(row[2], "`", ""), ", ")
	}

	if len(codes) != 21 {
		t.Fatalf("docs/participant.md has %d rules: %v", len(codes), codes)
	}

	return codes
}

// A sender dates records and orders as it likes: in the year 2100, in 2020, in 1970. What settles settles, and
// no metric goes backwards or tells of years.
func TestForeignTimestampsDoNotBendMetrics(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		generator := mix.NewGenerator(population, s.random)
		now, future, past := time.Now(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(2020, 2, 1, 0, 0, 0, 0, time.UTC)
		ids := map[string]bool{}

		for _, c := range []struct{ accepted, written time.Time }{
			{now, now}, {now, now}, {now, future}, {future, future}, {past, past}, {now, time.UnixMilli(0)},
		} {
			payment := generator.Payment(mix.Accepted, c.accepted)
			if !c.written.Before(past) { // else its acceptance came after it: a dead letter
				ids[payment.Name] = true
			}
			s.produce(&kgo.Record{Topic: stream.Payments, Partition: int32(s.random.IntN(partitions)),
				Value: payment.First.Value, Timestamp: c.written})
		}
		s.reported(ids)
		s.eventually("the dead letter", func() bool { return s.written(stream.DeadLetters) == 1 })

		summary := s.verdict()
		if summary.Settled != 4 || summary.Rejected["LQ13"] != 1 || len(summary.DeadLetters) != 1 {
			s.t.Errorf("the audit saw %+v", summary)
		}

		for metric, want := range map[string][2]float64{ // from and to
			`pix_hop_seconds_count{hop="queue"}`: {2, 2}, `pix_hop_seconds_sum{hop="queue"}`: {0, 60},
			`pix_payment_seconds_count`: {3, 3}, `pix_payment_seconds_sum`: {0, 60},
			`pix_wrong_times_total{begin="future",of="queue"}`:   {2, 2},
			`pix_wrong_times_total{begin="past",of="queue"}`:     {1, 1},
			`pix_wrong_times_total{begin="future",of="payment"}`: {1, 1},
			`pix_wrong_times_total{begin="past",of="payment"}`:   {1, 1},
		} {
			if got := s.metric(s.engine(0), metric); got < want[0] || got > want[1] {
				s.t.Errorf("%s is %v, it must be from %v to %v", metric, got, want[0], want[1])
			}
		}
	})
}

// An order that is too old leaves a receipt and holds no money. Other content under the same
// EndToEndId, accepted now, can hold money, because phase 1 does not see a receipt. It must be a
// dead letter all the same, and the first content must be reported again.
func TestConflictWithARefusedPayment(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		generator := mix.NewGenerator(population, s.random)

		const payments = 10
		for range payments {
			old := generator.Payment(mix.TooOld, time.Now())

			var other pixv1.PaymentOrder
			kit.Must(s.t, other.UnmarshalVT(old.First.Value))
			other.AmountCentavos++
			other.AcceptedAtUnixMs = time.Now().UnixMilli()

			conflict, err := other.MarshalVT()
			kit.Must(s.t, err)

			for _, value := range [][]byte{old.First.Value, conflict, old.First.Value} {
				s.order(value)
				time.Sleep(time.Second) // for the engine to finish it
			}
		}

		summary := s.verdict()
		if summary.Rejected["LQ13"] != payments || summary.DeadLetters["DUPL"] != payments ||
			summary.RepeatedReports != payments {
			s.t.Errorf("%d payments rejected with LQ13, %d dead letters DUPL, %d reports repeated: each must be %d",
				summary.Rejected["LQ13"], summary.DeadLetters["DUPL"], summary.RepeatedReports, payments)
		}
	})
}
