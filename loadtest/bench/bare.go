package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/loadtest/mix"
	"github.com/liquida/liquida/loadtest/report"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// The bare pipeline is what hops, libraries, broker and ledger take without a clearing house: an engine that holds the
// money of each order, asks, posts it when the answer comes and reports, and a bank that accepts everything. Nothing is
// validated, looked up, limited, sealed, or safe against a crash. Other figures are told in times of it.

// BareRoles are the two processes of the bare pipeline.
var BareRoles = []string{"engine", "bank"}

// bareReady is what such a process prints when it has its partitions.
const bareReady = "ready"

// RunBare is one process of the bare pipeline. It ends with ctx.
func RunBare(ctx context.Context, role, kafkaAddress, ledgerAddresses string) error {
	p := &bare{kafka: stream.Config{Brokers: []string{kafkaAddress}}, open: map[string]*pixv1.PaymentOrder{}}
	if role == "bank" {
		return p.hop(ctx, stream.AuthorizationRequests, p.answer)
	}
	client, err := ledger.Connect(ledger.Config{Addresses: strings.Split(ledgerAddresses, ",")})
	if err != nil {
		return err
	}
	defer client.Close()
	p.ledger = client
	if _, err := client.LookupTransfers([]tb.Uint128{ledger.MarkerID}); err != nil { // the first request is slow
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- p.hop(ctx, stream.Payments, p.hold) }()
	go func() { ended <- p.hop(ctx, stream.AuthorizationResponses, p.post) }()
	return <-ended
}

type bare struct {
	kafka  stream.Config
	ledger tigerbeetle.Client

	mu   sync.Mutex
	open map[string]*pixv1.PaymentOrder // by EndToEndId, until its answer
}

// hop gives each fetch of a topic to take, and writes what that returns.
func (p *bare) hop(ctx context.Context, topic string, take func([]*kgo.Record) ([]*kgo.Record, error)) error {
	var ready sync.Once
	client, err := p.kafka.Client(kgo.ClientID("bare"), kgo.ConsumerGroup("bare-"+topic), kgo.ConsumeTopics(topic),
		kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { ready.Do(func() { fmt.Println(bareReady) }) }))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
		written, err := take(fetches.Records())
		if err != nil {
			return err
		}
		for _, record := range written {
			client.Produce(ctx, record, nil) // what fails is missed by the load
		}
	}
}

// hold holds the money of orders in one request, and asks about them.
func (p *bare) hold(records []*kgo.Record) (questions []*kgo.Record, err error) {
	var holds []tb.Transfer
	for _, r := range records {
		order := &pixv1.PaymentOrder{}
		if err := order.UnmarshalVT(r.Value); err != nil {
			return nil, err
		}
		content := pix.Content{Payer: accountOf(order.Payer), Payee: accountOf(order.Payee), AmountCentavos: order.AmountCentavos}
		id, err := pix.ParseEndToEndID(order.EndToEndId)
		if err != nil {
			return nil, err
		}
		holds = ledger.AppendReserve(holds, id, content, 60)
		question := &pixv1.AuthorizationRequest{EndToEndId: order.EndToEndId, Payer: order.Payer, Payee: order.Payee, AmountCentavos: order.AmountCentavos}
		value, err := question.MarshalVT()
		if err != nil {
			return nil, err
		}
		questions = append(questions, &kgo.Record{Topic: stream.AuthorizationRequests, Key: r.Key, Value: value})
		p.mu.Lock()
		p.open[order.EndToEndId] = order
		p.mu.Unlock()
	}
	return questions, p.create(holds)
}

// answer accepts what is asked.
func (p *bare) answer(records []*kgo.Record) (answers []*kgo.Record, err error) {
	for _, r := range records {
		var question pixv1.AuthorizationRequest
		if err := question.UnmarshalVT(r.Value); err != nil {
			return nil, err
		}
		answer := &pixv1.AuthorizationResponse{EndToEndId: question.EndToEndId, Ispb: question.Payee.Ispb, Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}
		value, err := answer.MarshalVT()
		if err != nil {
			return nil, err
		}
		answers = append(answers, &kgo.Record{Topic: stream.AuthorizationResponses, Key: r.Key, Value: value})
	}
	return answers, nil
}

// post posts what is answered in one request, and reports it.
func (p *bare) post(records []*kgo.Record) (reports []*kgo.Record, err error) {
	var posts []tb.Transfer
	for _, r := range records {
		id, err := pix.ParseEndToEndID(string(r.Key))
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		order := p.open[string(r.Key)]
		delete(p.open, string(r.Key))
		p.mu.Unlock()
		if order == nil {
			continue // answered before
		}
		posts = ledger.AppendPost(posts, id, order.Payer.Ispb == order.Payee.Ispb)
		settled := &pixv1.SettlementReport{EndToEndId: order.EndToEndId, Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC,
			Payer: order.Payer, Payee: order.Payee, AmountCentavos: order.AmountCentavos}
		value, err := settled.MarshalVT()
		if err != nil {
			return nil, err
		}
		reports = append(reports, &kgo.Record{Topic: stream.Settlements, Key: r.Key, Value: value})
	}
	return reports, p.create(posts)
}

func (p *bare) create(transfers []tb.Transfer) error {
	for len(transfers) > 0 {
		part := transfers[:min(len(transfers), 3*chainsPerRequest)]
		transfers = transfers[len(part):]
		refused, err := p.ledger.CreateTransfers(part)
		if err == nil && len(refused) > 0 {
			err = fmt.Errorf("%d of %d transfers were refused, the first with %s", len(refused), len(part), refused[0].Result)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func accountOf(a *pixv1.Account) pix.Account {
	return pix.Account{ISPB: pix.ISPB(a.Ispb), Branch: a.Branch, Number: a.Number}
}

// bare measures the bare pipeline in the place of the engine and the banks. The load sees whether each payment is
// reported as settled; nothing audits it.
func (c Config) bare(ctx context.Context, s *stack.Stack, population sandbox.Population, r row) (*Run, error) {
	for _, name := range s.Names() {
		if name == stack.Producer || name == stack.Simulator || strings.HasPrefix(name, "engine-") {
			if err := s.StopProcess(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	weights, err := mix.Parse(c.Mix)
	if err != nil {
		return nil, err
	}
	m, err := c.begin(s)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	columns := map[string]string{"engine": "engine-bare", "bank": stack.Simulator}
	for _, role := range BareRoles {
		process, err := c.startBare(running, s, role)
		if err != nil {
			return nil, err
		}
		defer func() { stop(); _ = process.Wait() }() // it was killed
		m.processes = append(m.processes, meter.Process{Name: columns[role], PID: process.Process.Pid})
	}
	if m.before, err = meter.Read(m.processes, m.data); err != nil {
		return nil, err
	}
	var unmeasured error
	result, err := load.Run(ctx, load.Config{Stream: s.Kafka(), Population: population, Mix: weights, MixName: c.Mix,
		Rate: float64(r.rate), Payments: r.payments, Seed: 1, DrainTimeout: reportsMax, OutstandingMax: 1_000_000, AtEnd: func() { unmeasured = m.end() }})
	if err = errors.Join(err, unmeasured); err != nil {
		return nil, err
	}
	if !result.Passed {
		report.WriteLoad(c.Log, result)
		return nil, errors.New("the run is not valid: " + result.Verdict())
	}
	run := &Run{verdict: result.Verdict() + "; not audited", curve: curveOf(result.Curve)}
	run.set(runFigures, "payments", float64(r.payments))
	run.set(runFigures, "offered_per_second", float64(r.rate))
	run.set(runFigures, "per_second", result.SettledPerSecond)
	run.setLatency(result.Latency("settled"))
	m.costs(run, r.payments)
	return run, nil
}

// startBare starts a process of the bare pipeline, and returns when it has its partitions.
func (c Config) startBare(ctx context.Context, s *stack.Stack, role string) (*exec.Cmd, error) {
	command := exec.CommandContext(ctx, filepath.Join(c.BinDir, "loadtest"), "bare", role, s.KafkaAddress(), s.TigerBeetleAddresses())
	command.Env, command.Stderr = append(os.Environ(), "GOGC=400"), os.Stderr
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return nil, err
	}
	lines, hops := bufio.NewScanner(output), map[string]int{"engine": 2, "bank": 1}[role]
	for ; hops > 0; hops-- {
		if !lines.Scan() {
			return nil, errors.Join(command.Wait(), fmt.Errorf("the bare %s ended before it was ready", role))
		}
	}
	return command, nil
}
