package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/load"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/sandbox"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Reason codes that show in a report who rejected. Only the first may occur. The others show
// that the engine accepted a forged response: rejectedByRace one in the name of the right bank,
// but without its seal.
var (
	rejectedByBank = pix.MustReason("AG01")
	rejectedByRace = pix.MustReason("AG03")
	forged         = pix.MustReason("FRGD")
)

// banks changes the behaviour of the simulated banks.
type banks struct {
	callers    *load.Callers // of the simulator
	population sandbox.Population
}

const (
	bankCallTimeout = 2 * time.Second
	bankCallsFor    = 30 * time.Second // the simulator may be down by another fault
)

// put sets the profile of a bank; without one, the profile from the start.
func (b *banks) put(ctx context.Context, bank pix.ISPB, profile string) error {
	ctx, cancel := context.WithTimeout(ctx, bankCallsFor)
	defer cancel()
	if err := persist(ctx, 200*time.Millisecond, func() error {
		ctx, cancel := context.WithTimeout(ctx, bankCallTimeout)
		defer cancel()
		return b.callers.SetProfile(ctx, string(bank), profile)
	}); err != nil {
		return fmt.Errorf("cannot change the profile of bank %s: %w", bank, err)
	}
	return nil
}

func bankBehaves(profile string) injection {
	return func(ctx context.Context, w *world, f *fault) error {
		bank := w.simulator.population.Bank(f.random.IntN(w.simulator.population.Banks))
		free, err := w.take(ctx, "bank "+string(bank))
		if err != nil {
			return err
		}
		defer free()
		f.Target = "bank " + string(bank)
		w.begin(f)
		defer w.end(f)
		if err := w.simulator.put(ctx, bank, profile); err != nil {
			return err
		}
		f.hold(ctx, 4*time.Second, 8*time.Second)
		return w.simulator.put(context.WithoutCancel(ctx), bank, "")
	}
}

// forgeAnswers writes responses that no bank sent. Three kinds must have no effect, and their
// code in a report would show one: from another bank than the one asked, about a payment that
// is not in flight, and against a reported verdict. The fourth contradicts the bank's own
// response and races with it, without the bank's seal: it must lose.
func forgeAnswers(ctx context.Context, w *world, f *fault) error {
	free, err := w.take(ctx, "answers")
	if err != nil {
		return err
	}
	defer free()
	f.Target = "answers"
	client, err := forger(ctx, w)
	if err != nil {
		return err
	}
	defer client.Close()
	w.begin(f)
	defer w.end(f)
	ctx, cancel := context.WithTimeout(ctx, f.between(4*time.Second, 8*time.Second))
	defer cancel()
	written := 0
	for ctx.Err() == nil {
		for _, record := range client.PollRecords(ctx, 1000).Records() {
			for _, lie := range lies(record, f.random.Uint64()) {
				client.Produce(context.Background(), lie, nil)
				written++
			}
		}
	}
	f.Detail = fmt.Sprintf("%d responses", written)
	flush, cancelFlush := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancelFlush()
	if err := client.Flush(flush); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil // a forged response that the broker did not take does no harm
}

// forger returns a client that reads requests and reports from now on, and may write anywhere.
func forger(ctx context.Context, w *world) (*kgo.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // the broker may be down by another fault
	defer cancel()
	var ends kadm.ListedOffsets
	if err := persist(ctx, 200*time.Millisecond, func() (err error) {
		ends, err = stream.Ends(ctx, w.admin, stream.AuthorizationRequests, stream.Settlements)
		return err
	}); err != nil {
		return nil, err
	}
	return w.Kafka().Client(kgo.ClientID("forger"),
		kgo.ConsumePartitions(ends.KOffsets()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000),
		kgo.ProducerBatchMaxBytes(stream.BatchBytesMax))
}

// unknownSuffix turns an EndToEndId into that of no payment.
const unknownSuffix = "FORGED"

// lies returns the forged responses to a request or a report.
func lies(record *kgo.Record, roll uint64) []*kgo.Record {
	answer := func(id, ispb string, status pixv1.AuthorizationStatus, code pix.Reason) *kgo.Record {
		value, err := (&pixv1.AuthorizationResponse{EndToEndId: id, Ispb: ispb, Status: status, ReasonCode: code.String()}).MarshalVT()
		if err != nil {
			panic(fmt.Sprintf("cannot encode a response: %v", err)) // the texts come from decoded messages
		}
		return &kgo.Record{Topic: stream.AuthorizationResponses, Partition: record.Partition, Key: []byte(id), Value: value}
	}
	const accepts, rejects = pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP, pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT
	if record.Topic == stream.Settlements {
		var report pixv1.SettlementReport
		if report.UnmarshalVT(record.Value) != nil || report.Payee == nil {
			return nil
		}
		if report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
			return []*kgo.Record{answer(report.EndToEndId, report.Payee.Ispb, rejects, forged)}
		}
		return []*kgo.Record{answer(report.EndToEndId, report.Payee.Ispb, accepts, pix.ReasonNone)}
	}
	var request pixv1.AuthorizationRequest
	if request.UnmarshalVT(record.Value) != nil || request.Payee == nil || request.Payer == nil || len(request.EndToEndId) < len(unknownSuffix) {
		return nil
	}
	id := request.EndToEndId
	switch roll % 4 {
	case 0: // from a bank that was not asked
		if request.Payer.Ispb == request.Payee.Ispb {
			return nil
		}
		return []*kgo.Record{answer(id, request.Payer.Ispb, rejects, forged)}
	case 1: // about an unknown payment
		return []*kgo.Record{answer(id[:len(id)-len(unknownSuffix)]+unknownSuffix, request.Payee.Ispb, accepts, pix.ReasonNone)}
	case 2: // not a response at all
		return []*kgo.Record{{Topic: stream.AuthorizationResponses, Partition: record.Partition, Key: []byte(id), Value: []byte{0xff, 0x07}}}
	}
	if request.Payee.Branch != sandbox.OrdinaryBranch {
		return nil // its only right end is another rejection, so nothing may race
	}
	return []*kgo.Record{answer(id, request.Payee.Ispb, rejects, rejectedByRace)}
}
