package conform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// checks are tried in this order, each after the one before. What ask returns must be answered.
var checks = []struct {
	name, section string
	ask           func(*counterpart) []*question
	try           func(context.Context, *counterpart) error
}{
	{"answers what was asked before it started", "being-asked-over-kafka", nil,
		func(ctx context.Context, c *counterpart) error {
			if c.early == nil {
				return needsCommand
			}
			var wrong fault

			err := c.await(ctx, []*question{c.early}, []int{0})
			if errors.As(err, &wrong) {
				return append(wrong, "let a new consumer group begin at the earliest offset")
			}

			return err
		}},
	{"answers a question", "being-asked-over-kafka", one(func(*counterpart, *question) {}), nil},
	{"answers in every partition, for every reply partition", "topics", func(c *counterpart) (all []*question) {
		for asked := range c.partitions {
			for reply := range c.partitions {
				all = append(all, c.ask(func(q *question) { q.partition, q.ReplyPartition = asked, reply }))
			}
		}

		return all
	}, nil},
	{"answers a repeated question", "being-asked-over-kafka", nil, func(ctx context.Context, c *counterpart) error {
		for q, n := c.ask(), 0; n < 3; n++ { // a rule compares the responses
			if err := c.answered(ctx, q); err != nil {
				return err
			}
		}

		return nil
	}},
	{"also from another partition, for another engine", "being-asked-over-kafka", nil,
		func(ctx context.Context, c *counterpart) error {
			q := c.ask()
			if err := c.answered(ctx, q); err != nil {
				return err
			}
			q.earlier = []int32{q.ReplyPartition}
			q.partition, q.ReplyPartition = (q.partition+1)%c.partitions, (q.ReplyPartition+1)%c.partitions

			return c.answered(ctx, q)
		}},
	{"answers a question whose payment is long over", "being-asked-over-kafka", one(func(c *counterpart, q *question) {
		q.EndToEndId = pix.NewEndToEndID(c.payer, time.Now().Add(-48*time.Hour), c.random).String()
	}), nil},
	{"answers a question about a return", "being-asked-over-kafka", one(func(c *counterpart, q *question) {
		q.OriginalEndToEndId = pix.NewEndToEndID(c.Bank, time.Now(), c.random).String()
		q.EndToEndId = pix.NewReturnID(c.payer, time.Now(), c.random).String()
	}), nil},
	{"reads the smallest and the largest values", "limits", func(c *counterpart) []*question {
		return []*question{
			c.ask(func(q *question) { q.AmountCentavos, q.Payee.Number = 1, "9" }),
			c.ask(func(q *question) { q.AmountCentavos, q.Payee.Number = math.MaxInt64, strings.Repeat("9", 20) }),
		}
	}, nil},
	{"answers when its own customer pays", "being-asked-over-kafka", one(func(c *counterpart, q *question) {
		q.Payer.Ispb = string(c.Bank)
	}), nil},
	{"ignores fields that it does not know", "topics", one(func(_ *counterpart, q *question) {
		unknown := protowire.AppendTag(nil, 1000, protowire.BytesType)
		q.ProtoReflect().SetUnknown(protowire.AppendString(unknown, "a field of a later version"))
	}), nil},
	{"leaves the questions to other banks alone", "being-asked-over-kafka", nil, others},
	{"goes on after what is no question", "being-asked-over-kafka", nil,
		func(ctx context.Context, c *counterpart) error {
			q := c.ask()

			strange := [][]byte{nil, {0xff}, {0x18, 0x01}, []byte("{}"), {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f},
				[]byte(strings.Repeat("\x0a\x01E", 1000))}
			for _, reply := range []int32{c.partitions, math.MaxInt32, -1} {
				strange = append(strange, c.aside(func(n *question) { n.ReplyPartition = reply }).record().Value)
			}

			for _, value := range strange {
				if err := c.send(ctx, trial(q.partition, value)); err != nil {
					return err
				}
			}

			return c.answered(ctx, q)
		}},
	{"does not answer what was never asked: an aborted transaction", "topics", nil, aborted},
	{"answers a crowd within the deadline", "limits", (*counterpart).crowd, nil},
	{"commits an offset after the response", "being-asked-over-kafka", nil, committed},
	{"killed, it starts again and answers what it was asked", "being-asked-over-kafka", nil, killed},
}

// one asks one question that is changed.
func one(change func(*counterpart, *question)) func(*counterpart) []*question {
	return func(c *counterpart) []*question { return []*question{c.ask(func(q *question) { change(c, q) })} }
}

// fault is what the bank did wrong.
type fault []string

func (f fault) Error() string { return strings.Join(f, "; ") }

// untried says why a check cannot be tried here. It is no fault of the bank.
type untried string

func (u untried) Error() string { return string(u) }

const needsCommand untried = "give the bank's command behind --, so that it can be started and killed"

func (c *counterpart) crowd() []*question { return c.several(c.Crowd) }

func (c *counterpart) several(n int) (all []*question) {
	for range n {
		all = append(all, c.ask())
	}

	return all
}

// others asks two other banks, and then the bank: what it wrote until it answered shows whose questions it took.
func others(ctx context.Context, c *counterpart) error {
	own := c.ask()
	foreign := map[string]bool{}

	for _, payer := range []pix.ISPB{c.payer, c.Bank} {
		q := c.aside(func(q *question) {
			q.Payer.Ispb, q.Payee.Ispb, q.partition, q.ReplyPartition = string(payer), nobody, own.partition,
				own.ReplyPartition
		})

		foreign[q.EndToEndId] = true
		if err := c.send(ctx, q.record()); err != nil {
			return err
		}
	}

	if err := c.answered(ctx, own); err != nil {
		return err
	}
	var wrong fault

	for _, s := range c.strays {
		if s.err == nil && foreign[s.EndToEndId] && c.writers[s.record.ProducerID] { // else a simulator of all banks
			wrong = append(wrong, fmt.Sprintf("%s was a question to bank %s, and is answered in the name of %.20q",
				s.EndToEndId, nobody, s.Ispb))
		}
	}

	if wrong != nil {
		return wrong
	}

	return nil
}

// aborted asks within a transaction that is aborted, and then a question behind it.
func aborted(ctx context.Context, c *counterpart) error {
	never := c.aside()

	client, err := c.connection(kgo.TransactionalID("conform-" + never.EndToEndId))
	if err != nil {
		return err
	}
	defer client.Close()

	if err := client.BeginTransaction(); errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return untried("the broker takes no transactions; that of the sandbox does with: bin/stack up --env broker:BROKER_TRANSACTIONS=true")
	} else if err != nil {
		return err
	}

	if err := errors.Join(client.ProduceSync(ctx, never.record()).FirstErr(),
		client.EndTransaction(ctx, kgo.TryAbort)); err != nil {
		return err
	}

	if err := c.answered(ctx, c.ask(func(q *question) {
		q.partition, q.ReplyPartition = never.partition, never.ReplyPartition
	})); err != nil {
		return err
	}

	if slices.ContainsFunc(c.strays, func(s stray) bool { return s.err == nil && s.EndToEndId == never.EndToEndId }) {
		return fault{never.EndToEndId +
			" stands in an aborted transaction and was answered: read with isolation.level=read_committed"}
	}

	return nil
}

// committed freezes the bank at many moments: what is committed then must be answered.
func committed(ctx context.Context, c *counterpart) error {
	if c.process == nil {
		return needsCommand
	}

	groups, err := c.groups(ctx)
	if err != nil {
		return err
	}

	if len(groups) == 0 {
		return untried("the bank has no consumer group: over HTTP it commits nothing, because the front door tells again what is not answered")
	}
	var took time.Duration

	for range freezes {
		questions := c.several(20)

		records := recordsOf(questions)
		if err := c.send(ctx, records...); err != nil {
			return err
		}
		began := time.Now()

		if took > 0 {
			time.Sleep(time.Duration(c.random.Int64N(int64(took))))
			c.signal(syscall.SIGSTOP)
			err := c.committedUnanswered(ctx, groups, records)
			c.signal(syscall.SIGCONT)

			if err != nil {
				return err
			}
		}

		if err := c.await(ctx, questions, make([]int, len(questions))); err != nil {
			return err
		}

		if took == 0 {
			took = time.Since(began)
		}
	}

	return nil
}

// freezes is how often the bank is frozen. A bug that shows a tenth of the time is missed once in 20 runs.
const freezes = 30

// committedUnanswered returns as a fault a question that a kill now would lose.
func (c *counterpart) committedUnanswered(ctx context.Context, groups []string, asked []*kgo.Record) error {
	var behind []*kgo.Record

	for _, group := range groups {
		offsets, err := kadm.NewClient(c.client).FetchOffsets(ctx, group)
		if err != nil {
			return fmt.Errorf("cannot read the offsets of group %s: %w", group, err)
		}

		for _, record := range asked {
			if at, ok := offsets.Lookup(stream.AuthorizationRequests, record.Partition); ok && record.Offset < at.At {
				behind = append(behind, record)
			}
		}
	}
	unanswered := func(record *kgo.Record) bool { return len(c.responses[string(record.Key)]) == 0 }

	const patience = 2 * time.Second // what was written before the offset may become visible after it
	if err := c.read(ctx, patience, func() bool {
		return !slices.ContainsFunc(behind, unanswered)
	}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}

	for _, record := range behind {
		if unanswered(record) {
			return fault{fmt.Sprintf(
				"offset %d of partition %d is committed, and %s is not answered: a kill now would lose it",
				record.Offset, record.Partition, record.Key)}
		}
	}

	return nil
}

// killed kills the bank in the middle of a crowd.
func killed(ctx context.Context, c *counterpart) error {
	if c.process == nil {
		return needsCommand
	}
	all := c.crowd()

	records := recordsOf(all)
	if err := c.send(ctx, records[:len(all)/2]...); err != nil {
		return err
	}
	isAnswered := func(q *question) bool { return len(c.responses[q.EndToEndId]) > 0 }

	if err := c.read(ctx, c.Within, func() bool { return slices.ContainsFunc(all, isAnswered) }); err != nil {
		return fault{fmt.Sprintf("no response within %v to %d questions (%v)", c.Within, len(all)/2, err)}
	}
	c.stopBank(syscall.SIGKILL)

	if err := c.send(ctx, records[len(all)/2:]...); err != nil {
		return err
	}

	if err := c.startBank(); err != nil {
		return err
	}

	if err := c.await(ctx, all, make([]int, len(all))); err != nil {
		return err
	}

	return c.answered(ctx, all...) // a decision must outlive the program
}
