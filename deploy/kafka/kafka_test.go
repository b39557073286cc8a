package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ports"
)

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("LIQUIDA_CACHE", t.TempDir())
	_, err := Locate(t.Context(), io.Discard)
	if !errors.Is(err, ErrMissing) {
		t.Fatalf("got %v", err)
	}
	kit.Says(t, err, "Java 17 or later", "mvn", "Debian", "embedded")
}

// Jars that are not those of the checksums never get into the cache.
func TestOtherJarsAreRefused(t *testing.T) {
	path, cache := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	t.Setenv("LIQUIDA_CACHE", cache)
	kit.Must(t, os.WriteFile(filepath.Join(path, "java"), nil, 0o755))
	kit.Must(t, os.WriteFile(filepath.Join(path, "mvn"), []byte("#!/bin/sh\nmkdir libs; echo x >libs/HdrHistogram-2.2.2.jar\n"), 0o755))
	kit.Says(t, kit.ErrorOf(Locate(t.Context(), io.Discard)), "1 computed checksum did NOT match", "not the files")
	if _, err := os.Stat(filepath.Join(cache, "kafka", Version, "libs")); err == nil {
		t.Error("they are in the cache")
	}
}

// TestApacheKafkaServer takes the real broker through what the stack asks of it: new data, a start,
// SIGKILL, and a start that still knows what was acknowledged.
func TestApacheKafkaServer(t *testing.T) {
	k, err := Locate(t.Context(), os.Stderr)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	kit.Must(t, err)
	node := Node{ID: 1, Folder: filepath.Join(t.TempDir(), "node"), Address: ports.Free(), Controller: ports.Free()}
	node.Voters = []string{node.Controller}
	broker := startBroker(t, k, node)
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Address), kgo.ConsumeTopics("there"), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.UnknownTopicRetries(0))
	kit.Must(t, err)
	defer client.Close()
	kit.Must(t, kit.ErrorOf(kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "there")))
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "nobody.made.it"}).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic that was only mentioned: %v", err)
	}
	kit.Must(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "there", Value: []byte("kept")}).FirstErr())
	kit.Must(t, broker.Process.Kill())
	_ = broker.Wait()
	broker = startBroker(t, k, node)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if records := client.PollFetches(ctx).Records(); len(records) != 1 || string(records[0].Value) != "kept" {
		t.Errorf("after SIGKILL there are %v", records)
	}
	// In order: the stack gives it 15 s.
	kit.Must(t, broker.Process.Signal(syscall.SIGTERM))
	began := time.Now()
	_ = broker.Wait()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("an orderly stop takes %v", took)
	}
}

// startBroker returns when the broker answers, and ends it with the test.
func startBroker(t *testing.T, k *Kafka, node Node) *exec.Cmd {
	t.Helper()
	kit.Must(t, k.Prepare(t.Context(), node))
	path, arguments := k.Command(node)
	broker := exec.Command(path, arguments...)
	broker.Stdout, broker.Stderr = t.Output(), t.Output()
	kit.Must(t, broker.Start())
	t.Cleanup(func() {
		if broker.ProcessState == nil {
			_ = broker.Process.Kill()
			_ = broker.Wait()
		}
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Address))
	kit.Must(t, err)
	defer client.Close()
	began := time.Now()
	kit.Await(t, "an answer of the broker", func() (bool, string) {
		err := client.Ping(t.Context())
		return err == nil, fmt.Sprint(err)
	})
	t.Logf("it answers after %v", time.Since(began).Round(time.Millisecond))
	return broker
}
