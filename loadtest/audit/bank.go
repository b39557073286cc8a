package audit

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"

	"github.com/liquida/liquida/loadtest/audit/spec"

	"github.com/liquida/liquida/loadtest/audit/source"
)

// The response of a bank names the payment only by its id. So the bank's word is about this
// payment only if the question was.

// reach says how far back a topic that keeps records for a time can be read: of each partition whose first records are
// gone the time of the first that is left, by its writer's clock; zero: none is left.
type reach map[int32]time.Time

// reachOf returns the partitions of a topic whose first records are gone.
func reachOf(b source.Bounds, topic string) reach {
	r := reach{}

	for partition, start := range b.Starts[topic] {
		if start.Offset > 0 {
			r[partition] = time.Time{}
		}
	}

	return r
}

func (r reach) read(record source.Record) {
	if oldest, cut := r[record.Partition]; cut && oldest.IsZero() {
		r[record.Partition] = record.Time
	}
}

// keeps reports whether records of this time must still be there.
func (r reach) keeps(at time.Time) bool {
	for _, oldest := range r {
		if oldest.IsZero() || at.Before(oldest) {
			return false
		}
	}

	return true
}

// readBanks reads the questions to banks and their responses, as far as the topics still keep them. Others may
// write to these topics: what they write must not end the audit.
func readBanks(ctx context.Context, config *Config, topics *source.Topics, j *Judge) error {
	read := func(topic, what string, begin func(reach), take func(source.Record)) (unread bool, err error) {
		bounds, err := topics.BoundsOf(ctx, topic)
		if err != nil {
			return true, err
		}
		left := reachOf(bounds, topic)
		begin(left)
		gone := func(r source.Record) { left[r.Partition] = r.Time } // retention took what is before it

		err = topics.ReadAll(ctx, topic, bounds, take, gone, source.Unreadable)
		if err != nil && ctx.Err() == nil {
			j.summary.Unread = append(j.summary.Unread,
				fmt.Sprintf("%s%s: %v", notChecked, what, err))

			return true, nil
		}

		return false, err
	}

	unread, err := read(source.Questions, "requests to banks", j.Questions, j.Request)
	if j.asked.read = !unread; err != nil || config.Secrets == nil {
		return err
	}
	answers := func(left reach) { j.Answers(config.Secrets, left) }

	if unread, err = read(source.Answers, "responses of banks", answers, j.Answer); unread {
		j.answers.secrets = nil
	}

	return err
}

// asked are the questions to banks.
type asked struct {
	read bool // the topic was read; else nothing is checked by it
	reach
}

// Questions makes the audit want a question for each outcome that needs a bank's word. Call it before Request.
func (j *Judge) Questions(left reach) { j.asked = asked{true, left} }

// Request takes a record of pix.authorization-requests. Those of a trial are about no payment: they are only counted.
// One that is about a payment is judged, whatever its header says.
func (j *Judge) Request(r source.Record) {
	j.asked.reach.read(r)
	wrong := func(subject, format string, arguments ...any) {
		j.add(WrongQuestion, subject, "request %v: %s", r, fmt.Sprintf(format, arguments...))
	}
	var message pixv1.AuthorizationRequest
	var p *payment

	id, minutes, err := spec.ID{}, uint64(0), message.UnmarshalVT(r.Value)
	if err == nil {
		id, minutes, err = spec.ParseID(message.EndToEndId)
	}

	if err == nil {
		p = j.payments[spec.PaymentKey(id, minutes)]
	}

	if (p == nil || p.ID != id) && r.Trial {
		j.summary.NotChecked[TrialRequests]++
		return
	}
	j.summary.Requests++

	if p == nil || p.ID != id {
		what := fmt.Sprintf("no record of %s is its order", source.Payments)
		if err != nil {
			what += fmt.Sprintf(": %v", err)
		}
		wrong(cmp.Or(message.EndToEndId, "request "+r.String()), "%s", what)

		return
	}
	about, err := spec.ReadContent(message.Payer, message.Payee, message.AmountCentavos)
	fits := func(o *spec.Order) bool {
		original := ""
		if o.Back != nil {
			original = o.Back.Original.String()
		}

		return err == nil && message.OriginalEndToEndId == original && about == o.Content
	}
	// The engine asks about a conflicting message, too, if that held money beside a receipt.
	if !fits(&p.Order) && p.claim(fits) == nil {
		wrong(id.String(), "it is about %d centavos from %v to %v (original %.64q), the order about %v",
			message.AmountCentavos, message.Payer, message.Payee, message.OriginalEndToEndId, p.Content)
		return
	}

	p.asked = p.asked || fits(&p.Order)
	if err := j.place(p, r, cmp.Or(message.OriginalEndToEndId, message.EndToEndId)); err != nil {
		wrong(message.EndToEndId, "%v", err)
	}

	if message.ReplyPartition != r.Partition {
		wrong(message.EndToEndId, "it is in partition %d and asks for a response in %d, which its engine need not read",
			r.Partition, message.ReplyPartition)
	}
}

// judgeAsked reports an outcome that needs a bank's word, without a question to the bank.
func (j *Judge) judgeAsked(p *payment) {
	if !j.asked.read || p.asked || !p.byBank() || p.heldAt == 0 {
		return
	}
	// It was asked after it was held.
	if !j.asked.keeps(time.Unix(0, int64(p.heldAt)).Add(-answersMargin)) {
		j.summary.NotChecked[requestsGone]++
		return
	}
	j.add(WrongQuestion, p.ID.String(), "it needs the word of the payee's bank, and no request in %s asks for it",
		source.Questions)
}

// Secrets are the keys with which banks seal their responses, by ISPB.
type Secrets map[string][][]byte

// ReadSecrets reads a file of lines "ISPB secret in hex"; # begins a comment.
func ReadSecrets(path string) (Secrets, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	secrets := Secrets{}

	for number, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := append(strings.Fields(line), "", "", "")

		secret, err := hex.DecodeString(fields[1])
		if fields[0] == "" {
			continue
		}

		if err != nil || len(secret) == 0 || fields[2] != "" { // the line itself is not shown: it holds a secret
			return nil, fmt.Errorf("%s, line %d: it must be an ISPB and a secret in hex", path, number+1)
		}
		secrets[fields[0]] = append(secrets[fields[0]], secret)
	}

	if len(secrets) == 0 {
		return nil, fmt.Errorf("%s holds no secret: no response could be genuine", path)
	}

	return secrets, nil
}

func (s Secrets) genuine(bank string, message, seal []byte) bool {
	return slices.ContainsFunc(s[bank], func(secret []byte) bool {
		mac := hmac.New(sha256.New, secret)
		mac.Write(message)
		return hmac.Equal(mac.Sum(nil), seal)
	})
}

// answer is what a bank said, under its seal, about a payment or return.
type answer struct {
	id     spec.ID
	bank   string
	reason uint32 // none if it accepted
}

// answers are the genuine responses that can be read. The topic keeps them for a time only.
type answers struct {
	secrets Secrets // nil: responses are not checked
	given   map[answer]struct{}
	reach
}

// answersMargin is what clocks may differ by, with room.
const answersMargin = time.Minute

// Answers makes the audit check responses with these secrets. Call it before Answer.
func (j *Judge) Answers(secrets Secrets, left reach) {
	j.answers = answers{secrets, map[answer]struct{}{}, left}
}

// Answer takes a record of pix.authorization-responses. Those without a seal prove nothing.
func (j *Judge) Answer(r source.Record) {
	j.answers.read(r)

	var message pixv1.AuthorizationResponse
	if proto.Unmarshal(r.Value, &message) != nil || len(message.EndToEndId) != len(spec.ID{}) ||
		!j.answers.secrets.genuine(message.Ispb, r.Value, r.Seal) {
		return
	}
	said := answer{bank: message.Ispb}
	copy(said.id[:], message.EndToEndId)

	switch message.Status {
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP:
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT:
		said.reason = unspecified
		if code, err := spec.ReasonNumber(message.ReasonCode); err == nil && code != 0 {
			// Engines before they told a bank's codes from others kept the code itself.
			j.answers.given[answer{said.id, said.bank, code}] = struct{}{}
		}
	default:
		return
	}
	j.answers.given[said] = struct{}{}
}

// byBank reports whether the receiving bank decided.
func (p *payment) byBank() bool {
	return p.posted&spec.FirstLeg != 0 || p.voided&spec.FirstLeg != 0 && p.verdict != silent
}

// judgeAnswer reports an outcome that needs the receiving bank's word and does not have it.
// Only legs that were held are posted or voided for a bank; AB03 is the deadline's.
func (j *Judge) judgeAnswer(p *payment) {
	reason, what := p.verdict, "rejected with "+spec.ReasonText(p.verdict)
	if p.posted&spec.FirstLeg != 0 {
		reason, what = 0, "settled"
	}

	if j.answers.secrets == nil || !p.byBank() {
		return
	}

	if !j.answers.keeps(time.Unix(0, int64(p.decidedAt)).Add(-answersMargin)) {
		j.summary.NotChecked[answersGone]++
		return
	}

	bank := spec.ISPBOf(p.Content.Payee)
	if _, said := j.answers.given[answer{p.ID, bank, reason}]; said {
		j.summary.Answered++
		return
	}
	j.add(NoAnswer, p.ID.String(), "it was %s, but no response in %s with the seal of its payee's bank %s says so",
		what, source.Answers, bank)
}
