package engine

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// world is a broker, a ledger and a bank in virtual time: a deadline of 40 s costs nothing,
// and a goroutine that outlives the world fails the test.
type world struct {
	t       *testing.T
	network kfake.VirtualNetwork
	broker  *kfake.Cluster
	ledger  *worldLedger
	client  *kgo.Client // the test's own
	random  *rand.Rand
	engines int
	log     io.Writer     // of the engines
	banks   time.Duration // how long banks think
	latency time.Duration // of all that engines send to the broker
}

const brokerAddress = "127.0.0.1:9092"

// inWorld runs a test in a world of its own, with two partitions.
func inWorld(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))) // a bubble begins before PIX did
		w := &world{t: t, ledger: newWorldLedger(t), random: rand.New(rand.NewPCG(1, 2)), log: io.Discard}

		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, stream.TopicNames()...),
			kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000",
				"group.initial.rebalance.delay.ms": "0"}),
			kfake.ListenFn(func(network, _ string) (net.Listener, error) {
				return w.network.Listen(network, brokerAddress)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		w.broker = cluster
		w.client = w.connect()
		defer func() { w.client.Close() }() // a test may have replaced it
		w.takeLedger()
		test(w)
	})
}

// takeLedger lets the topics name the ledger, as bootstrap does.
func (w *world) takeLedger() {
	w.t.Helper()

	if err := origin.NameLedger(w.t.Context(), w.client, w.ledger.Client, 2); err != nil {
		w.t.Fatal(err)
	}
}

// commit commits an offset of partition 0 for the engines' group, as an operator's tool does.
func (w *world) commit(at int64, metadata string) {
	w.t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: stream.Payments, Partition: 0, At: at, LeaderEpoch: -1, Metadata: metadata})
	// refused while engines run
	_ = kadm.NewClient(w.client).CommitAllOffsets(w.t.Context(), stream.EngineGroup, offsets)
}

// forget deletes the commits of the engines' group.
func (w *world) forget() {
	// refused while engines run
	_, _ = kadm.NewClient(w.client).DeleteOffsets(w.t.Context(), stream.EngineGroup,
		kadm.TopicsSet{stream.Payments: {0: {}}})
}

// checkpoint replaces the checkpoint of partition 0.
func (w *world) checkpoint(at int64, hint string) {
	w.t.Helper()

	known, err := origin.ReadCheckpoints(w.t.Context(), w.client)
	if err == nil {
		c := known[0]
		c.Offset, c.Hint = at, hint
		err = origin.WriteCheckpoints(w.t.Context(), w.client, map[int32]origin.Checkpoint{0: c})
	}

	if err != nil {
		w.t.Fatal(err)
	}
}

// rewind lets the next engine begin partition 0 at an offset, as if those before it had committed no more.
func (w *world) rewind(at int64) {
	w.t.Helper()
	hint := stream.WriteHint(at, slices.Values([]stream.Span(nil)), at)
	w.commit(at, hint)
	w.checkpoint(at, hint)
}

func (w *world) connect(options ...kgo.Opt) *kgo.Client {
	w.t.Helper()

	client, err := kgo.NewClient(
		append(options, kgo.SeedBrokers(brokerAddress), kgo.Dialer(w.network.DialContext),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		w.t.Fatal(err)
	}

	return client
}

// await returns when a condition is met.
func (w *world) await(what string, met func() bool) {
	w.t.Helper()

	for range 1000 {
		if met() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("waited in vain for %s", what)
}

// worker is a running engine.
type worker struct {
	w     *world
	stop  context.CancelFunc
	ended chan error // its Run's error
	died  chan struct{}
}

// start runs an engine of the default settings, changed.
func (w *world) start(change ...func(*Config)) *worker {
	w.t.Helper()
	config, on, e := w.prepare(change...)
	ctx, cancel := context.WithCancel(w.t.Context())
	e.stop = cancel
	go func() { e.ended <- Run(ctx, config, on, w.ledger) }()

	return e
}

// prepare returns what the next engine runs with.
func (w *world) prepare(change ...func(*Config)) (*Config, host.Host, *worker) {
	w.t.Helper()
	config := &Config{}

	config.Telemetry.Address = "127.0.0.1:" + strconv.Itoa(9103+w.engines)
	if err := settings.Parse(config); err != nil {
		w.t.Fatal(err)
	}

	for _, change := range change {
		change(config)
	}
	w.engines++
	e := &worker{w: w, ended: make(chan error, 1), died: make(chan struct{})}

	return config, host.Host{Listen: w.network.Listen, Dial: w.dial, Now: time.Now, Die: func() {
		close(e.died)
	}, Log: w.log}, e
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := w.network.DialContext(ctx, network, address)
	return slowConnection{connection, w.latency}, err
}

// slowConnection lets time pass: a client that asks again and again would otherwise stop it.
type slowConnection struct {
	net.Conn
	latency time.Duration
}

func (c slowConnection) Write(bytes []byte) (int, error) {
	time.Sleep(c.latency)
	return c.Conn.Write(bytes)
}

// end stops the engine and returns how long that took, and the error of its Run.
func (e *worker) end() (time.Duration, error) {
	started := time.Now()
	e.stop()
	err := e.wait()

	return time.Since(started), err
}

// wait returns the error of the engine's Run.
func (e *worker) wait() error {
	e.w.t.Helper()

	select {
	case err := <-e.ended:
		return err
	case <-time.After(10 * time.Minute):
		e.w.t.Fatal("the engine does not end")
		return nil
	}
}

func account(psp pix.ISPB, number string) *pixv1.Account {
	return &pixv1.Account{Ispb: string(psp), Branch: "0001", Number: number}
}

// order returns an order of 100 centavos.
func (w *world) order() *pixv1.PaymentOrder {
	return &pixv1.PaymentOrder{
		EndToEndId:       pix.NewEndToEndID("10000001", time.Now(), w.random).String(),
		AcceptedAtUnixMs: time.Now().UnixMilli(),
		Payer:            account("10000001", "1"), Payee: account("10000002", "2"), AmountCentavos: 100,
	}
}

// pay sends an order to partition 0.
func (w *world) pay() pix.EndToEndID {
	order := w.order()
	w.send(order.EndToEndId, order)
	return pix.EndToEndID([]byte(order.EndToEndId))
}

// giveBack sends an order of a return of a part of a payment.
func (w *world) giveBack(original pix.EndToEndID, amount uint64) pix.ReturnID {
	id := pix.NewReturnID("10000002", time.Now(), w.random)
	w.send(original.String(), &pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
		ReturnId: id.String(), OriginalEndToEndId: original.String(), AmountCentavos: amount, ReasonCode: "MD06",
		AcceptedAtUnixMs: time.Now().UnixMilli(),
	}})

	return id
}

func (w *world) send(key string, order *pixv1.PaymentOrder) { w.sendTo(0, key, order) }

func (w *world) sendTo(partition int32, key string, order *pixv1.PaymentOrder) {
	w.t.Helper()

	value, err := order.MarshalVT()
	if err != nil {
		w.t.Fatal(err)
	}

	if err := w.client.ProduceSync(w.t.Context(),
		&kgo.Record{Topic: stream.Payments, Partition: partition, Key: []byte(key),
			Value: value}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// bank accepts the payments to all but silent ones, which are PSPs or accounts (PSP/number), until it is stopped.
func (w *world) bank(silent ...string) (stop func()) {
	client := w.connect(kgo.ConsumeTopics(stream.AuthorizationRequests),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(5*time.Second))
	done := make(chan struct{})
	go func() {
		defer close(done)

		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			time.Sleep(w.banks)
			fetches.EachRecord(func(record *kgo.Record) {
				var request pixv1.AuthorizationRequest
				if err := request.UnmarshalVT(record.Value); err != nil {
					w.t.Error(err)
					return
				}

				if slices.Contains(silent, request.Payee.Ispb) ||
					slices.Contains(silent, request.Payee.Ispb+"/"+request.Payee.Number) {
					return
				}
				response := &pixv1.AuthorizationResponse{EndToEndId: request.EndToEndId, Ispb: request.Payee.Ispb,
					Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
				value, _ := response.MarshalVT()
				client.Produce(context.Background(),
					&kgo.Record{Topic: stream.AuthorizationResponses, Partition: request.ReplyPartition,
						Value: value}, nil)
			})
		}
	}()

	return func() { client.Close(); <-done }
}

// reports reads all settlement reports, by the id of their order.
func (w *world) reports() map[string][]*pixv1.SettlementReport {
	found := map[string][]*pixv1.SettlementReport{}

	for _, record := range w.records(stream.Settlements) {
		report := &pixv1.SettlementReport{}
		if err := report.UnmarshalVT(record.Value); err != nil {
			w.t.Fatal(err)
		}
		found[report.EndToEndId] = append(found[report.EndToEndId], report)
	}

	return found
}

// records reads a topic whole.
func (w *world) records(topic string) []*kgo.Record {
	w.t.Helper()

	ends, err := kadm.NewClient(w.client).ListEndOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	left := 0
	ends.Each(func(o kadm.ListedOffset) { left += int(o.Offset) })
	client := w.connect(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()

	var records []*kgo.Record
	for len(records) < left {
		records = append(records, client.PollFetches(w.t.Context()).Records()...)
	}

	return records
}

// committed returns the committed offset of partition 0.
func (w *world) committed() int64 {
	w.t.Helper()

	offsets, err := kadm.NewClient(w.client).FetchOffsetsForTopics(w.t.Context(), stream.EngineGroup, stream.Payments)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // no engine has joined yet
		w.t.Fatal(err)
	}
	offset, _ := offsets.Lookup(stream.Payments, 0)

	return offset.At
}

// members returns the number of engines that have partitions.
func (w *world) members() int {
	w.t.Helper()

	groups, err := kadm.NewClient(w.client).DescribeGroups(w.t.Context(), stream.EngineGroup)
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0

	for _, member := range groups[stream.EngineGroup].Members {
		if assigned, ok := member.Assigned.AsConsumer(); ok && len(assigned.Topics) > 0 {
			n++
		}
	}

	return n
}

// metric returns a metric of the engine that was started last.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.network.DialContext}}

	response, err := client.Get("http://127.0.0.1:" + strconv.Itoa(9102+w.engines) + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}

	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				w.t.Fatal(err)
			}

			return n
		}
	}
	w.t.Fatalf("there is no metric %s", name)

	return 0
}
