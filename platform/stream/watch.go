package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/telemetry"
)

// The needs that Watch reports. The starter of Watch adds them before health is served.
const (
	KafkaNeed  = "kafka"  // a broker answers and has the topics
	TopicsNeed = "topics" // they are the topics of before, and their numbers of partitions fit together
)

// An absent broker goes unnoticed for at most watchInterval + watchTimeout.
const (
	watchInterval = time.Second
	watchTimeout  = 2 * time.Second
	// doubtsMax is how many looks in a row must find that a topic went back: a broker that has just become
	// the leader may not know the end for a moment.
	doubtsMax = 3
	// startsEvery is how many looks there are for one at where topics begin, unless in doubt: each is a request, and
	// only few topics must keep all.
	startsEvery = 5
)

// Watched is what Watch looks at, and whom it tells. The functions are optional. Watch calls them one
// after the other.
type Watched struct {
	// Topics are all topics that the service depends on. None may have fewer partitions than the first, unless
	// Partial: the service works with those that all have, so it is ready.
	Topics  []string
	Partial bool
	// Closed gets, with each answer of the broker, why nothing may be begun, or nil: a topic is missing, or
	// one that keeps acknowledged facts was made anew or cut. Whether Payments was is for platform/origin.
	Closed func(error)
	// Renewed is told that a topic which keeps nothing was made anew or cut. The service goes on with it.
	Renewed func(topic string)
	// Partitions gets the number of partitions that all topics have, with each answer of the broker.
	Partitions func(int32)
}

// Watch reports to Health, until ctx ends, whether Kafka answers and has the topics, and whether they
// are still the same. The client itself never says: it retries forever.
func Watch(ctx context.Context, client *kgo.Client, t *telemetry.Telemetry, watched Watched) {
	seen := map[string]*seenTopic{}
	for look := 0; ; look++ {
		missing, err := probe(ctx, client, t, watched, seen, look%startsEvery == 0)
		if ctx.Err() != nil {
			return
		}
		t.Report(KafkaNeed, cmp.Or(err, missing))

		if err == nil {
			wrong := changed(watched.Topics, seen)
			if watched.Closed != nil {
				watched.Closed(cmp.Or(missing, wrong))
			}

			if wrong == nil && !watched.Partial {
				wrong = mismatched(watched.Topics, seen)
			}
			t.Report(TopicsNeed, wrong)
		}

		if !host.Sleep(ctx, host.Next(watchInterval)) {
			return
		}
	}
}

// seenTopic is a topic as it was when nothing was wrong.
type seenTopic struct {
	topicLook
	now    int // partitions, in the last look
	doubts int // looks in a row that found what is wrong
	wrong  string
}

// topicLook is what one look finds. A partition without a leader has no bounds.
type topicLook struct {
	id         [16]byte // zero: the broker does not know ids
	partitions int
	bounds     map[int32]Bounds
}

// probe looks once, also at where the topics begin if told to or in doubt. missing says that a topic is not there.
func probe(ctx context.Context, client *kgo.Client, t *telemetry.Telemetry, watched Watched,
	seen map[string]*seenTopic, starts bool) (missing, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()

	for _, topic := range watched.Topics {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = kmsg.StringPtr(topic)
		request.Topics = append(request.Topics, wanted)
	}

	response, err := askOnce(ctx, client, request)
	if err != nil {
		return nil, unreached(err, len(seen) > 0)
	}
	found, common := map[string]topicLook{}, 0

	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			err = fmt.Errorf("topic %s: %w; bootstrap creates the topics and says who may use them", *topic.Topic, err)
			if missing == nil {
				missing = err
			}

			continue
		}

		found[*topic.Topic] = topicLook{topic.TopicID, len(topic.Partitions), map[int32]Bounds{}}
		if n := len(topic.Partitions); common == 0 || n < common {
			common = n
		}
	}

	if len(found) == len(watched.Topics) && watched.Partitions != nil {
		watched.Partitions(int32(common)) //nolint:gosec // few
	}

	for _, s := range seen {
		starts = starts || s.doubts > 0
	}
	addBounds(ctx, client, response.Topics, found, starts)

	for name, look := range found {
		s := seen[name]
		if s == nil || name == Payments { // platform/origin and the producers judge its log
			seen[name] = &seenTopic{topicLook: look, now: look.partitions}
			continue
		}

		if s.take(look, keeps(name, true)) && !keeps(name, false) {
			t.Log.Warn("topic " + name + " was made anew or cut: " + s.wrong + "; going on with it as it is")

			seen[name] = &seenTopic{topicLook: look, now: look.partitions}
			if watched.Renewed != nil {
				watched.Renewed(name)
			}
		}
	}

	return missing, nil
}

// askOnce asks each broker until one answers. The client itself would retry until ctx ends, and say only that.
func askOnce(ctx context.Context, client *kgo.Client, request *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	var failed error

	for _, broker := range slices.Concat(client.DiscoveredBrokers(), client.SeedBrokers()) {
		response, err := broker.Request(ctx, request)
		if err == nil {
			return response.(*kmsg.MetadataResponse), nil
		}

		if failed = err; ctx.Err() != nil {
			break
		}
	}

	return nil, failed
}

// addBounds adds what the leaders say. Without an answer the bounds of this look are not compared. A start that was not
// asked for is notAsked.
func addBounds(ctx context.Context, client *kgo.Client, topics []kmsg.MetadataResponseTopic,
	found map[string]topicLook, withStarts bool) {
	const earliest, latest = -2, -1
	var starts map[string]map[int32]int64

	if withStarts {
		var err error
		if starts, err = offsetsAt(ctx, client, topics, earliest); err != nil {
			return
		}
	}

	ends, err := offsetsAt(ctx, client, topics, latest)
	if err != nil {
		return
	}

	for name, look := range found {
		for partition, end := range ends[name] {
			start, answered := starts[name][partition]
			if !withStarts {
				start, answered = notAsked, true
			}

			if answered {
				look.bounds[partition] = Bounds{Start: start, End: end}
			}
		}
	}
}

// offsetsAt asks the leaders that were just named: the client itself would ask for them again.
func offsetsAt(ctx context.Context, client *kgo.Client, topics []kmsg.MetadataResponseTopic,
	at int64) (map[string]map[int32]int64, error) {
	requests := map[int32]*kmsg.ListOffsetsRequest{} // by leader

	for _, topic := range topics {
		wanted := map[int32][]kmsg.ListOffsetsRequestTopicPartition{}

		for _, partition := range topic.Partitions {
			if partition.Leader < 0 {
				continue
			}
			of := kmsg.NewListOffsetsRequestTopicPartition()
			of.Partition, of.Timestamp = partition.Partition, at
			wanted[partition.Leader] = append(wanted[partition.Leader], of)
		}

		for leader, partitions := range wanted {
			if requests[leader] == nil {
				requests[leader] = kmsg.NewPtrListOffsetsRequest()
			}
			requests[leader].Topics = append(requests[leader].Topics,
				kmsg.ListOffsetsRequestTopic{Topic: *topic.Topic, Partitions: partitions})
		}
	}
	offsets := map[string]map[int32]int64{}

	for leader, request := range requests {
		answer, err := client.Broker(int(leader)).Request(ctx, request)
		if err != nil {
			return nil, err
		}

		for _, topic := range answer.(*kmsg.ListOffsetsResponse).Topics {
			if offsets[topic.Topic] == nil {
				offsets[topic.Topic] = map[int32]int64{}
			}

			for _, partition := range topic.Partitions {
				if partition.ErrorCode == 0 {
					offsets[topic.Topic][partition.Partition] = partition.Offset
				}
			}
		}
	}

	return offsets, nil
}

// notAsked is less than any start.
const notAsked = -1

// take compares a look with what was seen before. whole: no record may be missing at the beginning. It returns true if
// enough looks found the topic made anew or cut. What is wrong ends when the topic of before is back.
func (s *seenTopic) take(look topicLook, whole bool) bool {
	s.now = look.partitions

	why := s.differs(look, whole)
	if why != "" {
		s.wrong = why
		s.doubts++
		return s.doubts >= doubtsMax
	}

	s.doubts, s.partitions = 0, look.partitions
	if look.id != [16]byte{} {
		s.id = look.id
	}

	for partition, bounds := range look.bounds {
		if before, known := s.bounds[partition]; known && bounds.Start == notAsked {
			bounds.Start = before.Start
		}
		s.bounds[partition] = bounds
	}

	return false
}

// differs returns what shows that a topic is not the one that was seen before, or that it was cut.
func (s *seenTopic) differs(look topicLook, whole bool) string {
	none := [16]byte{}
	switch {
	case s.id != none && look.id != none && s.id != look.id:
		return fmt.Sprintf("its id was %x and is %x", s.id, look.id)
	case look.partitions < s.partitions:
		return fmt.Sprintf("it had %d partitions and has %d", s.partitions, look.partitions)
	}

	for partition, before := range s.bounds {
		switch now, known := look.bounds[partition]; {
		case !known:
		case now.End < before.End:
			return fmt.Sprintf("partition %d ended at offset %d and ends at %d", partition, before.End, now.End)
		case whole && before.Start != notAsked && now.Start > before.Start:
			return fmt.Sprintf("partition %d began at offset %d and begins at %d", partition, before.Start, now.Start)
		}
	}

	return ""
}

// changed returns which topics were made anew or cut although they keep what was acknowledged.
func changed(topics []string, seen map[string]*seenTopic) error {
	var all []error

	for _, name := range topics {
		if s := seen[name]; s != nil && s.doubts >= doubtsMax {
			all = append(all, fmt.Errorf(
				"topic %s was made anew or cut: %s. What it kept is gone, so nothing is begun. Put the topic's own files back, or see TopicsChanged in deploy/runbook.md",
				name, s.wrong))
		}
	}

	return errors.Join(all...)
}

// mismatched returns which topics have fewer partitions than the first: a question or an outcome would
// find none there.
func mismatched(topics []string, seen map[string]*seenTopic) error {
	first := seen[topics[0]]
	if first == nil {
		return nil
	}

	for _, name := range topics[1:] {
		if s := seen[name]; s != nil && s.now < first.now {
			return fmt.Errorf("topic %s has %d partitions and %s has %d: nobody reads the partitions of %s from %d on. Run bootstrap with PARTITIONS=%d, which adds the missing ones",
				name, s.now, topics[0], first.now, topics[0], s.now, first.now)
		}
	}

	return nil
}

// keeps reports whether a topic keeps records for good; whole: all of them.
func keeps(name string, whole bool) bool {
	return slices.ContainsFunc(Topics, func(topic Topic) bool {
		return topic.Name == name && topic.KeepForever && (!whole || !topic.Compacted)
	})
}
