package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/bank-simulator/bank"
	"github.com/liquida/liquida/services/clearing-engine/engine"
	"github.com/liquida/liquida/services/producer/frontdoor"
)

// The three services run as packages on a host that is not the machine's: an in-memory network,
// and a model of the ledger. They settle a payment, stop, and do it again on the same ledger and
// broker, without leaving a goroutine behind.
func TestServicesRunTwiceInOneProcess(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", "127.0.0.1:9092") // of the in-memory network
	books := ledgermodel.New()
	population := parsed(t, &bootstrap.Config{})
	population.Population.Banks, population.Population.Customers = 2, 4
	if err := bootstrap.Populate(t.Context(), population, books.Connect(nil)); err != nil {
		t.Fatal(err)
	}
	network := new(kfake.VirtualNetwork)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}),
		kfake.SeedTopics(2, stream.Payments, stream.AuthorizationRequests, stream.AuthorizationResponses, stream.Settlements, stream.DeadLetters, stream.Checkpoints))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	kafka, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(network.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	if err := origin.NameLedger(t.Context(), kafka, books.Connect(nil), 2); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	for range 2 {
		settleOnce(t, books, network)
		kit.Await(t, "all goroutines to end", func() (bool, string) {
			err := goleak.Find(before)
			return err == nil, fmt.Sprint(err)
		})
	}
}

func parsed[C settings.Validator](t *testing.T, config C) C {
	t.Helper()
	if err := settings.Parse(config); err != nil {
		t.Fatal(err)
	}
	return config
}

func settleOnce(t *testing.T, books *ledgermodel.Ledger, network *kfake.VirtualNetwork) {
	t.Helper()
	client := books.Connect(nil)
	defer client.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	on := host.Host{Listen: network.Listen, Dial: network.DialContext, Now: host.System().Now, Log: log,
		Die: func() { t.Error("a service dies") }}

	const door, doorHealth, bankHealth, engineHealth = "127.0.0.1:8080", "127.0.0.1:9101", "127.0.0.1:9102", "127.0.0.1:9103"
	frontdoorConfig := parsed(t, &frontdoor.Config{Telemetry: telemetry.Config{Address: doorHealth}, HTTP: web.Config{Address: door}})
	bankConfig := parsed(t, &bank.Config{Telemetry: telemetry.Config{Address: bankHealth}, HTTP: web.Config{Address: "127.0.0.1:8081"}})
	engineConfig := parsed(t, &engine.Config{Telemetry: telemetry.Config{Address: engineHealth}})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	go func() { ended <- frontdoor.Run(ctx, frontdoorConfig, on, client) }()
	go func() { ended <- bank.Run(ctx, bankConfig, on) }()
	go func() { ended <- engine.Run(ctx, engineConfig, on, client) }()
	defer func() {
		stop()
		for range 3 {
			if err := <-ended; err != nil {
				t.Errorf("a service ended with %v", err)
			}
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s", text)
		}
	}()

	caller := http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}}
	for _, address := range []string{doorHealth, bankHealth, engineHealth} {
		kit.Await(t, address+" to be ready", func() (bool, string) {
			response, err := caller.Get("http://" + address + "/readyz")
			if err != nil {
				return false, err.Error()
			}
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			return response.StatusCode == http.StatusOK, string(text)
		})
	}
	request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+door+"/v1/payments", strings.NewReader(
		`{"payer": {"ispb": "10000001", "branch": "0001", "number": "1"}, "payee": {"ispb": "10000002", "branch": "0001", "number": "1"}, "amount_centavos": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Prefer", "wait=30")
	response, err := caller.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var outcome struct{ Status string }
	if err := json.NewDecoder(response.Body).Decode(&outcome); err != nil || response.StatusCode != http.StatusOK || outcome.Status != "settled" {
		t.Errorf("%s %+v %v", response.Status, outcome, err)
	}
}
