package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/stream"
)

// bootstrap runs it once more, with arguments and more settings.
func (s *system) bootstrap(arguments []string, env ...string) kit.Output {
	return kit.RunCommand(s.t, append(env, "KAFKA_BROKERS="+s.KafkaAddress(), "TIGERBEETLE_ADDRESSES="+s.TigerBeetleAddresses(), "TELEMETRY_ADDRESS=127.0.0.1:0"),
		filepath.Join(binaries, "bootstrap"), arguments...)
}

// What pix.settlements and pix.dead-letters kept is lost with them: nothing is begun until an operator has the
// engines write it again. Then nothing is missing.
func TestLostReportsAreWrittenAgain(t *testing.T) {
	s := start(t, 1)
	s.load(100, 600, "--mix", "demo").wait()
	kafka := s.kafka()
	defer kafka.Close()
	s.must(kit.ErrorOf(kadm.NewClient(kafka).DeleteTopics(t.Context(), stream.Settlements, stream.DeadLetters)))
	for _, name := range []string{stack.EngineName(0), stack.Producer} {
		s.eventually(name+" misses its topics", func() bool {
			err := s.Ready(t.Context(), name)
			return err != nil && strings.Contains(err.Error(), "UNKNOWN_TOPIC_OR_PARTITION")
		})
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
