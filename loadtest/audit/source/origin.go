package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/loadtest/audit/spec"
)

// The ledger names the batch with which each partition of the orders begins. Without this
// an audit could call a ledger clean beside the topics of another one.

// LogName is how the ledger names the log of a partition. Partition is -1 if the log is given up.
type LogName struct {
	Log       uint64
	Partition int64
	offset    uint64
	hash      spec.Number
}

// LogNameIn reads a transfer with codeOrigin or codeGivenUp. Its id is the log's number, 32 bits
// of partition + 1, and role 15.
func LogNameIn(t tb.Transfer) (n LogName, err error) {
	id := spec.NumberOf(t.ID)

	n = LogName{id.High<<28 | id.Low>>36, int64(id.Low>>4&(1<<32-1)) - 1, t.UserData64, spec.NumberOf(t.UserData128)}
	switch {
	case id.Low&15 != 15 || n.Log == 0 || n.Log>>32 != 0 || id.High>>4 != 0:
		return n, fmt.Errorf("its id is not of a log")
	case (n.Partition < 0) != (t.Code == spec.CodeGivenUp):
		return n, fmt.Errorf("its id is not of code %d", t.Code)
	case !spec.IsNote(t):
		return n, fmt.Errorf("it must move nothing from issuance to refusals")
	}

	return n, nil
}

// readNames returns the names of the ledger's present log: the one after all that were given up.
func readNames(ctx context.Context, client tigerbeetle.Client) ([]LogName, error) {
	present, all := uint64(1), []LogName(nil)

	for _, code := range []uint16{spec.CodeGivenUp, spec.CodeOrigin} {
		err := ReadPages(ctx, "names of logs", &tb.QueryFilter{Code: code}, client.QueryTransfers,
			func(t tb.Transfer) uint64 {
				switch n, err := LogNameIn(t); {
				case err != nil: // the judge finds it
				case n.Partition < 0:
					present = max(present, n.Log+1)
				case n.Log == present:
					all = append(all, n)
				}

				return t.Timestamp
			})
		if err != nil {
			return nil, err
		}
	}

	return all, nil
}

// checkLog returns an error if the orders in Kafka are not those of the ledger.
func checkLog(ctx context.Context, client tigerbeetle.Client, t *Topics, b Bounds, committed map[int32]int64) error {
	const whatToDo = "ledger and topics do not belong together, so there is nothing to audit: put the ledger's own log back, see ForeignLog in deploy/runbook.md"

	names, err := readNames(ctx, client)
	if err != nil {
		return err
	}
	named := map[int32]bool{}

	for _, n := range names {
		partition := int32(n.Partition)
		named[partition] = true

		start, end := b.Starts[Payments][partition].Offset, b.Ends[Payments][partition].Offset
		if start > int64(n.offset) || end <= int64(n.offset) {
			return fmt.Errorf("partition %d of %s has the offsets %d to %d, and the ledger's log has a record at %d: %s",
				partition, Payments, start, end, n.offset, whatToDo)
		}

		hash, err := t.hashAt(ctx, partition, int64(n.offset))
		if err != nil {
			return fmt.Errorf("cannot read the first batch of partition %d of %s: %w", partition, Payments, err)
		}

		if hash != n.hash {
			return fmt.Errorf("partition %d of %s begins with another batch (%016x%016x) than the ledger's log (%016x%016x): %s",
				partition, Payments, hash.High, hash.Low, n.hash.High, n.hash.Low, whatToDo)
		}
	}

	for partition, at := range committed {
		if start, end := b.Starts[Payments][partition].Offset,
			b.Ends[Payments][partition].Offset; at < start || at > end {
			return fmt.Errorf("the group %s has committed offset %d of partition %d of %s, which has the offsets %d to %d: %s",
				EngineGroup, at, partition, Payments, start, end, whatToDo)
		} else if at > start && !named[partition] { // an engine names a log before it clears any of it
			return fmt.Errorf("the group %s has committed offset %d of partition %d of %s, and the ledger does not name that log: nothing shows that they belong together",
				EngineGroup, at, partition, Payments)
		}
	}

	return nil
}

// hashAt returns the first half of the SHA-256 of the batch at an offset, from its magic byte
// on. The batch need not be readable.
func (t *Topics) hashAt(ctx context.Context, partition int32, offset int64) (hash spec.Number, err error) {
	stored, err := t.fetchAt(ctx, Payments, partition, offset)
	if err != nil {
		return hash, err
	}

	batch := stored.RecordBatches
	if len(batch) < 16 {
		return hash, fmt.Errorf("the broker gives %d bytes", len(batch))
	}

	size := 12 + int64(binary.BigEndian.Uint32(batch[8:]))
	if size < 16 || size > int64(len(batch)) {
		return hash, fmt.Errorf("the broker gives %d bytes of a batch of %d", len(batch), size)
	}
	sum := sha256.Sum256(batch[16:size])

	return spec.Number{High: binary.BigEndian.Uint64(sum[:]), Low: binary.BigEndian.Uint64(sum[8:])}, nil
}

// fetchAt returns what the broker stores at an offset, beginning with a whole batch.
func (t *Topics) fetchAt(ctx context.Context, name string, partition int32,
	offset int64) (*kmsg.FetchResponseTopicPartition, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerAnswersWithin)
	defer cancel()

	listed, err := t.admin.ListTopics(ctx, name)
	if err == nil {
		err = listed.Error()
	}

	if err != nil {
		return nil, err
	}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = name, listed[name].ID
	wanted := kmsg.NewFetchRequestTopicPartition()
	wanted.Partition, wanted.FetchOffset, wanted.PartitionMaxBytes = partition, offset, 1
	topic.Partitions = append(topic.Partitions, wanted)
	request := kmsg.NewPtrFetchRequest()
	request.MinBytes, request.MaxBytes, request.Topics = 1, 1, append(request.Topics, topic)

	reply, err := t.client.Broker(int(listed[name].Partitions[partition].Leader)).Request(ctx, request)
	if err != nil {
		return nil, err
	}

	response := reply.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return nil, err
	}

	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("the broker answers about other partitions")
	}
	stored := &response.Topics[0].Partitions[0]

	return stored, kerr.ErrorForCode(stored.ErrorCode)
}
