package redpanda

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"github.com/liquida/liquida/deploy/compose"
	"github.com/liquida/liquida/platform/kit"
)

func TestWhatRedpandaIgnoresIsTakenAndNeverDescribed(t *testing.T) {
	cluster, err := kfake.NewCluster(append(Options(), kfake.NumBrokers(1))...)
	kit.Must(t, err)
	t.Cleanup(cluster.Close)
	Imitate(cluster)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	kit.Must(t, err)
	t.Cleanup(client.Close)
	admin, two, forever := kadm.NewClient(client), "2", "-1"

	settings := map[string]*string{"min.insync.replicas": &two, "unclean.leader.election.enable": &two,
		"retention.ms": &forever}
	kit.Must(t, kit.ErrorOf(admin.CreateTopic(t.Context(), 1, 1, settings, "payments")))

	altered, err := admin.AlterTopicConfigs(t.Context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.insync.replicas", Value: &two}}, "payments")
	if err != nil || altered[0].Err != nil {
		t.Errorf("altering what is ignored: %v, %v", altered, err)
	}
	described, err := admin.DescribeTopicConfigs(t.Context(), "payments")
	kit.Must(t, err)

	has := func(name, value string) bool {
		return slices.ContainsFunc(described[0].Configs, func(c kadm.Config) bool {
			return c.Key == name && c.MaybeValue() == value
		})
	}
	if !has("retention.ms", "-1") || has("min.insync.replicas", "2") || has("min.insync.replicas", "1") {
		t.Errorf("it describes %+v", described[0].Configs)
	}

	metadata, err := admin.Metadata(t.Context(), "payments")
	if err != nil || !strings.HasPrefix(metadata.Cluster, "redpanda.") ||
		metadata.Topics["payments"].ID != (kadm.TopicID{}) {
		t.Errorf("the cluster is %q, and names the topic's id: %+v, %v", metadata.Cluster, metadata.Topics, err)
	}
}

// Redpanda skips a property that it does not know, and says so in its log only. To add one to docker-compose.yml's
// Redpanda, look it up in the list of the pinned version first.
func TestPropertiesOfTheComposeFile(t *testing.T) {
	var p struct {
		AutoCreateTopics         bool     `yaml:"auto_create_topics_enabled"`
		MetricsReporter          bool     `yaml:"enable_metrics_reporter"`
		EnableSASL               bool     `yaml:"enable_sasl"`
		Superusers               []string `yaml:"superusers"`
		AdminAPIRequireAuth      bool     `yaml:"admin_api_require_auth"`
		GroupMinSessionTimeoutMS int      `yaml:"group_min_session_timeout_ms"`
		GroupRebalanceDelayMS    int      `yaml:"group_initial_rebalance_delay"`
		StorageMinFreeBytes      int64    `yaml:"storage_min_free_bytes"`
		ProduceBatchValidation   string   `yaml:"kafka_produce_batch_validation"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(compose.RedpandaBootstrap))
	decoder.KnownFields(true)
	kit.Must(t, decoder.Decode(&p))
	// Engines ask for sessions of 3 s, and nobody waits for company.
	if p.GroupMinSessionTimeoutMS > 3_000 || p.GroupRebalanceDelayMS != 0 || p.AutoCreateTopics || !p.EnableSASL ||
		!p.AdminAPIRequireAuth ||
		p.ProduceBatchValidation != "strict" {
		t.Errorf("%+v", p)
	}
}
