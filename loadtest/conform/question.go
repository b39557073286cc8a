package conform

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// question is what an engine would ask.
type question struct {
	*pixv1.AuthorizationRequest
	partition int32   // in which it is asked
	earlier   []int32 // reply partitions of the same question, asked before
}

// ask makes a question to the bank: a good one, with an id of its own.
func (c *counterpart) ask(change ...func(*question)) *question {
	c.asked++
	id := pix.NewEndToEndID(c.payer, time.Now(), c.random)

	q := &question{
		AuthorizationRequest: &pixv1.AuthorizationRequest{
			EndToEndId: id.String(), AmountCentavos: 12345, ReplyPartition: int32(c.asked+1) % c.partitions,
			Payer: &pixv1.Account{Ispb: string(c.payer), Branch: "0001", Number: "7"},
			Payee: &pixv1.Account{Ispb: string(c.Bank), Branch: "0001", Number: "1"},
		},
		partition: int32(c.asked) % c.partitions,
	}
	for _, change := range change {
		change(q)
	}
	c.questions[q.EndToEndId] = q

	return q
}

// aside makes a question whose answer is not awaited, nor judged.
func (c *counterpart) aside(change ...func(*question)) *question {
	q := c.ask(change...)
	delete(c.questions, q.EndToEndId)
	return q
}

func recordsOf(questions []*question) (records []*kgo.Record) {
	for _, q := range questions {
		records = append(records, q.record())
	}

	return records
}

func (q *question) record() *kgo.Record {
	value, err := q.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("a question cannot be encoded: %v", err))
	}
	record := trial(q.partition, value)
	record.Key = []byte(q.EndToEndId)

	return record
}

// trial returns a record with the header by which an audit of these topics knows that no engine has written it.
func trial(partition int32, value []byte) *kgo.Record {
	return &kgo.Record{Topic: stream.AuthorizationRequests, Partition: partition, Value: value,
		Headers: []kgo.RecordHeader{{Key: "conform"}}}
}

// response is what came for a question.
type response struct {
	*pixv1.AuthorizationResponse
	record *kgo.Record
}

func (r *response) same(other *response) bool {
	return r.Ispb == other.Ispb && r.Status == other.Status && r.ReasonCode == other.ReasonCode
}

func (r *response) String() string {
	return fmt.Sprintf("%s %s of bank %q", r.Status, r.ReasonCode, r.Ispb)
}

// rules are what every response must keep. Each returns what is wrong with a response, or "".
var rules = []struct {
	name, section string
	broken        func(*counterpart, *question, *response) string
}{
	{"responds in the reply partition", "being-asked-over-kafka",
		func(_ *counterpart, q *question, r *response) string {
			if r.record.Partition != q.ReplyPartition && !slices.Contains(q.earlier, r.record.Partition) {
				return fmt.Sprintf("it is in partition %d and must be in %d", r.record.Partition, q.ReplyPartition)
			}

			return ""
		}},
	{"gives each question one response, the same each time", "being-asked-over-kafka",
		func(c *counterpart, q *question, r *response) string {
			if first := &c.responses[q.EndToEndId][0]; !r.same(first) {
				return fmt.Sprintf("first %s, then %s", first, r)
			}

			return ""
		}},
	{"keys a response by its end_to_end_id", "topics", func(_ *counterpart, q *question, r *response) string {
		if string(r.record.Key) != q.EndToEndId {
			return fmt.Sprintf("its key is %.40q", r.record.Key)
		}

		return ""
	}},
	{"responds in its own name", "being-asked-over-kafka", func(c *counterpart, _ *question, r *response) string {
		if r.Ispb != string(c.Bank) {
			return fmt.Sprintf("ispb is %.20q and must be %s", r.Ispb, c.Bank)
		}

		return ""
	}},
	{"accepts without a reason, rejects with one that is a bank's to give", "being-asked-over-kafka",
		func(_ *counterpart, _ *question, r *response) string {
			switch r.Status {
			case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_ACSP:
				if r.ReasonCode != "" {
					return fmt.Sprintf("it accepts with reason_code %.20q, which must be empty", r.ReasonCode)
				}
			case pixv1.AuthorizationStatus_AUTHORIZATION_STATUS_RJCT:
				reason, err := pix.ParseReason(r.ReasonCode)
				if err != nil {
					return "reason_code: " + err.Error()
				}

				if reason.FromBank() != reason {
					return fmt.Sprintf("reason_code is %s, which is not a bank's to give", reason)
				}
			default:
				return fmt.Sprintf("status is %s: it must be ACSP or RJCT", r.Status)
			}

			return ""
		}},
	{"seals each response", "the-seal", func(c *counterpart, _ *question, r *response) string {
		if c.Seals == nil {
			return ""
		}

		for _, header := range r.record.Headers {
			if header.Key == keys.SealHeader {
				if c.Seals.Genuine(c.Bank, r.record.Value, header.Value) {
					return ""
				}

				return fmt.Sprintf("its seal of %d bytes is not the HMAC-SHA-256 of its value with the bank's secret",
					len(header.Value))
			}
		}

		return "it has no header " + keys.SealHeader
	}},
}
