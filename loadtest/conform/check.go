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

// checks are tried in this order, each after the one before.
var checks = []struct {
	name, section string
	starts        bool // it needs the bank's command
	try           func(context.Context, *counterpart) (wrong []string, err error)
}{
	{"answers what was asked before it started", "being-asked-over-kafka", true, func(ctx context.Context, c *counterpart) ([]string, error) {
		wrong, err := c.await(ctx, []*question{c.early}, []int{0})
		if len(wrong) > 0 {
			wrong = append(wrong, "let a new consumer group begin at the earliest offset")
		}
		return wrong, err
	}},
	{"answers a question", "being-asked-over-kafka", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.ask())
	}},
	{"answers in every partition, for every reply partition", "topics", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		var all []*question
		for asked := range c.partitions {
			for reply := range c.partitions {
				all = append(all, c.ask(func(q *question) { q.partition, q.ReplyPartition = asked, reply }))
			}
		}
		return c.answered(ctx, all...)
	}},
	{"answers a repeated question", "being-asked-over-kafka", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		q := c.ask()
		return c.repeated(ctx, q, q, q)
	}},
	{"also from another partition, for another engine", "being-asked-over-kafka", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		q := c.ask()
		if wrong, err := c.answered(ctx, q); len(wrong) > 0 || err != nil {
			return wrong, err
		}
		q.earlier = []int32{q.ReplyPartition}
		q.partition, q.ReplyPartition = (q.partition+1)%c.partitions, (q.ReplyPartition+1)%c.partitions
		return c.repeated(ctx, q)
	}},
	{"answers a question whose payment is long over", "being-asked-over-kafka", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.ask(func(q *question) {
			q.EndToEndId = pix.NewEndToEndID(c.payer, time.Now().Add(-48*time.Hour), c.random).String()
		}))
	}},
	{"answers a question about a return", "being-asked-over-kafka", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.ask(func(q *question) {
			q.OriginalEndToEndId = pix.NewEndToEndID(c.Bank, time.Now(), c.random).String()
			q.EndToEndId = pix.NewReturnID(c.payer, time.Now(), c.random).String()
		}))
	}},
	{"reads the smallest and the largest values", "limits", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx,
			c.ask(func(q *question) { q.AmountCentavos, q.Payee.Number = 1, "9" }),
			c.ask(func(q *question) { q.AmountCentavos, q.Payee.Number = math.MaxInt64, strings.Repeat("9", 20) }))
	}},
	{"answers when its own customer pays", "being-asked-over-kafka", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.ask(func(q *question) { q.Payer.Ispb = string(c.Bank) }))
	}},
	{"ignores fields that it does not know", "topics", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		q := c.ask()
		record := q.record()
		record.Value = protowire.AppendTag(record.Value, 1000, protowire.BytesType)
		record.Value = protowire.AppendString(record.Value, "a field of a later version")
		if err := c.send(ctx, record); err != nil {
			return nil, err
		}
		return c.await(ctx, []*question{q}, []int{0})
	}},
	{"leaves the questions to other banks alone", "being-asked-over-kafka", false, others},
	{"goes on after what is no question", "being-asked-over-kafka", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		q := c.ask()
		strange := [][]byte{nil, {0xff}, {0x18, 0x01}, []byte("{}"), {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, []byte(strings.Repeat("\x0a\x01E", 1000))}
		for _, reply := range []int32{c.partitions, math.MaxInt32, -1} {
			nowhere := c.ask(func(n *question) { n.ReplyPartition = reply })
			delete(c.questions, nowhere.EndToEndId)
			strange = append(strange, nowhere.record().Value)
		}
		for _, value := range strange {
			if err := c.send(ctx, trial(q.partition, value)); err != nil {
				return nil, err
			}
		}
		return c.answered(ctx, q)
	}},
	{"does not answer what was never asked: an aborted transaction", "topics", false, aborted},
	{"answers a crowd within the deadline", "limits", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.crowd()...)
	}},
	{"commits an offset after the response", "being-asked-over-kafka", true, committed},
	{"killed, it starts again and answers what it was asked", "being-asked-over-kafka", true, killed},
}

// untried says why a check cannot be tried here. It is no fault of the bank.
type untried string

func (u untried) Error() string { return string(u) }

func (c *counterpart) crowd() (all []*question) {
	for range c.Crowd {
		all = append(all, c.ask())
	}
	return all
}

// others asks two other banks, and then the bank: what it wrote until it answered shows whose questions it took.
func others(ctx context.Context, c *counterpart) ([]string, error) {
	own := c.ask()
	foreign := map[string]bool{}
	for _, payer := range []pix.ISPB{c.payer, c.Bank} {
		q := c.ask(func(q *question) {
			q.Payer.Ispb, q.Payee.Ispb, q.partition, q.ReplyPartition = string(payer), nobody, own.partition, own.ReplyPartition
		})
		delete(c.questions, q.EndToEndId)
		foreign[q.EndToEndId] = true
		if err := c.send(ctx, q.record()); err != nil {
			return nil, err
		}
	}
	wrong, err := c.answered(ctx, own)
	c.strays = slices.DeleteFunc(c.strays, func(s stray) bool {
		if s.err != nil || !foreign[s.EndToEndId] {
			return false
		}
		if c.writers[s.record.ProducerID] { // else a simulator of all banks
			wrong = append(wrong, fmt.Sprintf("%s was a question to bank %s, and is answered in the name of %.20q", s.EndToEndId, nobody, s.Ispb))
		}
		return true
	})
	return wrong, err
}

// repeated asks questions with one id, one after the other. A rule compares the responses.
func (c *counterpart) repeated(ctx context.Context, questions ...*question) ([]string, error) {
	for _, q := range questions {
		if wrong, err := c.answered(ctx, q); len(wrong) > 0 || err != nil {
			return wrong, err
		}
	}
	return nil, nil
}

// aborted asks within a transaction that is aborted, and then a question behind it.
func aborted(ctx context.Context, c *counterpart) ([]string, error) {
	never := c.ask()
	client, err := c.connection(kgo.TransactionalID("conform-" + never.EndToEndId))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.BeginTransaction(); errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		delete(c.questions, never.EndToEndId)
		return nil, untried("the broker takes no transactions; that of the sandbox does with: bin/stack up --env broker:BROKER_TRANSACTIONS=true")
	} else if err != nil {
		return nil, err
	}
	if err := client.ProduceSync(ctx, never.record()).FirstErr(); err != nil {
		return nil, err
	}
	if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return nil, err
	}
	wrong, err := c.answered(ctx, c.ask(func(q *question) { q.partition, q.ReplyPartition = never.partition, never.ReplyPartition }))
	if len(c.responses[never.EndToEndId]) > 0 {
		wrong = append(wrong, never.EndToEndId+" stands in an aborted transaction and was answered: read with isolation.level=read_committed")
	}
	return wrong, err
}

// committed freezes the bank at many moments: what is committed then must be answered.
func committed(ctx context.Context, c *counterpart) ([]string, error) {
	groups, err := c.groups(ctx)
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, untried("the bank has no consumer group: over HTTP it commits nothing, because the front door tells again what is not answered")
	}
	var took time.Duration
	for range freezes {
		questions, records := make([]*question, 20), make([]*kgo.Record, 20)
		for i := range questions {
			questions[i] = c.ask()
			records[i] = questions[i].record()
		}
		if err := c.send(ctx, records...); err != nil {
			return nil, err
		}
		began := time.Now()
		if took > 0 {
			time.Sleep(time.Duration(c.random.Int64N(int64(took))))
			c.signal(syscall.SIGSTOP)
			lost, err := c.committedUnanswered(ctx, groups, records)
			c.signal(syscall.SIGCONT)
			if lost != "" || err != nil {
				return []string{lost}, err
			}
		}
		if wrong, err := c.await(ctx, questions, make([]int, len(questions))); len(wrong) > 0 || err != nil {
			return wrong, err
		}
		if took == 0 {
			took = time.Since(began)
		}
	}
	return nil, nil
}

// freezes is how often the bank is frozen. A bug that shows a tenth of the time is missed once in 20 runs.
const freezes = 30

// committedUnanswered names a question that a kill now would lose, or "".
func (c *counterpart) committedUnanswered(ctx context.Context, groups []string, asked []*kgo.Record) (string, error) {
	var behind []*kgo.Record
	for _, group := range groups {
		offsets, err := kadm.NewClient(c.client).FetchOffsets(ctx, group)
		if err != nil {
			return "", fmt.Errorf("cannot read the offsets of group %s: %w", group, err)
		}
		for _, record := range asked {
			if at, ok := offsets.Lookup(stream.AuthorizationRequests, record.Partition); ok && record.Offset < at.At {
				behind = append(behind, record)
			}
		}
	}
	unanswered := func(record *kgo.Record) bool { return len(c.responses[string(record.Key)]) == 0 }
	const patience = 2 * time.Second // what was written before the offset may become visible after it
	if err := c.read(ctx, patience, func() bool { return !slices.ContainsFunc(behind, unanswered) }); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	for _, record := range behind {
		if unanswered(record) {
			return fmt.Sprintf("offset %d of partition %d is committed, and %s is not answered: a kill now would lose it", record.Offset, record.Partition, record.Key), nil
		}
	}
	return "", nil
}

// killed kills the bank in the middle of a crowd.
func killed(ctx context.Context, c *counterpart) ([]string, error) {
	all := c.crowd()
	before, records := make([]int, len(all)), make([]*kgo.Record, len(all))
	for i, q := range all {
		records[i] = q.record()
	}
	if err := c.send(ctx, records[:len(all)/2]...); err != nil {
		return nil, err
	}
	answered := 0
	if err := c.read(ctx, c.Within, func() bool {
		answered = 0
		for _, q := range all {
			answered += len(c.responses[q.EndToEndId])
		}
		return answered > 0
	}); answered == 0 {
		return []string{fmt.Sprintf("no response within %v to %d questions (%v)", c.Within, len(all)/2, err)}, nil
	}
	c.stopBank(syscall.SIGKILL)
	if err := c.send(ctx, records[len(all)/2:]...); err != nil {
		return nil, err
	}
	if err := c.startBank(); err != nil {
		return nil, err
	}
	if wrong, err := c.await(ctx, all, before); len(wrong) > 0 || err != nil {
		return wrong, err
	}
	return c.answered(ctx, all...) // a decision must outlive the program
}
