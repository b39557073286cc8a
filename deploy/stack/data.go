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
	{Embedded, false}: "kafka", {Embedded, true}: "kafka-locked",
	{RedpandaLike, false}: "redpanda-like-kafka", {RedpandaLike, true}: "redpanda-like-kafka-locked",
	{Apache, false}: "apache-kafka", {Apache, true}: "apache-kafka-locked",
}

type kafkaKind struct {
	which   string
	secured bool
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
	return "the " + k.which + " Kafka"
}

func (c *Config) kafkaKind() kafkaKind { return kafkaKind{c.Kafka, c.KafkaSecured} }

func (s *Stack) data(folder string) string { return filepath.Join(s.config.Dir, "data", folder) }

func (s *Stack) ledgerFolder() string { return s.data(ledgerFolders[s.config.Replicas]) }

// KafkaFolder is where the broker keeps its data.
func (s *Stack) KafkaFolder() string { return s.data(kafkaFolders[s.config.kafkaKind()]) }

// ArchiveFolder is where the archiver keeps what has ended: with the ledger's data, because a copy of it that is put back
// needs an archive that is not newer.
func (s *Stack) ArchiveFolder() string { return s.data(Archiver) }

func (s *Stack) kafkaNode() kafka.Node {
	return kafka.Node{Security: s.kafkaSecurity(), Folder: s.KafkaFolder(), Address: s.addresses.of(Broker), Controller: s.addresses.of(controller)}
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
