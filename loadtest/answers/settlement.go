package answers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// journal is what a client keeps of its participant's settlements stream: each event, as it came.
// After a break it goes on from its last event, so a journal misses nothing and has nothing twice.
type journal struct {
	bank    pix.ISPB
	begin   place // reading from here again tells everything
	at      place // the end
	recent  []place
	told    []settlement
	reports []report // what it must hold, in the order of the observer
	least   int      // how many of them it must hold, as soon as the ledger was asked
}

// place is a position in the stream: a cursor, and how many events are before it.
type place struct {
	cursor string
	events int
}

// recentMax bounds the events that a client may lose in a crash and read again.
const recentMax = 100

// settlement is an event of the stream, or the report from which it is made. The hash is of all
// that it says.
type settlement struct {
	id   pix.EndToEndID // or of a return
	at   int64          // when the report was written, in Unix ms
	says string         // settled, or the reason
	hash uint64
}

func (s settlement) String() string {
	return fmt.Sprintf("%s reported %s: %s", s.id, time.UnixMilli(s.at).UTC().Format(timeOfDay), s.says)
}

// report is a settlement report that concerns a participant.
type report struct {
	settlement
	partition int32
	offset    int64
	centavos  uint64
	// asPayee: the participant is only the payee's bank of a rejected payment. It is told if money
	// was held.
	asPayee bool
	// optional: the contract leaves open whether it is told.
	optional bool
}

// settlementBody is the data of an event.
type settlementBody struct {
	EndToEndID string       `json:"end_to_end_id"`
	Original   string       `json:"original_end_to_end_id"`
	Status     string       `json:"status"`
	ReasonCode string       `json:"reason_code"`
	Payer      *bankAccount `json:"payer"`
	Payee      *bankAccount `json:"payee"`
	Centavos   uint64       `json:"amount_centavos"`
	ReportedAt time.Time    `json:"reported_at"`
}

func (b settlementBody) settlement() settlement {
	s := settlement{at: b.ReportedAt.UnixMilli(), says: cmp.Or(b.ReasonCode, b.Status)}
	copy(s.id[:], b.EndToEndID)
	hash := fnv.New64a()
	fmt.Fprintln(hash, b.EndToEndID, b.Original, b.Status, b.ReasonCode, b.Centavos, s.at)
	for _, account := range []*bankAccount{b.Payer, b.Payee} {
		if account != nil {
			fmt.Fprint(hash, *account)
		}
		fmt.Fprintln(hash)
	}
	s.hash = hash.Sum64()
	return s
}

// follow begins the journal of a participant.
func (j *Judge) follow(bank pix.ISPB) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.journals[bank] = &journal{bank: bank}
}

// banks returns the participants whose streams are followed.
func (j *Judge) banks() (banks []pix.ISPB) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for bank := range j.journals {
		banks = append(banks, bank)
	}
	slices.Sort(banks)
	return banks
}

// position returns where a participant's client goes on.
func (j *Judge) position(bank pix.ISPB) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.journals[bank].at.cursor
}

// passed takes a cursor of a stream without an event: everything before it was told.
func (j *Judge) passed(bank pix.ISPB, cursor string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.journals[bank]
	o.at = place{cursor, len(o.told)}
	if o.begin.cursor == "" {
		o.begin = o.at
	}
	o.recent = append(o.recent, o.at)
	if len(o.recent) > recentMax {
		o.recent = o.recent[1:]
	}
}

// tell takes an event of a stream.
func (j *Judge) tell(bank pix.ISPB, cursor, data string) error {
	var body settlementBody
	if err := json.Unmarshal([]byte(data), &body); err != nil {
		return err
	}
	j.mu.Lock()
	if body.ReportedAt.UnixMilli() >= j.since.UnixMilli() {
		o := j.journals[bank]
		o.told = append(o.told, body.settlement())
		j.verdict.Settlements++
	}
	j.mu.Unlock()
	j.passed(bank, cursor)
	return nil
}

// lose makes a client lose its last steps, as in a crash: it reads those events again.
func (j *Judge) lose(bank pix.ISPB, steps int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.journals[bank]
	if left := len(o.recent) - steps; left > 0 {
		o.recent = o.recent[:left]
		o.at = o.recent[left-1]
		o.told = o.told[:o.at.events]
	}
}

// loseAll makes a client begin again, unless that would take too long.
func (j *Judge) loseAll(bank pix.ISPB) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.journals[bank]
	if len(o.told) > readAgainMax {
		return false
	}
	o.at, o.recent, o.told = o.begin, nil, nil
	return true
}

// readAgainMax bounds the events that are read a second time at the end.
const readAgainMax = 20_000

// reportedTo notes a settlement report for the participants that it concerns: both banks of a
// settled payment and of a return, the payer's bank of a rejected payment, and the payee's bank
// if money was held for it.
func (j *Judge) reportedTo(record *kgo.Record, message *pixv1.SettlementReport) {
	if message.AmountCentavos > math.MaxInt64 { // clients may read amounts as signed integers
		return
	}
	body := settlementBody{
		EndToEndID: message.EndToEndId, Original: message.OriginalEndToEndId, Status: "rejected", ReasonCode: message.ReasonCode,
		Payer: accountOf(message.Payer), Payee: accountOf(message.Payee), Centavos: message.AmountCentavos, ReportedAt: record.Timestamp,
	}
	settled := message.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	if settled {
		body.Status = "settled"
	}
	r := report{settlement: body.settlement(), partition: record.Partition, offset: record.Offset, centavos: body.Centavos}
	payer, payee := pix.ISPB(message.Payer.GetIspb()), pix.ISPB(message.Payee.GetIspb())
	isReturn := false
	if id, err := pix.ParseReturnID(message.EndToEndId); err == nil {
		if original, err := pix.ParseEndToEndID(message.OriginalEndToEndId); err == nil {
			payer, payee, isReturn = id.PSP(), original.Payer(), true
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if o := j.journals[payer]; o != nil {
		o.reports = append(o.reports, r)
	}
	if o := j.journals[payee]; o != nil && payee != payer {
		r.asPayee = !settled && !isReturn
		o.reports = append(o.reports, r)
	}
}

func accountOf(account *pixv1.Account) *bankAccount {
	if account == nil {
		return nil
	}
	return &bankAccount{account.Ispb, account.Branch, account.Number}
}

// lookUpHolds asks the ledger for which rejected payments money was held, and keeps only the
// reports that a participant is told, or may be. A refused payment that is taken again may be held
// after its verdict, until the hold's timeout.
func (j *Judge) lookUpHolds(client tigerbeetle.Client) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ids []tb.Uint128
	for _, o := range j.journals {
		for _, r := range o.reports {
			if r.asPayee {
				of := ledger.IDsOf(r.id)
				ids = append(ids, of.Pending(1), of.Verdict())
			}
		}
	}
	transfers := map[tb.Uint128]tb.Transfer{}
	for chunk := range slices.Chunk(ids, eventsMax) {
		found, err := client.LookupTransfers(chunk)
		if err != nil {
			return err
		}
		for _, transfer := range found {
			transfers[transfer.ID] = transfer
		}
	}
	for _, o := range j.journals {
		o.reports = slices.DeleteFunc(o.reports, func(r report) bool {
			_, held := transfers[ledger.IDsOf(r.id).Pending(1)]
			return r.asPayee && !held
		})
		o.least = len(o.reports)
		for i := range o.reports {
			r := &o.reports[i]
			if !r.asPayee {
				continue
			}
			of := ledger.IDsOf(r.id)
			hold, verdict := transfers[of.Pending(1)], transfers[of.Verdict()]
			// Another engine may hold what this one has looked up and refuses. A hold that is older is one that
			// the look-up had to find.
			refused := verdict.PendingID != hold.ID && r.says != pix.ReasonPayeePSPSilent.String()
			raced := refused && verdict.Timestamp < hold.Timestamp+uint64(raceMax)
			if raced && hold.Timestamp < verdict.Timestamp {
				j.verdict.Raced++
			}
			r.optional = raced || hold.Timestamp > verdict.Timestamp || uint64(ledger.Centavos(hold.Amount)) != r.centavos //nolint:gosec // an amount
			if r.optional {
				o.least--
			}
		}
	}
	return nil
}

// raceMax is how long after another engine's hold a refusal may be written that was decided before it.
// Faults pause an engine for up to 20 s; its session and its requests take some seconds more.
const raceMax = 25 * time.Second

// eventsMax is the most that one request to the ledger may hold or return.
const eventsMax = 8189

// untold returns how many settlements a participant was not told yet, at least.
func (j *Judge) untold(bank pix.ISPB) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.journals[bank]
	if left := o.least - len(o.told); left > 0 {
		return left
	}
	told := map[settlement]int{}
	for _, s := range o.told {
		told[s]++
	}
	left := 0
	for _, r := range o.reports {
		if told[r.settlement]--; told[r.settlement] < 0 && !r.optional {
			left++
		}
	}
	return left
}

// concludeStream compares what a participant was told with the reports that concern it.
func (j *Judge) concludeStream(bank pix.ISPB, how string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.journals[bank]
	subject := fmt.Sprintf("settlements of %s, %s", bank, how)
	waiting, alike := map[settlement][]int{}, map[settlement]int{}
	for i, r := range o.reports {
		waiting[r.settlement] = append(waiting[r.settlement], i)
		alike[r.settlement]++
	}
	last := map[int32]report{}
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
				j.contradict(subject, "the settlements of a partition are not told in order", before.String(), s.String())
			}
			last[r.partition] = r
		case alike[s] > 0:
			j.contradict(subject, "it is told twice", "", s.String())
		default:
			j.contradict(subject, "no report that concerns the participant says so", "", s.String())
		}
	}
	for i, r := range o.reports {
		if !r.optional && slices.Contains(waiting[r.settlement], i) {
			j.contradict(subject, "it was never told", fmt.Sprintf("%s, partition %d, offset %d", r.settlement, r.partition, r.offset), "")
		}
	}
}
