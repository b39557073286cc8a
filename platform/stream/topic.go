// Package stream knows the Kafka side of the clearing house: topics, clients and who may
// use which topic.
package stream

// The topics. Records are keyed by EndToEndId.
const (
	Payments              = "pix.payments"               // pixv1.PaymentOrder
	AuthorizationRequests = "pix.authorization-requests" // pixv1.AuthorizationRequest, in the partition of the order
	// pixv1.AuthorizationResponse, in the request's reply partition
	AuthorizationResponses = "pix.authorization-responses"
	Settlements            = "pix.settlements"  // pixv1.SettlementReport, in the partition of the order
	DeadLetters            = "pix.dead-letters" // pixv1.DeadLetter, in the partition of the source
	Checkpoints            = "pix.checkpoints"  // pixv1.Checkpoint, in the partition that it is about
)

// EngineGroup is the consumer group of the clearing engines on Payments, BankGroup that of
// the bank simulators on AuthorizationRequests.
const (
	EngineGroup = "clearing-engine"
	BankGroup   = "bank-simulator"
)

// Topic says how a topic is created.
type Topic struct {
	Name string
	// Unlimited retention, because the audit reads the whole topic.
	KeepForever bool
	// Of each key the last record is kept, forever.
	Compacted bool
	// A batch has at most BatchBytesMax, whoever writes it. Clients do not unpack a larger one, which may
	// be there from before that was so.
	Small bool
}

// MessageBytes bounds a batch of the topic, whoever writes it.
func (t Topic) MessageBytes() int {
	if t.Small {
		return BatchBytesMax
	}

	return MessageBytesMax
}

// Topics lists all of them. They have the same number of partitions.
var Topics = []Topic{
	{Name: Payments, KeepForever: true},
	{Name: AuthorizationRequests, Small: true},
	{Name: AuthorizationResponses, Small: true},
	{Name: Settlements, KeepForever: true},
	{Name: DeadLetters, KeepForever: true},
	{Name: Checkpoints, KeepForever: true, Compacted: true},
}

// TopicNames are the names of all topics, Payments first.
func TopicNames() []string {
	names := make([]string, len(Topics))
	for i, topic := range Topics {
		names[i] = topic.Name
	}

	return names
}

// MessageBytesMax bounds a batch on every topic, whoever writes it. BatchBytesMax bounds those of our programs and all
// of the authorization topics, where every bank writes to all, and is what a fetch of the engine takes of a partition:
// of a larger batch it takes nothing, unless its partition is the first one with records. A dead letter holds at most
// DeadLetterPayloadBytesMax of its source, so it always fits.
const (
	MessageBytesMax           = 1 << 20
	BatchBytesMax             = 128 << 10
	DeadLetterPayloadBytesMax = 64 << 10
)
