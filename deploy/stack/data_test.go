package stack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// A ledger never stands beside topics, or a ledger, of another kind, also after a loss.
func TestDataOfAnotherKindIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, kind string
		folders    []string
		want       string // part of the error; empty: none
	}{
		{"nothing", "", nil, ""},
		{"three replicas whose topics are lost", "3 TigerBeetle replicas and the embedded Kafka",
			[]string{"tigerbeetle-cluster"}, "3 TigerBeetle replicas"},
		{"another broker", "one TigerBeetle server and the apache Kafka", []string{"tigerbeetle", "kafka"},
			"the apache Kafka"},
		{"another broker whose topics are lost", "one TigerBeetle server and the apache Kafka", []string{"tigerbeetle"},
			"the apache Kafka"},
		{"the ledger is lost", "one TigerBeetle server and the embedded Kafka", []string{"kafka"}, "docs/backup.md"},
		// the engines refuse them
		{"the topics are lost", "one TigerBeetle server and the embedded Kafka", []string{"tigerbeetle"}, ""},
	} {
		s := newStack(nil)
		s.given.Store(&Config{Dir: t.TempDir(), Kafka: Embedded, Replicas: 1, Brokers: 1})

		for _, folder := range test.folders {
			kit.Must(t, os.MkdirAll(s.data(folder), 0o755))
		}

		if test.kind != "" {
			kit.Must(t, os.WriteFile(filepath.Join(s.data(""), "kind"), []byte(test.kind), 0o600))
		}

		if err := s.checkData(); test.want != "" {
			kit.Says(t, err, test.want)
		} else if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
