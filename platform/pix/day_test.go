package pix

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestADayIsSaoPaulos(t *testing.T) {
	for day, begins := range map[string]string{
		"2026-11-22": "2026-11-22T03:00:00Z",
		"2020-01-01": "2020-01-01T03:00:00Z",
		"2028-02-29": "2028-02-29T03:00:00Z",
	} {
		d, err := ParseDay(day)
		if err != nil || d.Begins().Format(time.RFC3339) != begins || d.String() != day {
			t.Errorf("%s begins at %v, want %s (%v, %v)", day, d.Begins(), begins, d, err)
		}
	}
	// Until 2019 there was summer time: it began and ended at midnight.
	for day, hours := range map[Day]int{{2018, 11, 3}: 24, {2018, 11, 4}: 23, {2018, 2, 16}: 24, {2018, 2, 17}: 25, {2018, 2, 18}: 24} {
		if length := day.Next().Begins().Sub(day.Begins()); length != time.Duration(hours)*time.Hour {
			t.Errorf("%v lasts %v, want %d hours", day, length, hours)
		}
	}
	for _, text := range []string{"", "2026-13-01", "2026-02-29", "2019-12-31", "22.11.2026", "2026-11-22T00:00:00Z", "2026-1-2", " 2026-11-22"} {
		if day, err := ParseDay(text); err == nil {
			t.Errorf("%q is read as %v", text, day)
		}
	}
}

func TestEveryInstantHasOneDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(1_500_000_000, 4_000_000_000).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
		day := DayOf(at)
		if at.Before(day.Begins()) || !at.Before(day.Next().Begins()) {
			t.Fatalf("%v is not in its day %v, %v to %v", at, day, day.Begins(), day.Next().Begins())
		}
	})
}
