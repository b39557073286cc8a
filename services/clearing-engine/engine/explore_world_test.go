package engine

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/liquida/liquida/deploy/ledgermodel"
	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/register"
	"github.com/liquida/liquida/platform/settings"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/clearing-engine/metrics"
	"github.com/liquida/liquida/services/clearing-engine/room"
)

// plot is a small world whose every course is explored.
type plot struct {
	name     string
	messages []*message // the records of one partition
	// The clock jumps from one of these times to the next.
	times []time.Duration
	// How often an engine may die, and its partition may go to another engine while it goes on. With 2
	// answers the bank may both accept and reject one order.
	crashes, takeovers, answers int
	fundCentavos                uint64 // of the payer
	noPayee, noPayeePSP         bool
	settled                     *message // a payment that settled before
	suspended                   pix.ISPB
	suspendedLater              pix.ISPB // to engines that begin after the first death or take-over
	// From one of the times on, suspended is resumed, or suspendedThen is suspended. At another one
	// nobody can read the register. 0: never.
	resumedAt, suspendedAt, staleAt int
	suspendedThen                   pix.ISPB
	// The caps of the payer's bank: on a payment, and on outflow, from cappedAt on.
	paymentCap, outflowCap int64
	cappedAt               int

	readings map[readAt]known // see read
}

// readAt is when an engine reads the register, and whether it began after a death or a take-over.
type readAt struct {
	time  int
	later bool
}

const capSeconds = 120 // longer than a hold

// known is what an engine knows of the register. It never changes.
type known struct {
	state *register.State
	fresh bool
}

func (k known) Current() (*register.State, bool) { return k.state, k.fresh }

// read returns what an engine reads in the register now. later: it began after a death or a take-over.
func (s *state) read(later bool) known {
	at := readAt{s.time, later}
	if _, done := s.readings[at]; !done {
		s.readings[at] = s.readAnew(later)
	}

	return s.readings[at]
}

func (s *state) readAnew(later bool) known {
	var acts []ledger.Act

	act := func(kind ledger.ActKind, bank pix.ISPB) {
		acts = append(acts, ledger.Act{Kind: kind, Bank: bank, ByCentralBank: true})
	}
	if s.suspended != "" {
		act(ledger.Suspended, s.suspended)
	}

	if s.suspendedLater != "" && later {
		act(ledger.Suspended, s.suspendedLater)
	}

	if s.resumedAt > 0 && s.time >= s.resumedAt {
		act(ledger.Resumed, s.suspended)
	}

	if s.suspendedAt > 0 && s.time >= s.suspendedAt {
		act(ledger.Suspended, s.suspendedThen)
	}

	if s.paymentCap > 0 {
		acts = append(acts, ledger.Act{Kind: ledger.PaymentCapped, Bank: payer.ISPB, Centavos: s.paymentCap})
	}

	if s.outflowCap > 0 && s.time >= s.cappedAt {
		acts = append(acts, ledger.Act{Kind: ledger.DayCapped, Bank: payer.ISPB, Centavos: s.outflowCap,
			WindowSeconds: capSeconds})
	}

	if len(acts) > 0 {
		acts = append(acts, ledger.Act{Kind: ledger.Joined, Bank: payer.ISPB})
	}

	return known{register.After(acts...), s.staleAt == 0 || s.time != s.staleAt}
}

// message is a record of pix.payments.
type message struct {
	id      pix.EndToEndID // of the payment, or the RtrId
	name    tb.Uint128     // the id, as transfers name it
	content pix.Content    // of a return: what it moves
	// returned is of a return.
	returned *pix.ReturnContent
	at       time.Duration
	record   *kgo.Record
}

// hash is what a receipt keeps of the content.
func (m *message) hash() uint64 {
	if m.returned != nil {
		return m.returned.Hash()
	}

	return m.content.Hash()
}

var (
	dawn      = time.Date(2026, 11, 21, 12, 0, 0, int(time.Second/2), time.UTC) // no limit is met within a second
	payer     = pix.Account{ISPB: "10000001", Branch: "0001", Number: "1"}
	payee     = pix.Account{ISPB: "10000002", Branch: "0001", Number: "2"}
	neighbour = pix.Account{ISPB: "10000001", Branch: "0001", Number: "3"} // at the payer's bank
)

const fundsCentavos = 1000

func pays(id pix.EndToEndID, to pix.Account, centavos uint64, at time.Duration) *message {
	m := &message{id: id, at: at, content: pix.Content{Payer: payer, Payee: to, AmountCentavos: centavos}}

	return m.of(&pixv1.PaymentOrder{
		EndToEndId: id.String(), AcceptedAtUnixMs: dawn.Add(at).UnixMilli(), AmountCentavos: centavos,
		Payer: account(payer.ISPB, payer.Number), Payee: account(to.ISPB, to.Number),
	}, id)
}

func givesBack(id pix.EndToEndID, original *message, centavos uint64, at time.Duration) *message {
	m := &message{id: id, at: at, content: ledger.Backwards(original.content, centavos),
		returned: &pix.ReturnContent{Original: original.id, AmountCentavos: centavos, Reason: pix.MustReason("MD06")}}

	return m.of(&pixv1.PaymentOrder{ReturnOrder: &pixv1.ReturnOrder{
		ReturnId: id.String(), OriginalEndToEndId: original.id.String(), AmountCentavos: centavos, ReasonCode: "MD06",
		AcceptedAtUnixMs: dawn.Add(at).UnixMilli(),
	}}, original.id)
}

// again returns a copy of a message: another record.
func (m *message) again() *message {
	copied, record := *m, *m.record
	copied.record = &record
	return &copied
}

func (m *message) of(order *pixv1.PaymentOrder, key pix.EndToEndID) *message {
	value, err := order.MarshalVT()
	if err != nil {
		panic(err)
	}
	m.name = ledger.AppendReceipt(nil, m.id, m.content, pix.ReasonNone, true)[0].UserData128
	m.record = &kgo.Record{Topic: stream.Payments, Key: []byte(key.String()), Value: value, Timestamp: dawn.Add(m.at)}

	return m
}

// state is one state of a plot. It is never changed: what happens makes another one.
type state struct {
	*plot
	ledger            *ledgermodel.Ledger
	books             *books
	time              int
	engines           [2]*actor // nil: it is not there
	owner             int       // of the partition; the other engine is a zombie
	committed         int64
	hint              string
	asked             uint64            // messages about which the bank was asked, one bit each
	said              uint64            // answers of the bank, see answerBit
	ended             uint64            // records whose offset may be committed
	letters           map[int64]string  // dead letters, by offset
	reports           map[string]string // by id
	crashes, takeover int               // so far
	broken            string
}

// actor is an engine with the partition.
type actor struct {
	state *state // which made it; a later state that shares it copies it before a change
	p     *partition
	next  int64    // offset
	jobs  []job    // whose results have not come back yet
	sent  []func() // acknowledgements of records that this event has produced
	// One bit for each record: it has arrived; a report of its id was made since.
	arrived, told   uint64
	finished, saved uint64 // its offset is finished; a commit said so

	later       bool   // it began after a death or a take-over
	description string // empty until it is needed
}

// job is something that a partition asked for.
type job struct {
	event     event
	transfers []tb.Transfer
	ids       []tb.Uint128
	rules     uint64
	done      bool // event is its result
	doneAt    int  // time
}

var (
	exploredConfig  *Config
	exploredMetrics *metrics.Metrics
)

func newActor(s *state) *actor {
	c := &common{
		config: exploredConfig, pendingTimeoutSeconds: uint32(exploredConfig.PendingTimeout / time.Second),
		log: zap.NewNop(),
		room: room.New(room.Limits{Payments: 1000, Working: 1000, Bytes: 1 << 20, PSPShare: 0.25, PayerShare: 0.1},
			dawn), metrics: exploredMetrics,
	}
	a := &actor{state: s, next: s.committed, later: s.crashes+s.takeover > 0}
	c.register = s.read(a.later)
	a.p = newPartition(c, a, 0, stream.ReadHint(s.committed, s.hint), true)

	return a
}

func (s *state) now() time.Time { return dawn.Add(s.times[s.time]) }

// The effects of a partition.

func (a *actor) write(_ *partition, f *flight, chain []tb.Transfer, rules uint64) {
	a.jobs = append(a.jobs, job{event: event{kind: written, flight: f}, transfers: slices.Clone(chain), rules: rules})
}

func (a *actor) lookUp(_ *partition, f *flight, ids []tb.Uint128) {
	a.jobs = append(a.jobs, job{event: event{kind: inspected, flight: f}, ids: slices.Clone(ids)})
}

func (a *actor) lookUpAccounts(_ *partition, f *flight, ids []tb.Uint128) {
	a.jobs = append(a.jobs, job{event: event{kind: diagnosed, flight: f}, ids: slices.Clone(ids)})
}

func (a *actor) fetchAgain(_ *partition, offset int64) {
	a.jobs = append(a.jobs, job{event: event{kind: fetchedAgain, record: a.state.messages[offset].record}, done: true})
}

func (a *actor) nameFirst(*partition) { a.state.breaks("a named log is named again") }

func (a *actor) fail(err error) { a.state.breaks("an engine stops: %v", err) }

// produce stores a record at once. An engine that dies before Kafka has stored it leaves what an
// engine leaves that dies before this event. Its acknowledgement comes when it comes: after this
// event at the earliest.
func (a *actor) produce(record *kgo.Record, acknowledged func()) {
	a.state.stored(a, record)
	a.sent = append(a.sent, acknowledged)
}

// await makes a job of each acknowledgement to come, and of what the partition told itself.
func (a *actor) await() {
	for _, result := range a.p.inbox.take(nil) {
		if result.kind == reported || result.kind == deadLettered {
			a.state.breaks("a record counts as stored before Kafka has acknowledged it")
		}
		a.jobs = append(a.jobs, job{event: result, done: true})
	}

	for _, acknowledged := range a.sent {
		acknowledged()
	}

	a.sent = nil
	for _, result := range a.p.inbox.take(nil) {
		a.jobs = append(a.jobs, job{event: result, done: true})
	}
}

func (s *state) breaks(format string, arguments ...any) {
	s.broken = cmp.Or(s.broken, fmt.Sprintf(format, arguments...))
}

// move is what happens next. of and job choose among those of its kind.
type move struct {
	kind     moveKind
	of, job  int
	accepted bool
}

type moveKind uint8

const (
	arrives  moveKind = iota // the next record
	carries                  // the ledger carries a job out
	delivers                 // a job's result comes back
	ticks
	commits
	leaves // a zombie notices that it is one
	passes // time
	// From here on it is not sure to happen.
	hears // an answer of the bank, now or again
	crashes
	takesOver
)

var moveNames = [...]string{"fetches a record", "job is carried out by the ledger", "job's result comes back", "ticks",
	"commits", "notices that it lost its partition",
	"time passes", "reads the bank's answer", "dies and starts again",
	"keeps on, but its partition goes to another engine"}

func (m move) certain() bool { return m.kind < hears }

// moves returns all that may happen next, until nothing that happens counts.
func (s *state) moves() (all []move) {
	if s.hasEnded() {
		return nil
	}

	if all = s.movesOfResult(); all != nil {
		return all
	}

	for i, a := range s.engines {
		if a == nil {
			continue
		}

		if a.next < int64(len(s.messages)) && s.messages[a.next].at <= s.times[s.time] {
			all = append(all, move{kind: arrives, of: i})
		}

		for j := range a.jobs {
			kind := delivers
			if !a.jobs[j].done {
				kind = carries
			}
			all = append(all, move{kind: kind, of: i, job: j})
		}

		for j, m := range s.messages {
			if s.asked&(1<<j) == 0 || a.p.flights[m.id] == nil {
				continue
			}

			for _, accepted := range []bool{true, false} {
				if said := s.said | answerBit(j, accepted); said == s.said ||
					bits.OnesCount64(said&(3<<(2*j))) <= s.answers {
					all = append(all, move{kind: hears, of: i, job: j, accepted: accepted})
				}
			}
		}
		_, fresh := s.read(a.later).Current()

		due := fresh && len(a.p.stale) > 0
		for _, f := range a.p.flights {
			due = due || f.payment.WaitsForBank() && !s.now().Before(f.payment.DueAt())
		}

		if due {
			all = append(all, move{kind: ticks, of: i})
		}

		switch {
		case i != s.owner: // one that goes on as if it had left is already there, so it leaves in the end
			if s.ownerIsDone() {
				all = append(all, move{kind: leaves, of: i})
			}

			continue
		case a.finished != a.saved &&
			(s.crashes < s.plot.crashes || s.takeover < s.takeovers ||
				a.p.offsets.stretches[0].next == int64(len(s.messages))):
			all = append(all, move{kind: commits, of: i}) // where nobody may begin at it, only the last one counts
		}

		if s.crashes < s.plot.crashes {
			all = append(all, move{kind: crashes, of: i})
		}

		if s.takeover < s.takeovers {
			all = append(all, move{kind: takesOver, of: i})
		}
	}

	if s.time+1 < len(s.times) {
		all = append(all, move{kind: passes})
	}

	return all
}

// movesOfResult returns what may happen when the ledger has just carried a job out: its result comes
// back, time passes first, or the engine dies. All else would do the same before the job, for no
// job depends on it, or after the result.
func (s *state) movesOfResult() []move {
	for i, a := range s.engines {
		for j := 0; a != nil && j < len(a.jobs); j++ {
			job := &a.jobs[j]
			if !job.done || job.doneAt != s.time || job.event.flight == nil || job.event.kind == reported {
				continue
			}

			all := []move{{kind: delivers, of: i, job: j}}
			if s.time+1 < len(s.times) {
				all = append(all, move{kind: passes})
			}

			if i == s.owner && s.crashes < s.plot.crashes {
				all = append(all, move{kind: crashes, of: i})
			}

			return all
		}
	}

	return nil
}

// after returns the state to which a move leads. last: nothing else will happen in s, so next changes
// what only s has, without a copy.
func (s *state) after(m move, last bool) (next *state) {
	n := *s
	next = &n
	defer func() {
		if law := recover(); law != nil {
			next.breaks("%v", law)
		}
	}()
	act := func(do func(a *actor)) {
		a := s.engines[m.of]
		if !last || a.state != s {
			a = a.copy()
		}
		a.state, next.engines[m.of] = next, a
		a.p.engine.on.Now, a.p.engine.register = next.now, next.read(a.later)
		do(a)
		a.await()
		next.checkFinished(a)
		a.description = ""
	}

	switch m.kind {
	case arrives:
		act((*actor).fetch)
	case carries:
		act(func(a *actor) { a.carryOut(m.job) })
	case delivers:
		act(func(a *actor) {
			result := a.jobs[m.job].event
			a.jobs = slices.Delete(a.jobs, m.job, m.job+1)
			a.p.handle(&result, next.now())
		})
	case hears:
		r := response{id: next.messages[m.job].id, psp: next.messages[m.job].content.Payee.ISPB, accepted: m.accepted}
		if !m.accepted {
			r.reason, r.code = pix.ReasonPayeeBlocked, pix.ReasonPayeeBlocked
		}
		next.said |= answerBit(m.job, m.accepted)
		act(func(a *actor) { a.p.handle(&event{kind: responded, response: r}, next.now()) })
	case ticks:
		act(func(a *actor) {
			a.p.engine.room.Age(next.now())
			a.p.tick(next.now())
		})
	case commits:
		act(func(a *actor) { next.commit(a) })
	case leaves:
		act(func(a *actor) {
			a.p.forget()
			next.checkEmpty(a)
		})
		next.engines[m.of] = nil
	case passes:
		next.time++
		next.ledger = next.ledger.Clone()
		_ = next.ledger.ConnectAt(next.now).Nop() // what expires expires now
		next.audit()
	case crashes:
		next.crashes++
		next.engines[m.of] = newActor(next)
	case takesOver:
		next.takeover++
		next.owner = 1 - m.of
		next.engines[next.owner] = newActor(next)
	}

	for _, a := range next.engines {
		if last && a != nil && a.state == s {
			a.state = next
		}
	}

	return next
}

func (a *actor) fetch() {
	record := a.state.messages[a.next].record
	a.arrived |= 1 << a.next
	a.next++
	a.p.admit([]*kgo.Record{record})

	for _, arrival := range a.p.inbox.take(nil) {
		a.p.handle(&arrival, a.state.now())
	}
}

// carryOut makes the ledger carry a job out. The result waits to be delivered.
func (a *actor) carryOut(number int) {
	j := &a.jobs[number]

	next := a.state
	if j.event.kind == written { // a look-up changes nothing
		next.ledger = next.ledger.Clone()
	}
	client := next.ledger.ConnectAt(next.now)
	var err error

	switch j.done, j.doneAt = true, next.time; j.event.kind {
	case written:
		if state, fresh := a.p.engine.register.Current(); j.rules != 0 && (!fresh || j.rules != state.Rules) {
			j.event.result = ledger.Result{Unsent: true}
			break
		}
		var failures []tb.TransferEventResult
		failures, err = client.CreateTransfers(j.transfers)
		j.event.result = ledger.ResultOf(j.transfers, 0, failures)
		next.audit()
	case inspected:
		j.event.transfers, err = client.LookupTransfers(j.ids)
	case diagnosed:
		j.event.accounts, err = client.LookupAccounts(j.ids)
		for i := range j.event.accounts { // only whether they exist is asked
			j.event.accounts[i] = tb.Account{ID: j.event.accounts[i].ID}
		}
	}

	if err != nil {
		next.breaks("the ledger: %v", err)
	}
	j.transfers, j.ids = nil, nil
}

func (s *state) commit(a *actor) {
	c, _ := a.p.offsets.toCommit()
	if c.next < s.committed {
		s.breaks("the commit goes back from %d to %d", s.committed, c.next)
	}

	held := stream.ReadHint(c.next, c.hint)
	for offset := range int64(len(s.messages)) {
		if (offset < c.next || held.Holds(offset)) && s.ended&(1<<offset) == 0 {
			s.breaks("the commit passes the record at offset %d, which has not ended", offset)
		}
	}
	s.committed, s.hint, a.saved = c.next, c.hint, a.finished
}

// answerBit is set once the bank has given an answer about a message. An engine may read answers in
// any order, late and repeatedly: more than a topic allows.
func answerBit(message int, accepted bool) uint64 {
	if accepted {
		return 1 << (2 * message)
	}

	return 2 << (2 * message)
}

// hasEnded reports whether nothing more has to happen.
func (s *state) hasEnded() bool { return s.ownerIsDone() && s.engines[1-s.owner] == nil }

func (s *state) ownerIsDone() bool {
	return s.committed == int64(len(s.messages)) && len(s.engines[s.owner].jobs) == 0
}

// begin returns a plot's first state.
func (p *plot) begin(t *testing.T) *state {
	t.Helper()
	p.readings = map[readAt]known{}
	s := &state{plot: p, ledger: ledgermodel.New(), letters: map[int64]string{}, reports: map[string]string{}}
	client := s.ledger.ConnectAt(func() time.Time { return dawn.Add(-time.Hour) })
	ids := []ledger.AccountID{ledger.IssuanceAccount, ledger.RefusalsAccount, ledger.CustomerAccount(payer),
		ledger.CustomerAccount(neighbour)}

	banks := []pix.ISPB{payer.ISPB, payee.ISPB}
	if p.noPayeePSP {
		banks = banks[:1]
	}

	for _, bank := range banks {
		ids = append(ids, ledger.ReserveAccount(bank), ledger.TransitAccount(bank))
	}

	if !p.noPayee && !p.noPayeePSP {
		ids = append(ids, ledger.CustomerAccount(payee))
	}

	var accounts []tb.Account
	for _, id := range ids {
		accounts = append(accounts, ledger.NewAccount(id))
	}

	funds := []tb.Transfer{{DebitAccountID: ledger.TransitAccount(payer.ISPB),
		CreditAccountID: ledger.CustomerAccount(payer), Amount: tb.ToUint128(p.fundCentavos)}}
	for _, bank := range banks {
		funds = append(funds, tb.Transfer{DebitAccountID: ledger.IssuanceAccount,
			CreditAccountID: ledger.ReserveAccount(bank), Amount: tb.ToUint128(fundsCentavos)})
	}

	for i := range funds {
		funds[i].ID, funds[i].Ledger, funds[i].Code = funds[i].CreditAccountID, ledger.Ledger, ledger.CodeFunding
	}

	if p.outflowCap > 0 {
		day := ledger.AllowanceAccount(payer.ISPB, ledger.Day)
		accounts = append(accounts, ledger.NewAccount(ledger.AllowanceSourceAccount), ledger.NewAccount(day))
		funds = append(funds, tb.Transfer{ID: day, DebitAccountID: ledger.AllowanceSourceAccount, CreditAccountID: day,
			Amount: tb.ToUint128(uint64(p.outflowCap)), Ledger: ledger.Allowances, Code: ledger.CodeAdjustment})
	}

	if p.settled != nil {
		funds = append(funds, ledger.AppendReserve(nil, p.settled.id, p.settled.content, 60)...)
		funds = append(funds, ledger.AppendPost(nil, p.settled.id, p.settled.content.SameBank())...)
	}

	if failures, err := client.CreateAccounts(accounts); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}

	if failures, err := client.CreateTransfers(funds); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}

	if exploredConfig == nil {
		exploredConfig = &Config{}

		exploredConfig.Telemetry.Address = "127.0.0.1:9103"
		if err := settings.Parse(exploredConfig); err != nil {
			t.Fatal(err)
		}
		exploredMetrics = metrics.New(prometheus.NewRegistry(), room.New(room.Limits{}, dawn),
			chainNames[chainReserve:])
	}

	for i, m := range p.messages {
		m = m.again() // plots share messages
		p.messages[i], m.record.Offset = m, int64(i)
		// then it does not count how long the hops of others took, so describe leaves that out
		for _, at := range p.times {
			if age := at - m.at; age > exploredConfig.Deadline/2 && age <= exploredConfig.Deadline {
				t.Fatalf("at %s LQ10 would depend on the pace", at)
			}
		}
	}
	s.audit()
	s.engines[0] = newActor(s)

	return s
}

// key is equal in two states that go on equally.
func (s *state) key(buffer []byte) []byte {
	d := describer{text: buffer}
	for _, n := range []uint64{uint64(s.time), uint64(s.owner), uint64(s.committed), s.asked, s.said, s.ended,
		uint64(s.crashes), uint64(s.takeover)} {
		d.number(n)
	}

	texts := []string{s.hint, s.books.state}
	for _, offset := range slices.Sorted(maps.Keys(s.letters)) {
		d.number(uint64(offset))
		texts = append(texts, s.letters[offset])
	}

	for _, id := range slices.Sorted(maps.Keys(s.reports)) {
		texts = append(texts, id, s.reports[id])
	}

	for _, a := range s.engines {
		if a == nil {
			texts = append(texts, "")
			continue
		}

		if a.description == "" {
			a.description = a.describe()
		}
		texts = append(texts, a.description)
	}

	for _, text := range texts {
		d.number(uint64(len(text)))
		d.text = append(d.text, text...)
	}

	return d.text
}

// tell says in words what a move does.
func (s *state) tell(m move) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%6s  ", s.times[s.time])

	if m.kind != passes {
		fmt.Fprintf(&text, "engine %d: ", m.of)
	}
	text.WriteString(moveNames[m.kind])

	switch m.kind {
	case arrives:
		fmt.Fprintf(&text, ": offset %d", s.engines[m.of].next)
	case hears:
		fmt.Fprintf(&text, " about %s: accepted %t", s.messages[m.job].id, m.accepted)
	case passes:
		fmt.Fprintf(&text, ": %s", s.times[s.time+1])
	case commits:
		fmt.Fprintf(&text, " %d", s.engines[m.of].p.offsets.stretches[0].next)
	case carries, delivers:
		j := s.engines[m.of].jobs[m.job]
		fmt.Fprintf(&text, ": %s",
			[...]string{written: "chain", inspected: "look-up", diagnosed: "look-up of accounts",
				fetchedAgain: "record", reported: "acknowledgement",
				deadLettered: "acknowledgement of a dead letter"}[j.event.kind])

		if f := j.event.flight; f != nil {
			fmt.Fprintf(&text, " of %s at offset %d %s", f.payment.Order.ID, f.record.Offset, chainNames[f.writing])
		}

		if j.done && j.event.kind == written {
			fmt.Fprintf(&text, ", %s at transfer %d", j.event.result.Status, j.event.result.Index)
		}
	}

	return text.String()
}

func fixedID(n uint64) pix.EndToEndID {
	return pix.NewEndToEndID(payer.ISPB, dawn, rand.New(rand.NewPCG(n, n)))
}

func fixedReturnID(n uint64) pix.EndToEndID {
	return pix.EndToEndID(pix.NewReturnID(payee.ISPB, dawn, rand.New(rand.NewPCG(n, n))))
}
