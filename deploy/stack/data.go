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

// Each kind of ledger and broker has its own data folder, because none can read the data of another.

var ledgerFolders = map[int]string{1: "tigerbeetle", 3: "tigerbeetle-cluster"}

var kafkaFolders = map[kafkaKind]string{
	{Embedded, false, 1}: "kafka", {Embedded, true, 1}: "kafka-locked",
	{RedpandaLike, false, 1}: "redpanda-like-kafka", {RedpandaLike, true, 1}: "redpanda-like-kafka-locked",
	{Apache, false, 1}: "apache-kafka", {Apache, true, 1}: "apache-kafka-locked", {Apache, false, 3}: "apache-kafka-cluster",
}

type kafkaKind struct {
	which   string
	secured bool
	brokers int
}

func describeLedger(replicas int) string {
	if replicas == 1 {
		return "one TigerBeetle server"
	}
	return fmt.Sprintf("%d TigerBeetle replicas", replicas)
}

func (k kafkaKind) String() string {
	if k.secured {
		return "the secured " + k.which + " Kafka"
	}
	if k.brokers > 1 {
		return fmt.Sprintf("%d brokers of the %s Kafka", k.brokers, k.which)
	}
	return "the " + k.which + " Kafka"
}

func (c *Config) kafkaKind() kafkaKind { return kafkaKind{c.Kafka, c.KafkaSecured, max(1, c.Brokers)} }

func (s *Stack) data(folder string) string { return filepath.Join(s.config.Dir, "data", folder) }

func (s *Stack) ledgerFolder() string { return s.data(ledgerFolders[s.config.Replicas]) }

// KafkaFolder is where the broker keeps its data.
func (s *Stack) KafkaFolder() string { return s.data(kafkaFolders[s.config.kafkaKind()]) }

// ArchiveFolder is where the archiver keeps what has ended: with the ledger's data, because a copy of it that is put back
// needs an archive that is not newer.
func (s *Stack) ArchiveFolder() string { return s.data(Archiver) }

// kafkaNode says what a broker of Apache Kafka is like.
func (s *Stack) kafkaNode(name string) kafka.Node {
	node := kafka.Node{Security: s.kafkaSecurity(), Folder: s.KafkaFolder(), Address: s.addresses.of(name), Controller: s.addresses.of(controllerOf(name))}
	if s.config.Brokers > 1 {
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

// refuseOtherData returns an error if the folder holds data of another kind. A ledger and topics
// that know different payments look like a loss to the audit.
func (s *Stack) refuseOtherData() error {
	others := map[string]string{} // folder → the kind of its data
	for replicas, folder := range ledgerFolders {
		if replicas != s.config.Replicas {
			others[folder] = describeLedger(replicas)
		}
	}
	for kind, folder := range kafkaFolders {
		if kind != s.config.kafkaKind() {
			others[folder] = kind.String()
		}
	}
	for folder, of := range others {
		switch _, err := os.Stat(s.data(folder)); {
		case err == nil:
			return fmt.Errorf("%s holds data of a stack with %s: run that, or remove the data first (clean)", s.config.Dir, of)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// refuseLostLedger returns an error if there are topics and the ledger's data is gone. An empty ledger in its place
// would know none of their payments, and what has settled could settle again. A stack makes its ledger before its
// broker starts, so there are never topics without one.
func (s *Stack) refuseLostLedger() error {
	topics, err := cache.Exists(s.KafkaFolder())
	if err != nil || !topics {
		return err
	}
	ledger, err := cache.Exists(s.ledgerFolder())
	if err != nil || ledger {
		return err
	}
	return fmt.Errorf("%s holds topics, and the data of their ledger, %s, is gone: stop the stack and put a copy back (docs/backup.md), or remove all data (clean)",
		s.KafkaFolder(), s.ledgerFolder())
}
