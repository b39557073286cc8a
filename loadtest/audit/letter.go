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

const (
	conflictReason   = "DUPL"
	idTakenReason    = "LQ07"
	unreadableReason = "LQ08"
	tooManyReason    = "LQ09"
	// forgedAnswer is what the dead letter of a response counts as: its record is not an order.
	forgedAnswer = "forged answer"
)

// letter is what is kept of a dead letter.
type letter struct {
	reason      string
	size        uint64
	payloadHash uint64
	keyHash     uint64
	last        int64 // of a batch that cannot be read
	met         bool  // its source record was read
}

// ofOrder reports whether it may be about a valid order beside the payment.
func (l *letter) ofOrder() bool { return l.reason == conflictReason || l.reason == tooManyReason }

// sent is a record of pix.payments.
type sent struct {
	at      source.Coordinates
	payment *payment // nil if it is no order
	order   *spec.Order
	flaws   spec.Flaws
	size    uint64
	sentMs  int64 // Unix time, by its writer's clock
	before  bool  // it may have ended before the judge began to follow

	payloadHash, keyHash uint64
}

// DeadLetter takes a record of pix.dead-letters.
func (j *Judge) DeadLetter(r source.Record) {
	var message pixv1.DeadLetter

	wrong := j.blame(WrongDeadLetter, "dead letter "+r.String(), "")
	if err := proto.Unmarshal(r.Value, &message); err != nil {
		wrong("undecodable: %v", err)
		return
	}

	if message.Partition != r.Partition {
		wrong("it is in partition %d, its record in partition %d", r.Partition, message.Partition)
	}

	switch message.Topic {
	case source.Payments:
	case source.Answers: // not a record of pix.payments
		j.summary.DeadLetters[forgedAnswer]++
		j.judgeForged(&message, wrong)
		return
	default:
		wrong("it is about topic %q, but only %s may have dead letters", message.Topic, source.Payments)
		return
	}
	at := source.Coordinates{Partition: message.Partition, Offset: message.Offset}
	j.judgeText(at, &message)

	l := &letter{reason: message.ReasonCode, size: message.PayloadSizeBytes,
		payloadHash: maphash.Bytes(j.seed, message.Payload), keyHash: maphash.Bytes(j.seed, r.Key),
		last: message.LastOffset}
	if before := j.letters[at]; before != nil {
		j.judgeAgain(at, before, l)
		return
	}

	switch message.ReasonCode {
	case spec.CodeMalformed, spec.CodeBadID, spec.CodeBadAcceptance, conflictReason, idTakenReason, tooManyReason:
	case unreadableReason:
		if message.LastOffset < message.Offset {
			j.add(WrongDeadLetter, at.String(), "it says %s and ends at offset %d", unreadableReason,
				message.LastOffset)
		}
	default:
		j.add(WrongDeadLetter, at.String(), "its reason %.64q is not a reason of dead letters", message.ReasonCode)
	}

	j.summary.DeadLetters[message.ReasonCode]++
	if j.whole || !j.isCommitted(at) { // else its record has ended: a redelivery
		j.letters[at] = l
		j.letterOfWaiting(at, l)
	}
}

// judgeAgain compares two dead letters of one record.
func (j *Judge) judgeAgain(at source.Coordinates, before, again *letter) {
	switch {
	case before.size != again.size || before.payloadHash != again.payloadHash || before.last != again.last ||
		before.keyHash != again.keyHash:
		j.add(WrongDeadLetter, at.String(), "two dead letters of this record hold different payloads or keys")
	case before.reason == tooManyReason:
		before.reason = again.reason // how many waited at one delivery says nothing about the next
	case before.reason != again.reason && again.reason != tooManyReason:
		j.add(WrongDeadLetter, at.String(), "two dead letters of this record differ: %s and %s", before.reason,
			again.reason)
	}
}

// Unreadable takes note that nothing can be read at an offset of pix.payments. If a dead letter
// says the same, it returns the offset to go on at.
func (j *Judge) Unreadable(partition int32, offset int64) (next int64, known bool) {
	letter := j.letters[source.Coordinates{Partition: partition, Offset: offset}]
	if letter == nil || letter.reason != unreadableReason {
		return 0, false
	}
	letter.met = true

	return letter.last + 1, letter.last >= offset
}

// judgeLetter compares a record with its dead letter.
func (j *Judge) judgeLetter(s *sent, o *spec.Order, l *letter) {
	at, valid := s.at.String(), s.flaws == nil
	if l.reason == unreadableReason {
		j.add(WrongDeadLetter, at, "its dead letter says %s, but it was read", unreadableReason)
		return
	}

	if l.size != s.size || l.payloadHash != s.payloadHash {
		j.add(WrongDeadLetter, at, "its dead letter holds another payload")
	}

	if l.keyHash != s.keyHash {
		j.add(WrongDeadLetter, at, "its dead letter has another key")
	}

	switch {
	case valid && l.reason == idTakenReason:
		// Nothing in the clearing house makes this happen: somebody searched for it, or forged.
		j.add(IDsCollide, o.ID.String(),
			"%v has a dead letter %s: the ledger holds another EndToEndId under its transfer ids", s.at, l.reason)
	case valid && !l.ofOrder():
		j.add(WrongDeadLetter, o.ID.String(), "%v is a valid payment, but it has a dead letter %s", s.at, l.reason)
	case !valid && (l.ofOrder() || l.reason == idTakenReason):
		j.add(WrongDeadLetter, at, "its dead letter says %s, but it is not a payment at all: %v", l.reason, s.flaws)
	case !valid && !s.flaws.Has(l.reason):
		j.add(WrongDeadLetter, at, "its dead letter says %s, it must say %s: %v", l.reason, s.flaws.Codes(), s.flaws)
	}
}

// judgeText checks the text of a dead letter: it must name the field and the value. The audit
// finds them again in the payload. Of a payload that is cut it only wants a text.
func (j *Judge) judgeText(at source.Coordinates, letter *pixv1.DeadLetter) {
	recordTime := time.Unix(1<<40, 0) // no acceptance is ahead of it
	if letter.ReasonCode == spec.CodeBadAcceptance {
		recordTime = time.Time{} // every acceptance is ahead of it
	}

	named := letter.Reason != ""
	switch whole := letter.PayloadSizeBytes == uint64(len(letter.Payload)); letter.ReasonCode {
	case spec.CodeMalformed, spec.CodeBadID, spec.CodeBadAcceptance:
		_, invalid := spec.ReadOrder(letter.Payload, recordTime)
		// That the record has no such flaw is Order's to find.
		named = named && (!whole || !invalid.Has(letter.ReasonCode) || invalid.Told(letter.ReasonCode, letter.Reason))
	case conflictReason, idTakenReason, tooManyReason:
		read, invalid := spec.ReadOrder(letter.Payload, recordTime)
		named = named && (!whole || invalid != nil || spec.Names(letter.Reason, "end_to_end_id", read.ID.String()))
	case unreadableReason:
		named = spec.Names(letter.Reason, "batch", fmt.Sprint(letter.Offset)) &&
			spec.Names(letter.Reason, "batch", fmt.Sprint(letter.LastOffset))
	}

	if !named {
		j.add(WrongDeadLetter, at.String(), "its text does not name the field and the value that are wrong: %s, %.200q",
			letter.ReasonCode, letter.Reason)
	}
}

// judgeForged checks the dead letter of a response without its bank's seal.
func (j *Judge) judgeForged(letter *pixv1.DeadLetter, wrong blame) {
	var response pixv1.AuthorizationResponse

	err := proto.Unmarshal(letter.Payload, &response)
	if letter.ReasonCode != spec.CodeMalformed || err == nil && !spec.Names(letter.Reason, "seal", response.EndToEndId) {
		wrong("it is about a response, and says %s: %.200q; it must say %s and name the response", letter.ReasonCode,
			letter.Reason, spec.CodeMalformed)
	}
}

// letterOfWaiting gives a dead letter to the record that waits for it.
func (j *Judge) letterOfWaiting(at source.Coordinates, l *letter) {
	waiting := j.partition(at.Partition).records

	i, found := slices.BinarySearchFunc(waiting, at.Offset, func(s sent, offset int64) int {
		return cmp.Compare(s.at.Offset, offset)
	})
	if !found {
		return
	}
	s := &waiting[i]
	l.met = true
	j.judgeLetter(s, s.order, l)

	if s.payment != nil && l.ofOrder() {
		s.payment.lose(s, l.reason)
	}
}

// deadLetterPayloadMax bounds the payload of a dead letter, deadLetterKeyMax its key: the source's may be anything.
const (
	deadLetterPayloadMax = 64 << 10
	deadLetterKeyMax     = 256
)
