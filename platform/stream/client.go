package stream

import (
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
	"github.com/twmb/franz-go/plugin/kzap"

	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/telemetry"
)

// Config says where Kafka is. It is embedded in the configuration of services.
type Config struct {
	Brokers []string      `env:"KAFKA_BROKERS" envDefault:"127.0.0.1:9092" help:"Kafka bootstrap addresses, host:port, comma-separated"`
	Linger  time.Duration `env:"KAFKA_LINGER" envDefault:"0s" help:"how long a record waits for company before it is sent, 0 to 1s"`
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
	return settings.DurationInRange("KAFKA_LINGER", c.Linger, 0, time.Second)
}

// Connect makes a client with the settings that every service shares: acks from all
// replicas, idempotent, topics never created by accident. It does not wait for a broker.
//
// name tells the clients of a process apart in logs, in metrics and at the broker.
func Connect(config Config, name string, t *telemetry.Telemetry, options ...kgo.Opt) (*kgo.Client, error) {
	shared := []kgo.Opt{
		kgo.SeedBrokers(config.Brokers...),
		kgo.ClientID(name),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(config.Linger),
		kgo.ProducerBatchMaxBytes(MessageBytesMax),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// An order in a transaction that its producer aborted was never given.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DialTimeout(5 * time.Second),
		// A proxy whose broker is away closes connections at once. That is no reason to give
		// records up, as the client would, taking it for a wrong configuration.
		kgo.AlwaysRetryEOF(),
		kgo.WithLogger(kzap.New(t.Log.Named(name), kzap.Level(kgo.LogLevelWarn))),
		kgo.WithHooks(kprom.NewMetrics("pix_kafka", kprom.Registerer(t.Registry), kprom.WithClientLabel(), kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.Batches, kprom.Records, kprom.UncompressedBytes))),
	}
	client, err := kgo.NewClient(append(shared, options...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot make the Kafka client %s: %w", name, err)
	}
	return client, nil
}
