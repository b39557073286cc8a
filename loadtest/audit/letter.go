package audit

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// judgeText checks the text of a dead letter: it must name the field and the value. The audit
// finds them again in the payload. Of a payload that is cut it only wants a text.
func (a *Auditor) judgeText(at coordinates, letter *pixv1.DeadLetter) {
	recordTime := time.Unix(1<<40, 0) // no acceptance is ahead of it
	if letter.ReasonCode == codeBadAcceptance {
		recordTime = time.Time{} // every acceptance is ahead of it
	}
	named := letter.Reason != ""
	switch whole := letter.PayloadSizeBytes == uint64(len(letter.Payload)); letter.ReasonCode {
	case codeMalformed, codeBadID, codeBadAcceptance:
		_, invalid := readOrder(letter.Payload, recordTime)
		// That the record has no such flaw is Order's to find.
		named = named && (!whole || !invalid.has(letter.ReasonCode) || invalid.told(letter.ReasonCode, letter.Reason))
	case conflictReason, idTakenReason, tooManyReason:
		read, invalid := readOrder(letter.Payload, recordTime)
		named = named && (!whole || invalid != nil || names(letter.Reason, "end_to_end_id", read.id.String()))
	case unreadableReason:
		named = names(letter.Reason, "batch", fmt.Sprint(letter.Offset)) && names(letter.Reason, "batch", fmt.Sprint(letter.LastOffset))
	}
	if !named {
		a.add(WrongDeadLetter, at.String(), "its text does not name the field and the value that are wrong: %s, %.200q", letter.ReasonCode, letter.Reason)
	}
}

// judgeForged checks the dead letter of a response without its bank's seal.
func (a *Auditor) judgeForged(r Record, letter *pixv1.DeadLetter) {
	var response pixv1.AuthorizationResponse
	err := proto.Unmarshal(letter.Payload, &response)
	if letter.ReasonCode != codeMalformed || err == nil && !names(letter.Reason, "seal", response.EndToEndId) {
		a.add(WrongDeadLetter, "dead letter "+r.String(), "it is about a response, and says %s: %.200q; it must say %s and name the response", letter.ReasonCode, letter.Reason, codeMalformed)
	}
}
