package answers

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// journal is what a client keeps of its participant's settlements stream: each event, as it came.
// After a break it goes on from its last event, so a journal misses nothing and has nothing twice.
type journal struct {
	mu sync.Mutex // its own: streams tell more than all else
	// where the last stream began: a client that crashes goes on from here; and the end
	saved, at place
	told      []settlement
	reports   []report // what it must hold, in the order of the observer
}

// place is a position in the stream: a cursor, and how many events are before it.
type place struct {
	cursor string
	events int
}

// event is an event of the stream, or the report from which it is made.
type event struct {
	EndToEndID string      `json:"end_to_end_id"` // or of a return
	Original   string      `json:"original_end_to_end_id"`
	Status     string      `json:"status"`
	ReasonCode string      `json:"reason_code"`
	Payer      bankAccount `json:"payer"`
	Payee      bankAccount `json:"payee"`
	Centavos   uint64      `json:"amount_centavos"`
	ReportedAt time.Time   `json:"reported_at"` // UTC, in ms
}

// settlement is what is kept of an event. There are millions, and they hold no pointers: else to look at all of them
// again and again, and to move them, keeps this process from what it has to send.
type settlement struct {
	id   pix.EndToEndID // or of a return
	hash uint64         // of the event
}

var seed = maphash.MakeSeed()

func settlementOf(e event) (s settlement) {
	copy(s.id[:], e.EndToEndID)
	s.hash = maphash.Comparable(seed, e)

	return s
}

// report is a settlement report that concerns a participant.
type report struct {
	settlement
	offset    int64
	partition int32
	// optional: the participant is only the payee's bank of a rejected payment. It is told if money was held, which
	// only AB03 says for certain.
	optional bool
}

func (r report) String() string {
	return fmt.Sprintf("%s, partition %d, offset %d", r.id, r.partition, r.offset)
}

// follow begins the journal of a participant.
func (j *Judge) follow(bank pix.ISPB) { j.journals[bank] = &journal{} }

// banks returns the participants whose streams are followed.
func (j *Judge) banks() []pix.ISPB { return slices.Sorted(maps.Keys(j.journals)) }

// position returns where a participant's client goes on, with a new stream.
func (j *Judge) position(bank pix.ISPB) string {
	o := j.journals[bank]
	o.mu.Lock()
	defer o.mu.Unlock()
	o.saved = o.at

	return o.at.cursor
}

// tell takes a cursor of a stream with an event, or without: everything before it was told.
func (j *Judge) tell(bank pix.ISPB, cursor, data string) error {
	var e event
	if data != "" {
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
	}
	e.ReportedAt = time.UnixMilli(e.ReportedAt.UnixMilli()).UTC()
	o := j.journals[bank]
	o.mu.Lock()
	defer o.mu.Unlock()

	if data != "" && j.counts(e.ReportedAt) {
		o.told = append(o.told, settlementOf(e))
	}

	o.at = place{cursor, len(o.told)}

	return nil
}

// counts reports whether a settlement of this time is compared. An older one may wait in an engine until its broker
// is back: it is told to streams that began meanwhile, and not to others.
func (j *Judge) counts(reported time.Time) bool { return reported.UnixMilli() >= j.since.UnixMilli() }

// lose makes a client lose what the last stream told, as in a crash: it reads those events again.
func (j *Judge) lose(bank pix.ISPB) {
	o := j.journals[bank]
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.saved.cursor != "" {
		o.at, o.told = o.saved, o.told[:o.saved.events]
	}
}

// reportedTo notes a settlement report for the participants that it concerns: both banks of a
// settled payment and of a return, and of a rejected payment.
func (j *Judge) reportedTo(record *kgo.Record, message *pixv1.SettlementReport) {
	if message.AmountCentavos > math.MaxInt64 || // clients may read amounts as signed integers
		!j.counts(record.Timestamp) {
		return
	}
	settled := message.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	e := event{
		EndToEndID: message.EndToEndId, Original: message.OriginalEndToEndId,
		Status:     map[bool]string{true: "settled", false: "rejected"}[settled],
		ReasonCode: message.ReasonCode,
		Payer:      accountOf(message.Payer), Payee: accountOf(message.Payee), Centavos: message.AmountCentavos,
		ReportedAt: record.Timestamp.UTC(),
	}
	r := report{settlement: settlementOf(e), partition: record.Partition, offset: record.Offset}
	payer, payee, isReturn := pix.ISPB(message.Payer.GetIspb()), pix.ISPB(message.Payee.GetIspb()), false

	if id, err := pix.ParseReturnID(message.EndToEndId); err == nil {
		if original, err := pix.ParseEndToEndID(message.OriginalEndToEndId); err == nil {
			payer, payee, isReturn = id.PSP(), original.Payer(), true
		}
	}

	for _, bank := range slices.Compact([]pix.ISPB{payer, payee}) {
		if o := j.journals[bank]; o != nil {
			r.optional = bank != payer && !settled && !isReturn && e.ReasonCode != "AB03"
			o.mu.Lock()
			o.reports = append(o.reports, r)
			o.mu.Unlock()
		}
	}
}

// untold reports whether a participant was not told of each settlement yet.
func (j *Judge) untold(bank pix.ISPB) bool {
	o := j.journals[bank]
	o.mu.Lock()
	defer o.mu.Unlock()

	return len(o.missing()) > 0
}

// missing returns the reports that must be told, and were not.
func (o *journal) missing() (missing []report) {
	told := map[settlement]int{}
	for _, s := range o.told {
		told[s]++
	}

	for _, r := range o.reports {
		if told[r.settlement]--; told[r.settlement] < 0 && !r.optional {
			missing = append(missing, r)
		}
	}

	return missing
}

// concludeStream compares what a participant was told with the reports that concern it.
func (j *Judge) concludeStream(bank pix.ISPB) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.journals[bank]
	o.mu.Lock()
	defer o.mu.Unlock()
	j.verdict.Told[toldSettlements] += len(o.told)
	subject := "settlements of " + string(bank)

	waiting, alike, last := map[settlement][]int{}, map[settlement]int{}, map[int32]report{}
	for i, r := range o.reports {
		waiting[r.settlement] = append(waiting[r.settlement], i)
		alike[r.settlement]++
	}

	for _, s := range o.told {
		places := waiting[s]
		switch {
		case len(places) > 0:
			r := o.reports[places[0]]

			waiting[s] = places[1:]
			if alike[s] > 1 { // two engines reported it in one millisecond: nobody can say which of them was told
				continue
			}

			if before, seen := last[r.partition]; seen && r.offset < before.offset {
				j.contradict(subject, "a partition's settlements are not told in order", before.String(), r.String())
			}
			last[r.partition] = r
		case alike[s] > 0:
			j.contradict(subject, "it is told twice", "", s.id.String())
		default:
			j.contradict(subject, "no report that concerns the participant says so", "", s.id.String())
		}
	}

	for _, r := range o.missing() {
		j.contradict(subject, "it was never told", r.String(), "")
	}
}
