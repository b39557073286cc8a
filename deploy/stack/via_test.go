package stack

import (
	"slices"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// A process is told where the proxy is, each for itself; a server serves where it serves.
func TestViaLeadsProcessesToTheirServers(t *testing.T) {
	asked := map[string]string{}
	s := newStack(nil)
	s.addresses.begin(FreePorts)
	s.given.Store(&Config{Replicas: 3, Via: func(process, server, address string) (string, error) {
		asked[process+" to "+server] = address
		return process + "-to-" + server, nil
	}})
	engine, err := s.specify("engine-0")
	kit.Must(t, err)
	for _, want := range []string{"KAFKA_BROKERS=engine-0-to-broker", "TIGERBEETLE_ADDRESSES=engine-0-to-tigerbeetle-0,engine-0-to-tigerbeetle-1,engine-0-to-tigerbeetle-2"} {
		if !slices.Contains(engine.env, want) {
			t.Errorf("the engine's environment has no %s: %v", want, engine.env)
		}
	}
	if asked["engine-0 to broker"] != s.KafkaAddress() {
		t.Errorf("the proxy was told that the broker is at %q, it is at %s", asked["engine-0 to broker"], s.KafkaAddress())
	}
	broker, err := s.specify(Broker)
	kit.Must(t, err)
	if !slices.Contains(broker.env, "BROKER_ADDRESS="+s.KafkaAddress()) {
		t.Errorf("the broker does not serve at its own address: %v", broker.env)
	}
}
