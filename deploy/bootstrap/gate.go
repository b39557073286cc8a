package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/liquida/liquida/platform/ledger"
	"github.com/liquida/liquida/platform/origin"
	"github.com/liquida/liquida/platform/stream"
)

// gate decides whether topics and ledger may go on together. All others believe what it has written: the
// checkpoints name the ledger.
type gate struct {
	*chart
	say func(string, ...any)

	known map[int32]origin.Checkpoint
	renew *ledger.Identity // what is given up for a new identity; nil: nothing is
}

func (g *gate) patiently(ctx context.Context, do func(context.Context) error) error {
	return patiently(ctx, g.config, g.say, do)
}

// check returns an error if the topics are not the ledger's. done says that the ledger has its marker.
func (g *gate) check(ctx context.Context, done bool) error {
	wrong, err := g.wrong(ctx, done)
	if err != nil || wrong == nil && g.config.LedgerGivenUp == "" {
		return err
	}

	named, mixed := origin.NamedBy(g.known)
	if g.config.LedgerGivenUp == "" {
		return g.refusal(named, wrong)
	}

	given, err := ledger.ParseIdentity(g.config.LedgerGivenUp)
	if err != nil {
		return fmt.Errorf("LEDGER_GIVEN_UP: %w", err)
	}

	names := named == given && len(g.known) == 0
	for _, checkpoint := range g.known {
		names = names || checkpoint.Ledger == given
	}

	switch {
	case wrong == nil && !names:
		g.say("LEDGER_GIVEN_UP=%s has no effect: the topics name the ledger %s, which is this one", given, named)
		return nil
	case wrong == nil && mixed == nil:
		return fmt.Errorf("LEDGER_GIVEN_UP is %s, which is the ledger at hand: leave the setting away", given)
	case !names:
		return g.refusal(named, fmt.Errorf("LEDGER_GIVEN_UP is %s, and the topics name %s: %w", given, named, wrong))
	}
	g.renew = &given

	return g.alone(ctx)
}

// refusal says why nothing is done, and what to do.
func (g *gate) refusal(named ledger.Identity, wrong error) error {
	if _, told := errors.AsType[*origin.Mismatch](wrong); told {
		return wrong
	}

	first := "Put the topics' own ledger back"
	if named == (ledger.Identity{}) {
		first = "If " + stream.Checkpoints + " was lost, put its files back; else put the topics' own ledger back"
	}

	return fmt.Errorf("%w: topics and ledger do not belong together, so the ledger was not changed. %s, or start with empty topics and an empty ledger; if that ledger is lost for good, build it again as in docs/backup.md, or LEDGER_GIVEN_UP=%s makes the topics take the one at hand: see ForeignLog in deploy/runbook.md, and docs/backup.md for what that loses",
		wrong, first, named)
}

// wrong returns what is wrong with the pair, or nil. err means that it could not be found out.
func (g *gate) wrong(ctx context.Context, done bool) (wrong, err error) {
	g.known, err = origin.CompareLedger(ctx, g.kafka, g.client)
	if mismatch, is := errors.AsType[*origin.Mismatch](err); is {
		return mismatch, nil
	}

	if !errors.Is(err, origin.ErrUnnamed) {
		return nil, err
	}

	used, told, err := origin.Used(ctx, g.kafka)
	switch {
	case err != nil || !used:
		return nil, err
	case !done:
		return fmt.Errorf("the ledger has no marker, so it is new or not complete, and the topics have records or commits of an earlier one"),
			nil
	}

	names, err := origin.Read(ctx, g.client, g.config.Partitions)
	if err != nil {
		return nil, err
	}

	if !told && len(names.Origins) == 0 {
		return nil, nil // orders that nobody has begun to clear, and a ledger that has cleared none
	}

	switch err := origin.Adopt(ctx, g.config.Stream, g.kafka, g.client); {
	case err == nil:
		g.say("the topics are of a version that names no ledger; what was finished and told last is in this one, so they take it")
		return nil, nil
	case ctx.Err() != nil:
		return nil, err
	default:
		return fmt.Errorf("the topics name no ledger, and samples do not show that this one is theirs: %w", err), nil
	}
}

// alone returns an error if engines run: they would name the former ledger again.
func (g *gate) alone(ctx context.Context) error {
	groups, err := kadm.NewClient(g.kafka).DescribeGroups(ctx, stream.EngineGroup)
	if err != nil {
		return fmt.Errorf("cannot find out whether engines run: %w", err)
	}

	if n := len(groups[stream.EngineGroup].Members); n > 0 {
		return fmt.Errorf("the group %s has %d members: stop all engines first, wait for the end of their sessions, and run it again",
			stream.EngineGroup, n)
	}

	return nil
}

// name writes which ledger the topics have, after the ledger has its marker. Run again after an interruption,
// it goes on.
func (g *gate) name(ctx context.Context) error {
	if g.renew != nil {
		if err := g.renewIdentity(ctx, *g.renew); err != nil {
			return err
		}
	}

	names, err := origin.Read(ctx, g.client, g.config.Partitions)
	if err != nil {
		return err
	}

	write := origin.First(g.known, g.config.Partitions, names)
	if g.renew != nil {
		write = origin.First(nil, g.config.Partitions, names)
		if err := g.keepFinished(ctx, write, names); err != nil {
			return err
		}
	}

	if len(write) == 0 {
		return nil
	}

	if err := origin.WriteCheckpoints(ctx, g.kafka, write); err != nil {
		return err
	}
	g.say("the topics name the ledger %s", names.Ledger)

	return nil
}

// renewIdentity gives the ledger a new identity in place of one that is given up. What was named before is not
// looked for again, and the former ledger is another's if it comes back.
func (g *gate) renewIdentity(ctx context.Context, givenUp ledger.Identity) error {
	found, err := request(ctx, g.config, g.client.LookupTransfers, ledger.AppendIdentityIDs(nil))
	if err != nil {
		return err
	}

	is, last := ledger.IdentityIn(found)
	if last.Code == ledger.CodeIdentity && ledger.GivenUpBy(last) == givenUp && is != givenUp {
		return nil // by a run that was interrupted
	}

	if is.Number > ledger.RenewalsMax {
		return fmt.Errorf("the ledger's identity was renewed %d times, and it cannot be again", ledger.RenewalsMax)
	}
	g.say("giving up the ledger %s: the ledger at hand, %s, gets a new identity", givenUp, is)

	return g.createTransfers(ctx, these(ledger.Renewal(is.Number+1, givenUp)))
}

// keepFinished keeps what the engines have finished: an order that was told settled or rejected must not be
// cleared again.
func (g *gate) keepFinished(ctx context.Context, write map[int32]origin.Checkpoint, names origin.Names) error {
	commits, err := origin.Commits(ctx, g.kafka)
	if err != nil {
		return err
	}

	for partition, checkpoint := range write {
		if before := g.known[partition]; len(g.known) > 0 && (before.Log == names.Log || len(names.Origins) == 0) {
			checkpoint.Offset, checkpoint.Hint = before.Offset, before.Hint
		}

		if commit, there := commits[partition]; there && stream.IsHint(commit.Metadata) &&
			commit.At > checkpoint.Offset {
			checkpoint.Offset, checkpoint.Hint = commit.At, commit.Metadata
		}
		write[partition] = checkpoint
	}

	return nil
}

// partitionsMax is the most that PARTITIONS may be.
const partitionsMax = 1024

// keepLog finds out whether the ledger names a log of pix.payments: then nobody may create the
// topic again, because an empty one would look as if nothing had been paid. Only
// PAYMENTS_LOG_GIVEN_UP ends that: it gives up the named log.
func (c *chart) keepLog(ctx context.Context, say func(string, ...any)) error {
	names, err := request(ctx, c.config, func(partitions int) (origin.Names, error) {
		return origin.Read(ctx, c.client, partitions)
	}, partitionsMax)
	if err != nil {
		return err
	}

	switch given := uint32(c.config.LogGivenUp); {
	case len(names.Origins) == 0:
		return nil // a new log, also the one after a log that was given up
	case given > names.Log:
		return fmt.Errorf("PAYMENTS_LOG_GIVEN_UP is %d, and the ledger's log has the number %d: only that one can be given up",
			given, names.Log)
	case given < names.Log:
		c.config.namedLog = names.Log
		return nil
	}

	if err := c.isTheTopics(ctx); err != nil {
		return err
	}
	// First the commits: they are offsets of the log that is given up. After a crash in between,
	// the next run begins here again.
	if err := c.forgetCommits(ctx); err != nil {
		return err
	}

	if err := c.createTransfers(ctx, these(ledger.GivenUp(names.Log))); err != nil {
		return err
	}
	say("gave up log %d of %s: engines take the topic as it is for log %d", names.Log, stream.Payments, names.Log+1)

	return nil
}

// isTheTopics returns an error if the topics name another ledger: then it is not for this one to give up their log.
func (c *chart) isTheTopics(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()

	if _, err := origin.CompareLedger(ctx, c.kafka, c.client); !errors.Is(err, origin.ErrUnnamed) {
		return err
	}

	return nil
}

// forgetCommits deletes the offsets that the engines have committed.
func (c *chart) forgetCommits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	all := kadm.TopicsSet{}

	for partition := range int32(c.config.Partitions) {
		all.Add(stream.Payments, partition)
	}

	deleted, err := kadm.NewClient(c.kafka).DeleteOffsets(ctx, stream.EngineGroup, all)
	switch err = errors.Join(err, deleted.Error()); {
	case err == nil, errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil
	case errors.Is(err, kerr.GroupSubscribedToTopic):
		return fmt.Errorf("engines run, so what they have finished of %s cannot be forgotten: stop all of them first: %w",
			stream.Payments, err)
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

	if err := c.forgetCommits(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()

	known, err := origin.ReadCheckpoints(ctx, c.kafka)
	if err != nil {
		return err
	}

	for partition, checkpoint := range known {
		checkpoint.Offset, checkpoint.Hint = -1, ""
		known[partition] = checkpoint
	}

	if err := origin.WriteCheckpoints(ctx, c.kafka, known); err != nil {
		return err
	}
	say("forgot what engines have finished: they compare %s with what was told, and tell the rest", stream.Payments)

	return nil
}
