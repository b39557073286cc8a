package bank

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// The service runs in virtual time over an in-memory network. Were it to listen or dial by
// itself, time would stand still and the bubble would fail.
func TestALateResponseComesInVirtualTime(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", "127.0.0.1:9092")

	config := &Config{Telemetry: telemetry.Config{Address: "127.0.0.1:9102"},
		HTTP: web.Config{Address: "127.0.0.1:8081"}}
	if err := settings.Parse(config); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		network := new(kfake.VirtualNetwork)

		broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen),
			kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000"}),
			kfake.SeedTopics(1, stream.AuthorizationRequests, stream.AuthorizationResponses))
		if err != nil {
			t.Fatal(err)
		}
		defer broker.Close()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- Run(ctx, config,
				host.Host{Listen: network.Listen, Dial: network.DialContext, Now: time.Now, Log: io.Discard})
		}()

		engine, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(network.DialContext),
			kgo.ConsumeTopics(stream.AuthorizationResponses))
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()

		value, err := (&pixv1.AuthorizationRequest{EndToEndId: "E1000000120261121120000000000001",
			Payee: &pixv1.Account{Ispb: "10000002", Branch: sandbox.LateBranch, Number: "1"}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		requested := time.Now()

		if err := engine.ProduceSync(ctx,
			&kgo.Record{Topic: stream.AuthorizationRequests, Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}

		fetches := engine.PollFetches(ctx)
		if took := time.Since(requested); fetches.NumRecords() != 1 || took < config.Profiles.LateDelay ||
			took > config.Profiles.LateDelay+5*time.Second {
			t.Errorf("%d responses after %v, want one after %v: %v", fetches.NumRecords(), took,
				config.Profiles.LateDelay, fetches.Err())
		}
		stop()

		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
