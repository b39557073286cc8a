package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// books is what the ledger says, found without the ids that the engine computes: a transfer
// belongs to the order that it names.
type books struct {
	state  string
	orders map[pix.EndToEndID]entryOf
}

// entryOf is what the ledger says about one order.
type entryOf struct {
	verdicts int
	settled  bool
	reason   pix.Reason
	content  uint64   // hash of the content that counts; 0: the ledger knows nothing of the order
	holds    []uint64 // hashes of the contents that are or were held
	inForce  uint64   // of them: whose money is held now
	// Leg 4 was held; it takes a part of the cap now.
	capped, takesCap bool
}

// audit reads the ledger and checks it.
func (s *state) audit() {
	client := s.ledger.ConnectAt(s.now)

	transfers, err := client.QueryTransfers(tb.QueryFilter{Ledger: ledger.Ledger, Limit: ledgermodelEvents})
	if err != nil {
		s.breaks("the ledger: %v", err)
	}

	var caps []tb.Transfer
	if s.outflowCap > 0 {
		if caps, err = client.QueryTransfers(
			tb.QueryFilter{Ledger: ledger.Allowances, Limit: ledgermodelEvents}); err != nil {
			s.breaks("the ledger: %v", err)
		}
	}
	s.books = &books{state: string(s.ledger.AppendState(nil)), orders: map[pix.EndToEndID]entryOf{}}
	moved := map[ledger.AccountID]int64{}

	for _, m := range append([]*message{s.settled}, s.messages...) {
		if m == nil {
			continue
		}

		if _, known := s.books.orders[m.id]; known {
			continue
		}
		found := s.entryOf(m, transfers)
		s.judgeCap(m, &found, caps)

		s.books.orders[m.id] = found
		if found.verdicts > 1 {
			s.breaks("%s has %d verdicts", m.id, found.verdicts)
		}

		if found.reason == pix.ReasonPayeeMissing && !s.noPayee || found.reason == pix.ReasonUnknownPayeePSP &&
			!s.noPayeePSP || found.reason == pix.ReasonOutflowCapped && s.outflowCap == 0 {
			s.breaks("%s is refused with %s for nothing", m.id, found.reason)
		}

		if found.settled {
			sent := s.sent(m.id, found.content)
			if sent == nil {
				s.breaks("%s settled with a content that nobody sent", m.id)
				return
			}
			from, to, amount := sent.content.Payer, sent.content.Payee, int64(sent.content.AmountCentavos)
			moved[ledger.CustomerAccount(from)] -= amount
			moved[ledger.CustomerAccount(to)] += amount
			moved[ledger.ReserveAccount(from.ISPB)] -= amount
			moved[ledger.ReserveAccount(to.ISPB)] += amount
		}
	}
	s.checkMoney(moved)
}

const ledgermodelEvents = 8189

// checkMoney checks that money moved by the verdicts and by nothing else.
func (s *state) checkMoney(moved map[ledger.AccountID]int64) {
	funds := map[ledger.AccountID]int64{
		ledger.CustomerAccount(payer): int64(s.fundCentavos), ledger.CustomerAccount(payee): 0,
		ledger.CustomerAccount(neighbour): 0,
		ledger.ReserveAccount(payer.ISPB): fundsCentavos, ledger.ReserveAccount(payee.ISPB): fundsCentavos,
	}

	var ids []tb.Uint128
	for id := range funds {
		ids = append(ids, id)
	}

	accounts, _ := s.ledger.ConnectAt(s.now).LookupAccounts(ids)
	for _, a := range accounts {
		has := ledger.Centavos(a.CreditsPosted) - ledger.Centavos(a.DebitsPosted)
		if want := funds[a.ID] + moved[a.ID]; has != want {
			_, of := ledger.UnpackAccount(a.ID)
			s.breaks("account %s has %d centavos, by the verdicts it has %d", of, has, want)
		}
	}
}

// sent returns the message with an id and a content.
func (s *state) sent(id pix.EndToEndID, content uint64) *message {
	for _, m := range append([]*message{s.settled}, s.messages...) {
		if m != nil && m.id == id && m.hash() == content {
			return m
		}
	}

	return nil
}

func (s *state) entryOf(m *message, transfers []tb.Transfer) (e entryOf) {
	leg1, held := ledger.CodeLeg1, uint64(0)
	if m.returned != nil {
		leg1 = ledger.CodeReturnLeg1
	}
	ended := map[tb.Uint128]bool{}

	for i := range transfers {
		if t := &transfers[i]; t.PendingID != (tb.Uint128{}) {
			ended[t.PendingID] = true
		}
	}
	posts, inForceUntil := 0, uint64(0)

	for i := range transfers {
		t, flags := &transfers[i], transfers[i].TransferFlags()
		switch {
		case t.Code == ledger.CodeReturn && m.returned != nil:
			if sent := s.sent(m.id, t.UserData64); sent != nil { // it does not name the return
				e.verdicts, e.settled, e.reason, e.content = e.verdicts+1, t.UserData32 == 0, pix.Reason(t.UserData32),
					t.UserData64
			}
		case t.UserData128 != m.name:
		case t.Code == ledger.CodeReceipt:
			// Without another engine, nobody holds an order that this one has looked up and refuses.
			if s.takeovers == 0 && held == t.UserData64 && t.Timestamp < inForceUntil {
				s.breaks("%s is refused with %s while its money is held", m.id, pix.Reason(t.UserData32))
			}
			e.verdicts, e.reason, e.content = e.verdicts+1, pix.Reason(t.UserData32), t.UserData64
		case t.Code == leg1 && flags.Pending:
			held, inForceUntil = s.heldContent(m, t, transfers), t.Timestamp+uint64(t.Timeout)*uint64(time.Second)

			e.holds = append(e.holds, held)
			if expires := time.Unix(0, int64(t.Timestamp)).Add(time.Duration(t.Timeout) * time.Second); !ended[t.ID] &&
				s.now().Before(expires) {
				e.inForce = held
			}

			if e.content == 0 {
				e.content = held
			}
		case t.Code == leg1 && m.returned != nil:
			if flags.PostPendingTransfer {
				posts++
			}
		case t.Code == leg1:
			e.verdicts, e.settled, e.reason = e.verdicts+1, flags.PostPendingTransfer, pix.Reason(t.UserData32)
		}
	}

	if m.returned != nil && (posts > 1 || (posts == 1) != e.settled) {
		s.breaks("return %s: verdict settled %t, %d posts", m.id, e.settled, posts)
	}

	return e
}

// judgeCap notes what the ledger of allowances says about an order. What settled stays held until its
// window ends.
func (s *state) judgeCap(m *message, e *entryOf, caps []tb.Transfer) {
	for i := range caps {
		if t := &caps[i]; t.UserData128 == m.name && t.TransferFlags().Pending {
			voided := slices.ContainsFunc(caps, func(end tb.Transfer) bool { return end.PendingID == t.ID })
			if voided && e.settled {
				s.breaks("%s settled, and the cap got its amount back", m.id)
			}
			e.capped = true
			e.takesCap = !voided && s.now().Before(
				time.Unix(0, int64(t.Timestamp)).Add(time.Duration(t.Timeout)*time.Second))
		}
	}

	if e.settled && s.outflowCap > 0 && s.cappedAt == 0 && m.returned == nil && !e.capped {
		s.breaks("%s settled past the cap", m.id)
	}
}

// heldContent returns the hash of what a hold moves.
func (s *state) heldContent(m *message, leg1 *tb.Transfer, transfers []tb.Transfer) uint64 {
	amount := uint64(ledger.Centavos(leg1.Amount))
	if m.returned != nil {
		return pix.ReturnContent{Original: m.returned.Original, AmountCentavos: amount,
			Reason: pix.Reason(leg1.UserData32)}.Hash()
	}

	_, from := ledger.UnpackAccount(leg1.DebitAccountID)
	for i := range transfers {
		if t := &transfers[i]; t.Code == ledger.CodeLeg3 && t.UserData128 == leg1.UserData128 &&
			t.Timestamp-leg1.Timestamp <= 2 && t.TransferFlags().Pending {
			_, to := ledger.UnpackAccount(t.CreditAccountID)
			return pix.Content{Payer: from, Payee: to, AmountCentavos: amount}.Hash()
		}
	}
	s.breaks("%s is held without a third leg", m.id)

	return 0
}

// stored judges a record that an engine sends.
func (s *state) stored(a *actor, record *kgo.Record) {
	if record.Partition != 0 {
		s.breaks("a record of partition 0 goes to partition %d", record.Partition)
	}

	switch record.Topic {
	case stream.AuthorizationRequests:
		s.judgeQuestion(record)
	case stream.Settlements:
		s.judgeReport(a, record)
	case stream.DeadLetters:
		s.judgeLetter(record)
	}
}

func (s *state) judgeQuestion(record *kgo.Record) {
	var asked pixv1.AuthorizationRequest
	if err := asked.UnmarshalVT(record.Value); err != nil {
		s.breaks("a request: %v", err)
	}

	for i, m := range s.messages {
		if m.id.String() != asked.EndToEndId {
			continue
		}

		isHeld := slices.ContainsFunc(s.books.orders[m.id].holds, func(content uint64) bool {
			held := s.sent(m.id, content)
			return held != nil && text(asked.Payer, asked.Payee, asked.AmountCentavos) == textOf(held.content)
		})
		if !isHeld || asked.ReplyPartition != 0 {
			s.breaks("the bank is asked about %v, which is not what is held for %s", &asked, m.id)
		}
		s.asked |= 1 << i

		return
	}
	s.breaks("the bank is asked about %s, which nobody sent", asked.EndToEndId)
}

func text(from, to *pixv1.Account, amount uint64) string {
	return fmt.Sprintf("%s/%s/%s %s/%s/%s %d", from.GetIspb(), from.GetBranch(), from.GetNumber(), to.GetIspb(),
		to.GetBranch(), to.GetNumber(), amount)
}

func textOf(c pix.Content) string { return fmt.Sprintf("%s %s %d", c.Payer, c.Payee, c.AmountCentavos) }

// judgeReport checks that a report is the ledger's verdict, and equal to all other reports.
func (s *state) judgeReport(a *actor, record *kgo.Record) {
	var report pixv1.SettlementReport
	if err := report.UnmarshalVT(record.Value); err != nil {
		s.breaks("a report: %v", err)
	}
	found := s.books.orders[pix.EndToEndID([]byte(report.EndToEndId))]
	said := fmt.Sprintf("%s %s %s", report.Status, report.ReasonCode,
		text(report.Payer, report.Payee, report.AmountCentavos))

	settled := report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	if found.verdicts != 1 || settled != found.settled || report.ReasonCode != found.reason.String() {
		s.breaks("the report of %s says %s, the ledger has %d verdicts, settled %t, reason %q", report.EndToEndId, said,
			found.verdicts, found.settled, found.reason)
		return
	}

	if before, reported := s.reports[report.EndToEndId]; reported && before != said {
		s.breaks("two reports of %s differ: %s, %s", report.EndToEndId, before, said)
	}
	s.reports = maps.Clone(s.reports)
	s.reports[report.EndToEndId] = said
	of := false

	for offset, m := range s.messages {
		if m.id.String() == report.EndToEndId {
			a.told |= 1 << offset & a.arrived
			of = of || string(record.Key) == string(m.record.Key) &&
				(m.hash() == found.content && report.AmountCentavos == m.content.AmountCentavos)
		}
	}

	if !of {
		s.breaks("the report of %s is of no message: %s, key %q", report.EndToEndId, said, record.Key)
	}
}

// judgeLetter checks that a record becomes a dead letter only if the ledger holds another content.
func (s *state) judgeLetter(record *kgo.Record) {
	var letter pixv1.DeadLetter
	if err := letter.UnmarshalVT(record.Value); err != nil {
		s.breaks("a dead letter: %v", err)
	}
	m := s.messages[letter.Offset]

	found := s.books.orders[m.id]
	if letter.ReasonCode != pix.ReasonConflict.String() || found.content == 0 || found.content == m.hash() ||
		string(letter.Payload) != string(m.record.Value) {
		s.breaks("the record at offset %d becomes a dead letter (%s), although nothing contradicts it", letter.Offset,
			letter.ReasonCode)
	}
	s.letters = maps.Clone(s.letters)
	s.letters[letter.Offset] = letter.ReasonCode
}

// checkFinished checks that a record is finished only after a report that was made after its
// arrival, or after its dead letter.
func (s *state) checkFinished(a *actor) {
	for _, e := range a.p.offsets.stretches[0].window {
		bit := uint64(1) << e.offset
		if !e.finished || a.finished&bit != 0 {
			continue
		}

		if _, dead := s.letters[e.offset]; !dead && (a.told|s.ended)&bit == 0 {
			s.breaks("offset %d is finished without a report since its arrival, and without a dead letter", e.offset)
		}
		a.finished |= bit
		s.ended |= bit
	}
}

// checkEmpty checks that an engine without work has given everything back.
func (s *state) checkEmpty(a *actor) {
	if taken := a.p.engine.room.Taken(); taken != "" {
		s.breaks("without work, something is taken: %s", taken)
	}
}

// checkEnd checks a state after which nothing has to happen.
func (s *state) checkEnd() {
	a := s.engines[s.owner]
	s.checkEmpty(a)

	if len(a.p.flights)+len(a.p.again)+a.p.deadLetters != 0 {
		s.breaks("something is in flight in the end: %d orders, %d records fetched again, %d dead letters",
			len(a.p.flights), len(a.p.again), a.p.deadLetters)
	}
	// An order that comes after a receipt may hold money until the timeout: the ledger does not see
	// the receipt then. So may an order that another engine held while this one refused it.
	atOnce := s.crashes+s.takeover == 0 && !slices.ContainsFunc(s.messages, func(m *message) bool {
		return m.at != s.messages[0].at
	})
	for offset, m := range s.messages {
		found := s.books.orders[m.id]

		_, dead := s.letters[int64(offset)]
		if _, reported := s.reports[m.id.String()]; !reported || found.verdicts != 1 {
			s.breaks("%s ended with %d verdicts, reported %t", m.id, found.verdicts, reported)
		}

		if dead == (m.hash() == found.content) {
			s.breaks("the record at offset %d: dead letter %t, and its content is the ledger's: %t", offset, dead,
				m.hash() == found.content)
		}
		// else another engine may have held after the receipt, and left
		if found.takesCap && !found.settled && s.takeover == 0 {
			s.breaks("%s did not settle, and takes a part of the cap on", m.id)
		}

		if atOnce && found.inForce != 0 && found.inForce == found.content {
			s.breaks("%s ended, but its money is held on", m.id)
		}
	}
}
