package feed

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/field"
	"github.com/liquida/liquida/services/producer/query"
)

// Watcher reads pix.settlements from shortly before its end: one consumer for all waits and streams. A
// report only wakes those that wait for its payment or return; they then ask the ledger. So
// a missed report costs time, never truth.
type Watcher struct {
	kafka stream.Config
	dial  host.Dial
	t     *telemetry.Telemetry
	admin *kadm.Client

	newest    newest
	following atomic.Int64  // streams of them
	attended  chan struct{} // holds a token if somebody has begun to wait

	mu      sync.Mutex
	client  *kgo.Client // nil until the broker has told where the topic ends
	waiters map[string]map[chan struct{}]struct{}
	returns int // waiters for a return, whose id only the value of a report holds
}

// report is what streams need of a record of pix.settlements.
type report struct {
	id    string
	banks [2]pix.ISPB // that are told
	data  []byte      // a Settlement, encoded once for all streams
}

// Settlement is the data of an event of GET /v1/settlements.
type Settlement struct {
	EndToEndID         string         `json:"end_to_end_id" doc:"Of a payment (E…), or the RtrId of a return (D…)."`
	OriginalEndToEndID string         `json:"original_end_to_end_id,omitempty" doc:"The payment that a return gives back."`
	Status             string         `json:"status" enum:"settled,rejected"`
	ReasonCode         string         `json:"reason_code,omitempty"`
	Payer              *field.Account `json:"payer,omitempty" doc:"Left out for a rejected return."`
	Payee              *field.Account `json:"payee,omitempty" doc:"Left out for a rejected return."`
	AmountCentavos     uint64         `json:"amount_centavos"`
	ReportedAt         time.Time      `json:"reported_at" doc:"When the report was written."`
}

// everybody stands for all participants. It is no ISPB, which has 8 characters.
const everybody pix.ISPB = "all"

// NewWatcher uses client to ask where the topic ends.
func NewWatcher(client *kgo.Client, kafka stream.Config, dial host.Dial, t *telemetry.Telemetry) *Watcher {
	return &Watcher{kafka: kafka, dial: dial, t: t, admin: kadm.NewClient(client),
		attended: make(chan struct{}, 1), waiters: map[string]map[chan struct{}]struct{}{}}
}

// Run reads the topic until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	from := w.ends(ctx)
	if from == nil {
		return
	}

	for number := range from {
		from[number] = max(0, from[number]-int64(newestAtStart/len(from)))
	}

	client, err := stream.Connect(w.kafka, w.dial, "producer-settlements", w.t, stream.Patiently(),
		kgo.ConsumePartitions(from.offsets()))
	if err != nil { // a wrong option: Connect asks no broker
		w.t.Log.Error("cannot follow the settlements: waits and streams are slow or unavailable", zap.Error(err))
		return
	}
	defer client.Close()
	stream.Together(client, stream.Settlements)
	w.newest.begin(from)
	w.mu.Lock()
	w.client = client
	w.mu.Unlock()

	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			w.t.Log.Warn("cannot read a partition, trying again", zap.String("topic", topic),
				zap.Int32("partition", partition), zap.Error(err))
		})

		if w.distribute(fetches.Records()) > 0 {
			continue
		}

		rest := unattendedRest
		if w.following.Load() > 0 {
			rest = followedRest
		}

		select {
		case <-ctx.Done():
			return
		case <-w.attended:
		case <-time.After(rest):
		}
	}
}

// How long the topic is not read after reports for which nobody waits, unless somebody begins to. Many of them in one
// fetch cost front door and broker much less than each in its own.
const (
	followedRest   = 20 * time.Millisecond // while streams are open
	unattendedRest = 250 * time.Millisecond
)

// Grow reads partitions that were added, from their beginning on.
func (w *Watcher) Grow(partitions int32) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.client == nil {
		return
	}

	were := w.newest.grow(int(partitions))
	if were >= int(partitions) {
		return
	}

	offsets := make(position, partitions).offsets()
	for number := range int32(were) { //nolint:gosec // few
		delete(offsets[stream.Settlements], number)
	}
	w.client.AddConsumePartitions(offsets)
}

// ends asks until the broker says where the topic ends. It returns nil when ctx has ended.
func (w *Watcher) ends(ctx context.Context) position {
	for {
		at, err := endOf(ctx, w.admin)
		if err == nil {
			return at
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// distribute wakes who waits for what came, and keeps it for the streams. It returns for how many payments and returns
// somebody waits.
func (w *Watcher) distribute(records []*kgo.Record) (awaited int) {
	entries := make([]*entry, len(records))
	for i, record := range records {
		entries[i] = entryOf(record)
	}
	w.newest.keep(entries)
	w.mu.Lock()
	defer w.mu.Unlock()

	for i, record := range records {
		wake(w.waiters[string(record.Key)])

		if w.returns == 0 {
			continue
		}

		if r := entries[i].read(); r != nil { // of a return: the key of its record is the original's id
			wake(w.waiters[r.id])
		}
	}

	return len(w.waiters)
}

// Wake wakes those that wait for a payment or return: something became of it.
func (w *Watcher) Wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake(w.waiters[id])
}

func wake(waiters map[chan struct{}]struct{}) {
	for waiter := range waiters {
		select {
		case waiter <- struct{}{}:
		default: // awake already
		}
	}
}

// attend ends a rest.
func (w *Watcher) attend() {
	select {
	case w.attended <- struct{}{}:
	default:
	}
}

// notify returns a channel that receives when a report of the payment or return comes.
func (w *Watcher) notify(id string) (reported <-chan struct{}, forget func()) {
	waiter, ofReturn := make(chan struct{}, 1), 0
	if strings.HasPrefix(id, "D") {
		ofReturn = 1
	}
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.waiters[id] == nil {
		w.waiters[id] = map[chan struct{}]struct{}{}
	}
	w.waiters[id][waiter] = struct{}{}
	w.returns += ofReturn
	w.attend()

	return waiter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.returns -= ofReturn
		delete(w.waiters[id], waiter)

		if len(w.waiters[id]) == 0 {
			delete(w.waiters, id)
		}
	}
}

// refusedUnheld are the reasons with which a payment is refused before its money is held: all but the banks' own.
// Only the payer's bank gets such a report. Otherwise anybody could name a payee at a bank, and that bank would
// see the payer, and whether the payer is short of money. A payee's bank may reject with one of these codes, too.
// Then it does not get its own rejection here. GET /v1/payments/{endToEndId} shows it, because the ledger
// knows that money was held.
//
// AB03 is not among them: the payee's bank was asked. Before there was LQ13, orders that came past their deadline got
// it, too. Of these old reports the payee's bank is told.
var refusedUnheld = func() map[string]bool {
	reasons := map[string]bool{}

	for _, d := range pix.Definitions {
		if d.By != pix.ByBank && d.Reason != pix.ReasonPayeePSPSilent {
			reasons[d.Reason.String()] = true
		}
	}

	return reasons
}()

// reportOf reads the value of a record. It is nil for one that cannot be read or is about nothing, which the audit
// reports, and for an amount above 2^63-1. Old reports of refused payments have such, and a client that
// reads amounts as signed integers could never get past one.
func reportOf(value []byte, reportedAt time.Time) *report {
	message := &pixv1.SettlementReport{}
	if err := message.UnmarshalVT(value); err != nil || message.EndToEndId == "" ||
		message.AmountCentavos > math.MaxInt64 {
		return nil
	}
	account := func(a *pixv1.Account) *field.Account {
		if a == nil {
			return nil
		}

		return &field.Account{ISPB: a.Ispb, Branch: a.Branch, Number: a.Number}
	}

	body := Settlement{
		EndToEndID: message.EndToEndId, OriginalEndToEndID: message.OriginalEndToEndId, Status: query.Rejected,
		ReasonCode: message.ReasonCode, AmountCentavos: message.AmountCentavos, ReportedAt: reportedAt,
		Payer: account(message.Payer), Payee: account(message.Payee),
	}
	if message.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
		body.Status = query.Settled
	}

	data, err := json.Marshal(body)
	if err != nil {
		return nil
	}

	return &report{id: body.EndToEndID, banks: toldOf(message, body.Status), data: data}
}

// toldOf returns the banks that are told of a report.
func toldOf(message *pixv1.SettlementReport, status string) [2]pix.ISPB {
	if message.OriginalEndToEndId != "" { // the ids of a return name both banks, also when it is rejected
		if id, err := pix.ParseReturnID(message.EndToEndId); err == nil {
			if original, err := pix.ParseEndToEndID(message.OriginalEndToEndId); err == nil {
				return [2]pix.ISPB{id.PSP(), original.Payer()}
			}
		}
	}

	payer, payee := pix.ISPB(message.Payer.GetIspb()), pix.ISPB(message.Payee.GetIspb())
	if status == query.Rejected && refusedUnheld[message.ReasonCode] {
		payee = payer
	}

	return [2]pix.ISPB{payer, payee}
}
