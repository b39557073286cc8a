package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// partitionsMax is the most that PARTITIONS may be.
const partitionsMax = 1024

// keepLog finds out whether the ledger names a log of pix.payments: then nobody may create the
// topic again, because an empty one would look as if nothing had been paid. Only
// PAYMENTS_LOG_GIVEN_UP ends that: it gives up the named log.
func (c *chart) keepLog(ctx context.Context, say func(string, ...any)) error {
	names, err := request(ctx, c.config, func() (origin.Names, error) { return origin.Read(ctx, c.client, partitionsMax) })
	if err != nil {
		return err
	}
	switch given := uint32(c.config.LogGivenUp); {
	case len(names.Origins) == 0:
		return nil // a new log, also the one after a log that was given up
	case given > names.Log:
		return fmt.Errorf("PAYMENTS_LOG_GIVEN_UP is %d, and the ledger's log has the number %d: only that one can be given up", given, names.Log)
	case given < names.Log:
		c.config.namedLog = names.Log
		return nil
	}
	if err := c.isTheTopics(ctx); err != nil {
		return err
	}
	// First the commits: they are offsets of the log that is given up. After a crash in between,
	// the next run begins here again.
	if err := forgetCommits(ctx, c.config); err != nil {
		return err
	}
	results, err := request(ctx, c.config, func() ([]tb.TransferEventResult, error) {
		return c.client.CreateTransfers([]tb.Transfer{ledger.GivenUp(names.Log)})
	})
	if err == nil && len(results) > 0 && results[0].Result != tb.TransferExists {
		return fmt.Errorf("the ledger refuses to give up log %d of %s: %s", names.Log, stream.Payments, results[0].Result)
	}
	if err == nil {
		say("gave up log %d of %s: engines take the topic as it is for log %d", names.Log, stream.Payments, names.Log+1)
	}
	return err
}

// isTheTopics returns an error if the topics name another ledger: then it is not for this one to give up their log.
func (c *chart) isTheTopics(ctx context.Context) error {
	return withKafka(ctx, c.config, func(ctx context.Context, client *kgo.Client) error {
		if _, err := origin.CompareLedger(ctx, client, c.client); !errors.Is(err, origin.ErrUnnamed) {
			return err
		}
		return nil
	})
}

// forgetCommits deletes the offsets that the engines have committed.
func forgetCommits(ctx context.Context, config *Config) error {
	all := kadm.TopicsSet{}
	for partition := range int32(config.Partitions) {
		all.Add(stream.Payments, partition)
	}
	err := withKafka(ctx, config, func(ctx context.Context, client *kgo.Client) error {
		deleted, err := kadm.NewClient(client).DeleteOffsets(ctx, stream.EngineGroup, all)
		return errors.Join(err, deleted.Error())
	})
	switch {
	case err == nil, errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil
	case errors.Is(err, kerr.GroupSubscribedToTopic):
		return fmt.Errorf("engines run, so what they have finished of %s cannot be forgotten: stop all of them first: %w", stream.Payments, err)
	}
	return fmt.Errorf("cannot delete the offsets of the group %s: %w", stream.EngineGroup, err)
}

// Retell prepares what Run prepares, and makes engines find out again what was reported: they write again the
// reports and dead letters that are missing. It is for topics that were lost, made anew or cut.
func Retell(ctx context.Context, config *Config, progress io.Writer) error {
	config.retell = true
	return Run(ctx, config, progress)
}

// forgetFinished makes engines forget what is finished. The commits are first: Kafka keeps them while an engine runs.
func (c *chart) forgetFinished(ctx context.Context, say func(string, ...any)) error {
	if err := c.isTheTopics(ctx); err != nil {
		return err
	}
	if err := forgetCommits(ctx, c.config); err != nil {
		return err
	}
	err := withKafka(ctx, c.config, func(ctx context.Context, client *kgo.Client) error {
		known, err := origin.ReadCheckpoints(ctx, client)
		if err != nil {
			return err
		}
		for partition, checkpoint := range known {
			checkpoint.Offset, checkpoint.Hint = -1, ""
			known[partition] = checkpoint
		}
		return origin.WriteCheckpoints(ctx, client, known)
	})
	if err != nil {
		return err
	}
	say("forgot what engines have finished: they compare %s with what was told, and tell the rest", stream.Payments)
	return nil
}
