package redpanda

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/deploy/compose"
	"github.com/liquida/liquida/platform/kit"
)

// start runs a broker with the given properties, its data on disk, and returns its address.
func start(t *testing.T, properties Properties) []string {
	t.Helper()
	folder := t.TempDir()
	cluster, err := kfake.NewCluster(append(properties.Options(), kfake.NumBrokers(1), kfake.DataDir(folder))...)
	kit.Must(t, err)
	t.Cleanup(cluster.Close)
	properties.Imitate(cluster, folder)
	return cluster.ListenAddrs()
}

func connect(t *testing.T, brokers []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(brokers...), kgo.MetadataMinAge(50*time.Millisecond))...)
	kit.Must(t, err)
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

// roomy are properties under which a full disk of this machine does not matter.
func roomy() Properties {
	p := Defaults()
	p.StorageMinFreeBytes = storageMinFreeBytesLeast
	return p
}

func of(value string) *string { return &value }

func TestIgnoredTopicSettingsAreAcceptedAndNeverDescribed(t *testing.T) {
	admin := kadm.NewClient(connect(t, start(t, roomy())))
	settings := map[string]*string{"retention.ms": of("-1"), "retention.bytes": of("-1"), "max.message.bytes": of("1048576"), "cleanup.policy": of("delete")}
	for _, name := range ignoredTopicSettings {
		settings[name] = of("1")
	}
	if created, err := admin.CreateTopic(t.Context(), 1, 1, settings, "payments"); err != nil {
		t.Fatal(err, created.ErrMessage)
	}
	altered, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.insync.replicas", Value: of("2")}}, "payments")
	if err != nil || altered[0].Err != nil {
		t.Errorf("altering what is ignored: %v, %v", altered, err)
	}
	described, err := admin.DescribeTopicConfigs(t.Context(), "payments")
	kit.Must(t, err)
	have := map[string]string{}
	for _, entry := range described[0].Configs {
		have[entry.Key] = entry.MaybeValue()
	}
	for name, value := range settings {
		got, there := have[name]
		switch {
		case ignored(name) && there:
			t.Errorf("%s is ignored and described as %s", name, got)
		case !ignored(name) && got != *value:
			t.Errorf("%s is %q, want %q", name, got, *value)
		}
	}
	if have["segment.bytes"] == "" {
		t.Error("a default is not described")
	}
}

func TestUnknownTopicSettingsAreRefused(t *testing.T) {
	admin := kadm.NewClient(connect(t, start(t, roomy())))
	if _, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"retention.millis": of("1")}, "payments"); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("creating: got %v, want INVALID_CONFIG", err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 2, nil, "even"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("two replicas: got %v, want INVALID_REPLICATION_FACTOR", err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "payments"); err != nil {
		t.Fatal("the refusal outlives its request:", err)
	}
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.millis", Value: of("1")}}
	if altered, err := admin.AlterTopicConfigs(t.Context(), change, "payments"); err != nil || !errors.Is(altered[0].Err, kerr.InvalidConfig) {
		t.Errorf("altering: got %v, %v, want INVALID_CONFIG", altered, err)
	}
	if altered, err := admin.AlterTopicConfigsState(t.Context(), change, "payments"); err != nil || !errors.Is(altered[0].Err, kerr.InvalidConfig) {
		t.Errorf("altering all: got %v, %v, want INVALID_CONFIG", altered, err)
	}
}

func TestVersionsAreRedpandas(t *testing.T) {
	client := connect(t, start(t, roomy()))
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(t.Context(), client)
	kit.Must(t, err)
	for _, got := range versions.ApiKeys {
		if want, there := requests[kmsg.Key(got.ApiKey)]; !there || got.MaxVersion != want {
			t.Errorf("%s goes up to %d, want %d (%v)", kmsg.NameForKey(got.ApiKey), got.MaxVersion, want, there)
		}
	}
	if len(versions.ApiKeys) != len(requests) {
		t.Errorf("%d requests, want %d", len(versions.ApiKeys), len(requests))
	}
	metadata, err := kadm.NewClient(client).BrokerMetadata(t.Context())
	if err != nil || !strings.HasPrefix(metadata.Cluster, "redpanda.") {
		t.Errorf("the cluster is %q: %v", metadata.Cluster, err)
	}
}

func TestReadProperties(t *testing.T) {
	p, err := ReadProperties([]byte("group_initial_rebalance_delay: 0\nsuperusers: [admin]\n"))
	want := Defaults()
	want.GroupInitialRebalanceDelayMS, want.Superusers = 0, []string{"admin"}
	if err != nil || fmt.Sprint(p) != fmt.Sprint(want) {
		t.Errorf("got %+v, %v, want %+v", p, err, want)
	}
	if p, err := ReadProperties(nil); err != nil || fmt.Sprint(p) != fmt.Sprint(Defaults()) {
		t.Errorf("an empty file: %+v, %v", p, err)
	}
	for text, says := range map[string]string{
		"group_initial_rebalance_delay_ms: 0":   "field group_initial_rebalance_delay_ms not found",
		"group_min_session_timeout_ms: 0":       "group_min_session_timeout_ms is 0",
		"group_max_session_timeout_ms: 100":     "group_max_session_timeout_ms 100",
		"storage_min_free_bytes: 1":             "it must be at least 10485760",
		"auto_create_topics_enabled: true":      "auto_create_topics_enabled is true",
		"kafka_produce_batch_validation: loose": `it must be legacy, relaxed, strict`,
	} {
		if _, err := ReadProperties([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", text, err, says)
		}
	}
}

// The Redpanda of docker-compose.yml: engines ask for sessions of 3 s, and nobody waits for company.
func TestPropertiesOfTheComposeFile(t *testing.T) {
	p, err := ReadProperties(compose.RedpandaBootstrap)
	kit.Must(t, err)
	if p.GroupMinSessionTimeoutMS > 3_000 || p.GroupInitialRebalanceDelayMS != 0 || p.AutoCreateTopics || !p.EnableSASL || !p.AdminAPIRequireAuth {
		t.Errorf("%+v", p)
	}
}
