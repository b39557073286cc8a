package question

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	"github.com/liquida/liquida/platform/web"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
	"github.com/liquida/liquida/services/producer/access"
	"github.com/liquida/liquida/services/producer/field"
)

// Answers is the body of POST /v1/participants/{ispb}/answers.
type Answers struct {
	Answers []Answer `json:"answers" required:"true" minItems:"1" maxItems:"64" nullable:"false"`
}

// Answer is a bank's word, as Kafka will hold it.
type Answer struct {
	Value string `json:"value" required:"true" doc:"Base64 of a pix.v1.AuthorizationResponse."`
	Seal  string `json:"seal" required:"true" doc:"Base64 of the HMAC-SHA-256 of these bytes, with the bank's secret."`
}

// Result is what became of one answer.
type Result struct {
	EndToEndID string       `json:"end_to_end_id,omitempty"`
	Status     string       `json:"status,omitempty" enum:"stored"`
	Problem    *web.Problem `json:"problem,omitempty"`
}

// Results is the response to several answers, in their order.
type Results struct {
	Results []Result `json:"results" nullable:"false"`
}

const (
	answersMax    = 64
	valueBytesMax = 256
	sealBytes     = 32
)

// word is an answer that may be stored.
type word struct {
	id     pix.EndToEndID
	answer answer
	record kgo.Record
}

// Answer serves POST /v1/participants/{ispb}/answers. It responds once Kafka has stored what may be stored.
func (b *Board) Answer(w http.ResponseWriter, r *http.Request) *web.Problem {
	var body Answers
	if problem := field.ReadJSON(r.Body, &body); problem != nil {
		return problem
	}

	if n := len(body.Answers); n < 1 || n > answersMax {
		return field.Invalid("", "answers", n, pix.ReasonMalformed,
			fmt.Sprintf("it has %d elements: send 1 to %d", n, answersMax))
	}
	psp := pix.ISPB(r.PathValue("ispb"))

	d, problem := b.deskOf(psp)
	if problem != nil {
		return problem
	}
	defer b.leave(d)
	who, results := access.Of(r), make([]Result, len(body.Answers))

	stored, fates, pending := make(chan storing, len(body.Answers)), make([]error, len(body.Answers)), 0
	for i, one := range body.Answers {
		if i > 0 { // the request itself was counted
			if results[i].Problem = who.TakeTurn(); results[i].Problem != nil {
				continue
			}
		}

		var sent bool
		if results[i], sent = b.send(d, psp, one, i, stored); sent {
			fates[i] = errNoAcknowledgement
			pending++
		}
	}

	for timeout := time.After(b.publishTimeout); pending > 0; {
		select {
		case one := <-stored:
			fates[one.place] = one.err
			pending--
		case <-timeout:
			pending = 0
		case <-who.Done():
			for i, err := range fates {
				if errors.Is(err, errNoAcknowledgement) {
					fates[i] = access.ErrEnded
				}
			}
			pending = 0
		}
	}

	for i, err := range fates {
		switch {
		case errors.Is(err, errNowhere):
			results[i] = Result{Problem: &web.Problem{Type: web.Kind("unknown-question"),
				Title: "Unanswerable question", Status: http.StatusNotFound, EndToEndID: results[i].EndToEndID,
				Detail: err.Error()}}
		case err != nil:
			results[i] = Result{Problem: &web.Problem{Type: web.Kind("unknown-fate"), Title: "Fate unknown",
				Status: http.StatusServiceUnavailable, RetryAfter: time.Second, EndToEndID: results[i].EndToEndID,
				Detail: fmt.Sprintf("it is not certain that Kafka has stored the answer (%v): send the same again, which is safe",
					err)}}
		}
	}

	for _, result := range results {
		status := http.StatusAccepted
		if result.Problem != nil {
			status = result.Problem.Status
		}
		b.answers.WithLabelValues(strconv.Itoa(status)).Inc()
	}

	switch {
	case len(results) > 1:
		web.WriteJSON(w, http.StatusOK, Results{results})
	case results[0].Problem != nil:
		return results[0].Problem
	default:
		web.WriteJSON(w, http.StatusAccepted, results[0])
	}

	return nil
}

// storing is what Kafka said of an answer.
type storing struct {
	place int // of the answer in the request
	err   error
}

var errNoAcknowledgement = errors.New("no acknowledgement within PUBLISH_TIMEOUT")

// errNowhere is about a question that somebody else than an engine wrote, or of a topic that has just grown: then it
// is asked again.
var errNowhere = errors.New(
	"nothing was stored: the question wants its answer in a partition that this front door does not know: skip it")

// send begins to store an answer, and reports whether it does: stored then gets Kafka's word.
func (b *Board) send(d *desk, psp pix.ISPB, one Answer, place int, stored chan<- storing) (Result, bool) {
	word, problem := read(psp, one)
	if problem != nil {
		return Result{Problem: problem}, false
	}
	id := string(word.record.Key)
	result := Result{EndToEndID: id, Status: "stored"}
	refused := func(status int, kind, title, detail string) (Result, bool) {
		return Result{Problem: &web.Problem{Type: web.Kind(kind), Title: title, Status: status, EndToEndID: id,
			Detail: detail}}, false
	}
	reading := b.reading.Load()

	fate, how, q := d.take(word.id, word.answer)
	switch {
	case fate == unknownQuestion && !d.filled.Load():
		result, _ := refused(http.StatusServiceUnavailable, "catching-up", "The questions are being read",
			"nothing was stored: this front door does not know all open questions yet, send the same again")
		result.Problem.RetryAfter = time.Second

		return result, false
	case fate == unknownQuestion:
		return refused(http.StatusNotFound, "unknown-question", "Unknown question",
			"nothing was stored: this bank has no open question with this id here. It is over, or was not asked")
	case fate == overQuestion:
		return refused(http.StatusGone, "question-over", "The question is over",
			strings.TrimSpace("nothing was stored: the payment is "+how.status.String()+" "+how.reason.String()))
	case fate == otherAnswer:
		return refused(http.StatusConflict, "answered", "Another answer is known",
			"nothing was stored: this bank has given another answer to this question, and the first one counts")
	case fate == sameAnswer:
		return result, false
	case reading == nil:
		d.lose(q)
		return refused(http.StatusServiceUnavailable, "catching-up", "The questions are being read",
			"nothing was stored: send the same again")
	}
	word.record.Partition = q.partition
	reading.client.TryProduce(context.Background(), &word.record, func(record *kgo.Record, err error) {
		if err == nil {
			d.keep(b.on.Now(), q, recordAt{record.Partition, record.Offset})
		} else {
			d.lose(q)

			if known := b.partitions.Load(); known > 0 && q.partition >= known {
				err = errNowhere
			}
		}
		stored <- storing{place, err}
	})

	return result, true
}

// read checks the fields of an answer. Only an engine, which has the secret, can check the seal.
func read(psp pix.ISPB, one Answer) (*word, *web.Problem) {
	wrong := func(id, name string, value any, detail string) (*word, *web.Problem) {
		return nil, field.Invalid(id, name, value, pix.ReasonMalformed, detail)
	}

	value, err := base64.StdEncoding.Strict().DecodeString(one.Value)
	if err != nil {
		return wrong("", "value", one.Value, err.Error())
	}

	if len(value) > valueBytesMax {
		return wrong("", "value", one.Value,
			fmt.Sprintf("it has %d bytes: at most %d are allowed", len(value), valueBytesMax))
	}

	var m pixv1.AuthorizationResponse
	if err := m.UnmarshalVTUnsafe(value); err != nil { // the record keeps the value
		return wrong("", "value", one.Value, "it is no pix.v1.AuthorizationResponse: "+err.Error())
	}

	id, err := pix.ParsePaymentOrReturnID(m.EndToEndId)
	if err != nil {
		return wrong("", "value.end_to_end_id", m.EndToEndId, err.Error())
	}

	if pix.ISPB(m.Ispb) != psp {
		return wrong(m.EndToEndId, "value.ispb", m.Ispb,
			"it must be that of the path, "+string(psp)+": a bank answers for itself")
	}

	seal, err := base64.StdEncoding.Strict().DecodeString(one.Seal)
	if err == nil && len(seal) != sealBytes {
		err = fmt.Errorf("it has %d bytes: they must be %d", len(seal), sealBytes)
	}

	if err != nil {
		return wrong(m.EndToEndId, "seal", one.Seal, err.Error())
	}

	w := &word{id: id, answer: answer{accepted: true},
		record: kgo.Record{Topic: stream.AuthorizationResponses, Key: []byte(m.EndToEndId), Value: value,
			Headers: []kgo.RecordHeader{{Key: keys.SealHeader, Value: seal}}}}
	switch m.Status {
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP:
		if m.ReasonCode != "" {
			return wrong(m.EndToEndId, "value.reason_code", m.ReasonCode, "it must be empty beside ACSP")
		}
	case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT:
		code, err := pix.ParseReason(m.ReasonCode)
		if err == nil && code.FromBank() != code {
			err = fmt.Errorf("%s is not a bank's to give", m.ReasonCode)
		}

		if err != nil {
			return wrong(m.EndToEndId, "value.reason_code", m.ReasonCode, err.Error())
		}
		w.answer = answer{code: m.ReasonCode}
	default:
		return wrong(m.EndToEndId, "value.status", int32(m.Status), "it must be ACSP (1) or RJCT (2)")
	}

	return w, nil
}
