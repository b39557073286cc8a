package settings

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

type common struct {
	Brokers []string `env:"TEST_BROKERS" envDefault:"127.0.0.1:9092" help:"where Kafka is"`
}

type sample struct {
	common
	Timeout time.Duration `env:"TEST_TIMEOUT" envDefault:"3s" help:"how long to wait"`
}

func (s *sample) Validate() error {
	if err := NotEmpty("TEST_BROKERS", s.Brokers); err != nil {
		return err
	}

	return InRange("TEST_TIMEOUT", s.Timeout, time.Second, time.Minute)
}

// reachable is sample with exported fields: env fills only those.
type reachable struct {
	Common  commonExported
	Timeout time.Duration `env:"TEST_TIMEOUT" envDefault:"3s" help:"how long to wait"`
}

type commonExported struct {
	Brokers []string `env:"TEST_BROKERS" envDefault:"127.0.0.1:9092" help:"where Kafka is"`
}

func (s *reachable) Validate() error {
	return InRange("TEST_TIMEOUT", s.Timeout, time.Second, time.Minute)
}

func TestParseTakesDefaultsAndRefusesWithTheNameAndTheValue(t *testing.T) {
	var config reachable
	if err := Parse(&config); err != nil {
		t.Fatal(err)
	}

	if config.Timeout != 3*time.Second || config.Common.Brokers[0] != "127.0.0.1:9092" {
		t.Fatalf("defaults not taken: %+v", config)
	}
	t.Setenv("TEST_TIMEOUT", "2h")

	err := Parse(&config)
	if err == nil || !strings.Contains(err.Error(), "TEST_TIMEOUT is 2h0m0s") {
		t.Fatalf("error does not name the variable and the value: %v", err)
	}
	t.Setenv("TEST_TIMEOUT", "soon")

	if err := Parse(&config); err == nil || !strings.Contains(err.Error(), `TEST_TIMEOUT is "soon": `) {
		t.Fatalf("an unreadable duration: %v", err)
	}
}

func TestHelpListsEveryVariable(t *testing.T) {
	var out bytes.Buffer
	Help(&out, "sample", "shows help", &sample{})

	for _, want := range []string{"TEST_BROKERS", "127.0.0.1:9092", "where Kafka is", "TEST_TIMEOUT", "3s",
		"how long to wait"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
}

type wordy struct {
	Short string `env:"TEST_SHORT" help:"one"`
	Long  string `env:"TEST_LONG" envDefault:"ß" help:"a setting whose meaning takes more words than fit beside its name and its default, in a terminal of 100 columns: it goes on below, at the same column"`
}

func TestHelpFits(t *testing.T) {
	var out bytes.Buffer
	WriteVariables(&out, &wordy{})

	const want = `  TEST_SHORT  (empty)  one
  TEST_LONG   ß        a setting whose meaning takes more words than fit beside its name and its
                       default, in a terminal of 100 columns: it goes on below, at the same column
`
	if out.String() != want {
		t.Errorf("the table is\n%s, but it must be\n%s", &out, want)
	}

	words := func(n int) string { return "  word" + strings.Repeat(" word", n-1) + "\n" }
	if text := Lines("read    1 order\n" + words(25)); text != "read    1 order\n"+words(19)+words(6) {
		t.Errorf("the lines are\n%s", text)
	}

	if template := Fitted("{{.LocalFlags.FlagUsages | trim}}"); template != "{{.LocalFlags.FlagUsagesWrapped 100 | trim}}" {
		t.Errorf("the template is %s", template)
	}
}

// A configuration with ranges, in itself and in a part of it, which has a rule of its own, too.
type ranged struct {
	Part  rangedPart
	Count int     `env:"TEST_COUNT" envDefault:"5" range:"1 to 1000000" help:"how many"`
	Rate  float64 `env:"TEST_RATE" envDefault:"0.5" range:"0 to 0.75" help:"how often"`
	Most  uint64  `env:"TEST_MOST" envDefault:"7" range:"1 to 1000000000000000" help:"at most"`
}

type rangedPart struct {
	Pause time.Duration `env:"TEST_PAUSE" envDefault:"3s" range:"-1s to 5m" help:"how long"`
}

func (p rangedPart) Validate() error {
	if p.Pause%time.Second != 0 {
		return fmt.Errorf("TEST_PAUSE is %v: it must be whole seconds", p.Pause)
	}

	return nil
}

func TestValuesOutOfTheirRangeAreNamedAllAtOnce(t *testing.T) {
	var config ranged
	if err := Parse(&config); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}

	for _, good := range []ranged{{rangedPart{-time.Second}, 1, 0, 1},
		{rangedPart{5 * time.Minute}, 1_000_000, 0.75, 1e15}} {
		if err := Check(&good); err != nil {
			t.Errorf("%+v is refused: %v", good, err)
		}
	}

	err := Check(&ranged{rangedPart{301*time.Second + time.Millisecond}, 0, 0.76, math.MaxUint64})
	for _, says := range []string{
		"TEST_PAUSE is 5m1.001s: it must be from -1s to 5m0s", "TEST_PAUSE is 5m1.001s: it must be whole seconds",
		"TEST_COUNT is 0: it must be from 1 to 1000000", "TEST_RATE is 0.76: it must be from 0 to 0.75",
		"TEST_MOST is 18446744073709551615: it must be from 1 to 1000000000000000",
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %s", err, says)
		}
	}

	if variable := Variables(&config)[0]; variable.Meaning != "how long; -1s to 5m" {
		t.Errorf("it is explained by %q", variable.Meaning)
	}
}

// A number that is none must not pass for one within its range.
func TestNotANumberIsOutOfEveryRange(t *testing.T) {
	if err := Check(&ranged{Count: 1, Most: 1, Rate: math.NaN()}); err == nil {
		t.Error("NaN is taken")
	}
}
