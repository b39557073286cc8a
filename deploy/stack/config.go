package stack

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/tigerbeetle"
)

// Names of processes. Engines are EngineName(0), EngineName(1) and so on; several
// TigerBeetle servers are named by Stack.Replicas.
const (
	TigerBeetle = "tigerbeetle" // also the kind of all its replicas, a key of Config.Env
	Broker      = "broker"
	Bootstrap   = "bootstrap"
	Simulator   = "bank-simulator"
	Archiver    = "archiver"        // with Config.Archive
	Engine      = "clearing-engine" // the kind of all engines, a key of Config.Env
	Producer    = "producer"
	Room        = "room" // with Config.Room
	// SecondProducer is started by AddProducer.
	SecondProducer = "producer-1"
)

// EnginesMax is how many engines a stack may have.
const EnginesMax = 100

// The brokers that Config.Kafka chooses from.
const (
	Embedded     = "embedded"      // deploy/cmd/broker
	RedpandaLike = "redpanda-like" // the same program, behaving like Redpanda: deploy/redpanda
	Apache       = "apache"        // deploy/kafka
)

// CheckKafka returns an error that begins with the name of the setting if which is no broker.
func CheckKafka(setting, which string) error {
	all := []string{Embedded, RedpandaLike, Apache}
	if slices.Contains(all, which) {
		return nil
	}

	return fmt.Errorf("%s is %q: it must be one of %s", setting, which, strings.Join(all, ", "))
}

// EngineName returns the name of an engine's process and instance. An instance keeps its partitions when
// its engine restarts.
func EngineName(instance int) string { return fmt.Sprintf("engine-%d", instance) }

// Config says what to run and where. Dir and BinDir are needed, the rest has defaults.
type Config struct {
	Dir    string // the stack's folder: data/, logs/, keys and the socket
	BinDir string // where Build put the binaries

	TigerBeetleBin string // default: what tigerbeetle.Locate finds or builds
	Replicas       int    // TigerBeetle servers, 1 or 3; default 1
	CacheGrid      string // each server's page cache; default 512MiB, of three 128MiB
	LimitGiB       int    // how large each server's data file may grow; default tigerbeetle.LimitGiB
	LedgerReserve  int64  // bytes of the disk reserved for each server's new data file to grow into; default none
	// LedgerCore gives a single TigerBeetle server a processor of its own. Everything else, also
	// the calling process and its load, shares the others. Default: all share all.
	LedgerCore   bool
	Kafka        string // Embedded, RedpandaLike or Apache; default Embedded
	KafkaSecured bool   // TLS, users and ACLs at the broker; default none
	Brokers      int    // 1, or 3 of Apache Kafka on free ports, with three copies of each record; default 1
	Engines      int    // default 1
	Ports        Ports  // default FixedPorts

	// Env adds environment variables, NAME=value, by process name ("engine-0") or kind
	// ("clearing-engine"; for the others the name is the kind). A name wins over a kind. A name that
	// there is not is an error.
	Env map[string][]string
	// Linked, if set, reports whether a process reaches a server through a link, which can be broken: see Stack.Links.
	Linked func(process, server string) bool `json:"-"`

	Statsd string // IP:port to which TigerBeetle sends its metrics over UDP; default none
	// Cuts makes the connections of engines and producers to broker and ledger cuttable: see ActCut.
	Cuts bool
	// Archive starts the archiver, which keeps what has ended in ArchiveFolder.
	Archive bool
	// Room starts the control room. The stack is ready without it.
	Room bool

	// LoadFirst gives the ledger, and the program that starts the stack, priority over all other processes (niceness).
	// So a load is sent in time while faults keep the machine busy.
	LoadFirst bool

	// InfrastructureOnly starts only TigerBeetle and the broker.
	InfrastructureOnly bool

	ReadyWithin time.Duration // for each process to become ready; default startsWithin
	StopWithin  time.Duration // for each process to end after SIGTERM, then SIGKILL; default 15 s

	Progress io.Writer `json:"-"` // if set, Start writes here what it does
}

func (c *Config) withDefaults() (Config, error) {
	d := *c
	if d.Dir == "" || d.BinDir == "" {
		return d, fmt.Errorf("stack: Dir is %q and BinDir is %q: both are needed", d.Dir, d.BinDir)
	}

	for _, path := range []*string{&d.Dir, &d.BinDir} { // processes may run elsewhere
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return d, err
		}
		*path = absolute
	}
	d.Replicas = cmp.Or(d.Replicas, 1)
	d.LimitGiB = cmp.Or(d.LimitGiB, tigerbeetle.LimitGiB)
	d.Kafka = cmp.Or(d.Kafka, Embedded)
	d.Brokers = cmp.Or(d.Brokers, 1)
	d.Engines = cmp.Or(d.Engines, 1)
	d.ReadyWithin = cmp.Or(d.ReadyWithin, startsWithin)

	d.StopWithin = cmp.Or(d.StopWithin, 15*time.Second)
	if d.Progress == nil {
		d.Progress = io.Discard
	}

	if d.Cuts {
		d.Linked = cuttable
	}

	if d.Replicas > 1 { // each server takes 2 GiB more, and all would share one processor
		d.CacheGrid, d.LedgerCore = cmp.Or(d.CacheGrid, "128MiB"), false
	}
	d.CacheGrid = cmp.Or(d.CacheGrid, "512MiB")

	switch {
	case d.Replicas != 1 && d.Replicas != 3:
		return d, fmt.Errorf("stack: %d TigerBeetle replicas: it must be 1 or 3", d.Replicas)
	case d.LimitGiB < 2 || d.LimitGiB > tigerbeetle.LimitGiBMax:
		return d, fmt.Errorf("stack: the ledger's file may grow to %d GiB: it must be 2 to %d", d.LimitGiB,
			tigerbeetle.LimitGiBMax)
	case d.Brokers != 1 && (d.Brokers != 3 || d.Kafka != Apache || d.KafkaSecured || d.Cuts || d.Ports != FreePorts):
		return d, fmt.Errorf("stack: %d brokers: it must be 1, or 3 of Apache Kafka, unsecured, without cuts and on free ports",
			d.Brokers)
	case d.Cuts && d.KafkaSecured:
		return d, errors.New("stack: Cuts with KafkaSecured: a link cannot put its address into what Kafka says over TLS")
	}

	return d, errors.Join(CheckKafka("stack: Kafka", d.Kafka), CheckProcesses(d.Env))
}
