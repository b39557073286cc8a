// Package simulation runs the clearing house in virtual time: the real engines, the real bank
// simulator, a broker, a model of the ledger and a load of every case, in one process. One seed
// decides load and faults. The judges of the real system decide at the end.
package simulation

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/loadtest/link"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/bank-simulator/bank"
	"github.com/liquida/liquida/services/clearing-engine/engine"
)

const (
	brokerAddress = "127.0.0.1:9092"
	banksAddress  = "127.0.0.1:8081"
	partitions    = 4
)

var population = sandbox.Population{Banks: 4, Customers: 40, DepositCentavos: 100_000_000, ReserveCentavos: 1_000_000_000_000}

// world is everything that one seed makes.
type world struct {
	t            *testing.T
	log          io.Writer // of the services
	sealsFile    string
	network      kfake.VirtualNetwork
	ledger       *ledgermodel.Ledger
	client       *kgo.Client // the world's own, without faults
	latency      time.Duration
	began        time.Time
	ends         context.Context // at the end of the world
	end          context.CancelFunc
	engineConfig *engine.Config
	bankConfig   *bank.Config
	services     []*service
	runs         sync.WaitGroup

	mu    sync.Mutex
	trace []string
	count map[string]int // faults by kind
}

// newWorld starts the broker, and fills the ledger.
func newWorld(t *testing.T, random *rand.Rand, log io.Writer) *world {
	// A bubble begins in the year 2000, before PIX did.
	time.Sleep(time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
	w := &world{
		t: t, log: log, ledger: ledgermodel.New(), began: time.Now(), count: map[string]int{},
		latency: 100*time.Microsecond + time.Duration(random.Int64N(int64(2*time.Millisecond))),
	}
	w.ends, w.end = context.WithCancel(t.Context())
	w.makeSeals()
	w.engineConfig, w.bankConfig = parsed(t, &engine.Config{}), parsed(t, &bank.Config{})
	w.engineConfig.AnswerKeysFile, w.bankConfig.Bank.AnswerKeysFile = w.sealsFile, w.sealsFile
	var topics []string
	for _, topic := range stream.Topics {
		topics = append(topics, topic.Name)
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return w.network.Listen(network, brokerAddress) }),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000", "message.max.bytes": "1048576"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	if w.client, err = kgo.NewClient(append(w.kafka(), kgo.SeedBrokers(brokerAddress), kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	config := parsed(t, &bootstrap.Config{})
	config.Population = population
	if err := bootstrap.Populate(t.Context(), config, w.ledger.Connect(nil)); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) makeSeals() {
	w.sealsFile = filepath.Join(w.t.TempDir(), "seals")
	var banks []pix.ISPB
	for i := range population.Banks {
		banks = append(banks, population.Bank(i))
	}
	if err := keys.MakeSeals(w.sealsFile, banks); err != nil {
		w.t.Fatal(err)
	}
}

// kafka returns how the judges and the load connect.
func (w *world) kafka() []kgo.Opt {
	whole := link.Between(w.network.DialContext)
	whole.Set(link.Slow, w.latency) // without it, a client that asks again and again stops time
	w.t.Cleanup(whole.Close)
	return []kgo.Opt{kgo.SeedBrokers(brokerAddress), kgo.Dialer(whole.Dial)}
}

func parsed[C settings.Validator](t *testing.T, config C) C {
	t.Helper()
	if err := settings.Parse(config); err != nil {
		t.Fatal(err)
	}
	return config
}

// note adds a line to the trace.
func (w *world) note(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%8.3f s  %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, arguments...)))
}
