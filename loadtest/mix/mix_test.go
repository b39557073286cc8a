package mix

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

var population = sandbox.Population{Banks: 5, Customers: 5000, DepositCentavos: 100_000_000,
	ReserveCentavos: 1_000_000_000_000}

func TestScheduleHoldsEveryCaseAndIsAFunctionOfTheSeed(t *testing.T) {
	for _, name := range []string{"demo", "no-waits", "plain", "settling", "accepted=1000000,silent=1",
		"silent=1,late=1,again=1"} {
		mix, err := Parse(name)
		kit.Must(t, err)

		for _, n := range []int{1, 7, 999, 1000, 1234, 10_000, 300_000} {
			schedule := mix.Schedule(n, rand.New(rand.NewPCG(5, 0)))
			if len(schedule) != n {
				t.Fatalf("%s: %d payments instead of %d", name, len(schedule), n)
			}

			counts := [caseCount]int{}
			for _, c := range schedule {
				counts[c]++
			}

			for c, weight := range mix {
				if counts[c] < 0 || weight == 0 && counts[c] > 0 || weight > 0 && n >= 1000 && counts[c] < 5 {
					t.Errorf("%s: %d of %d payments are %s", name, counts[c], n, Case(c))
				}
			}

			if !reflect.DeepEqual(schedule, mix.Schedule(n, rand.New(rand.NewPCG(5, 0)))) {
				t.Errorf("%s: the same seed gives another order", name)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "neither",
		"acepted=1":           "unknown case \"acepted\"",
		"accepted=0":          "weight of accepted is \"0\"",
		"accepted=1,silent=x": "weight of silent is \"x\"",
	} {
		_, err := Parse(text)
		kit.Says(t, err, want)
	}
}

// What a case promises about its messages is what the rules make of them: valid orders
// but for the cases of dead letters, and those refused for the reason that is expected. Their times
// are of the clock as it is now, also if it was set since they became due.
func TestMessagesAreWhatTheirCaseSays(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 0))
	generator := NewGenerator(population, random)
	at := time.Now()
	*(*uint64)(unsafe.Pointer(&at)) -= 3600 << 30 // the seconds of its wall clock, not of its other one

	for range 300 {
		for _, c := range Cases() {
			payment := generator.Payment(c, at)
			expected := c.Expectation()

			if payment.Payer == (pix.Account{}) { // a return without a payment
				continue
			}
			order, err := judge(payment.First.Value, time.Now())

			if expected.Fate == DeadLetter {
				invalid, ok := errors.AsType[*pix.Invalid](err)
				if undecodable := c == Undecodable && err != nil && !ok; !undecodable &&
					(!ok || invalid.Reason != expected.Reason) {
					t.Fatalf("%s must be refused with %s: %v", c, expected.Reason, err)
				}

				continue
			}

			if err != nil {
				t.Fatalf("%s must be valid: %v", c, err)
			}

			if order.Payer != payment.Payer || order.Payee != payment.Payee ||
				order.AmountCentavos != payment.First.AmountCentavos || order.ID.String() != payment.Name {
				t.Fatalf("%s: the message is %+v, the payment %+v", c, order, payment)
			}

			age, behind := time.Since(order.AcceptedAt).Abs(), time.Now().Unix()-at.Unix()
			if age > time.Minute && c != TooOld || behind < 3600 {
				t.Fatalf("%s was accepted %v ago; a clock that was set is %d s behind", c, age, behind)
			}

			if (c == SameBank) != order.SameBank() && c != UnknownPayeePSP && c != UnknownPayerPSP ||
				c == Hottest && payment.Payee != population.Customer(0) {
				t.Fatalf("%s goes from %v to %v", c, order.Payer, order.Payee)
			}

			twoMessages := c == Twice || c == Again || c.Conflicting()
			if twoMessages != (payment.Second.Value != nil) {
				t.Fatalf("%s: a second message is %t", c, payment.Second.Value != nil)
			}

			if twoMessages {
				second, err := judge(payment.Second.Value, time.Now())
				if err != nil || second.ID != order.ID || (second.Content == order.Content) == c.Conflicting() ||
					second.AmountCentavos != payment.Second.AmountCentavos {
					t.Fatalf("%s: the second message is %+v, the first %+v: %v", c, second, order, err)
				}
			}
		}
	}
}

// judge decodes and validates as the clearing house does.
func judge(value []byte, at time.Time) (pix.Order, error) {
	var m pixv1.PaymentOrder
	if err := m.UnmarshalVT(value); err != nil {
		return pix.Order{}, err
	}

	return pix.Draft{
		EndToEndID: m.EndToEndId, Payer: pix.AccountIn(m.Payer), Payee: pix.AccountIn(m.Payee),
		AmountCentavos:   m.AmountCentavos,
		AcceptedAtUnixMs: m.AcceptedAtUnixMs, RemittanceInformation: m.RemittanceInformation,
	}.Validate(at)
}
