package stream

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/plugin/kprom"
	"github.com/twmb/franz-go/plugin/kzap"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
)

// Config says where Kafka is and what its security needs. It is part of the configuration of
// every program that talks to Kafka.
type Config struct {
	Brokers []string      `env:"KAFKA_BROKERS" envDefault:"127.0.0.1:9092" help:"Kafka bootstrap addresses, host:port, comma-separated"`
	Linger  time.Duration `env:"KAFKA_LINGER" envDefault:"0s" range:"0 to 1s" help:"how long a record waits for others to be sent with"`

	BatchBytesMax int `env:"KAFKA_BATCH_BYTES_MAX" envDefault:"4194304" help:"memory that a batch may take once it is unpacked, 200 bytes for each record included; one that takes more is skipped, on pix.payments as dead letter LQ08; the same for all programs; 1 MiB to 64 MiB"`

	TLS              bool   `env:"KAFKA_TLS" envDefault:"false" help:"true: talk to Kafka over TLS"`
	TLSCAFile        string `env:"KAFKA_TLS_CA_FILE" help:"authorities, PEM, of the brokers' certificates; empty: those of the system"`
	TLSCertFile      string `env:"KAFKA_TLS_CERT_FILE" help:"certificate and chain of this program, PEM, for brokers that require one"`
	TLSKeyFile       string `env:"KAFKA_TLS_KEY_FILE" help:"private key of KAFKA_TLS_CERT_FILE, PEM"`
	SASLUser         string `env:"KAFKA_SASL_USER" help:"Kafka user of this program, by SASL/SCRAM-SHA-512; empty: no authentication"`
	SASLPasswordFile string `env:"KAFKA_SASL_PASSWORD_FILE" help:"password of KAFKA_SASL_USER; read for each connection"`
}

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if err := settings.NotEmpty("KAFKA_BROKERS", c.Brokers); err != nil {
		return err
	}

	for _, address := range c.Brokers {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("KAFKA_BROKERS holds %q: it must be host:port", address)
		}
	}

	if err := settings.InRange("KAFKA_BATCH_BYTES_MAX", c.BatchMax(), MessageBytesMax, 64<<20); err != nil {
		return err
	}
	_, err := c.Options() // reads what the files hold

	return err
}

// BatchMax returns BatchBytesMax, or its default in a Config that was not read from the
// environment.
func (c Config) BatchMax() int { return cmp.Or(c.BatchBytesMax, 4<<20) }

// Commit commits offsets of a topic for the client's group. If a partition is refused, that is the error.
func Commit(ctx context.Context, client *kgo.Client, topic string, offsets map[int32]kgo.EpochOffset) error {
	var failed error
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			if failed = err; err != nil {
				return
			}

			for _, topic := range response.Topics {
				for _, partition := range topic.Partitions {
					if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
						failed = fmt.Errorf("partition %d: %w", partition.Partition, err)
					}
				}
			}
		})

	return failed
}

// Connect makes a client with the settings that every service shares: acknowledged by all
// in-sync replicas, idempotent, never creating topics. It does not wait for a broker.
//
// name identifies the client in logs, in metrics and at the broker.
func Connect(config Config, dial host.Dial, name string, t *telemetry.Telemetry,
	options ...kgo.Opt) (*kgo.Client, error) {
	shared, err := config.options(dial)
	if err != nil {
		return nil, err
	}
	shared = append(shared,
		kgo.ClientID(name),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(config.Linger),
		kgo.ProducerBatchMaxBytes(BatchBytesMax),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// An order in an aborted transaction was never given.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Without stack traces: what the client cannot read, others wrote.
		kgo.WithLogger(kzap.New(t.Log.Named(name).WithOptions(zap.AddStacktrace(zap.DPanicLevel)),
			kzap.Level(kgo.LogLevelWarn))),
		kgo.WithHooks(kprom.NewMetrics("pix_kafka", kprom.Registerer(t.Registry), kprom.WithClientLabel(),
			kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.Records, kprom.UncompressedBytes))),
	)

	client, err := kgo.NewClient(append(shared, options...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot make the Kafka client %s: %w", name, err)
	}

	return client, nil
}
