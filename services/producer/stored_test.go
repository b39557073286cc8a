package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/ledgertest"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// stand fails the test unless each of these payments is in the topic of so many records.
func stand(t *testing.T, b *kit.Broker, records int, ids []string) {
	t.Helper()

	there := map[string]bool{}
	for _, record := range published(t, b, records) {
		there[string(record.Key)] = true
	}

	for _, id := range ids {
		if !there[id] {
			t.Errorf("%s was accepted and is not in the topic", id)
		}
	}
}

func boundsOf(t *testing.T, kafka *kgo.Client) (bounds map[int32]stream.Bounds, records int) {
	t.Helper()
	kit.Await(t, "the bounds of the topic", func() (bool, string) {
		var err error
		if bounds, err = stream.BoundsOf(t.Context(), kafka, stream.Payments); err != nil {
			return false, err.Error()
		}

		return true, ""
	})

	for _, of := range bounds {
		records += int(of.End - of.Start)
	}

	return bounds, records
}

func TestWhatIsAcceptedIsStoredWhileLeadersMove(t *testing.T) {
	t.Parallel()
	b := kit.StartBroker(t, kfake.NumBrokers(3), kfake.ListenFn(net.Listen),
		kfake.SeedTopics(4, stream.TopicNames()...))
	var cluster *kfake.Cluster
	b.Control(func(c *kfake.Cluster) { cluster, b.Address = c, c.ListenAddrs()[0] })
	p := startProgram(t, b, aLedger(t))
	p.AwaitNeed("kafka", false)

	var (
		mu       sync.Mutex
		accepted []string
		callers  sync.WaitGroup
		moved    = make(chan struct{})
	)
	for range 4 {
		callers.Go(func() {
			for over := false; !over; {
				select {
				case <-moved:
					over = true // one more
				default:
				}

				switch got := p.call("POST", "/v1/payments", valid); got.code {
				case http.StatusAccepted:
					mu.Lock()
					accepted = append(accepted, got.EndToEndID)
					mu.Unlock()
				default:
					t.Errorf("%d %s", got.code, got.text)
				}
			}
		})
	}

	for round := range int32(30) {
		mu.Lock()
		goal := len(accepted) + 10
		mu.Unlock()

		if err := cluster.MoveTopicPartition(stream.Payments, round%4,
			(cluster.LeaderFor(stream.Payments, round%4)+1)%3); err != nil {
			t.Fatal(err)
		}
		kit.Await(t, "payments to be accepted", func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			return len(accepted) >= goal || t.Failed(), ""
		})
	}
	close(moved)
	callers.Wait()
	kafka := b.Client()
	_, records := boundsOf(t, kafka)
	stand(t, b, records, accepted)
}

// nothingIsAcceptedAfterTheLogHasShrunk is a step of TestWholeLedger: the broker comes back with an older
// copy of its disk. The log begins as the ledger names it, and only whoever has seen it longer can
// know. The producer takes nothing until the log is given up, and then goes on.
func nothingIsAcceptedAfterTheLogHasShrunk(t *testing.T, l *ledgertest.Server, client tigerbeetle.Client) {
	folder := filepath.Join(t.TempDir(), "data")
	b := kit.StartBroker(t, kfake.SeedTopics(4, stream.TopicNames()...), kfake.DataDir(folder))
	kafka := b.Client()
	p := startProgram(t, b, l)
	p.AwaitNeed("log", false)
	grow := func() { // each partition by one record at least
		t.Helper()
		before, _ := boundsOf(t, kafka)
		kit.Await(t, "each partition to grow", func() (bool, string) {
			if got := p.call("POST", "/v1/payments", valid); got.code != http.StatusAccepted {
				return false, got.text
			}

			now, _ := boundsOf(t, kafka)
			for partition, of := range before {
				if now[partition].End == of.End {
					return false, ""
				}
			}

			return true, ""
		})
	}

	names, err := origin.Read(t.Context(), client, 4)
	if err != nil {
		t.Fatal(err)
	}
	grow()

	for partition := range int32(4) { // as an engine does
		if _, err := origin.Name(t.Context(), kafka, client, names.Log, partition, 0); err != nil {
			t.Fatal(err)
		}
	}
	b.Stop()

	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	b.Start()
	p.AwaitNeed("kafka", false)
	grow()
	b.Stop()

	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}

	if err := os.Rename(older, folder); err != nil {
		t.Fatal(err)
	}
	b.Start()
	kit.Await(t, "the producer to say that records are gone", func() (bool, string) {
		if got := p.call("POST", "/v1/payments", valid); got.code == http.StatusAccepted {
			t.Errorf("accepted: %s", got.text)
		}
		problem := p.Problems()["log"]

		return strings.Contains(problem, "acknowledged records are gone") &&
			strings.Contains(problem, "ForeignLog"), problem
	})
	write(t, client, []tb.Transfer{ledger.GivenUp(names.Log)})
	p.AwaitNeed("log", false)
	var accepted []string

	for range 20 {
		got := p.call("POST", "/v1/payments", valid)
		if got.code != http.StatusAccepted {
			t.Fatalf("into the next log: %d %s", got.code, got.text)
		}
		accepted = append(accepted, got.EndToEndID)
	}
	_, records := boundsOf(t, kafka)
	stand(t, b, records, accepted)
}
