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
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/stack"
	"github.com/liquida/liquida/loadtest/meter"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// The bare pipeline is what hops, libraries, broker and ledger take without a clearing house: an engine that holds the
// money of each order, asks, posts it when the answer comes and reports, and a bank that accepts everything. Nothing is
// validated, looked up, limited, sealed, or safe against a crash. Other figures are told in times of it.

// BareRoles are the two processes of the bare pipeline.
var BareRoles = []string{"engine-bare", stack.Simulator}

// RunBare is one process of the bare pipeline. It ends with ctx. answers is after how long the bank answers.
func RunBare(ctx context.Context, role, kafkaAddress, ledgerAddresses, answers string) error {
	kafka := stream.Config{Brokers: []string{kafkaAddress}}

	if role == stack.Simulator {
		late, err := time.ParseDuration(answers)
		if err != nil {
			return err
		}

		return hop{stream.AuthorizationRequests, stream.AuthorizationResponses, accept, late}.run(ctx, kafka, nil)
	}

	client, err := connect(ledgerAddresses)
	if err != nil {
		return err
	}
	defer client.Close()
	var open sync.Map // orders by EndToEndId, until the answer
	ended := make(chan error, 2)

	for _, h := range []hop{
		{stream.Payments, stream.AuthorizationRequests, holds(&open), 0},
		{stream.AuthorizationResponses, stream.Settlements, posts(&open), 0},
	} {
		go func() { ended <- h.run(ctx, kafka, client) }()
	}

	return <-ended
}

// hop takes each record of a topic, and writes a message to another one. Before that, all transfers of a fetch are
// created in one request.
type hop struct {
	from, to string
	take     taking
	late     time.Duration // after how long it writes a message, on average: then messages leave in another order
}

// taking returns what a record makes a hop write, if it does, and the transfers with those of the record.
type taking func(*kgo.Record, []tb.Transfer) ([]byte, []tb.Transfer, error)

func (h hop) run(ctx context.Context, kafka stream.Config, client tigerbeetle.Client) error {
	consumer, err := kafka.Client(kgo.ClientID("bare"), kgo.ConsumerGroup("bare-"+h.from), kgo.ConsumeTopics(h.from),
		kgo.ProducerLinger(h.late/100), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			fmt.Println("ready")
		}))
	if err != nil {
		return err
	}
	defer consumer.Close()

	for {
		fetches := consumer.PollRecords(ctx, chainsPerRequest) // what one request takes
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
		var transfers []tb.Transfer
		var written []*kgo.Record

		for _, r := range fetches.Records() {
			var value []byte
			if value, transfers, err = h.take(r, transfers); err != nil {
				return err
			}

			if value != nil {
				written = append(written, &kgo.Record{Topic: h.to, Key: r.Key, Value: value})
			}
		}

		if err := create(client, transfers); err != nil {
			return err
		}

		for _, record := range written {
			if h.late == 0 {
				consumer.Produce(ctx, record, nil) // what fails is missed by the load
				continue
			}
			time.AfterFunc(answersAfter(h.late), func() { consumer.Produce(ctx, record, nil) })
		}
	}
}

// holds holds the money of orders, and asks about them.
func holds(open *sync.Map) taking {
	return func(r *kgo.Record, transfers []tb.Transfer) ([]byte, []tb.Transfer, error) {
		order := &pixv1.PaymentOrder{}
		if err := order.UnmarshalVT(r.Value); err != nil {
			return nil, nil, err
		}

		id, err := pix.ParseEndToEndID(order.EndToEndId)
		if err != nil {
			return nil, nil, err
		}
		open.Store(order.EndToEndId, order)
		content := pix.Content{Payer: pix.AccountIn(order.Payer), Payee: pix.AccountIn(order.Payee),
			AmountCentavos: order.AmountCentavos}

		value, err := (&pixv1.AuthorizationRequest{EndToEndId: order.EndToEndId, Payer: order.Payer, Payee: order.Payee,
			AmountCentavos: order.AmountCentavos}).MarshalVT()

		return value, ledger.AppendReserve(transfers, id, content, 60), err
	}
}

// accept accepts what is asked.
func accept(r *kgo.Record, _ []tb.Transfer) ([]byte, []tb.Transfer, error) {
	var question pixv1.AuthorizationRequest
	if err := question.UnmarshalVT(r.Value); err != nil {
		return nil, nil, err
	}

	value, err := (&pixv1.AuthorizationResponse{EndToEndId: question.EndToEndId, Ispb: question.Payee.Ispb,
		Status: pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP}).MarshalVT()

	return value, nil, err
}

// posts posts what is answered, and reports it.
func posts(open *sync.Map) taking {
	return func(r *kgo.Record, transfers []tb.Transfer) ([]byte, []tb.Transfer, error) {
		id, err := pix.ParseEndToEndID(string(r.Key))
		if err != nil {
			return nil, nil, err
		}

		found, ok := open.LoadAndDelete(string(r.Key))
		if !ok {
			return nil, transfers, nil // answered before
		}
		order := found.(*pixv1.PaymentOrder)

		value, err := (&pixv1.SettlementReport{EndToEndId: order.EndToEndId,
			Status: pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC,
			Payer:  order.Payer, Payee: order.Payee, AmountCentavos: order.AmountCentavos}).MarshalVT()

		return value, ledger.AppendPost(transfers, id, order.Payer.Ispb == order.Payee.Ispb), err
	}
}

// startBare puts the bare pipeline in the place of the engine and the banks, until ctx ends. The load sees whether each
// payment is reported as settled; nothing audits it.
func (m *session) startBare(ctx context.Context) (processes []meter.Process, err error) {
	for _, name := range m.Names() {
		if name == stack.Producer || name == stack.Simulator || strings.HasPrefix(name, "engine-") {
			if err := m.StopProcess(ctx, name); err != nil {
				return nil, err
			}
		}
	}

	for _, role := range BareRoles {
		process, err := m.startRole(ctx, role)
		if err != nil {
			return nil, err
		}
		processes = append(processes, meter.Process{Name: role, PID: process.Pid})
	}

	return processes, nil
}

// startRole starts a process of the bare pipeline, and returns when all of its hops have their partitions: each prints
// a line then.
func (m *session) startRole(ctx context.Context, role string) (*os.Process, error) {
	command := exec.CommandContext(ctx, filepath.Join(m.BinDir, "loadtest"), "bare", role, m.KafkaAddress(),
		m.TigerBeetleAddresses(), m.answers.String())
	command.Stderr = os.Stderr

	output, err := command.StdoutPipe()
	if err = errors.Join(err, command.Start()); err != nil {
		return nil, err
	}

	lines := bufio.NewScanner(output)
	for range map[string]int{BareRoles[0]: 2, BareRoles[1]: 1}[role] {
		if !lines.Scan() {
			return nil, errors.Join(command.Wait(), fmt.Errorf("the bare %s ended before it was ready", role))
		}
	}
	go func() { _ = command.Wait() }() // it is killed when ctx ends

	return command.Process, nil
}
