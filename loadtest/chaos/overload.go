package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

const (
	overloadBatches = 8      // at the same time
	overloadLines   = 500    // of a batch
	overloadRecords = 50_000 // straight to Kafka
)

// overload pays from all banks as fast as it goes, over HTTP and straight to Kafka. The front
// door may refuse with 429; what it takes, and what is in Kafka, must end like any payment. Each
// payment is of one centavo, so the load does not run out of money.
func overload(ctx context.Context, w *world, f *fault) error {
	kafka, err := w.Kafka().Client(kgo.ClientID("overload"), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.RecordDeliveryTimeout(10*time.Second), kgo.ProducerBatchMaxBytes(stream.BatchBytesMax))
	if err != nil {
		return err
	}
	defer kafka.Close()
	sending, stop := context.WithTimeout(ctx, f.between(4*time.Second, 8*time.Second))
	defer stop()
	var accepted, refused, written, failed atomic.Int64
	var all sync.WaitGroup
	f.Target = "all banks"
	w.begin(f)
	for i := range overloadBatches {
		random := rand.New(rand.NewPCG(f.random.Uint64(), 0))
		bank := w.simulator.population.Bank(i % w.simulator.population.Banks)
		all.Go(func() {
			for sending.Err() == nil {
				var body bytes.Buffer
				encoder := json.NewEncoder(&body)
				for range overloadLines {
					if err := encoder.Encode(w.flood(bank, random)); err != nil {
						panic(fmt.Sprintf("cannot encode a payment: %v", err)) // texts and numbers
					}
				}
				answer, err := w.callers.Send(sending, http.MethodPost, "/v1/payments:batch", string(bank), body.Bytes())
				lines := int64(bytes.Count(answer.Body, []byte(`"status":"accepted"`)))
				accepted.Add(lines)
				switch {
				case err == nil && (answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusOK):
					refused.Add(overloadLines - lines)
				default: // another fault
					failed.Add(overloadLines - lines)
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
	all.Go(func() {
		for range overloadRecords {
			if sending.Err() != nil {
				return
			}
			p := w.flood(w.simulator.population.Bank(f.random.IntN(w.simulator.population.Banks)), f.random)
			value, err := (&pixv1.PaymentOrder{EndToEndId: p.EndToEndID, AmountCentavos: uint64(p.AmountCentavos), AcceptedAtUnixMs: time.Now().UnixMilli(),
				Payer: &pixv1.Account{Ispb: p.Payer.ISPB, Branch: p.Payer.Branch, Number: p.Payer.Number},
				Payee: &pixv1.Account{Ispb: p.Payee.ISPB, Branch: p.Payee.Branch, Number: p.Payee.Number}}).MarshalVT()
			if err != nil {
				panic(fmt.Sprintf("cannot encode an order: %v", err))
			}
			kafka.Produce(ctx, &kgo.Record{Topic: stream.Payments, Key: []byte(p.EndToEndID), Value: value}, func(_ *kgo.Record, err error) {
				if err == nil {
					written.Add(1)
				} else {
					failed.Add(1)
				}
			})
		}
	})
	all.Wait()
	w.end(f)
	err = kafka.Flush(ctx)
	f.Detail = fmt.Sprintf("over HTTP %d accepted, %d refused; %d to Kafka; %d without a response", accepted.Load(), refused.Load(), written.Load(), failed.Load())
	return err
}

// flood returns a payment of one centavo from a customer of a bank.
func (w *world) flood(bank pix.ISPB, random *rand.Rand) client.Payment {
	population := w.simulator.population
	payer := population.Customer(random.IntN(population.Customers))
	for payer.ISPB != bank {
		payer = population.Customer(random.IntN(population.Customers))
	}
	payee := population.Customer(random.IntN(population.Customers))
	of := func(a pix.Account) client.Account {
		return client.Account{ISPB: string(a.ISPB), Branch: a.Branch, Number: a.Number}
	}
	return client.Payment{EndToEndID: pix.NewEndToEndID(bank, time.Now(), random).String(), Payer: of(payer), Payee: of(payee), AmountCentavos: 1}
}
