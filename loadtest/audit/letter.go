package audit

import (
	"cmp"
	"hash/maphash"
	"slices"

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

// copied is what a dead letter repeats of its record.
type copied struct{ size, payload, key uint64 }

func (j *Judge) copied(size uint64, payload, key []byte) copied {
	return copied{size, maphash.Bytes(j.seed, payload), maphash.Bytes(j.seed, key)}
}

// letter is what is kept of a dead letter.
type letter struct {
	copied
	reason, text string
	last         int64 // of a batch that cannot be read
	met          bool  // its source record was read
}

// ofOrder reports whether it may be about a valid order beside the payment.
func (l *letter) ofOrder() bool { return l.reason == conflictReason || l.reason == tooManyReason }

// sent is a record of pix.payments.
type sent struct {
	copied
	at      source.Coordinates
	payment *payment // nil if it is no order
	order   *spec.Order
	flaws   spec.Flaws
	sentMs  int64 // Unix time, by its writer's clock
	before  bool  // it may have ended before the judge began to follow
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

		if message.ReasonCode != spec.CodeMalformed {
			wrong("it is about a response, and says %s: it must say %s", message.ReasonCode, spec.CodeMalformed)
		}

		return
	default:
		wrong("it is about topic %q, but only %s may have dead letters", message.Topic, source.Payments)
		return
	}
	at := source.Coordinates{Partition: message.Partition, Offset: message.Offset}

	l := &letter{copied: j.copied(message.PayloadSizeBytes, message.Payload, r.Key), reason: message.ReasonCode,
		text: message.Reason, last: message.LastOffset}
	if before := j.letters[at]; before != nil {
		j.judgeAgain(at, before, l)
		return
	}

	j.summary.DeadLetters[message.ReasonCode]++
	if j.whole || at.Offset >= j.partition(at.Partition).committed { // else its record has ended: a redelivery
		j.letters[at] = l
		j.letterOfWaiting(at, l)
	}
}

// judgeAgain compares two dead letters of one record.
func (j *Judge) judgeAgain(at source.Coordinates, before, again *letter) {
	switch {
	case before.copied != again.copied || before.last != again.last:
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

// judgeLetter compares a record with its dead letter. Its text must name the field and the value that are wrong.
func (j *Judge) judgeLetter(s *sent, l *letter) {
	at, id, valid := s.at.String(), s.order.ID.String(), s.flaws == nil

	switch {
	case l.reason == unreadableReason:
		j.add(WrongDeadLetter, at, "its dead letter says %s, but it was read", unreadableReason)
	case l.copied != s.copied:
		j.add(WrongDeadLetter, at, "its dead letter holds another payload or key")
	case !valid && !s.flaws.Told(l.reason, l.text):
		j.add(WrongDeadLetter, at, "its dead letter says %s, %.200q, but %v", l.reason, l.text, s.flaws)
	case valid && l.reason == idTakenReason:
		// Nothing in the clearing house makes this happen: somebody searched for it, or forged.
		j.add(IDsCollide, id, "%v has a dead letter %s: the ledger holds another EndToEndId under its transfer ids",
			s.at,
			l.reason)
	case valid && (!l.ofOrder() || !spec.Names(l.text, "end_to_end_id", id)):
		j.add(WrongDeadLetter, id, "%v is a valid payment, but it has a dead letter %s, %.200q", s.at, l.reason, l.text)
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
	j.judgeLetter(s, l)

	if s.payment != nil && l.ofOrder() {
		s.payment.lose(s, l.reason)
	}
}

// deadLetterPayloadMax bounds the payload of a dead letter, deadLetterKeyMax its key: the source's may be anything.
const (
	deadLetterPayloadMax = 64 << 10
	deadLetterKeyMax     = 256
)
