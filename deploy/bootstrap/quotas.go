package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/stream"
)

const quota = "producer_byte_rate"

// ensureQuotas gives each foreign user its quota, or takes it away, and says what it did. A
// broker without quotas of users is no failure: the clearing house works, and the engine has
// limits of its own.
func ensureQuotas(ctx context.Context, client *kgo.Client, config *Config, accesses []stream.Access) (said string, err error) {
	brokers, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return "", &awayError{fmt.Errorf("asking for the requests that Kafka knows: %w", err)}
	}
	for _, broker := range brokers {
		if broker.Err != nil {
			return "", &awayError{fmt.Errorf("asking broker %d for the requests that it knows: %w", broker.NodeID, broker.Err)}
		}
		if _, known := broker.KeyMaxVersion(kmsg.AlterClientQuotas.Int16()); !known {
			return fmt.Sprintf("NO QUOTAS: broker %d does not know client quotas; KAFKA_WRITER_BYTES_PER_SECOND_MAX has no effect", broker.NodeID), nil
		}
	}
	op := kadm.AlterClientQuotaOp{Key: quota, Value: float64(config.WriterBytesMax), Remove: config.WriterBytesMax == 0}
	var entries []kadm.AlterClientQuotaEntry
	for _, access := range accesses {
		if access.Foreign {
			entries = append(entries, kadm.AlterClientQuotaEntry{
				Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &access.User}}, Ops: []kadm.AlterClientQuotaOp{op},
			})
		}
	}
	altered, err := kadm.NewClient(client).AlterClientQuotas(ctx, entries)
	if err != nil {
		return "", &awayError{fmt.Errorf("setting the quotas of Kafka's users: %w", err)}
	}
	for _, one := range altered {
		if errors.Is(one.Err, kerr.UnsupportedVersion) || errors.Is(one.Err, kerr.InvalidRequest) { // quotas of clients only, as in earlier versions of Redpanda
			return fmt.Sprintf("NO QUOTAS: this Kafka has none for users (%v %s); KAFKA_WRITER_BYTES_PER_SECOND_MAX has no effect", one.Err, one.ErrMessage), nil
		}
		if err := refusal(config, fmt.Sprintf("setting the quota of %v", one.Entity), one.Err, one.ErrMessage); err != nil {
			return "", err
		}
	}
	if op.Remove {
		return fmt.Sprintf("%d users of Kafka that are programs of banks have no quota", len(entries)), nil
	}
	return fmt.Sprintf("%d users of Kafka that are programs of banks may each write %d bytes a second to each broker", len(entries), config.WriterBytesMax), nil
}
