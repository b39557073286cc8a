// Package redpanda makes the embedded broker behave like Redpanda, where Redpanda differs from
// Apache Kafka in something that this project relies on. It exists so that a test fails where
// Redpanda would. deploy/README.md lists each behaviour with the source that it was read in.
package redpanda

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Properties are Redpanda's cluster properties that the project sets or that the imitation
// needs. Redpanda skips a name in .bootstrap.yaml that it does not know, and says so in its log
// only, so ReadProperties refuses every other name. To add one, look it up in the list of the
// pinned version first.
type Properties struct {
	GroupMinSessionTimeoutMS int   `yaml:"group_min_session_timeout_ms"`
	GroupMaxSessionTimeoutMS int   `yaml:"group_max_session_timeout_ms"`
	StorageMinFreeBytes      int64 `yaml:"storage_min_free_bytes"`
	AutoCreateTopics         bool  `yaml:"auto_create_topics_enabled"`

	// Imitated by the broker itself, which checks batches as Apache Kafka does if it is strict.
	ProduceBatchValidation string `yaml:"kafka_produce_batch_validation"`

	// Accepted, not imitated: an empty group would wait for company. The embedded broker is secured by settings of its own, and reports to nobody.
	GroupInitialRebalanceDelayMS int      `yaml:"group_initial_rebalance_delay"`
	EnableSASL                   bool     `yaml:"enable_sasl"`
	Superusers                   []string `yaml:"superusers"`
	AdminAPIRequireAuth          bool     `yaml:"admin_api_require_auth"`
	MetricsReporter              bool     `yaml:"enable_metrics_reporter"`
}

// ValidationStrict is the ProduceBatchValidation that decompresses and checks every batch.
const ValidationStrict = "strict"

// storageMinFreeBytesLeast is the lowest storage_min_free_bytes that Redpanda takes.
const storageMinFreeBytesLeast = 10 << 20

// Defaults returns the values of a Redpanda that nobody has configured.
func Defaults() Properties {
	return Properties{
		GroupMinSessionTimeoutMS:     6_000,
		GroupMaxSessionTimeoutMS:     300_000,
		GroupInitialRebalanceDelayMS: 3_000,
		StorageMinFreeBytes:          5 << 30,
		ProduceBatchValidation:       "relaxed",
	}
}

// ReadProperties reads a .bootstrap.yaml. What it does not name keeps Redpanda's default.
func ReadProperties(text []byte) (Properties, error) {
	p := Defaults()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&p); err != nil && !errors.Is(err, io.EOF) {
		return Properties{}, fmt.Errorf("cluster properties: %w", err)
	}
	return p, p.validate()
}

func (p Properties) validate() error {
	modes := []string{"legacy", "relaxed", ValidationStrict}
	switch {
	case p.GroupMinSessionTimeoutMS < 1 || p.GroupMaxSessionTimeoutMS < p.GroupMinSessionTimeoutMS:
		return fmt.Errorf("group_min_session_timeout_ms is %d and group_max_session_timeout_ms %d: the first must be at least 1, the second not less", p.GroupMinSessionTimeoutMS, p.GroupMaxSessionTimeoutMS)
	case p.StorageMinFreeBytes < storageMinFreeBytesLeast:
		return fmt.Errorf("storage_min_free_bytes is %d: it must be at least %d", p.StorageMinFreeBytes, storageMinFreeBytesLeast)
	case p.AutoCreateTopics:
		return errors.New("auto_create_topics_enabled is true: the embedded broker never creates a topic that a client only mentions")
	case !slices.Contains(modes, p.ProduceBatchValidation):
		return fmt.Errorf("kafka_produce_batch_validation is %q: it must be %s", p.ProduceBatchValidation, strings.Join(modes, ", "))
	}
	return nil
}
