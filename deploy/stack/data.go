package stack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/liquida/liquida/deploy/cache"
	"github.com/liquida/liquida/deploy/kafka"
)

// kind says what data a stack has: no kind of ledger or broker can read that of another.
func (c *Config) kind() string {
	ledger, secured := "one TigerBeetle server", ""
	if c.Replicas > 1 {
		ledger = fmt.Sprintf("%d TigerBeetle replicas", c.Replicas)
	}

	if c.KafkaSecured {
		secured = "secured "
	}

	if c.Brokers > 1 {
		return fmt.Sprintf("%s and %d brokers of the %s Kafka", ledger, c.Brokers, c.Kafka)
	}

	return fmt.Sprintf("%s and the %s%s Kafka", ledger, secured, c.Kafka)
}

func (s *Stack) data(folder string) string { return filepath.Join(s.config().Dir, "data", folder) }

func (s *Stack) ledgerFolder() string {
	if s.config().Replicas > 1 {
		return s.data("tigerbeetle-cluster")
	}

	return s.data("tigerbeetle")
}

// KafkaFolder is where the broker keeps its data.
func (s *Stack) KafkaFolder() string { return s.data("kafka") }

// ArchiveFolder is where the archiver keeps what has ended: with the ledger's data, because a copy of it that is put
// back needs an archive that is not newer.
func (s *Stack) ArchiveFolder() string { return s.data(Archiver) }

// kafkaNode says what a broker of Apache Kafka is like.
func (s *Stack) kafkaNode(name string) kafka.Node {
	node := kafka.Node{Folder: s.KafkaFolder(), Address: s.addresses.of(name),
		Controller: s.addresses.of(controllerOf(name))}
	if s.config().KafkaSecured {
		node.Secrets = s.secretsFolder()
	}

	if s.config().Brokers > 1 {
		node.Folder = filepath.Join(node.Folder, name)
	}

	for i, broker := range s.Brokers() {
		node.Voters = append(node.Voters, s.addresses.of(controllerOf(broker)))
		if broker == name {
			node.ID = i + 1
		}
	}

	return node
}

// checkData returns an error if the folder holds data of another kind: a ledger and topics that know different payments
// look like a loss to the audit. It does so, too, if there are topics and the ledger's data is gone. An empty ledger in
// its place would know none of their payments, and what has settled could settle again. A stack makes its ledger
// before its broker starts, so there are never topics without one.
func (s *Stack) checkData() error {
	kind, err := os.ReadFile(s.data("kind"))
	if errors.Is(err, fs.ErrNotExist) { // there is no data
		kind = []byte(s.config().kind())
		err = errors.Join(os.MkdirAll(s.data(""), 0o755), os.WriteFile(s.data("kind"), kind, 0o644))
	}

	if err != nil {
		return err
	}

	if string(kind) != s.config().kind() {
		return fmt.Errorf("%s holds data of a stack with %s: run that, or remove the data first (clean)",
			s.config().Dir, kind)
	}
	ledger, noLedger := cache.Exists(s.ledgerFolder())

	topics, noTopics := cache.Exists(s.KafkaFolder())
	if err := errors.Join(noLedger, noTopics); err != nil || ledger || !topics {
		return err
	}

	return fmt.Errorf("%s holds topics, and the data of their ledger, %s, is gone: stop the stack and put a copy back (docs/backup.md), or remove all data (clean)",
		s.KafkaFolder(), s.ledgerFolder())
}
