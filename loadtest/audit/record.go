package audit

import (
	"fmt"
	"time"
)

// Record is one record of a topic.
type Record struct {
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Seal      []byte // the record's header "seal": of responses
	Trial     bool   // it has the header "conform": of requests that loadtest conform wrote
	Writer    int64  // the id that the broker gave to its producer: another one after each start
}

func (r Record) String() string { return fmt.Sprintf("%d/%d", r.Partition, r.Offset) }

func (r Record) at() coordinates { return coordinates{r.Partition, r.Offset} }

type coordinates struct {
	partition int32
	offset    int64
}

func (c coordinates) String() string {
	return fmt.Sprintf("record %d/%d of %s", c.partition, c.offset, paymentsTopic)
}

// The topics and the group that the audit reads.
const (
	paymentsTopic    = "pix.payments"
	settlementsTopic = "pix.settlements"
	deadLettersTopic = "pix.dead-letters"
	questionsTopic   = "pix.authorization-requests"
	answersTopic     = "pix.authorization-responses"
	engineGroup      = "clearing-engine"
)
