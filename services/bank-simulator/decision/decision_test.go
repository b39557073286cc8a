package decision_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

const lateDelay = 45 * time.Second

// anyDraft draws valid drafts. Numbers have two decimals, as people write them.
var anyDraft = rapid.Custom(func(t *rapid.T) decision.Draft {
	hundredths := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	accept := hundredths("accept", 100)
	late := hundredths("late", 100-accept)
	silent := hundredths("silent", 100-accept-late)
	share := float64(accept) / 100
	low := int64(hundredths("min_ms", 1000))
	mean := low + int64(hundredths("mean_ms", 1000))

	return decision.Draft{
		AcceptShare: &share, LateShare: float64(late) / 100, SilentShare: float64(silent) / 100,
		DuplicateShare: float64(hundredths("twice", 100)) / 100,
		RejectCodes:    []string{"AC06", "AC07", "AC06"},
		Delay:          decision.DraftDelay{MinMs: low, MeanMs: &mean},
	}
})

func TestADecisionIsTheSameHoweverOftenItIsTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draft, seed := anyDraft.Draw(t, "draft"), rapid.Uint64().Draw(t, "seed")
		id := rapid.StringMatching(`E[0-9]{8}20260102[0-9A-Za-z]{15}`).Draw(t, "id")

		first, err := draft.Profile(lateDelay)
		if err != nil {
			t.Fatal(err)
		}
		// As after a restart: read the profile again from what the API shows.
		shown, _ := json.Marshal(first)

		var again decision.Draft
		if err := json.Unmarshal(shown, &again); err != nil {
			t.Fatal(err)
		}

		second, err := again.Profile(time.Second)
		if err != nil {
			t.Fatalf("%s is shown and not accepted: %v", shown, err)
		}

		if a, b := first.Decide(seed, id), second.Decide(seed, id); a != b {
			t.Fatalf("%s: first %+v, then %+v", id, a, b)
		}
	})
}

func TestOverManyPaymentsTheSharesAndTheDelayHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		profile, err := anyDraft.Draw(t, "draft").Profile(lateDelay)
		if err != nil {
			t.Fatal(err)
		}
		const payments = 20_000
		seed := rapid.Uint64().Draw(t, "seed")
		random := rand.New(rand.NewPCG(seed, 1))
		var accepted, late, silent, rejected, blocked, answers, twice float64
		var delays time.Duration

		for range payments {
			id := pix.NewEndToEndID("10000001", time.Date(2026, 1, 2, 3, 4, 5, random.IntN(1e9), time.UTC), random)

			d := profile.Decide(seed, id.String())
			switch {
			case d.Silent:
				silent++

				if d != (decision.Decision{Silent: true}) {
					t.Fatalf("silent and more: %+v", d)
				}

				continue
			case d.RejectCode != "":
				rejected++

				if d.RejectCode == "AC06" {
					blocked++
				}
			case d.Delay == lateDelay:
				late++
			default:
				accepted++
			}
			answers++

			if d.Twice {
				twice++
			}

			if d.Delay != lateDelay {
				delays += d.Delay
				if d.Delay < time.Duration(profile.Delay.MinMs)*time.Millisecond ||
					d.Delay > time.Duration(profile.Delay.MaxMs)*time.Millisecond {
					t.Fatalf("delay %v is outside %+v", d.Delay, profile.Delay)
				}
			}
		}
		near := func(what string, got, of, want float64) {
			if of == 0 {
				return
			}
			// 6 standard deviations: a fair draw fails once in 500 million.
			if slack := 6*math.Sqrt(want*(1-want)/of) + 1/of; math.Abs(got/of-want) > slack {
				t.Fatalf("%s: %.4f of %.0f, want %.4f ± %.4f", what, got/of, of, want, slack)
			}
		}
		near("accepted", accepted, payments, profile.AcceptShare)
		near("late", late, payments, profile.LateShare)
		near("silent", silent, payments, profile.SilentShare)
		near("rejected", rejected, payments, max(0, 1-profile.AcceptShare-profile.LateShare-profile.SilentShare))
		near("the code that is listed twice", blocked, rejected, 2.0/3)
		near("twice", twice, answers, profile.DuplicateShare)

		if punctual := accepted + rejected; punctual > 0 {
			mean, want := float64(delays.Milliseconds())/punctual, float64(profile.Delay.MeanMs)

			spread := want - float64(profile.Delay.MinMs) // of an exponential: its mean
			if slack := 6*spread/math.Sqrt(punctual) + 1; math.Abs(mean-want) > slack {
				t.Fatalf("mean delay %.1f ms over %.0f answers, want %.1f ± %.1f", mean, punctual, want, slack)
			}
		}
	})
}

func TestTheNearestProfileApplies(t *testing.T) {
	catalog, err := decision.NewCatalog(
		`{"10000002": {"silent_share": 1}, "10000002/9003": {"accept_share": 0, "reject_codes": ["AC04"]}}`,
		lateDelay, 100)
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		bank, branch string
		want         decision.Decision
	}{
		{"10000001", "0001", decision.Decision{}},
		{"10000001", "9001", decision.Decision{Silent: true}},
		{"10000001", "9002", decision.Decision{Delay: lateDelay}},
		{"10000001", "9003", decision.Decision{RejectCode: "AC06"}},
		{"10000001", "9004", decision.Decision{RejectCode: "AC07"}},
		{"10000001", "9010", decision.Decision{}},
		{"10000002", "0001", decision.Decision{Silent: true}},
		{"10000002", "9003", decision.Decision{RejectCode: "AC04"}},
		{"10000002", "9004", decision.Decision{RejectCode: "AC07"}},
	} {
		if got := catalog.Profiles().Of(c.bank, c.branch).Decide(1, "E10000001202601020304AAAAAAAAAAA"); got != c.want {
			t.Errorf("bank %s branch %s: %+v, want %+v", c.bank, c.branch, got, c.want)
		}
	}
}

func TestACatalogGoesBackToWhatItBeganWith(t *testing.T) {
	catalog, err := decision.NewCatalog("", lateDelay, 7)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(catalog.Profiles())

	put := func(name string) error {
		whose, err := decision.ParseWhose(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = catalog.Put(whose, decision.Draft{SilentShare: 1})

		return err
	}
	for _, name := range []string{"default", "default/9003", "10000001", "10000001/0001"} {
		if err := put(name); err != nil {
			t.Fatal(err)
		}
	}

	if full := new(decision.Full); !errors.As(put("10000002"), &full) || full.Max != 7 {
		t.Error("an eighth profile was taken where 7 are allowed")
	}

	for _, name := range []string{"default", "default/9003", "10000001", "10000001/0001"} {
		whose, _ := decision.ParseWhose(name)
		catalog.Reset(whose)
	}

	if after, _ := json.Marshal(catalog.Profiles()); string(after) != string(before) {
		t.Errorf("began with %s, went back to %s", before, after)
	}
}

func TestBadProfilesAreRefusedWithTheFieldAndTheValue(t *testing.T) {
	for _, c := range []struct{ draft, field, value string }{
		{`{"accept_share": 1.1}`, "accept_share", "1.1"},
		{`{"accept_share": -0.1}`, "accept_share", "-0.1"},
		{`{"accept_share": 0.9, "silent_share": 0.2}`, "accept_share", "0.9"},
		{`{"late_share": 0.7, "silent_share": 0.7}`, "silent_share", "0.7"},
		{`{"silent_share": -1}`, "silent_share", "-1"},
		{`{"late_share": 2}`, "late_share", "2"},
		{`{"duplicate_share": 1.5}`, "duplicate_share", "1.5"},
		{`{"accept_share": 0.5}`, "reject_codes", "empty"},
		{`{"reject_codes": ["AC06", "no"]}`, "reject_codes", "no"},
		{`{"late_delay_ms": -1}`, "late_delay_ms", "-1"},
		{`{"late_delay_ms": 600001}`, "late_delay_ms", "600001"},
		{`{"delay": {"min_ms": -5}}`, "delay.min_ms", "-5"},
		{`{"delay": {"min_ms": 10, "mean_ms": 5}}`, "delay.mean_ms", "5"},
		{`{"delay": {"mean_ms": 9223372036854775807}}`, "delay.mean_ms", "9223372036854775807"},
		{`{"delay": {"mean_ms": 50, "max_ms": 40}}`, "delay.max_ms", "40"},
	} {
		var draft decision.Draft
		if err := json.Unmarshal([]byte(c.draft), &draft); err != nil {
			t.Fatal(err)
		}
		_, err := draft.Profile(lateDelay)

		invalid := new(decision.Invalid)
		if !errors.As(err, &invalid) || invalid.Field != c.field ||
			!strings.HasPrefix(fmt.Sprint(invalid.Value), c.value) {
			t.Errorf("%s: %v, want field %s with value %s", c.draft, err, c.field, c.value)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	draft := decision.Draft{SilentShare: 0.1, Delay: decision.DraftDelay{MinMs: 10}}

	profile, _ := draft.Profile(lateDelay)
	for b.Loop() {
		profile.Decide(1, "E10000001202601020304AAAAAAAAAAA")
	}
}
