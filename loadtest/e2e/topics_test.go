package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// kafka returns a client for the test, which may change topics.
func (s *system) kafka() *kadm.Client {
	s.t.Helper()
	kafka, err := kgo.NewClient(kgo.SeedBrokers(s.KafkaAddress()), kgo.MetadataMinAge(50*time.Millisecond))
	s.must(err)
	s.t.Cleanup(kafka.Close)
	return kadm.NewClient(kafka)
}

// bootstrap runs it once more, with arguments and more settings.
func (s *system) bootstrap(arguments []string, env ...string) kit.Output {
	return kit.RunCommand(s.t, append(env, "KAFKA_BROKERS="+s.KafkaAddress(), "TIGERBEETLE_ADDRESSES="+s.TigerBeetleAddresses(), "TELEMETRY_ADDRESS=127.0.0.1:0"),
		filepath.Join(binaries, "bootstrap"), arguments...)
}

// problem returns what a process misses of a need.
func (s *system) problem(name, need string) string {
	response, err := http.Get(s.TelemetryURL(name) + "/readyz")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	var health struct{ Problems map[string]string }
	_ = json.NewDecoder(response.Body).Decode(&health)
	return health.Problems[need]
}

// noticed waits until all of these processes say what is wrong, and checks that it took at most 10 s and a look.
func (s *system) noticed(since time.Time, need, says string, names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.eventually(name+" says "+says, func() bool { return strings.Contains(s.problem(name, need), says) })
	}
	s.t.Logf("noticed after %v", time.Since(since))
}

// pay sends payments to the front door, as a bank does.
func (s *system) pay(payments int) (err error) {
	s.t.Helper()
	keys, err := s.Keys()
	s.must(err)
	api, err := client.New(s.ProducerURL(), keys["10000001"])
	s.must(err)
	for range payments {
		ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
		_, err := api.Pay(ctx, client.Payment{AmountCentavos: 1,
			Payer: client.Account{ISPB: "10000001", Branch: "0001", Number: "1"}, Payee: client.Account{ISPB: "10000002", Branch: "0001", Number: "1"}}, 0)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// Somebody adds partitions to pix.payments alone. The engines say so, nobody dies, the front door stays ready, and
// what it takes settles. Bootstrap adds the others, and what waited goes on.
func TestPartitionsOfPaymentsAlone(t *testing.T) {
	s := start(t, 2)
	admin := s.kafka()
	_, err := admin.UpdatePartitions(t.Context(), 32, stream.Payments)
	s.must(err)
	s.noticed(time.Now(), stream.TopicsNeed, "pix.payments has 32", stack.EngineName(0), stack.EngineName(1))
	time.Sleep(12 * time.Second) // longer than the metadata of any client lasts
	s.must(s.Ready(t.Context(), stack.Producer))
	before := s.ends(stream.Settlements)
	s.must(s.pay(40))
	s.eventually("what the front door took to settle", func() bool { return s.ends(stream.Settlements) == before+40 })
	s.bootstrap(nil, "PARTITIONS=32").Is(t, 0)
	s.ready(stack.EngineName(0), stack.EngineName(1), stack.Producer)
	s.settlesAgain()
	s.audit()
}

// A topic of questions or of responses that is made anew under running services is used as it is.
func TestAuthorizationTopicsMadeAnew(t *testing.T) {
	s := start(t, 1)
	admin := s.kafka()
	s.settlesAgain()
	for _, topic := range []string{stream.AuthorizationResponses, stream.AuthorizationRequests} {
		_, err := admin.DeleteTopic(t.Context(), topic)
		_, err2 := admin.CreateTopic(t.Context(), 16, 1, nil, topic)
		s.must(errors.Join(err, err2))
		began := time.Now()
		load := s.load(50, 1500, append(duringFaults, "--mix", "settling")...)
		result := load.wait() // nothing ends but by the deadline of the first seconds
		s.settledAtLeast(result, 0.5)
		t.Logf("%s: %d of %d settled within %v", topic, result.Settled, result.Sent, time.Since(began))
		s.ready(stack.EngineName(0), stack.Producer, stack.Simulator)
		s.settlesAgain()
	}
}

// What pix.settlements and pix.dead-letters kept is lost with them: nothing is begun until an operator has the
// engines write it again. Then nothing is missing.
func TestLostReportsAreWrittenAgain(t *testing.T) {
	s := start(t, 1)
	admin := s.kafka()
	s.load(100, 600, "--mix", "demo").wait()
	_, err := admin.DeleteTopics(t.Context(), stream.Settlements, stream.DeadLetters)
	s.must(err)
	s.noticed(time.Now(), stream.KafkaNeed, "UNKNOWN_TOPIC_OR_PARTITION", stack.EngineName(0), stack.Producer)
	if err := s.pay(1); err == nil {
		t.Error("the front door takes a payment while topics are missing")
	}
	s.bootstrap(nil).Is(t, 1, "bootstrap retell", "TopicsChanged in deploy/runbook.md")
	s.bootstrap([]string{"retell"}).Is(t, 1, "stop all of them first")
	for _, name := range []string{stack.EngineName(0), stack.Producer} {
		s.must(s.StopProcess(t.Context(), name))
	}
	s.bootstrap([]string{"retell"}).Is(t, 0, "forgot what engines have finished")
	for _, name := range []string{stack.EngineName(0), stack.Producer} {
		s.bring(name)
	}
	s.settlesAgain()
	s.audit() // every payment has its report again, and every bad message its dead letter
}
