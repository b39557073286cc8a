package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/telemetry"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// settlements follows pix.settlements from its end: one consumer for everyone who waits
// for a payment or a return, or follows a participant. Who waits is only woken; what became
// of it the ledger says. So a report that is missed costs time, never truth.
type settlements struct {
	kafka stream.Config
	t     *telemetry.Telemetry
	admin *kadm.Client

	mu        sync.Mutex
	next      position // where each partition goes on; nil until the broker has told
	waiting   map[string]map[chan struct{}]struct{}
	returns   int // how many of waiting wait for a return, which only a report's value names
	following map[pix.ISPB]map[*following]struct{}
}

// report is a record of pix.settlements: its place, and what it says.
type report struct {
	partition int32
	offset    int64
	body      settlement
	between   [2]pix.ISPB
}

// settlement is the data of an event of GET /v1/settlements.
type settlement struct {
	EndToEndID         string    `json:"end_to_end_id" doc:"Of a payment (E…), or the RtrId of a return (D…)."`
	OriginalEndToEndID string    `json:"original_end_to_end_id,omitempty" doc:"The payment that a return gives back."`
	Status             string    `json:"status" enum:"settled,rejected"`
	ReasonCode         string    `json:"reason_code,omitempty"`
	Payer              *account  `json:"payer,omitempty" doc:"Left out for a rejected return."`
	Payee              *account  `json:"payee,omitempty" doc:"Left out for a rejected return."`
	AmountCentavos     uint64    `json:"amount_centavos"`
	ReportedAt         time.Time `json:"reported_at" doc:"When the report was written."`
}

// following is what one stream has not taken yet. Its channel closes when it falls behind.
type following struct {
	from    position // what comes through the channel begins here
	reports chan report
}

// followingMax bounds what a stream may fall behind before it reads from the topic again.
const followingMax = 1000

func newSettlements(client *kgo.Client, kafka stream.Config, t *telemetry.Telemetry) *settlements {
	return &settlements{kafka: kafka, t: t, admin: kadm.NewClient(client),
		waiting: map[string]map[chan struct{}]struct{}{}, following: map[pix.ISPB]map[*following]struct{}{}}
}

// run follows the topic until ctx ends.
func (s *settlements) run(ctx context.Context) {
	ends := s.ends(ctx)
	if ends == nil {
		return
	}
	client, err := stream.Connect(s.kafka, host.System().Dial, "producer-settlements", s.t, kgo.ConsumePartitions(ends.offsets()))
	if err != nil { // a wrong option: no broker is asked here
		s.t.Log.Error("cannot follow the settlements: waits and streams are slow or unavailable", zap.Error(err))
		return
	}
	defer client.Close()
	s.mu.Lock()
	s.next = ends
	s.mu.Unlock()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			s.t.Log.Warn("cannot read a partition, trying again", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
		})
		s.spread(fetches.Records())
	}
}

// ends asks until the broker tells where the topic ends; nil: ctx has ended.
func (s *settlements) ends(ctx context.Context) position {
	for {
		at, err := endOf(ctx, s.admin)
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

// spread wakes and hands over under one lock, so that who begins to follow sees all from
// the position that he was told.
func (s *settlements) spread(records []*kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, record := range records {
		if int(record.Partition) < len(s.next) {
			s.next[record.Partition] = record.Offset + 1
		}
		wakeAll(s.waiting[string(record.Key)])
		if len(s.following) == 0 && s.returns == 0 {
			continue
		}
		r, ok := reportOf(record)
		if !ok {
			continue
		}
		if r.body.OriginalEndToEndID != "" { // a return: its record has the original's key
			wakeAll(s.waiting[r.body.EndToEndID])
		}
		s.hand(r, r.between[0])
		if r.between[1] != r.between[0] {
			s.hand(r, r.between[1])
		}
	}
}

func wakeAll(waiting map[chan struct{}]struct{}) {
	for wake := range waiting {
		select {
		case wake <- struct{}{}:
		default: // awake already
		}
	}
}

func (s *settlements) hand(r report, to pix.ISPB) {
	for f := range s.following[to] {
		select {
		case f.reports <- r:
		default:
			s.drop(to, f)
		}
	}
}

// drop ends a following; the lock is held.
func (s *settlements) drop(participant pix.ISPB, f *following) {
	if _, ok := s.following[participant][f]; !ok {
		return
	}
	close(f.reports)
	delete(s.following[participant], f)
	if len(s.following[participant]) == 0 {
		delete(s.following, participant)
	}
}

// wake returns a channel that says when a payment, or a return, is worth asking for again.
func (s *settlements) wake(id string) (woken <-chan struct{}, forget func()) {
	wake, ofReturn := make(chan struct{}, 1), 0
	if strings.HasPrefix(id, "D") {
		ofReturn = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[id] == nil {
		s.waiting[id] = map[chan struct{}]struct{}{}
	}
	s.waiting[id][wake] = struct{}{}
	s.returns += ofReturn
	return wake, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.returns -= ofReturn
		delete(s.waiting[id], wake)
		if len(s.waiting[id]) == 0 {
			delete(s.waiting, id)
		}
	}
}

// follow begins to hand over a participant's reports; nil while the broker has not told
// where the topic ends.
func (s *settlements) follow(participant pix.ISPB) (f *following, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		return nil, nil
	}
	f = &following{from: append(position(nil), s.next...), reports: make(chan report, followingMax)}
	if s.following[participant] == nil {
		s.following[participant] = map[*following]struct{}{}
	}
	s.following[participant][f] = struct{}{}
	return f, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(participant, f)
	}
}

// reportOf reads a record; false: it cannot be read, which the audit will tell.
func reportOf(record *kgo.Record) (report, bool) {
	message := &pixv1.SettlementReport{}
	if err := message.UnmarshalVT(record.Value); err != nil {
		return report{}, false
	}
	r := report{partition: record.Partition, offset: record.Offset, body: settlement{
		EndToEndID: message.EndToEndId, OriginalEndToEndID: message.OriginalEndToEndId, Status: stateRejected, ReasonCode: message.ReasonCode, AmountCentavos: message.AmountCentavos, ReportedAt: record.Timestamp.UTC(),
	}}
	accountIn := func(a *pixv1.Account) *account {
		if a == nil {
			return nil
		}
		return &account{a.Ispb, a.Branch, a.Number}
	}
	r.body.Payer, r.body.Payee = accountIn(message.Payer), accountIn(message.Payee)
	if message.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
		r.body.Status = stateSettled
	}
	r.between = [2]pix.ISPB{pix.ISPB(message.Payer.GetIspb()), pix.ISPB(message.Payee.GetIspb())}
	if id, err := pix.ParseReturnID(message.EndToEndId); err == nil { // its ids name both, also when it is rejected
		if original, err := pix.ParseEndToEndID(message.OriginalEndToEndId); err == nil {
			r.between = [2]pix.ISPB{id.PSP(), original.Payer()}
		}
	}
	return r, true
}
