package audit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// outcome is what the first report of a payment or return says.
type outcome struct {
	hash    uint64 // of all its bytes
	reason  uint32
	settled bool
}

func (o outcome) outcome() string {
	if o.settled {
		return "settled"
	}

	return "rejected " + spec.ReasonText(o.reason)
}

// said is a report that is to be compared with its order.
type said struct {
	record      string
	original    string
	content     spec.Content
	contentHash uint64
	named       bool // accounts and amount can be read
}

// Report takes a record of pix.settlements.
func (j *Judge) Report(r source.Record) {
	var message pixv1.SettlementReport
	if err := proto.Unmarshal(r.Value, &message); err != nil {
		j.add(BadReport, "report "+r.String(), "undecodable: %v", err)
		return
	}

	id, minutes, err := spec.ParseID(message.EndToEndId)
	if err != nil || id[0] == 'E' && message.OriginalEndToEndId != "" {
		j.add(BadReport, "report "+r.String(), "it is about %.64q with the original %.64q: %v", message.EndToEndId,
			message.OriginalEndToEndId, err)
		return
	}

	p := j.payments[spec.PaymentKey(id, minutes)]
	if j.whole && (p == nil || p.ID != id) {
		j.add(ReportWithoutOrder, id.String(), "report %v: no record of %s is its order", r, source.Payments)
		return
	}

	if !j.whole {
		p = j.payment(spec.PaymentKey(id, minutes))
		if p.ID == (spec.ID{}) {
			p.ID, p.Minutes = id, minutes // what the doubt is about
		}
		defer j.doubt(p)
	}

	if err := j.place(p, r, cmp.Or(message.OriginalEndToEndId, message.EndToEndId)); err != nil {
		j.add(WrongPlace, id.String(), "report %v: %v", r, err)
	}
	j.countReport(p, r)

	hash := maphash.Bytes(j.seed, r.Value)
	if p.reportCount > 1 {
		j.summary.RepeatedReports++
		if hash != p.reported.hash {
			j.add(ReportsDiffer, id.String(), "report %v is not equal to an earlier one", r)
		}

		return
	}
	s := j.readReport(p, r, &message)

	p.reported.hash = hash
	if j.whole {
		j.judgeReport(p, s)
		j.countOutcome(p)
	} else {
		p.said = s
	}
}

// readReport reads the first report of a payment or return, and judges it by itself.
func (j *Judge) readReport(p *payment, r source.Record, message *pixv1.SettlementReport) *said {
	bad := j.blame(BadReport, p.ID.String(), fmt.Sprintf("report %v ", r))
	s := &said{record: r.String(), original: message.OriginalEndToEndId}

	var err error
	if s.content, err = spec.ReadContent(message.Payer, message.Payee, message.AmountCentavos); err == nil {
		s.named, s.contentHash = true,
			spec.ContentHash(&pixv1.PaymentOrder{Payer: message.Payer, Payee: message.Payee,
				AmountCentavos: message.AmountCentavos})
	}
	s.content.Centavos = message.AmountCentavos

	reason, err := spec.ReasonNumber(message.ReasonCode)
	if err != nil {
		bad("%v", err)
	}

	p.reported.reason, p.reported.settled = reason, message.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC
	switch {
	case p.reported.settled != (reason == 0) || !p.reported.settled &&
		message.Status != pixv1.SettlementStatus_SETTLEMENT_STATUS_RJCT:
		bad("has the status %v and the reason %q", message.Status, message.ReasonCode)
	case p.reported.settled:
	case p.ID[0] == 'D' && (message.Payer != nil || message.Payee != nil):
		bad("says rejected, but names accounts")
	}

	return s
}

// judgeReport compares the first report with what its payment or return is about.
func (j *Judge) judgeReport(p *payment, s *said) {
	wrong := j.blame(ReportedContent, p.ID.String(), fmt.Sprintf("report %s ", s.record))
	switch {
	case p.Back == nil:
		// Of a receipt that the ledger was asked for, only the hash of the content is known.
		if same := s.content == p.Content || p.adopted && p.receipt && s.contentHash == p.Hash; !s.named || !same {
			wrong("names another payer, payee or amount than the order")
		}
	case s.original != p.Back.Original.String() || s.content.Centavos != p.Back.Centavos:
		wrong("names another original or amount than the order")
	case !p.reported.settled:
	case p.Content == (spec.Content{}):
		j.add(WrongReturn, p.ID.String(), "it settled, but no record of %s is its original %s", source.Payments,
			p.Back.Original)
	case !s.named || s.content != p.Content:
		wrong("does not name the original's payee and payer")
	}
}

// countOutcome adds up what the first report says.
func (j *Judge) countOutcome(p *payment) {
	s := &j.summary

	settled, moved, rejected := &s.Settled, &s.SettledCentavos, s.Rejected
	if p.Back != nil {
		settled, moved, rejected = &s.Returned, &s.ReturnedCentavos, s.ReturnsRejected
	}

	if !p.reported.settled {
		if p.reported.reason != 0 {
			rejected[spec.ReasonText(p.reported.reason)]++
		}

		return
	}
	*settled++

	*moved = moved.Plus(spec.MoneyOf(p.Amount()))
	if p.Content == (spec.Content{}) {
		return
	}

	for leg := 1; leg <= 3; leg++ {
		if p.Content.Legs()&(spec.FirstLeg<<(leg-1)) != 0 {
			debit, credit := p.Content.Leg(leg)
			j.books.expect(debit, credit, p.Content.Centavos)
		}
	}
}

// An engine reports each record of an order once for each delivery. Records are delivered again
// only when their partition is taken over: by an engine that started, which writes as another
// producer, or by one that lost it and got it back. So if one producer reports an id more often
// than it has records, a take-over lies between. One take-over may explain many repeats, and
// the fewest that explain all of them can be counted.

// delivery is the last time that a producer reported the records of an id.
type delivery struct {
	writer  int64
	ms      int64 // Unix time of the first report
	reports int
}

// deliveryBy is the last one by a producer. An id whose partition is not taken over has one producer.
func (p *payment) deliveryBy(writer int64) *delivery {
	if p.reportCount == 0 {
		p.report.writer = writer
	}

	if p.report.writer == writer {
		return &p.report
	}

	i := slices.IndexFunc(p.takenOver, func(d delivery) bool { return d.writer == writer })
	if i < 0 {
		i, p.takenOver = len(p.takenOver), append(p.takenOver, delivery{writer: writer})
	}

	return &p.takenOver[i]
}

// countReport takes a report of a payment or return.
func (j *Judge) countReport(p *payment, record source.Record) {
	last, ms := p.deliveryBy(record.Writer), record.Time.UnixMilli()
	p.reportCount++

	switch {
	case last.reports == 0: // its first
	case last.reports < p.copies:
		last.reports++
		return
	case j.whole:
		j.repeats[record.Writer] = append(j.repeats[record.Writer], span{last.ms, ms, p.ID})
	}

	last.ms, last.reports = ms, 1
}

// span is a time in which a partition was taken over by the engine that it had before.
type span struct {
	from, to int64 // Unix ms
	id       spec.ID
}

// Take-overs by an engine that lives on need that it lost its partition: after a session
// without heartbeats, or because another engine came or went.
const (
	takeOversMin     = 8
	takeOverInterval = time.Second
)

// judgeRepeats reports producers that repeat reports more often than take-overs explain.
func (j *Judge) judgeRepeats() {
	for writer, all := range j.repeats {
		slices.SortFunc(all, func(x, y span) int {
			return cmp.Or(cmp.Compare(x.to, y.to), cmp.Compare(x.from, y.from))
		})

		takeOvers, last := 0, int64(-1<<63)
		for _, s := range all {
			if s.from > last { // the latest take-over so far does not explain it
				takeOvers, last = takeOvers+1, s.to
			}
		}

		lasted := time.Duration(last-all[0].from) * time.Millisecond
		if most := takeOversMin + int(lasted/j.config.TakeOverInterval); takeOvers > most {
			j.add(RepeatedReport, all[0].id.String(),
				"producer %d wrote %d reports again within %v, of this order and others: the engine would have lost partitions %d times and got them back, at most %d can be",
				writer, len(all), lasted, takeOvers, most)
		}
	}
}
