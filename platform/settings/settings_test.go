package settings

import (
	"bytes"
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
	return DurationInRange("TEST_TIMEOUT", s.Timeout, time.Second, time.Minute)
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
	return DurationInRange("TEST_TIMEOUT", s.Timeout, time.Second, time.Minute)
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
	if err := Parse(&config); err == nil {
		t.Fatal("an unreadable duration was taken")
	}
}

func TestHelpListsEveryVariable(t *testing.T) {
	var out bytes.Buffer
	Help(&out, "sample", "shows help", &sample{})
	for _, want := range []string{"TEST_BROKERS", "127.0.0.1:9092", "where Kafka is", "TEST_TIMEOUT", "3s", "how long to wait"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
}
