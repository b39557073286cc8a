// The broker command is the embedded Kafka broker of the local stack: kfake, which speaks
// the real protocol over TCP, in a process of its own with its data on disk.
package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/liquida/liquida/deploy/redpanda"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
)

type configuration struct {
	Address    string `env:"BROKER_ADDRESS" envDefault:"127.0.0.1:9092" help:"IP and port to listen on"`
	DataDir    string `env:"BROKER_DATA_DIR" envDefault:"broker-data" help:"folder of the data; survives restarts and SIGKILL"`
	SyncWrites bool   `env:"BROKER_SYNC_WRITES" envDefault:"false" help:"fsync each batch before it is acknowledged"`

	LossAccepted []string `env:"BROKER_LOSS_ACCEPTED" help:"logs that are served although acknowledged records are lost, comma-separated, as the refusal to start names them: topic/partition@offset; it may stay"`

	Like string `env:"BROKER_LIKE" envDefault:"kafka" help:"which broker to behave like where they differ: kafka or redpanda"`

	CheckBatches bool `env:"BROKER_CHECK_BATCHES" envDefault:"true" help:"refuse batches that no client can read; false is for tests only"`

	AdminPasswordFile string `env:"BROKER_ADMIN_PASSWORD_FILE" help:"password of the superuser admin: clients must log in (SASL/SCRAM) and may do only what ACLs allow; fixed once there is data; empty: everybody may do everything"`
	TLSCertFile       string `env:"BROKER_TLS_CERT_FILE" help:"certificate, chain and private key, PEM: clients must use TLS; empty: they must not"`
}

func (c *configuration) Validate() error {
	host, _, err := net.SplitHostPort(c.Address)

	ip := net.ParseIP(host)
	if err != nil || ip == nil || ip.IsUnspecified() {
		return fmt.Errorf("BROKER_ADDRESS is %q: it must be an IP that clients can reach and a port, like 127.0.0.1:9092",
			c.Address)
	}

	if c.DataDir == "" {
		return errors.New("BROKER_DATA_DIR is empty: name a folder for the data")
	}

	if c.Like != likeKafka && c.Like != likeRedpanda {
		return fmt.Errorf("BROKER_LIKE is %q: it must be %s or %s", c.Like, likeKafka, likeRedpanda)
	}
	_, err = c.security() // reads what the files hold

	return err
}

// The values of BROKER_LIKE.
const (
	likeKafka    = "kafka"
	likeRedpanda = "redpanda"
)

// security returns the options of a broker that asks for passwords or TLS.
func (c *configuration) security() (options []kfake.Opt, err error) {
	if c.AdminPasswordFile != "" {
		password, err := keys.ReadPassword(c.AdminPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("BROKER_ADMIN_PASSWORD_FILE: %w", err)
		}
		options = append(options, kfake.EnableSASL(), kfake.EnableACLs(),
			kfake.Superuser("SCRAM-SHA-512", stream.Admin, password))
	}

	if c.TLSCertFile != "" {
		certificate, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSCertFile)
		if err != nil {
			return nil, fmt.Errorf("BROKER_TLS_CERT_FILE %s: %w", c.TLSCertFile, err)
		}
		options = append(options,
			kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	}

	return options, nil
}

// brokerConfigs has Kafka's own names, so that a real broker can have the same settings.
var brokerConfigs = map[string]string{
	// The engine's session timeout is 3 s, which the default minimum of 6 s refuses.
	"group.min.session.timeout.ms": "1000",
	"message.max.bytes":            "1048576",
	"log.cleaner.backoff.ms":       "1000000000000", // never: killed while it compacts, kfake loses the whole partition
}

func main() {
	debug.SetGCPercent(400) // as the services: it shares their processors
	config := &configuration{}
	settings.Load("broker", "an embedded Kafka broker for one machine: real protocol, data on disk, no replication",
		config)
	// From the start: a signal while the data is read must not interrupt that.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)

	cluster, err := start(config)
	if err != nil {
		fmt.Fprintf(os.Stderr, "broker: %v\n", err)
		os.Exit(settings.ExitFailure)
	}
	fmt.Fprintf(os.Stderr, "broker: serving %s like %s, data in %s\n", config.Address, config.Like, config.DataDir)
	ended, marked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(marked)
		keepLogs(cluster, config.DataDir, ended)
	}()
	fmt.Fprintf(os.Stderr, "broker: %v: saving and closing\n", <-stop)
	close(ended)
	<-marked
	cluster.Close()
}

// start returns a running broker. It never creates a topic that a client only mentions: such a
// topic has one partition, and a typing error would make one.
func start(config *configuration) (*kfake.Cluster, error) {
	if err := own(config.DataDir); err != nil {
		return nil, err
	}

	for _, log := range []string{"groups.log", "pids.log"} {
		if err := cutTornEnd(filepath.Join(config.DataDir, log)); err != nil {
			return nil, fmt.Errorf("BROKER_DATA_DIR: %w", err)
		}
	}

	if err := checkLogs(config.DataDir, config.LossAccepted); err != nil {
		return nil, fmt.Errorf("BROKER_DATA_DIR: %w", err)
	}

	options, err := config.security()
	if err != nil {
		return nil, err
	}

	options = append(options,
		kfake.NumBrokers(1),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, config.Address) }),
		kfake.ClusterID("liquida"),
		kfake.DataDir(config.DataDir),
		kfake.BrokerConfigs(brokerConfigs),
		kfake.WithLogger(loudDisk{kfake.BasicLogger(os.Stderr, kfake.LogLevelWarn), config.DataDir}),
	)
	if config.SyncWrites {
		options = append(options, kfake.SyncWrites())
	}

	if config.Like == likeRedpanda {
		options = append(options, redpanda.Options()...)
	}

	cluster, err := kfake.NewCluster(options...)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("BROKER_ADDRESS %s is taken: stop what listens there, or choose another port",
			config.Address)
	}

	if err != nil {
		return nil, fmt.Errorf("cannot serve %s from %s: %w", config.Address, config.DataDir, err)
	}
	declineSessions(cluster)
	refuseTransactions(cluster)

	if config.Like == likeRedpanda {
		redpanda.Imitate(cluster)
	}
	checkBatches(cluster, config.CheckBatches)

	return cluster, nil
}

// own makes the folder and locks it until the process ends. Two brokers that append to the same
// logs would destroy them.
func own(folder string) error {
	// For its user only: what kfake stores of a password is enough to log in.
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o700)); err != nil {
		return fmt.Errorf("BROKER_DATA_DIR: %w", err)
	}
	// A bare descriptor: nothing closes it before the process ends.
	descriptor, err := syscall.Open(folder, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("BROKER_DATA_DIR %s: %w", folder, err)
	}

	if err := syscall.Flock(descriptor, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("BROKER_DATA_DIR %s is held by another broker (%w): stop it, or choose another folder",
			folder, err)
	}

	return nil
}
