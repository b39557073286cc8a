package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/liquida/liquida/platform/stream"
)

// grow adds the partitions that topics lack. pix.payments is the last: an order in a partition that another
// topic lacks would find no bank. It waits until all who read the questions to banks own the new ones. Engines take
// over what was added then, and front doors send orders there as soon as an engine owns it.
func grow(ctx context.Context, admin *kadm.Client, config *Config, say func(string, ...any)) error {
	found, err := admin.ListTopics(ctx, topicNames()...)
	if err != nil {
		return &awayError{err}
	}
	for _, topic := range slices.Backward(stream.TopicNames()) { // pix.payments is the first of them
		detail := found[topic]
		have := len(detail.Partitions)
		if detail.Err != nil || have >= config.Partitions { // verifyPartitions refuses more
			continue
		}
		if topic == stream.Payments {
			if err := askedEverywhere(ctx, admin, config); err != nil {
				return err
			}
		}
		response, err := admin.UpdatePartitions(ctx, config.Partitions, topic)
		if err == nil {
			err = response.Error()
		}
		if err != nil {
			return &awayError{fmt.Errorf("adding partitions to topic %s: %w", topic, err)}
		}
		say("topic %s has %d partitions now, %d of them new", topic, config.Partitions, config.Partitions-have)
	}
	return nil
}

// askedEverywhere returns an error while a group that reads the questions to banks does not own all of their
// partitions: its banks would not be asked. Readers without a group cannot be seen.
func askedEverywhere(ctx context.Context, admin *kadm.Client, config *Config) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return &awayError{fmt.Errorf("listing the groups of consumers: %w", err)}
	}
	groups, err := admin.DescribeGroups(ctx, listed.Groups()...)
	if err != nil {
		return &awayError{fmt.Errorf("describing the groups of consumers: %w", err)}
	}
	for _, group := range groups.Sorted() {
		owned, reads := map[int32]bool{}, false
		for _, member := range group.Members {
			if joined, ok := member.Join.AsConsumer(); ok {
				reads = reads || slices.Contains(joined.Topics, stream.AuthorizationRequests)
			}
			assigned, ok := member.Assigned.AsConsumer()
			if !ok {
				continue
			}
			for _, topic := range assigned.Topics {
				if topic.Topic != stream.AuthorizationRequests {
					continue
				}
				for _, partition := range topic.Partitions {
					owned[partition] = true
				}
			}
		}
		if reads && len(owned) < config.Partitions {
			return &awayError{unreadError{fmt.Errorf("the consumer group %s owns %d of the %d partitions of %s, so %s gets no more partitions yet", group.Group, len(owned), config.Partitions, stream.AuthorizationRequests, stream.Payments)}}
		}
	}
	return nil
}

// unreadError says that Kafka is ready, and a reader is not.
type unreadError struct{ error }

// notReady is the error of a run whose time is over.
func notReady(config *Config, why error) error {
	if errors.As(why, new(unreadError)) {
		return fmt.Errorf("after BOOTSTRAP_TIMEOUT %v %w. Payments go on as before. Clients look for new partitions regularly (metadata.max.age.ms, 5 minutes by default): run this again, stop the group's program, or raise BOOTSTRAP_TIMEOUT", config.Timeout, why)
	}
	return fmt.Errorf("Kafka at KAFKA_BROKERS %v is not ready after BOOTSTRAP_TIMEOUT %v: %w; start it, or correct the settings KAFKA_…", config.Stream.Brokers, config.Timeout, why)
}
