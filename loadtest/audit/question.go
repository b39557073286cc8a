package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// The response of a bank names the payment only by its id. So the bank's word is about this
// payment only if the question was.

// reach says how far back a topic that keeps records for a time can be read.
type reach struct {
	cut    []int32             // partitions whose first records are gone
	oldest map[int32]time.Time // of the first record that is left, by its writer's clock
}

func reachOf(b bounds, topic string) reach {
	r := reach{oldest: map[int32]time.Time{}}
	for partition, start := range b.starts[topic] {
		if start.Offset > 0 {
			r.cut = append(r.cut, partition)
		}
	}
	return r
}

func (r *reach) read(record Record) {
	if _, known := r.oldest[record.Partition]; !known {
		r.oldest[record.Partition] = record.Time
	}
}

// gone takes note that retention took what is before a record while the topic was read.
func (r *reach) gone(record Record) {
	r.cut = append(r.cut, record.Partition)
	r.oldest[record.Partition] = record.Time
}

// keeps reports whether records of this time must still be there.
func (r *reach) keeps(at time.Time) bool {
	return !slices.ContainsFunc(r.cut, func(partition int32) bool {
		oldest, left := r.oldest[partition]
		return !left || at.Before(oldest)
	})
}

// asked are the questions to banks.
type asked struct {
	read bool // the topic was read; else nothing is checked by it
	reach
}

// Questions makes the audit want a question for each outcome that needs a bank's word. cut are
// the partitions whose first records are gone. Call it before Request.
func (a *Auditor) Questions(cut []int32) {
	a.asked = asked{true, reach{cut, map[int32]time.Time{}}}
}

// readQuestions reads the questions that the topic still keeps.
func readQuestions(ctx context.Context, topics *topics, a *Auditor) error {
	bounds, err := topics.boundsOf(ctx, questionsTopic)
	if err != nil {
		return err
	}
	a.Questions(reachOf(bounds, questionsTopic).cut)
	err = topics.readAll(ctx, questionsTopic, bounds, a.Request, a.asked.gone, topics.passOthers(ctx, questionsTopic))
	if err != nil && ctx.Err() == nil {
		a.asked.read, a.summary.RequestsUnread = false, err.Error()
		return nil
	}
	return err
}

// Request takes a record of pix.authorization-requests.
func (a *Auditor) Request(r Record) {
	a.summary.Requests++
	a.asked.reach.read(r)
	var message pixv1.AuthorizationRequest
	if err := message.UnmarshalVT(r.Value); err != nil {
		a.add(WrongQuestion, "request "+r.String(), "undecodable: %v", err)
		return
	}
	wrong := func(subject, format string, arguments ...any) {
		a.add(WrongQuestion, subject, "request %v: %s", r, fmt.Sprintf(format, arguments...))
	}
	if len(message.EndToEndId) > 0 && message.EndToEndId[0] == 'D' {
		a.returnRequest(r, &message, wrong)
		return
	}
	id, minutes, err := parseEndToEndID(message.EndToEndId)
	if err != nil {
		wrong("request "+r.String(), "%v", err)
		return
	}
	key := paymentKey(id, minutes)
	p := a.find(key)
	if p == nil || p.id != id {
		wrong(id.String(), "no record of %s is its order", paymentsTopic)
		return
	}
	asked, err := readContent(message.Payer, message.Payee, message.AmountCentavos)
	// The engine asks about a conflicting message, too, if that held money beside a receipt.
	if err != nil || message.OriginalEndToEndId != "" || asked != p.content && !slices.Contains(a.conflicting[key], asked) {
		wrong(id.String(), "it is about %d centavos from %v to %v (original %.64q), the order about %v", message.AmountCentavos, message.Payer, message.Payee, message.OriginalEndToEndId, p.content)
		return
	}
	p.asked = p.asked || asked == p.content
	a.judgeRequest(key, &p.sending, r, &message, id, wrong)
}

// judgeRequest checks where a request is, and where its response goes.
func (a *Auditor) judgeRequest(key number128, s *sending, r Record, message *pixv1.AuthorizationRequest, wanted endToEndID, wrong func(subject, format string, arguments ...any)) {
	if err := a.place(key, s, r, wanted); err != nil {
		wrong(message.EndToEndId, "%v", err)
	}
	if message.ReplyPartition != r.Partition {
		wrong(message.EndToEndId, "it is in partition %d and asks for a response in %d, which its engine need not read", r.Partition, message.ReplyPartition)
	}
}

// returnRequest takes a request about a return.
func (a *Auditor) returnRequest(r Record, message *pixv1.AuthorizationRequest, wrong func(subject, format string, arguments ...any)) {
	id, _, err := parseIDOf('D', message.EndToEndId)
	if err != nil {
		wrong("request "+r.String(), "%v", err)
		return
	}
	g := a.returns[id]
	if g == nil {
		wrong(id.String(), "no record of %s is its order", paymentsTopic)
		return
	}
	asked, err := readContent(message.Payer, message.Payee, message.AmountCentavos)
	for _, c := range append([]returnContent{g.content}, g.conflicts...) {
		p := a.originalOf(c)
		if err == nil && p != nil && message.OriginalEndToEndId == c.original.String() && asked == p.backwards(c.centavos) {
			g.asked = g.asked || c == g.content
			a.judgeRequest(g.key, &g.sending, r, message, c.original, wrong)
			return
		}
	}
	wrong(id.String(), "it is about %d centavos from %v to %v for %.64q, the return about %d for %s, from its payee to its payer",
		message.AmountCentavos, message.Payer, message.Payee, message.OriginalEndToEndId, g.content.centavos, g.content.original)
}

// judgeAsked reports an outcome that needs a bank's word, without a question to the bank.
func (a *Auditor) judgeAsked(id endToEndID, asked, posted, voided bool, reason uint32, heldAt uint64) {
	if !a.asked.read || asked || !posted && (!voided || reason == silent) || heldAt == 0 {
		return
	}
	// It was asked after it was held.
	if !a.asked.keeps(time.Unix(0, int64(heldAt)).Add(-answersMargin)) {
		a.summary.RequestsGone++
		return
	}
	a.add(WrongQuestion, id.String(), "it needs the word of the payee's bank, and no request in %s asks for it", questionsTopic)
}

func (c content) String() string {
	return fmt.Sprintf("%d centavos from %s to %s", c.centavos, nameOf(c.payer), nameOf(c.payee))
}
