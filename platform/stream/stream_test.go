package stream

import (
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/settings"
)

func TestTopics(t *testing.T) {
	keep := map[string]bool{Payments: true, Settlements: true, DeadLetters: true, AuthorizationRequests: false,
		AuthorizationResponses: false, Checkpoints: true}
	if len(Topics) != len(keep) {
		t.Errorf("%d topics, want %d", len(Topics), len(keep))
	}

	for _, topic := range Topics {
		if want, ok := keep[topic.Name]; !ok || want != topic.KeepForever {
			t.Errorf("topic %s: kept forever %v; the audit reads payments, settlements and dead letters whole",
				topic.Name, topic.KeepForever)
		}
		delete(keep, topic.Name)
	}
}

func TestConfigNamesTheVariableAndTheValue(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Brokers = nil }, "KAFKA_BROKERS is empty"},
		{func(c *Config) { c.Brokers = []string{"a:1", " "} }, `KAFKA_BROKERS is "a:1, "`},
		{func(c *Config) {
			c.Brokers = []string{"localhost"}
		}, `KAFKA_BROKERS holds "localhost": it must be host:port`},
		{func(c *Config) { c.Linger = -1 }, "KAFKA_LINGER is -1ns"},
		{func(c *Config) { c.Linger = 2 * time.Second }, "KAFKA_LINGER is 2s: it must be from 0s to 1s"},
	} {
		var config Config
		if err := settings.Parse(&config); err != nil {
			t.Fatalf("the defaults are refused: %v", err)
		}
		c.change(&config)

		if err := settings.Check(&config); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %s", err, c.says)
		}
	}
}

// A service starts while Kafka is away; it is not ready then. It may have several clients,
// which share the registry.
func TestConnectDoesNotWaitForABroker(t *testing.T) {
	eyes := eyes()

	for _, name := range []string{"consumer", "producer"} {
		started := time.Now()

		client, err := Connect(Config{Brokers: []string{"127.0.0.1:1"}}, host.System().Dial, name, eyes)
		if err != nil {
			t.Fatal(err)
		}

		if took := time.Since(started); took > time.Second {
			t.Errorf("%s took %v", name, took)
		}
		t.Cleanup(client.Close)
	}
}
