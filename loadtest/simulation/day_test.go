package simulation

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/loadtest/answers"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
)

// A day ends in São Paulo while payments are in flight. Until then it has no statement; from then on
// each bank's statement is the same forever, whatever the next day brings. What was held before
// midnight and posted after it stands in the next day.
func TestADayCloses(t *testing.T) {
	inVirtualTime(t, func(s *scenario) {
		s.start(1)
		producer := s.open()
		day := pix.DayOf(time.Now())
		s.send("demo", 20, 400).wait(0.4)
		for bank := range population.Banks {
			if code, text := s.dayStatement(population.Bank(bank), day); code != http.StatusConflict || !strings.Contains(text, day.Next().Begins().Format(time.RFC3339)) {
				s.t.Fatalf("a day that is not over: %d %s", code, text)
			}
		}
		// Nobody runs until shortly before midnight: an idle broker would cost hours.
		idle := time.Until(day.Next().Begins()) - 30*time.Second
		for _, service := range []*service{producer, s.engine(0), s.banks()} {
			s.stop(service, idle)
		}
		time.Sleep(idle)
		s.ready(s.banks(), s.engine(0), producer)
		across := s.send("demo", 10, 600, duringFaults...)
		time.Sleep(time.Until(day.Next().Begins()) - 2*time.Second)
		s.stop(s.banks(), 4*time.Second) // so that payments are held across midnight
		first := map[pix.ISPB]string{}
		s.eventually("the statements of the day", func() bool {
			for i := range population.Banks {
				bank := population.Bank(i)
				code, text := s.dayStatement(bank, day)
				if code == http.StatusOK && time.Now().Before(day.Next().Begins()) {
					s.t.Fatalf("the day of %s is told before it is over:\n%s", bank, text)
				}
				if first[bank] = text; code != http.StatusOK {
					return false
				}
			}
			return true
		})
		across.wait(0.4)
		held := 0
		for bank, text := range first {
			if code, again := s.dayStatement(bank, day); code != http.StatusOK || again != text {
				s.t.Errorf("the statement of %s was\n%s\nand is %d\n%s", bank, text, code, again)
			}
			for _, row := range s.rows(text) {
				if at, err := time.Parse(time.RFC3339Nano, row[1]); row[0] == "line" && (err != nil || pix.DayOf(at) != day) {
					s.t.Errorf("%s has a line of another day: %v", bank, row)
				}
			}
			until := "?format=csv&until=" + time.Now().UTC().Format(time.RFC3339Nano)
			s.eventually("the part of the next day", func() (told bool) {
				var code int
				code, text = s.statementOf(bank, day.Next(), until)
				return code == http.StatusOK
			})
			for _, row := range s.rows(text) {
				if id, err := pix.ParseEndToEndID(row[3]); row[0] == "line" && err == nil && secondOf(id) < day.Next().Begins().Unix() {
					held++
				}
			}
		}
		if held == 0 {
			s.t.Error("no payment was held across midnight")
		}
		summary := s.verdict()
		if summary.Payments == 0 {
			s.t.Error("nothing was paid")
		}
		// All statements agree with each other, and with the reserves that the audit has proved.
		judge := answers.NewJudge(1, 0)
		clients := answers.NewClients(answers.Config{Doors: s.doors, Dial: s.dialDoor, Keys: s.keys, Population: population, Judge: judge})
		ctx, cancel := context.WithTimeout(s.ends, quietMax)
		defer cancel()
		if err := clients.ReadDays(ctx, s.ledger.Connect(nil)); err != nil {
			s.t.Fatal(err)
		}
		told, err := judge.Conclude(s.ledger.Connect(nil))
		if err != nil || !told.Clean || told.Told[answers.ToldDays] != 2*population.Banks {
			s.t.Errorf("%v %+v %v", told, told.Contradictions, err)
		}
	})
}

// secondOf returns the Unix time of the minute in an id.
func secondOf(id pix.EndToEndID) int64 {
	return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Unix() + int64(id.Minute())*60
}

// dayStatement asks for a statement in CSV.
func (s *scenario) dayStatement(bank pix.ISPB, day pix.Day) (code int, text string) {
	s.t.Helper()
	return s.statementOf(bank, day, "?format=csv")
}

func (s *scenario) statementOf(bank pix.ISPB, day pix.Day, query string) (code int, text string) {
	s.t.Helper()
	return s.ask(keys.CentralBank, http.MethodGet, fmt.Sprintf("/v1/participants/%s/statements/%v%s", bank, day, query), "")
}

func (s *scenario) rows(text string) [][]string {
	s.t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		s.t.Fatalf("%v in %s", err, text)
	}
	return rows
}
