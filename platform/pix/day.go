package pix

import (
	"fmt"
	"time"
)

// SaoPaulo is the time zone of the days of the payment system: since 2019 without summer time, so
// the same from FirstDay on. A machine's own zones would make statements differ between machines.
// If Brazil's law changes the offset, days from then on need the new one here.
var SaoPaulo = time.FixedZone("America/Sao_Paulo", -3*60*60)

// Day is a day of the payment system: from midnight to midnight in São Paulo.
type Day struct{ year, month, day int }

// DayOf returns the day of an instant.
func DayOf(t time.Time) Day {
	year, month, day := t.In(SaoPaulo).Date()
	return Day{year, int(month), day}
}

// FirstDay is the first day that an EndToEndId can have begun in.
var FirstDay = Day{2020, 1, 1}

// ParseDay reads a day such as 2026-11-22.
func ParseDay(text string) (Day, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < FirstDay.year {
		return Day{}, fmt.Errorf("%q is no day: it must be yyyy-MM-dd, from %v on", text, FirstDay)
	}

	return Day{t.Year(), int(t.Month()), t.Day()}, nil
}

func (d Day) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.year, d.month, d.day) }

// Next returns the day after.
func (d Day) Next() Day {
	year, month, day := time.Date(d.year, time.Month(d.month), d.day+1, 0, 0, 0, 0, time.UTC).Date()
	return Day{year, int(month), day}
}

// Number returns the days from FirstDay to d.
func (d Day) Number() uint32 { return uint32(d.Begins().Sub(FirstDay.Begins()) / (24 * time.Hour)) } //nolint:gosec // not below 0

// Begins returns the first instant of the day. The day ends where the next one begins.
func (d Day) Begins() time.Time {
	return time.Date(d.year, time.Month(d.month), d.day, 0, 0, 0, 0, SaoPaulo).UTC()
}
