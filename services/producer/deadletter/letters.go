// Package deadletter remembers which orders became dead letters, so that the status of an order can
// tell it: the ledger knows nothing of them.
package deadletter

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Letter is the latest dead letter of an id. It is about one message: another one with the same id may
// settle.
type Letter struct {
	ReasonCode     string    `json:"reason_code"`
	AmountCentavos uint64    `json:"amount_centavos" doc:"Of the message, which is not the amount of a payment."`
	At             time.Time `json:"at" doc:"When the dead letter was written."`
}

const (
	readMax = 10_000 // records of each partition that a start reads again
	keptMax = 500    // letters of a bank in each of two generations
)

// Letters are the newest dead letters of each participant: at least keptMax, so that a bank which causes
// many pushes out its own only. Who writes to Kafka can name any bank; only participants have a place.
type Letters struct {
	register *register.Register

	mu    sync.Mutex
	banks map[pix.ISPB]*generations
}

type generations struct{ young, old map[pix.EndToEndID]Letter }

// New returns letters that know none.
func New(follows *register.Register) *Letters {
	return &Letters{register: follows, banks: map[pix.ISPB]*generations{}}
}

// Follow reads the topic, from readMax records before its end on, until ctx ends. It begins when the
// register has been read: before that nobody is a participant. It calls told with each id of which there is
// a new letter.
func (l *Letters) Follow(ctx context.Context, kafka stream.Config, dial host.Dial, t *telemetry.Telemetry,
	told func(id string)) {
	if _, err := l.register.Newer(ctx); err != nil { // ctx has ended
		return
	}

	client, err := stream.Connect(kafka, dial, "producer-dead-letters", t, stream.Patiently(), kgo.ConsumeTopics(stream.DeadLetters),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd().Relative(-readMax)), kgo.FetchMaxBytes(4<<20),
		kgo.FetchMaxPartitionBytes(1<<20))
	if err != nil { // a wrong option: Connect asks no broker
		t.Log.Error("cannot follow the dead letters: no status tells of them", zap.Error(err))
		return
	}
	defer client.Close()
	stream.Together(client, stream.DeadLetters)
	failing := false

	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}

		err := fetches.Err()
		if err != nil && !failing {
			t.Log.Warn("cannot read dead letters, trying again", zap.Error(err))
		}
		failing = err != nil
		fetches.EachRecord(func(record *kgo.Record) {
			if id, ok := l.take(record); ok {
				told(id.String())
			}
		})
	}
}

// take reads a record. It is false for a dead letter that names no payment or return.
func (l *Letters) take(record *kgo.Record) (pix.EndToEndID, bool) {
	var letter pixv1.DeadLetter

	var message pixv1.PaymentOrder
	if letter.UnmarshalVT(record.Value) != nil || letter.Topic != stream.Payments ||
		message.UnmarshalVT(letter.Payload) != nil {
		return pix.EndToEndID{}, false
	}

	text, amount := message.EndToEndId, message.AmountCentavos
	if back := message.ReturnOrder; back != nil {
		text, amount = back.ReturnId, back.AmountCentavos
	}

	id, err := pix.ParsePaymentOrReturnID(text)
	if err != nil {
		return id, false
	}
	l.keep(id, Letter{letter.ReasonCode, amount, record.Timestamp.UTC()})

	return id, true
}

// keep remembers a letter of a participant.
func (l *Letters) keep(id pix.EndToEndID, letter Letter) {
	if state, _ := l.register.Current(); state.Participant(id.Payer()) == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()

	of := l.banks[id.Payer()]
	if of == nil {
		of = &generations{young: map[pix.EndToEndID]Letter{}}
		l.banks[id.Payer()] = of
	}

	if len(of.young) >= keptMax {
		of.old, of.young = of.young, map[pix.EndToEndID]Letter{}
	}
	of.young[id] = letter
}

// Of returns the latest letter of a payment or return, or nil.
func (l *Letters) Of(id pix.EndToEndID) *Letter {
	l.mu.Lock()
	defer l.mu.Unlock()

	of := l.banks[id.Payer()]
	if of == nil {
		return nil
	}

	for _, letters := range []map[pix.EndToEndID]Letter{of.young, of.old} {
		if letter, known := letters[id]; known {
			return &letter
		}
	}

	return nil
}
