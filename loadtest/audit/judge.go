// Package audit proves from topics and ledger that every payment has exactly one outcome, and
// that every centavo came from bootstrap's funding and is where the payments moved it.
//
// It shares only the messages and the TigerBeetle client with the services. It derives ids and
// laws by itself, so that a bug in the shared packages cannot hide in it.
package audit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// Judge judges payments, without I/O. It takes the records of topics and the transfers of the ledger.
//
// The judge of a whole history gets it in this order: DeadLetter, Order, EndOfOrders, Report, Request,
// Answer, Account, Transfer, GroupLag, each for all there are, then Judge. It keeps about 400 bytes for each
// payment, and no record or transfer. Only it applies what needs all that was before, or the settings of the
// engines: reasons, terms, deadlines, balances.
//
// A judge that follows (Follow) takes the streams while payments happen, in bounded memory: see follow.go.
type Judge struct {
	findings
	config    Config
	whole     bool // all since record 0 is known, and the topics before the ledger
	seed      maphash.Seed
	payments  map[spec.Number]*payment // by key
	all       []*payment               // of a whole history, in the order of their first records
	letters   map[source.Coordinates]*letter
	originals map[spec.Number]*givenBack
	burnt     map[spec.Number]struct{} // slots with a mark that says so
	books     books
	acts      acts
	answers   answers
	asked     asked
	repeats   map[int64][]span // by the writer of the reports
	shortages shortages

	allowances  map[spec.AccountID]*allowance
	rebuild     rebuild
	holdTimeout uint32 // of the last leg 1, in seconds: leg 4 is in its chain
	summary     Summary
	following
}

// Config says what to audit.
type Config struct {
	// Kafka says how to connect. The caller gives it, because the audit shares no code.
	Kafka  []kgo.Opt
	Ledger tigerbeetle.Client
	// Wait is the longest wait until no payment is in flight. A hold that nobody resolves ends
	// by the ledger's own timeout.
	Wait time.Duration
	// Deadline is that of the engines; 0 is the default, 40 s. If it was changed, it is the longest
	// one, and DeadlineMin the shortest.
	Deadline, DeadlineMin time.Duration
	// ShortDeadlines are the times in which an engine had DeadlineMin; nil: all the time.
	ShortDeadlines []Interval
	// HoldMax is the longest timeout of holds; 0 is the default, 60 s.
	HoldMax time.Duration
	// WrongClocks are times in which an engine's clock was more than 2 s off: deadlines of orders that
	// were open then are not judged.
	WrongClocks []Interval
	// TakeOverInterval is the least time between two take-overs by one engine, besides a few; 0 is the
	// default, 1 s. A broker that forgets members takes their partitions more often.
	TakeOverInterval time.Duration
	// LateRequests are times in which an engine was frozen or cut off from the ledger: what it had sent
	// came later, decided by the register of before.
	LateRequests []Interval
	// Secrets are the banks' keys; nil: it is not checked that banks said what became of payments.
	Secrets Secrets
	// Behind returns where to go on in a partition in which no client can read at an offset, or 0 if one
	// can, and whether what is there was aborted. Banks write responses: without it, one such batch leaves
	// all of them unchecked.
	Behind source.Behind
	// Log is called with what the audit does.
	Log func(format string, arguments ...any)
}

const holdMaxDefault = time.Minute

// Interval is a time by the ledger's clock.
type Interval struct{ From, To time.Time }

// newJudge returns the judge of a whole history.
func newJudge(config Config) *Judge {
	config.Deadline = cmp.Or(config.Deadline, 40*time.Second)
	config.DeadlineMin = cmp.Or(config.DeadlineMin, config.Deadline)
	config.HoldMax = cmp.Or(config.HoldMax, holdMaxDefault)
	config.TakeOverInterval = cmp.Or(config.TakeOverInterval, takeOverInterval)

	return &Judge{
		config:     config,
		whole:      true,
		seed:       maphash.MakeSeed(),
		payments:   map[spec.Number]*payment{},
		letters:    map[source.Coordinates]*letter{},
		originals:  map[spec.Number]*givenBack{},
		burnt:      map[spec.Number]struct{}{},
		books:      newBooks(),
		acts:       acts{map[spec.AccountID]*bankTerms{}, map[spec.AccountID]uint64{}, map[spec.Number]tb.Transfer{}},
		repeats:    map[int64][]span{},
		allowances: map[spec.AccountID]*allowance{},
		following:  following{partitions: map[int32]*partition{}},
		summary: Summary{Acts: map[string]int{}, Rejected: map[string]int{}, DeadLetters: map[string]int{},
			ReturnsRejected: map[string]int{},
			ReasonsChecked:  map[string]int{}, NotChecked: map[string]int{}},
	}
}

// Order takes a record of pix.payments.
func (j *Judge) Order(r source.Record) {
	j.summary.Orders++
	o, invalid := spec.ReadOrder(r.Value, r.Time)
	sent := sent{copied: j.copied(uint64(len(r.Value)), r.Value[:min(len(r.Value), deadLetterPayloadMax)],
		r.Key[:min(len(r.Key), deadLetterKeyMax)]), at: r.At(), order: &o, flaws: invalid,
		sentMs: r.Time.UnixMilli()}

	letter := j.letters[sent.at]
	if letter != nil {
		letter.met = true
		j.judgeLetter(&sent, letter)
	}

	if invalid == nil && (letter == nil || letter.ofOrder()) {
		sent.payment = j.payment(spec.PaymentKey(o.ID, o.Minutes))
		j.addOrder(sent.payment, claim{Order: o, at: sent.at}, letter, sent.sentMs)
	}

	if !j.whole {
		j.await(sent)
	} else if letter == nil && invalid != nil {
		j.add(NoDeadLetter, sent.at.String(), "%v, but it has no dead letter", invalid)
	}
}

// addOrder takes an order under the key of a payment.
func (j *Judge) addOrder(p *payment, c claim, letter *letter, sentMs int64) {
	if p.ID == (spec.ID{}) {
		p.ID, p.Minutes = c.ID, c.Minutes // for its name
	}

	switch {
	case letter != nil:
		c.letter = letter.reason
		p.addClaim(c, j.whole)
	case p.adopted && !p.Same(&c.Order): // the ledger has said which is the payment
		p.addClaim(c, false)
	case p.copies == 0:
		p.Order, p.adopted = c.Order, false
		p.first, p.copies, p.sentMs = c.at, 1, sentMs
	case p.ID != c.ID:
		j.add(IDsCollide, c.ID.String(), "its transfers have the ids of %s", p.ID)
	case p.Same(&c.Order):
		// Equal copies may have different acceptance times. The earliest is the most lenient.
		p.AcceptedMs = min(p.AcceptedMs, c.AcceptedMs)
		p.copies++
		p.sentMs = min(p.sentMs, sentMs)
		p.spread = p.spread || c.at.Partition != p.first.Partition
		j.summary.RepeatedOrders++
	case j.whole:
		j.add(TwoContents, p.ID.String(),
			"%v has another content than an earlier record, and neither has a dead letter", c.at)
	default: // the ledger, or a dead letter that is not read yet, says which is the payment
		p.addClaim(c, false)
	}
}

// place returns what is wrong with the key and the partition of a message about an order, or nil. The key is the
// payment's id, also of what is about a return.
func (j *Judge) place(p *payment, r source.Record, wanted string) error {
	switch {
	case string(r.Key) != wanted:
		return fmt.Errorf("its key is %.64q, it must be %s", r.Key, wanted)
	case j.whole && r.Partition != p.first.Partition && !p.spread:
		return fmt.Errorf("it is in partition %d, its order in partition %d", r.Partition, p.first.Partition)
	}

	return nil
}

// EndOfOrders checks what only the whole topic shows.
func (j *Judge) EndOfOrders() {
	j.all = slices.DeleteFunc(j.all, func(p *payment) bool {
		if p.copies > 0 {
			return false
		}

		for _, c := range p.others {
			j.add(WrongDeadLetter, c.at.String(),
				"its dead letter says %s, but no other record with its EndToEndId or RtrId is valid", c.letter)
		}
		delete(j.payments, p.key)

		return true
	})
	for _, p := range j.all {
		p.others = slices.DeleteFunc(p.others, func(c claim) bool { return j.endClaim(p, &c) })
		p.each(func(o *spec.Order) {
			if o.Back != nil {
				j.givenBack(o.Back.Key())
				j.recallOriginal(o)
			}
		})

		if p.Back == nil {
			j.summary.Payments++
			continue
		}
		j.summary.Returns++
		o := j.givenBack(p.Back.Key())
		o.returns = append(o.returns, p)
	}

	for at, letter := range j.letters {
		if !letter.met {
			j.add(WrongDeadLetter, at.String(), "it has a dead letter %s, but it does not exist", letter.reason)
		}
	}
}

// endClaim judges an order with a dead letter, and reports whether it is not another one than the payment.
func (j *Judge) endClaim(p *payment, c *claim) bool {
	p.spread = p.spread || c.at.Partition != p.first.Partition

	switch {
	case !p.Same(&c.Order):
		return false
	case c.letter == conflictReason:
		j.add(WrongDeadLetter, p.ID.String(), "the dead letter of %v says %s, but its content is that of the payment",
			c.at, c.letter)
	default:
		p.copies++ // at another delivery it may have had a report
	}

	return true
}

// Transfer takes a transfer of the ledger, in the ledger's order.
func (j *Judge) Transfer(t tb.Transfer) {
	if j.summary.Transfers == 0 {
		j.followAccounts()
	}
	j.summary.Transfers++
	j.position = t.Timestamp
	j.takeImported(&t)
	j.shortages.take(t)

	if t.Ledger == spec.AllowanceLedger && !j.takeAllowance(t) {
		return
	}

	if key, ofPayment := j.paymentOf(t); ofPayment {
		j.takeOfPayment(key, t)
		return
	}

	switch t.Ledger {
	case spec.LedgerNumber:
	case spec.BooksLedger:
		j.takeAct(t)
		return
	default:
		j.add(UnexplainedMoney, spec.TransferName(t), "it is in ledger %d, but all money is in %d", t.Ledger,
			spec.LedgerNumber)
		return
	}

	switch t.Code {
	case spec.CodeReturned, spec.CodeBurnt:
		j.takeMark(t)
	case spec.CodeFunding:
		j.takeFunding(t)
	case spec.CodeLiquidityIn, spec.CodeLiquidityOut, spec.CodeDeposit, spec.CodeWithdrawal:
		j.takeActMoney(t)
	case spec.CodeMarker:
		j.takeMarker(t)
	case spec.CodeOrigin, spec.CodeGivenUp:
		j.takeName(t)
	case spec.CodeRenewal:
		j.takeRenewal(t)
	case spec.CodeRebuilt, spec.CodeConfirmed:
		j.takeRebuilt(t)
	case spec.CodeTold:
		j.takeTold(t)
	case spec.CodeArchived:
		j.takeArchived(t)
	case spec.CodeClockProbe:
		if t.Amount != (tb.Uint128{}) {
			j.add(UnexplainedMoney, spec.TransferName(t),
				"a transfer with code %d moves %s centavos, it must move none",
				t.Code, spec.Decimal(t.Amount))
		}
	default:
		j.add(UnexplainedMoney, spec.TransferName(t), "no kind of transfer has code %d", t.Code)
	}
}

// paymentOf returns the key of the payment or return that a transfer is of.
func (j *Judge) paymentOf(t tb.Transfer) (key spec.Number, ofPayment bool) {
	key, _ = spec.Split(spec.NumberOf(t.ID))

	flags := t.TransferFlags()
	switch {
	case t.Ledger == spec.LedgerNumber && (t.Code == spec.CodeReceipt || t.Code == spec.CodeReturn):
		return key, true
	case t.Ledger == spec.LedgerNumber && spec.IsLeg(t) && t.Code < spec.CodeReturnLeg1,
		t.Ledger == spec.AllowanceLedger && t.Code == spec.CodeCapLeg:
		if flags.PostPendingTransfer || flags.VoidPendingTransfer { // of its hold, whatever the own id is
			key, _ = spec.Split(spec.NumberOf(t.PendingID))
		}

		return key, true
	case t.Ledger == spec.LedgerNumber && spec.IsLeg(t):
		if id, minutes, err := spec.IDIn('D', t); err == nil {
			key = spec.PaymentKey(id, minutes)
		}

		return key, true
	}

	return spec.Number{}, false
}

func (j *Judge) takeOfPayment(key spec.Number, t tb.Transfer) {
	p := j.payments[key]
	switch {
	case !j.whole:
		j.keep(j.payment(key), t)
	case p == nil && t.Code == spec.CodeCapLeg:
		j.add(WrongAllowance, spec.TransferName(t), "a leg 4 of a payment that is in no record of %s", source.Payments)
	case p == nil || (p.Back != nil) != (t.Code >= spec.CodeReturnLeg1):
		j.add(UnexplainedMoney, spec.TransferName(t), "%s: no record of %s is its order", spec.MovedBy(t),
			source.Payments)
	default:
		p.old, p.again = p.old || j.rebuild.old(), p.again || j.rebuild.again() && t.Code != spec.CodeCapLeg
		j.take(p, t)
	}
}

// Judge compares everything and returns the verdict. Call it once.
func (j *Judge) Judge() Verdict {
	for _, p := range j.all {
		j.judge(p)
	}

	for _, p := range j.all {
		if o := j.originals[p.key]; o != nil {
			j.judgeReturned(p.ID.String(), p.ID, p.Content.Centavos, o.returned)
		}
	}

	if j.rebuild.old() {
		j.add(UnexplainedMoney, "rebuild",
			"transfers were imported, and nothing says that a rebuild has come to its end")
	}
	j.judgeDeadlines()
	j.judgeRepeats()
	j.judgeFundings()
	j.judgeMoneyWithoutAct(math.MaxUint64)
	j.judgeAllowances()
	j.judgeAccounts()
	j.summary.Accounts = len(j.books.accounts)
	j.summary.IssuanceCentavos = spec.Money{}.Minus(j.books.balance(spec.Issuance))
	count := total(j.counts)

	return Verdict{Clean: count == 0, Summary: j.summary, FindingCount: count, ByKind: j.counts, Findings: j.list}
}

// GroupLag takes the engine group's offset in a partition, and the partition's end.
func (j *Judge) GroupLag(partition int32, committed, end int64) {
	if committed != end {
		j.add(Lag, fmt.Sprintf("partition %d of %s", partition, source.Payments), "the group %s has committed %d of %d",
			source.EngineGroup, committed, end)
	}
}
