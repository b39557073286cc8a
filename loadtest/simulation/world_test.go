// Package simulation runs the clearing house in virtual time: the real producers, engines and bank
// simulator, a broker, a model of the ledger, a load of every case and clients of the HTTP API, in
// one process. One seed decides load and faults. The judges of the real system decide at the end.
package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/bootstrap"
	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/loadtest/audit"
	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/kit/hostile"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/services/archiver/keep"
	"github.com/liquida/liquida/services/bank-simulator/bank"
	"github.com/liquida/liquida/services/clearing-engine/engine"
	"github.com/liquida/liquida/services/producer/frontdoor"
)

const (
	brokerAddress  = "127.0.0.1:9092"
	banksAddress   = "127.0.0.1:8081"
	banksTelemetry = "127.0.0.1:9102"
	partitions     = 4
	// batchBytesMax is the least that KAFKA_BATCH_BYTES_MAX may be. A batch that unpacks to more costs every
	// reader that much memory and CPU, each time it comes to it.
	batchBytesMax = stream.MessageBytesMax
)

var population = sandbox.Population{Banks: 4, Customers: 40, DepositCentavos: 100_000_000,
	ReserveCentavos: 1_000_000_000_000}

// world is everything that one seed makes.
type world struct {
	t            *testing.T
	log          io.Writer // of the services
	sealsFile    string
	network      link.Network
	ledger       *ledgermodel.Ledger
	client       *kgo.Client // the world's own, without faults
	latency      time.Duration
	began        time.Time
	ends         context.Context // at the end of the world
	engineConfig *engine.Config
	bankConfig   *bank.Config
	deadlineMin  time.Duration // of engines, if it was changed
	broker       *broker
	engineCount  int // of those that are there all the time

	producerConfig *frontdoor.Config
	archiverConfig *keep.Config          // nil: nobody archives
	populate       func() error          // also names the secrets of banks that have joined
	keys           map[string]string     // of the callers
	door           *door                 // nil: nobody uses the HTTP API
	doors          []string              // addresses of the HTTP API
	clients        map[string]*link.Link // their links to it, by host and port

	mu       sync.Mutex
	services []*service
	trace    []string
	count    map[string]int // faults by kind
	planted  hostile.Planted
	// rebuilding says that the ledger is lost, and not yet built again; rebuilt that it is.
	rebuilding, rebuilt bool
	// wrongClocks are the times in which an engine's clock was far from right, shortDeadlines those in
	// which an engine had deadlineMin.
	wrongClocks, shortDeadlines []audit.Interval
	lateRequests                []audit.Interval // when what engines had sent to the ledger was late
}

// noon is when worlds begin, but for some.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newWorld starts the broker, and fills the ledger.
func newWorld(t *testing.T, random *rand.Rand, log io.Writer, nodesMax int, begins time.Time) *world {
	// A bubble begins in the year 2000, before PIX did.
	time.Sleep(time.Until(begins))
	w := &world{
		t: t, log: log, ledger: ledgermodel.New(), began: time.Now(), count: map[string]int{},
		clients: map[string]*link.Link{},
		latency: 100*time.Microsecond + time.Duration(random.Int64N(int64(2*time.Millisecond))),
	}
	w.ends = t.Context()
	w.engineConfig, w.bankConfig, w.producerConfig = parsed(t, &engine.Config{}), parsed(t, &bank.Config{}),
		parsed(t, &frontdoor.Config{})
	w.producerConfig.Submission.PublishTimeout = time.Second // the least: most faults of Kafka last longer
	keysFolder := w.makeSecrets()
	w.broker = newBroker(w, min(nodesMax, 1+2*random.IntN(2)))
	t.Cleanup(w.broker.close)

	var err error
	if w.client, err = kgo.NewClient(append(w.kafka(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	config := parsed(t, &bootstrap.Config{})
	config.Population, config.ClientKeysDir, config.AnswerKeysFile = population, keysFolder, w.sealsFile
	ofLedger := w.ledger.Connect(nil)

	w.populate = func() error { return bootstrap.Populate(t.Context(), config, ofLedger) }
	kit.Must(t, w.populate())

	kit.Must(t, origin.NameLedger(t.Context(), w.client, ofLedger, partitions))

	return w
}

// makeSecrets gives each participant a seal, and a key to the HTTP API.
func (w *world) makeSecrets() (keysFolder string) {
	banks := []pix.ISPB{guest}
	for i := range population.Banks {
		banks = append(banks, population.Bank(i))
	}
	keysFolder = w.t.TempDir()
	w.sealsFile, w.producerConfig.Access.KeysFile = filepath.Join(w.t.TempDir(), "seals"),
		filepath.Join(keysFolder, "digests")

	err := errors.Join(keys.MakeSeals(w.sealsFile, banks),
		keys.Make(keysFolder, w.producerConfig.Access.KeysFile, banks))
	if err == nil {
		w.keys, err = keys.ReadAll(keysFolder)
	}

	kit.Must(w.t, err)
	w.engineConfig.AnswerKeysFile, w.bankConfig.Bank.AnswerKeysFile = w.sealsFile, w.sealsFile

	return keysFolder
}

// kafka returns how the judges and the load connect.
func (w *world) kafka() []kgo.Opt {
	options, err := w.engineConfig.Stream.Options() // they bound what a batch may unpack to
	kit.Must(w.t, err)
	// Judges and load need no partition that is added later, so their fetches may wait for longer than those
	// of services do.
	return append(options, kgo.SeedBrokers(brokerAddress), kgo.Dialer(w.dialKafka()), kgo.FetchMaxWait(5*time.Second))
}

// dialKafka returns how to reach a broker.
func (w *world) dialKafka() host.Dial {
	whole := link.Between(&w.network)
	whole.Set(link.Slow, w.latency) // without it, a client that asks again and again stops time
	w.t.Cleanup(whole.Close)

	return func(ctx context.Context, network, address string) (net.Conn, error) {
		time.Sleep(w.latency)
		return whole.Dial(ctx, network, address)
	}
}

// books returns the ledger, which may be lost and built again.
func (w *world) books() *ledgermodel.Ledger {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ledger
}

func parsed[C settings.Validator](t *testing.T, config C) C {
	t.Helper()

	kit.Must(t, settings.Parse(config))

	return config
}

// get asks the telemetry of a service. A code of 0 means that it does not answer.
func (w *world) get(of *service, path string) (code int, text string) {
	return w.request(w.ends, 5*time.Second, http.MethodGet, "http://"+of.address+path, nil, "")
}

// request makes an HTTP request. A code of 0 means that there is no answer, and the text says why.
func (w *world) request(ctx context.Context, patience time.Duration, method, url string, header http.Header,
	body string) (code int, text string) {
	caller := http.Client{Transport: &http.Transport{DialContext: w.network.DialContext, DisableKeepAlives: true},
		Timeout: patience}

	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	maps.Copy(request.Header, header)

	response, err := caller.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()

	said, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}

	return response.StatusCode, string(said)
}

// each reads all records of a topic that it has now.
func (w *world) each(topic string, take func(*kgo.Record) error) (err error) {
	ctx, cancel := context.WithTimeout(w.ends, time.Minute)
	defer cancel()
	unread := stream.ReadTopic(ctx, w.engineConfig.Stream, w.dialKafka(), topic, func(record *kgo.Record) {
		err = cmp.Or(err, take(record))
	})

	return cmp.Or(unread, err)
}

// records returns how many records a topic has had.
func (w *world) records(ctx context.Context, topic string) (n int64, err error) {
	ends, err := stream.Ends(ctx, kadm.NewClient(w.client), topic)
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, err
}

// note adds a line to the trace, and to the log.
func (w *world) note(format string, arguments ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%8.3f s  %s", time.Since(w.began).Seconds(), fmt.Sprintf(format, arguments...))
	w.trace = append(w.trace, line)
	fmt.Fprintln(w.log, line)
}

// noted reports whether a line of the trace ends with what.
func (w *world) noted(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	return slices.ContainsFunc(w.trace, func(line string) bool { return strings.HasSuffix(line, what) })
}

// all returns the services that there are now.
func (w *world) all() []*service {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.services)
}

// prefixed is where a service logs: each line begins with the virtual time and its name.
type prefixed struct {
	w    *world
	name string
}

func (p prefixed) Write(line []byte) (int, error) {
	_, err := fmt.Fprintf(p.w.log, "%8.3f s  %s %s", time.Since(p.w.began).Seconds(), p.name, line)
	return len(line), err
}
