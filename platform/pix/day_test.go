package pix

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // so that a machine without zones has them

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

	for _, text := range []string{"", "2026-13-01", "2026-02-29", "2019-12-31", "22.11.2026", "2026-11-22T00:00:00Z",
		"2026-1-2", " 2026-11-22"} {
		if day, err := ParseDay(text); err == nil {
			t.Errorf("%q is read as %v", text, day)
		}
	}
}

// The zones of the newest Go release say when Brazil changes its law.
func TestSaoPaulosOffsetIsTheLaws(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir())

	law, err := time.LoadLocation("America/Sao_Paulo")
	if err != nil {
		t.Fatal(err)
	}

	for day := FirstDay; day.year < 2040; day = day.Next() {
		if begins := time.Date(day.year, time.Month(day.month), day.day, 0, 0, 0, 0, law); !begins.Equal(day.Begins()) {
			t.Fatalf("%v begins at %v, want %v", day, day.Begins(), begins.UTC())
		}
	}
}

// A machine whose zones are wrong has the same days.
func TestADayIsNotTheMachines(t *testing.T) {
	if os.Getenv("ZONEINFO") == "" {
		wrong := filepath.Join(t.TempDir(), "America", "Sao_Paulo")
		if err := os.MkdirAll(filepath.Dir(wrong), 0o700); err != nil {
			t.Fatal(err)
		}
		// one zone, and its name
		utc := "TZif" + strings.Repeat("\x00", 16+4*4) + "\x00\x00\x00\x01\x00\x00\x00\x04" +
			strings.Repeat("\x00", 6) + "UTC\x00"
		if err := os.WriteFile(wrong, []byte(utc), 0o600); err != nil {
			t.Fatal(err)
		}
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")

		again.Env = append(os.Environ(), "ZONEINFO="+filepath.Dir(filepath.Dir(wrong)))
		if text, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}

		return
	}

	if zone, err := time.LoadLocation("America/Sao_Paulo"); err != nil ||
		time.Date(2026, 1, 2, 0, 0, 0, 0, zone).UTC().Hour() != 0 {
		t.Fatalf("the machine's zone is not the planted one: %v", err)
	}

	if begins := (Day{2026, 1, 2}).Begins(); begins.Hour() != 3 {
		t.Errorf("the day begins at %v", begins)
	}
}

func TestEveryInstantHasOneDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(1_500_000_000, 4_000_000_000).Draw(t, "second"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))

		day := DayOf(at)
		if at.Before(day.Begins()) || !at.Before(day.Next().Begins()) {
			t.Fatalf("%v is not in its day %v, %v to %v", at, day, day.Begins(), day.Next().Begins())
		}
	})
}
