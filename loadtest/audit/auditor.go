// Package audit proves from topics and ledger that every payment has exactly one outcome, and
// that every centavo came from bootstrap's funding and is where the payments moved it.
//
// It shares only the messages and the TigerBeetle client with the services. It derives ids and
// laws by itself, so that a bug in the shared packages cannot hide in it.
package audit

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Record is one record of a topic.
type Record struct {
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Seal      []byte // the record's header "seal": of responses
	Writer    int64  // the id that the broker gave to its producer: another one after each start
}

func (r Record) String() string { return fmt.Sprintf("%d/%d", r.Partition, r.Offset) }

// Auditor is the proof without I/O. Call, in this order: DeadLetter, Order, EndOfOrders,
// Report, Request, Answer, Account, Transfer, GroupLag, each for all there are, then Judge.
//
// It keeps about 250 bytes for each payment, and no record or transfer.
type Auditor struct {
	findings
	seed     maphash.Seed
	letters  map[coordinates]*letter
	payments []payment
	byKey    map[number128]uint32 // index into payments
	// conflicts are valid orders that have a dead letter DUPL, or LQ09: of other content or of the same.
	conflicts []conflict
	// conflicting are the contents of conflicts, by payment.
	conflicting map[number128][]content
	// returnConflicts are valid returns that have such a dead letter.
	returnConflicts []returnConflict
	returns         map[endToEndID]*paymentReturn
	verdicts        map[number128]*paymentReturn // by the id of the verdict
	originals       map[number128]*original
	burnt           map[number128]struct{} // slots with a mark that says so
	accounts        map[accountID]account
	expected        map[accountID]movement
	banks           map[accountID]funding // by the bank's transit account
	issued          money
	acts            acts
	population      population             // of the issuance account
	funded          map[accountID]struct{} // by the funding that the population asks for
	marked          bool                   // the marker was read
	deadline        time.Duration          // of the engines: the longest
	deadlineMin     time.Duration          // the shortest, if it was changed
	holdMax         time.Duration          // the longest timeout of holds
	shortDeadlines  []Interval             // times of deadlineMin; nil: all the time
	wrongClocks     []Interval
	takeOverGap     time.Duration
	answers         answers
	asked           asked
	repeats         repeats
	shortages       shortages
	questions       map[accountID]*openQuestions // by the receiving bank's transit account
	elsewhere       map[number128][]int32        // more partitions with records of an id
	committed       map[int32]int64
	drifts          map[accountID]drift // by wrong legs that were posted
	allowances      map[accountID]*allowance
	holdTimeout     uint32     // of the last leg 1, in seconds: leg 4 is in its chain
	lateRequests    []Interval // when requests to the ledger were late
	summary         Summary
}

// Summary counts what the audit read.
type Summary struct {
	Orders           int            `json:"orders"`
	Payments         int            `json:"payments"`
	Settled          int            `json:"settled"`
	SettledCentavos  money          `json:"settled_centavos"`
	Rejected         map[string]int `json:"rejected"`                 // by reason
	DeadLetters      map[string]int `json:"dead_letters"`             // by reason
	Answered         int            `json:"answered"`                 // outcomes with the sealed word of the payee's bank
	AnswersGone      int            `json:"answers_gone"`             // outcomes as old as the oldest response that is left: not checked
	AnswersUnread    string         `json:"answers_unread,omitempty"` // why responses could not be read: nothing was checked by them
	Returns          int            `json:"returns"`
	Returned         int            `json:"returned"`
	ReturnedCentavos money          `json:"returned_centavos"`
	ReturnsRejected  map[string]int `json:"returns_rejected"` // by reason
	RepeatedOrders   int            `json:"repeated_orders"`
	RepeatedReports  int            `json:"repeated_reports"`
	Requests         int            `json:"requests"`                  // questions to banks that the topic still keeps
	RequestsGone     int            `json:"requests_gone"`             // outcomes whose question is older than the oldest that is left: not checked
	RequestsUnread   string         `json:"requests_unread,omitempty"` // why they could not be read: nothing was checked by them
	TakeOvers        int            `json:"take_overs"`                // that repeated reports prove of one engine, at least
	Waited           int            `json:"waited"`                    // payments that waited for their deadline
	WaitedOnTime     int            `json:"waited_on_time"`            // of these, ended within 2 s
	ReasonsChecked   map[string]int `json:"reasons_checked"`           // refusals that follow from order and ledger
	ReasonsUnchecked map[string]int `json:"reasons_unchecked"`         // refusals that only the engine's settings or queues explain
	Acts             map[string]int `json:"acts"`                      // of the register, by kind
	Capped           int            `json:"capped"`                    // payments held with leg 4
	LeftOut          int            `json:"left_out,omitempty"`        // times that the Kafka client left records out, and they were fetched again
	Transfers        int            `json:"transfers"`
	Accounts         int            `json:"accounts"`
	IssuanceCentavos money          `json:"issuance_centavos"`
}

// Unread says which topics could not be read, so that a verdict about them is missing.
func (s Summary) Unread() (problems []string) {
	if s.AnswersUnread != "" {
		problems = append(problems, "the audit did not check the responses of banks: "+s.AnswersUnread)
	}
	if s.RequestsUnread != "" {
		problems = append(problems, "the audit did not check the requests to banks: "+s.RequestsUnread)
	}
	return problems
}

type coordinates struct {
	partition int32
	offset    int64
}

type letter struct {
	reason      string
	size        uint64
	payloadHash uint64
	keyHash     uint64
	last        int64 // of a batch that cannot be read
	met         bool  // its source record was read
}

type conflict struct {
	key     number128
	content content
	record  coordinates
	reason  string // of its dead letter
}

// payment is what the audit keeps about a payment.
type payment struct {
	id          endToEndID
	content     content
	contentHash uint64
	reportHash  uint64
	minutes     uint32
	reason      uint32 // of the report
	verdict     uint32 // reason in the ledger
	decidedAt   uint64 // the ledger's time of leg 1's post or void
	reported    bool
	settled     bool // by the report
	receipt     bool
	held        legs // pending transfers seen
	foreign     legs // of these, those of a conflicting message
	posted      legs
	voided      legs
	acceptedMs  int64 // Unix time, of the earliest record
	heldAt      uint64
	asked       bool // its bank was asked about it
	capLeg
	sending
}

// sending is what the records of pix.payments with one id and content have in common.
type sending struct {
	first  coordinates
	copies int   // records, the first among them
	sentMs int64 // Unix time of the earliest record, by its writer's clock
	// reports is how many there are, report the first.
	reports int
	report  delivery
}

func sendingOf(r Record) sending {
	return sending{first: coordinates{r.Partition, r.Offset}, copies: 1, sentMs: r.Time.UnixMilli()}
}

// sentAgain takes another record with an id.
func (a *Auditor) sentAgain(key number128, s *sending, r Record) {
	s.copies++
	s.sentMs = min(s.sentMs, r.Time.UnixMilli())
	a.inPartition(key, s, r.Partition)
}

// inPartition notes that a record with an id is in a partition, so messages about it may be there, too.
func (a *Auditor) inPartition(key number128, s *sending, partition int32) {
	if s.first.partition != partition && !slices.Contains(a.elsewhere[key], partition) {
		a.elsewhere[key] = append(a.elsewhere[key], partition)
	}
}

// place returns what is wrong with the key and the partition of a message about an order, or nil.
func (a *Auditor) place(key number128, s *sending, r Record, wanted endToEndID) error {
	switch {
	case string(r.Key) != string(wanted[:]):
		return fmt.Errorf("its key is %.64q, it must be %s", r.Key, wanted)
	case r.Partition != s.first.partition && !slices.Contains(a.elsewhere[key], r.Partition):
		return fmt.Errorf("it is in partition %d, its order in partition %d", r.Partition, s.first.partition)
	}
	return nil
}

// legs is a set of legs: bit n-1 is leg n.
type legs uint8

func (l legs) String() string {
	text := ""
	for leg := range 4 {
		if l&(1<<leg) != 0 {
			text += fmt.Sprint(leg + 1)
		}
	}
	if text == "" {
		return "none"
	}
	return text
}

const firstLeg legs = 1

func (p *payment) sameBank() bool { return transitOf(p.content.payer) == transitOf(p.content.payee) }

// legs returns the legs of the payment. Inside one bank there is no leg 2.
func (p *payment) legs() legs {
	if p.sameBank() {
		return 0b101
	}
	return 0b111
}

// settledInLedger reports whether all legs are posted.
func (p *payment) settledInLedger() bool {
	all := p.legs()
	return p.posted == all && p.held == all && p.voided == 0 && !p.receipt
}

// leg returns the accounts of a leg.
func (p *payment) leg(leg int) (debit, credit accountID) { return p.content.leg(leg) }

func (c content) leg(leg int) (debit, credit accountID) {
	switch leg {
	case 1:
		return c.payer, transitOf(c.payer)
	case 2:
		return reserveOf(c.payer), reserveOf(c.payee)
	}
	return transitOf(c.payee), c.payee
}

// moves reports whether a transfer is a leg of a payment with this content.
func (c content) moves(t tb.Transfer) bool {
	debit, credit := c.leg(int(t.Code))
	amount, ok := centavos(t.Amount)
	return ok && amount == c.centavos && fromTigerBeetle(t.DebitAccountID) == debit && fromTigerBeetle(t.CreditAccountID) == credit
}

// NewAuditor returns an auditor with room for this many orders: maps that grow take twice
// the memory.
func NewAuditor(orders int) *Auditor {
	return &Auditor{
		seed:        maphash.MakeSeed(),
		deadline:    40 * time.Second,
		deadlineMin: 40 * time.Second,
		takeOverGap: takeOverInterval,
		holdMax:     time.Minute,
		repeats:     repeats{},
		questions:   map[accountID]*openQuestions{},
		elsewhere:   map[number128][]int32{},
		committed:   map[int32]int64{},
		drifts:      map[accountID]drift{},
		allowances:  map[accountID]*allowance{},
		letters:     map[coordinates]*letter{},
		payments:    make([]payment, 0, orders),
		byKey:       make(map[number128]uint32, orders),
		conflicting: map[number128][]content{},
		accounts:    map[accountID]account{},
		expected:    map[accountID]movement{},
		banks:       map[accountID]funding{},
		returns:     map[endToEndID]*paymentReturn{},
		originals:   map[number128]*original{},
		burnt:       map[number128]struct{}{},
		funded:      map[accountID]struct{}{},
		summary: Summary{Acts: map[string]int{}, Rejected: map[string]int{}, DeadLetters: map[string]int{}, ReturnsRejected: map[string]int{},
			ReasonsChecked: map[string]int{}, ReasonsUnchecked: map[string]int{}},
	}
}

// forgedAnswer is what the dead letter of a response counts as: its record is not an order.
const forgedAnswer = "forged answer"

// DeadLetter takes a record of pix.dead-letters.
func (a *Auditor) DeadLetter(r Record) {
	var message pixv1.DeadLetter
	if err := proto.Unmarshal(r.Value, &message); err != nil {
		a.add(WrongDeadLetter, "dead letter "+r.String(), "undecodable: %v", err)
		return
	}
	if message.Partition != r.Partition {
		a.add(WrongDeadLetter, "dead letter "+r.String(), "it is in partition %d, its record in partition %d", r.Partition, message.Partition)
	}
	if message.Topic == answersTopic { // not a record of pix.payments
		a.summary.DeadLetters[forgedAnswer]++
		a.judgeForged(r, &message)
		return
	}
	if message.Topic != paymentsTopic {
		a.add(WrongDeadLetter, "dead letter "+r.String(), "it is about topic %q, but only %s may have dead letters", message.Topic, paymentsTopic)
		return
	}
	at := coordinates{message.Partition, message.Offset}
	a.judgeText(at, &message)
	l := letter{reason: message.ReasonCode, size: message.PayloadSizeBytes, payloadHash: maphash.Bytes(a.seed, message.Payload), keyHash: maphash.Bytes(a.seed, r.Key), last: message.LastOffset}
	if before := a.letters[at]; before != nil {
		switch {
		case before.size != l.size || before.payloadHash != l.payloadHash || before.last != l.last || before.keyHash != l.keyHash:
			a.add(WrongDeadLetter, at.String(), "two dead letters of this record hold different payloads or keys")
		case before.reason == tooManyReason:
			before.reason = l.reason // how many waited at one delivery says nothing about the next
		case before.reason != l.reason && l.reason != tooManyReason:
			a.add(WrongDeadLetter, at.String(), "two dead letters of this record differ: %s and %s", before.reason, l.reason)
		}
		return
	}
	switch message.ReasonCode {
	case codeMalformed, codeBadID, codeBadAcceptance, conflictReason, idTakenReason, tooManyReason:
	case unreadableReason:
		if message.LastOffset < message.Offset {
			a.add(WrongDeadLetter, at.String(), "it says %s and ends at offset %d", unreadableReason, message.LastOffset)
		}
	default:
		a.add(WrongDeadLetter, at.String(), "its reason %.64q is not a reason of dead letters", message.ReasonCode)
	}
	a.letters[at] = &l
	a.summary.DeadLetters[message.ReasonCode]++
}

const (
	conflictReason   = "DUPL"
	idTakenReason    = "LQ07"
	unreadableReason = "LQ08"
	tooManyReason    = "LQ09"
)

// Unreadable takes note that nothing can be read at an offset of pix.payments. If a dead letter
// says the same, it returns the offset to go on at.
func (a *Auditor) Unreadable(partition int32, offset int64) (next int64, known bool) {
	letter := a.letters[coordinates{partition, offset}]
	if letter == nil || letter.reason != unreadableReason {
		return 0, false
	}
	letter.met = true
	return letter.last + 1, letter.last >= offset
}

func (c coordinates) String() string {
	return fmt.Sprintf("record %d/%d of %s", c.partition, c.offset, paymentsTopic)
}

// Order takes a record of pix.payments.
func (a *Auditor) Order(r Record) {
	a.summary.Orders++
	at := coordinates{r.Partition, r.Offset}
	order, invalid := readOrder(r.Value, r.Time)
	letter := a.letters[at]
	if letter == nil {
		switch {
		case invalid != nil:
			a.add(NoDeadLetter, at.String(), "%v, but it has no dead letter", invalid)
		case order.back != nil:
			a.addReturn(order, r)
		default:
			a.addPayment(order, r)
		}
		return
	}
	letter.met = true
	if letter.reason == unreadableReason {
		a.add(WrongDeadLetter, at.String(), "its dead letter says %s, but it was read", unreadableReason)
		return
	}
	if letter.size != uint64(len(r.Value)) || letter.payloadHash != maphash.Bytes(a.seed, r.Value[:min(len(r.Value), deadLetterPayloadMax)]) {
		a.add(WrongDeadLetter, at.String(), "its dead letter holds another payload")
	}
	if letter.keyHash != maphash.Bytes(a.seed, r.Key[:min(len(r.Key), deadLetterKeyMax)]) {
		a.add(WrongDeadLetter, at.String(), "its dead letter has another key")
	}
	switch {
	case invalid == nil && letter.reason == idTakenReason:
		// Nothing in the clearing house makes this happen: somebody searched for it, or forged.
		a.add(IDsCollide, order.id.String(), "%v has a dead letter %s: the ledger holds another EndToEndId under its transfer ids", at, letter.reason)
	case invalid != nil && (letter.reason == conflictReason || letter.reason == idTakenReason || letter.reason == tooManyReason):
		a.add(WrongDeadLetter, at.String(), "its dead letter says %s, but it is not a payment at all: %v", letter.reason, invalid)
	case invalid != nil && !invalid.has(letter.reason):
		a.add(WrongDeadLetter, at.String(), "its dead letter says %s, it must say %s: %v", letter.reason, invalid.codes(), invalid)
	case invalid == nil && letter.reason != conflictReason && letter.reason != tooManyReason:
		a.add(WrongDeadLetter, order.id.String(), "%v is a valid payment, but it has a dead letter %s", at, letter.reason)
	case invalid == nil && order.back != nil:
		a.returnConflicts = append(a.returnConflicts, returnConflict{order.id, *order.back, at, letter.reason})
	case invalid == nil:
		key := paymentKey(order.id, order.minutes)
		a.conflicts = append(a.conflicts, conflict{key, order.content, at, letter.reason})
	}
}

// deadLetterKeyMax bounds the key of a dead letter, as the source's may be anything.
const deadLetterKeyMax = 256

func (a *Auditor) addPayment(o order, r Record) {
	key := paymentKey(o.id, o.minutes)
	index, known := a.byKey[key]
	if !known {
		a.byKey[key] = uint32(len(a.payments))
		a.payments = append(a.payments, payment{id: o.id, minutes: uint32(o.minutes), content: o.content, contentHash: o.hash, acceptedMs: o.acceptedMs, sending: sendingOf(r)})
		return
	}
	before := &a.payments[index]
	switch {
	case before.id != o.id:
		a.add(IDsCollide, o.id.String(), "its transfers have the ids of %s", before.id)
	case before.content != o.content:
		a.add(TwoContents, o.id.String(), "%v has other content than an earlier record, and neither has a dead letter", coordinates{r.Partition, r.Offset})
	default:
		before.acceptedMs = min(before.acceptedMs, o.acceptedMs)
		a.sentAgain(key, &before.sending, r)
		a.summary.RepeatedOrders++
	}
}

// EndOfOrders checks what only the whole topic shows.
func (a *Auditor) EndOfOrders() {
	a.summary.Payments = len(a.payments)
	a.endOfReturns()
	for _, c := range a.conflicts {
		a.conflicting[c.key] = append(a.conflicting[c.key], c.content)
		index, known := a.byKey[c.key]
		if !known {
			a.add(WrongDeadLetter, c.record.String(), "its dead letter says %s, but no other record with its EndToEndId is a payment", c.reason)
			continue
		}
		p := &a.payments[index]
		a.inPartition(c.key, &p.sending, c.record.partition)
		switch {
		case p.content != c.content:
		case c.reason == conflictReason:
			a.add(WrongDeadLetter, p.id.String(), "the dead letter of %v says %s, but its content is that of the payment", c.record, c.reason)
		default:
			p.copies++ // at another delivery it may have had a report
		}
	}
	for at, letter := range a.letters {
		if !letter.met {
			a.add(WrongDeadLetter, at.String(), "it has a dead letter %s, but it does not exist", letter.reason)
		}
	}
}

// Report takes a record of pix.settlements.
func (a *Auditor) Report(r Record) {
	var message pixv1.SettlementReport
	if err := proto.Unmarshal(r.Value, &message); err != nil {
		a.add(BadReport, "report "+r.String(), "undecodable: %v", err)
		return
	}
	if len(message.EndToEndId) > 0 && message.EndToEndId[0] == 'D' {
		a.returnReport(r, &message)
		return
	}
	id, minutes, err := parseEndToEndID(message.EndToEndId)
	if err == nil && message.OriginalEndToEndId != "" {
		err = fmt.Errorf("EndToEndId %s is of a payment, and the report names %.64q as its original", id, message.OriginalEndToEndId)
	}
	if err != nil {
		a.add(BadReport, "report "+r.String(), "%v", err)
		return
	}
	p := a.find(paymentKey(id, minutes))
	if p == nil || p.id != id {
		a.add(ReportWithoutOrder, id.String(), "report %v: no record of %s is its order", r, paymentsTopic)
		return
	}
	key := paymentKey(id, minutes)
	if err := a.place(key, &p.sending, r, id); err != nil {
		a.add(WrongPlace, id.String(), "report %v: %v", r, err)
	}
	a.repeats.saw(key, &p.sending, r)
	hash := maphash.Bytes(a.seed, r.Value)
	if p.reported {
		a.summary.RepeatedReports++
		if hash != p.reportHash {
			a.add(ReportsDiffer, id.String(), "report %v is not equal to an earlier one", r)
		}
		return
	}
	p.reported, p.reportHash = true, hash
	if content, err := readContent(message.Payer, message.Payee, message.AmountCentavos); err != nil || content != p.content {
		a.add(ReportedContent, id.String(), "report %v names another payer, payee or amount than the order", r)
	}
	reason, err := reasonNumber(message.ReasonCode)
	if err != nil {
		a.add(BadReport, id.String(), "report %v: %v", r, err)
	}
	p.reason = reason
	switch message.Status {
	case pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC:
		p.settled = true
		a.summary.Settled++
		a.summary.SettledCentavos = a.summary.SettledCentavos.plus(moneyOf(p.content.centavos))
		if reason != 0 {
			a.add(BadReport, id.String(), "report %v says settled, but with the reason %s", r, message.ReasonCode)
		}
		a.expectSettled(p)
	case pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT:
		a.summary.Rejected[message.ReasonCode]++
		if reason == 0 {
			a.add(BadReport, id.String(), "report %v says rejected, without a reason", r)
		}
	default:
		a.add(BadReport, id.String(), "report %v has the status %v", r, message.Status)
	}
}

func (a *Auditor) find(key number128) *payment {
	if index, known := a.byKey[key]; known {
		return &a.payments[index]
	}
	return nil
}

// Codes of transfers. Legs 1 to 3 have the codes 1 to 3.
const (
	codeReceipt    = 7
	codeFunding    = 9
	codeMarker     = 10
	codeReturnLeg1 = 11
	codeOrigin     = 15
	codeGivenUp    = 16
	codeReturn     = 17
	codeReturned   = 18
	codeClockProbe = 19
	codeBurnt      = 21
)

// resolutionRole is the role of leg 1's post or void, or of the receipt: the verdict.
// returnMarkRole is the role of the mark of a payment that has returns, burntMarkRole that of
// the mark of a burnt slot.
const (
	resolutionRole = 4
	returnMarkRole = 8
	burntMarkRole  = 9
)

// Transfer takes a transfer of the ledger.
func (a *Auditor) Transfer(t tb.Transfer) {
	if a.summary.Transfers == 0 {
		a.followAccounts()
	}
	a.summary.Transfers++
	a.shortages.take(t)
	switch t.Ledger {
	case ledgerNumber:
	case booksLedger:
		a.takeAct(t)
		return
	case allowanceLedger:
		a.takeAllowance(t)
		return
	default:
		a.add(UnexplainedMoney, transferName(t), "it is in ledger %d, but all money is in %d", t.Ledger, ledgerNumber)
		return
	}
	switch t.Code {
	case 1, 2, 3:
		a.takeLeg(t)
	case codeReturnLeg1, codeReturnLeg1 + 1, codeReturnLeg1 + 2:
		a.takeReturnLeg(t)
	case codeReturn:
		a.takeReturnVerdict(t)
	case codeReturned:
		a.takeReturnedMark(t)
	case codeBurnt:
		a.takeBurntMark(t)
	case codeReceipt:
		a.takeReceipt(t)
	case codeFunding:
		a.takeFunding(t)
	case codeLiquidityIn, codeLiquidityOut, codeDeposit, codeWithdrawal:
		a.takeActMoney(t)
	case codeMarker:
		a.takeMarker(t)
	case codeOrigin, codeGivenUp:
		a.takeName(t)
	case codeClockProbe:
		if t.Amount != (tb.Uint128{}) {
			a.add(UnexplainedMoney, transferName(t), "a transfer with code %d moves %s centavos, it must move none", t.Code, t.Amount)
		}
	default:
		a.add(UnexplainedMoney, transferName(t), "no kind of transfer has code %d", t.Code)
	}
}

func (a *Auditor) takeLeg(t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))
	p := a.find(key)
	if p == nil {
		a.add(UnexplainedMoney, transferName(t), "leg %d of a payment that is in no record of %s", t.Code, paymentsTopic)
		return
	}
	leg := int(t.Code)
	bit := firstLeg << (leg - 1)
	flags := t.TransferFlags()
	var cause *Finding // the last that is wrong with what it moves
	wrong := func(format string, arguments ...any) {
		cause = a.add(WrongTransfer, p.id.String(), "leg %d: %s", leg, fmt.Sprintf(format, arguments...))
	}
	of := p.content
	if flags.Pending && !of.moves(t) {
		for _, other := range a.conflicting[key] {
			if other.moves(t) {
				of = other
				p.foreign |= bit
				break
			}
		}
	}
	if debit, credit := of.leg(leg); fromTigerBeetle(t.DebitAccountID) != debit || fromTigerBeetle(t.CreditAccountID) != credit {
		wrong("it moves money from %s to %s", nameOf(fromTigerBeetle(t.DebitAccountID)), nameOf(fromTigerBeetle(t.CreditAccountID)))
	}
	amount, ok := centavos(t.Amount)
	if !ok || amount != of.centavos {
		wrong("its amount is %s centavos, the order's is %d", decimal(t.Amount), of.centavos)
	}
	if cause != nil && ok && flags.PostPendingTransfer {
		a.mislead(cause, fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID), amount, of, leg)
	}
	switch {
	case flags.Pending:
		if role != leg-1 {
			wrong("it is held with role %d", role)
		}
		if names, ispb := userData(p.id, uint64(p.minutes)); fromTigerBeetle(t.UserData128) != names || t.UserData64 != ispb {
			wrong("its user_data does not name the payment")
		}
		a.judgeHold(t, wrong)
		p.held |= bit
		if leg == 1 {
			p.heldAt, a.holdTimeout = t.Timestamp, t.Timeout
			a.ask(of.payee, t)
		}
		return
	case flags.PostPendingTransfer:
		p.posted |= bit
	case flags.VoidPendingTransfer:
		p.voided |= bit
	default:
		wrong("it is neither held nor resolved: flags %#x", t.Flags)
		return
	}
	if role != resolutionRole+leg-1 || fromTigerBeetle(t.PendingID) != key.role(leg-1) {
		wrong("its resolution has role %d and resolves %x", role, t.PendingID.Bytes())
	}
	if leg == 1 {
		p.verdict, p.decidedAt = t.UserData32, t.Timestamp
		a.answered(p.content.payee, fromTigerBeetle(t.PendingID), t.Timestamp)
		if o := a.originals[key]; o != nil && flags.PostPendingTransfer {
			o.settledAt = t.Timestamp
		}
	}
}

func (a *Auditor) takeReceipt(t tb.Transfer) {
	key, role := split(fromTigerBeetle(t.ID))
	p := a.find(key)
	if p == nil {
		a.add(UnexplainedMoney, transferName(t), "a receipt of a payment that is in no record of %s", paymentsTopic)
		return
	}
	p.receipt = true
	a.answered(p.content.payee, key, t.Timestamp) // its hold has expired
	p.verdict, p.decidedAt = t.UserData32, t.Timestamp
	wrong := func(format string, arguments ...any) {
		a.add(WrongTransfer, p.id.String(), "receipt: %s", fmt.Sprintf(format, arguments...))
	}
	debit, credit := fromTigerBeetle(t.DebitAccountID), fromTigerBeetle(t.CreditAccountID)
	ofPayer := debit == transitOf(p.content.payer) && credit == reserveOf(p.content.payer)
	if !ofPayer && (debit != issuance || credit != refusals) {
		wrong("it stands between %s and %s", nameOf(debit), nameOf(credit))
	}
	if t.Amount != (tb.Uint128{}) || t.Flags&^linkedFlag != 0 {
		wrong("it moves %s centavos with flags %#x, it must move none", decimal(t.Amount), t.Flags)
	}
	if role != resolutionRole {
		wrong("it has role %d", role)
	}
	if names, _ := userData(p.id, uint64(p.minutes)); fromTigerBeetle(t.UserData128) != names {
		wrong("its user_data does not name the payment")
	}
	if t.UserData64 != p.contentHash {
		wrong("it is about other content")
	}
	if t.UserData32 == 0 {
		wrong("it has no reason")
	}
	a.judgeAge(t, p.acceptedMs, wrong)
	a.checkBusy(t, p.content.payee, p.since(p.acceptedMs), wrong)
}

var linkedFlag = tb.TransferFlags{Linked: true}.ToUint16()

// Judge compares everything and returns the verdict. Call it once.
func (a *Auditor) Judge() Verdict {
	for i := range a.payments {
		a.judgePayment(&a.payments[i])
	}
	a.judgeReturns()
	a.judgeDeadlines()
	a.judgeRepeats()
	a.judgeFundings()
	a.judgeActs()
	a.judgeAllowances()
	a.judgeAccounts()
	a.summary.Accounts = len(a.accounts)
	a.summary.IssuanceCentavos = a.issued
	count, byKind := a.counts()
	return Verdict{Clean: count == 0, Summary: a.summary, FindingCount: count, ByKind: byKind, Findings: a.listed()}
}

func (a *Auditor) judgePayment(p *payment) {
	all := p.legs()
	if p.foreign != 0 {
		// A conflicting message came after the receipt, which phase 1 does not see. It may hold
		// money until its timeout; the receipt proves that it was never posted.
		if !p.receipt || p.held != 0b101 && p.held != 0b111 {
			a.add(LegsDisagree, p.id.String(), "the legs %v are held for a conflicting message; they must be complete and beside a receipt: %s", p.foreign, p.ledgerState())
		}
	} else if p.held != 0 && p.held != all {
		a.add(LegsDisagree, p.id.String(), "all legs %v or none must be held: %s", all, p.ledgerState())
	}
	decided := p.receipt || p.posted&firstLeg != 0 || p.voided&firstLeg != 0
	if !p.reported {
		a.add(NoOutcome, p.id.String(), "no report and no dead letter of %v (%s); in the ledger: %s", p.first, a.progress(p.first), p.ledgerState())
	}
	if !decided {
		if p.reported {
			a.add(NoVerdict, p.id.String(), "%s", p.ledgerState())
		}
		if p.posted|p.voided != 0 {
			a.add(LegsDisagree, p.id.String(), "%s", p.ledgerState())
		}
		return
	}
	a.judgeAsked(p.id, p.asked, p.posted&firstLeg != 0, p.voided&firstLeg != 0, p.verdict, p.heldAt)
	if p.receipt && p.posted|p.voided == 0 {
		a.judgeRefusal(p)
	}
	a.judgeAnswer(p.id, p.content.payee, p.posted&firstLeg != 0, p.voided&firstLeg != 0, p.verdict, p.decidedAt)
	settled := p.settledInLedger()
	a.judgeTerms(p)
	a.judgeCapLeg(p, settled)
	rejected := p.posted == 0 && (p.voided == all && p.held == all && !p.receipt || p.voided == 0 && p.receipt)
	switch {
	case !settled && !rejected:
		a.add(LegsDisagree, p.id.String(), "some legs are posted, not all: %s", p.ledgerState())
	case p.reported && p.settled != settled:
		a.add(LedgerDisagrees, p.id.String(), "reported as %s, but %s", p.outcome(), p.ledgerState())
	case p.reported && p.reason != p.verdict:
		a.add(LedgerDisagrees, p.id.String(), "reported with the reason %s, the ledger's is %s", reasonText(p.reason), reasonText(p.verdict))
	}
}

// progress says whether the engines have finished a record.
func (a *Auditor) progress(c coordinates) string {
	if committed, known := a.committed[c.partition]; known && c.offset >= committed {
		return fmt.Sprintf("the engines have not finished it: they are at offset %d", committed)
	}
	return "the engines have finished it"
}

func (p *payment) outcome() string {
	if p.settled {
		return "settled"
	}
	return "rejected " + reasonText(p.reason)
}

func (p *payment) ledgerState() string {
	receipt := "no receipt"
	if p.receipt {
		receipt = "a receipt"
	}
	return fmt.Sprintf("legs held %v, posted %v, voided %v, %s, reason %s", p.held, p.posted, p.voided, receipt, reasonText(p.verdict))
}

func transferName(t tb.Transfer) string {
	id := fromTigerBeetle(t.ID)
	return fmt.Sprintf("transfer %016x%016x", id.high, id.low)
}
