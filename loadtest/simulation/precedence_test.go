package simulation

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/mix"
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
		if err := s.operator(s.random, 0).Do(ledger.Act{Kind: ledger.PaymentCapped, Bank: capped, Centavos: 1, ByCentralBank: true}); err != nil {
			s.t.Fatal(err)
		}
		s.suspend(suspended, ledger.Suspended)
		type try struct{ first, second int }
		tried := map[string]try{} // by id, or by place for dead letters
		generator := mix.NewGenerator(population, s.random)
		for first := range breaks {
			for second := range breaks {
				if first > second {
					continue
				}
				b := &broken{&pixv1.PaymentOrder{}, time.Now()}
				if err := b.UnmarshalVT(generator.Payment(mix.Accepted, b.at).First.Value); err != nil {
					s.t.Fatal(err)
				}
				b.Payee = &pixv1.Account{Ispb: string(population.Bank(1)), Branch: "0001", Number: "2"}
				b.Payer.Branch, b.Payer.Number = "0001", "1"
				b.payerBank(population.Bank(0))
				breaks[second](b)
				breaks[first](b) // what both change is as the first rule has it
				value, err := b.MarshalVT()
				if err != nil {
					s.t.Fatal(err)
				}
				record := &kgo.Record{Topic: stream.Payments, Key: []byte(b.EndToEndId), Value: value, Timestamp: b.at}
				s.produce(record)
				tried["report of "+b.EndToEndId], tried[place(record.Partition, record.Offset)] = try{first, second}, try{first, second}
				time.Sleep(time.Second)
			}
		}
		s.eventually("the outcome of every order", func() bool {
			return s.written(stream.Settlements)+s.written(stream.DeadLetters) == int64(len(tried)/2)
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
		if err != nil {
			s.t.Fatal(err)
		}
		if len(ended) != len(tried)/2 {
			s.t.Errorf("%d of %d orders ended", len(ended), len(tried)/2)
		}
		for t, code := range ended {
			if !slices.Contains(codes[t.first], code) {
				s.t.Errorf("an order that breaks the rules %d and %d ends with %q and must end with %q", t.first, t.second, code, codes[t.first])
			}
		}
		s.verdict()
	})
}

func place(partition int32, offset int64) string { return fmt.Sprintf("%d/%d", partition, offset) }

// rulesOfTheDocument returns the codes of the rules by their number.
func rulesOfTheDocument(t *testing.T) map[int][]string {
	text, err := os.ReadFile("../../docs/participant.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[int][]string{}
	_, table, _ := strings.Cut(string(text), "## How an order is judged")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 {
			continue
		}
		if number, err := strconv.Atoi(strings.TrimPrefix(cells[0], "| ")); err == nil {
			codes[number] = strings.Split(strings.NewReplacer("`", "", " |", "").Replace(cells[2]), ", ")
		}
	}
	if len(codes) != 21 {
		t.Fatalf("docs/participant.md has %d rules: %v", len(codes), codes)
	}
	return codes
}
