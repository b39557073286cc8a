package submission

import (
	"testing"
	"time"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/producer/query"
)

func TestAFlightIsForgottenOnlyWithItsLastOrder(t *testing.T) {
	start := time.Now()
	order := func(centavos uint64) query.Order {
		id, err := pix.ParseEndToEndID("E1000000120260102120000000000001")
		if err != nil {
			t.Fatal(err)
		}

		return query.Order{ID: id, Content: pix.Content{AmountCentavos: centavos}.Digest()}
	}
	type step struct {
		name string
		do   func(*flights) bool
		want bool
	}
	take := func(centavos uint64, after time.Duration, want bool) step {
		return step{"take", func(f *flights) bool { return f.take(order(centavos), start.Add(after)) }, want}
	}

	forget := func(centavos uint64) step {
		return step{"forget", func(f *flights) bool { f.forget(order(centavos)); return true }, true}
	}
	for name, steps := range map[string][]step{
		"other content is refused": {take(1, 0, true), take(2, 0, false), take(1, 0, true)},
		"a flight ends": {take(1, 0, true), take(2, time.Minute, false),
			take(2, time.Minute+1, true), take(1, time.Minute+2, false)},
		"each copy makes it longer": {take(1, 0, true), take(1, time.Minute, true),
			take(2, time.Minute+1, false), take(2, 2*time.Minute+1, true)},
		"what was not sent is forgotten": {take(1, 0, true), forget(1), take(2, 0, true)},
		"a copy that was not sent does not end it": {take(1, 0, true), take(1, 0, true), forget(1),
			take(2, 0, false), forget(1), take(2, 0, true)},
		"an order of the flight before does not end it": {take(1, 0, true), take(2, time.Minute+1, true), forget(1),
			take(1, time.Minute+2, false)},
	} {
		t.Run(name, func(t *testing.T) {
			f := flights{lasts: time.Minute}
			for i, s := range steps {
				if got := s.do(&f); got != s.want {
					t.Fatalf("step %d, %s: %v", i+1, s.name, got)
				}
			}
		})
	}
}

func TestFlightsAreBounded(t *testing.T) {
	f, now := flights{lasts: time.Minute}, time.Now()
	first := query.Order{ID: pix.NewEndToEndID("10000001", now, random),
		Content: pix.Content{AmountCentavos: 1}.Digest()}
	other := query.Order{ID: first.ID, Content: pix.Content{AmountCentavos: 2}.Digest()}
	f.take(first, now)

	for range 3 * flightsMax {
		f.take(query.Order{ID: pix.NewEndToEndID("10000001", now, random)}, now)

		if n := len(f.young) + len(f.old); n > 2*flightsMax {
			t.Fatalf("%d are kept", n)
		}
	}

	if !f.take(other, now) {
		t.Error("the oldest is kept")
	}
}
