package pix

import (
	"cmp"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestEndToEndIDGivesBackEveryPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payer, minute, suffix := ispbs().Draw(t, "payer"), minutes().Draw(t, "minute"), suffixes().Draw(t, "suffix")
		text := textOf(payer, minute, suffix)

		id, err := ParseEndToEndID(text)
		if err != nil {
			t.Fatal(err)
		}

		if got := id.Suffix(); id.String() != text || id.Payer() != payer || id.Minute() != minute ||
			string(got[:]) != suffix {
			t.Fatalf("%s became %s: payer %s, minute %d, suffix %s", text, id, id.Payer(), id.Minute(), got)
		}

		joined, err := JoinEndToEndID([8]byte([]byte(payer)), minute, id.Suffix())
		if err != nil || joined != id {
			t.Fatalf("joined again: %s, %v", joined, err)
		}
	})
}

func TestEndToEndIDOrderIsTheOrderOfTimeAndOfTheFirstFiveCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := endToEndIDs().Draw(t, "a"), endToEndIDs().Draw(t, "b")
		byText := cmp.Compare(string(a[9:26]), string(b[9:26])) // time and 5 characters, as bytes

		byNumber := cmp.Or(cmp.Compare(a.Minute(), b.Minute()), cmp.Compare(a.OrderedSuffix(), b.OrderedSuffix()))
		if byText != byNumber {
			t.Fatalf("%s and %s: %d as text, %d as numbers", a, b, byText, byNumber)
		}

		if a.OrderedSuffix() >= 1<<30 {
			t.Fatalf("%s: the ordered suffix %d does not fit 30 bits", a, a.OrderedSuffix())
		}
	})
}

// Every date that can be written is one, or is refused, as the standard library has it.
func TestTheDaysOfAnIDAreThoseOfTheCalendar(t *testing.T) {
	for day := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2160; day = day.AddDate(0, 0, 1) {
		year := day.Format("2006")
		for _, digits := range []string{day.Format("20060102"), day.Format("200601") + "32", year + "0230",
			year + "0229", year + "0431", year + "1301"} {
			id := EndToEndID([]byte("E12345678" + digits + "2359" + "00000000000"))
			want, err := time.Parse("20060102 15:04", digits+" 23:59")

			minutes, exists := id.minutes()
			if exists != (err == nil) || exists && int64(minutes)*60 != want.Unix()-Epoch.Unix() {
				t.Fatalf("%s: minute %d, exists %t; want %v, %v", digits, minutes, exists, want, err)
			}
		}
	}
}

func TestMadeEndToEndIDsAreValidAndInOrder(t *testing.T) {
	zones := []*time.Location{time.UTC, time.FixedZone("Brasília", -3*3600), time.FixedZone("odd", 5*3600+45*60)}
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		payer := ispbs().Draw(t, "payer")
		at := time.UnixMicro(rapid.Int64Range(Epoch.UnixMicro(), Epoch.AddDate(100, 0, 0).UnixMicro()).Draw(t,
			"at")).In(rapid.SampledFrom(zones).Draw(t, "zone"))

		id := NewEndToEndID(payer, at, random)
		if parsed, err := ParseEndToEndID(id.String()); err != nil || parsed != id || id.Payer() != payer {
			t.Fatalf("%s: %v", id, err)
		}

		if !id.Time().Equal(at.Truncate(time.Minute)) {
			t.Fatalf("%s made at %v holds %v", id, at, id.Time())
		}

		later := NewEndToEndID(payer,
			at.Add(time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "microseconds"))*time.Microsecond), random)
		if cmp.Or(cmp.Compare(id.Minute(), later.Minute()),
			cmp.Compare(id.OrderedSuffix(), later.OrderedSuffix())) != -1 {
			t.Fatalf("%s was made before %s and does not come before it", id, later)
		}
	})
}

func TestGarbageIsRefusedOrIsAnEndToEndID(t *testing.T) {
	garbage := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 32, 32), func(b []byte) string { return string(b) }),
		rapid.String(),
		rapid.StringMatching(`E[0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{11}`), // the time is seldom one
		rapid.Custom(func(t *rapid.T) string { // one byte away from a good one
			id := endToEndIDs().Draw(t, "id")
			id[rapid.IntRange(0, 31).Draw(t, "place")] = rapid.Byte().Draw(t, "byte")
			return string(id[:])
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := garbage.Draw(t, "text")

		id, err := ParseEndToEndID(text)
		if err == nil {
			if id.String() != text {
				t.Fatalf("%q was taken for %s", text, id)
			}

			return
		}

		if id != (EndToEndID{}) || !utf8.ValidString(err.Error()) || len(err.Error()) > 600 ||
			!strings.HasPrefix(err.Error(), "EndToEndId ") {
			t.Fatalf("the error cannot stand in a dead letter: %q", err)
		}
	})
}

func TestRefusedEndToEndIDsSayWhy(t *testing.T) {
	for _, c := range []struct{ text, why string }{
		{"", `EndToEndId "" has 0 characters: it must have 32`},
		{strings.Repeat("E", 1000), `has 1000 characters: it must have 32`},
		{"D1234567820250102030400000000000", `begins with "D": it must begin with "E"`},
		{"E1234567a20250102030400000000000", `ISPB "1234567a" has "a" at position 8: only 0-9 and A-Z are allowed`},
		{"E12345678202501020x0400000000000", `has "x" at position 19: the time must be digits, yyyyMMddHHmm`},
		{"E1234567820250102030400-00000000", `has "-" at position 24: only 0-9, A-Z and a-z are allowed`},
		{"E12345678202502300000" + "00000000000", `holds the time "202502300000", which does not exist`},
		{"E12345678202513010000" + "00000000000", `holds the time "202513010000", which does not exist`},
		{"E12345678202512012400" + "00000000000", `holds the time "202512012400", which does not exist`},
		{"E12345678202512012360" + "00000000000", `holds the time "202512012360", which does not exist`},
		{"E12345678000000000000" + "00000000000", `holds the time "000000000000", which does not exist`},
		{"E12345678201912312359" + "00000000000", `holds the time "201912312359": it must not be before 202001010000`},
		{"E12345678000101010000" + "00000000000", `it must not be before`},
		{"E12345678999912312359" + "00000000000", `holds the time "999912312359": it is too far in the future`},
	} {
		_, err := ParseEndToEndID(c.text)
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: got %v, want ... %s", c.text, err, c.why)
		}
	}
}

func TestTheLastMinuteIsTheLastThatFits(t *testing.T) {
	if _, err := ParseEndToEndID(textOf("12345678", 1<<minuteBits-1, "00000000000")); err != nil {
		t.Error(err)
	}

	if _, err := ParseEndToEndID(textOf("12345678", 1<<minuteBits, "00000000000")); err == nil ||
		!strings.Contains(err.Error(), "too far in the future") {
		t.Errorf("the minute after it: %v", err)
	}
}

func TestJoinRefusesAMinuteThatDoesNotFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute := rapid.Uint64Min(1<<minuteBits).Draw(t, "minute")
		if id, err := JoinEndToEndID([8]byte([]byte("12345678")), minute, [11]byte([]byte("00000000000"))); err == nil {
			t.Fatalf("minute %d became %s, minute %d", minute, id, id.Minute())
		}
	})
}
