// Package source reads what the audit judges: whole topics, and the ledger. It reports whether they belong together,
// and knows nothing of verdicts.
package source

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

// At returns where an order stands.
func (r Record) At() Coordinates { return Coordinates{r.Partition, r.Offset} }

// Coordinates are where a record of pix.payments stands.
type Coordinates struct {
	Partition int32
	Offset    int64
}

func (c Coordinates) String() string {
	return fmt.Sprintf("record %d/%d of %s", c.Partition, c.Offset, Payments)
}

// The topics and the group that the audit reads.
const (
	Payments    = "pix.payments"
	Settlements = "pix.settlements"
	DeadLetters = "pix.dead-letters"
	Questions   = "pix.authorization-requests"
	Answers     = "pix.authorization-responses"
	EngineGroup = "clearing-engine"
)
