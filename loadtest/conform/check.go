package conform

import (
	"context"
	"fmt"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
)

// checks are tried in this order, each after the one before.
var checks = []struct {
	name, section string
	kills         bool
	try           func(context.Context, *counterpart) (wrong []string, err error)
}{
	{"answers a question", "being-asked", false, func(ctx context.Context, c *counterpart) ([]string, error) {
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
	{"gives a repeated question the same response", "being-asked", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		q := c.ask()
		return c.repeated(ctx, q, q, q)
	}},
	{"also from another partition, for another engine", "being-asked", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		q := c.ask()
		if wrong, err := c.answered(ctx, q); len(wrong) > 0 || err != nil {
			return wrong, err
		}
		q.earlier = []int32{q.ReplyPartition}
		q.partition, q.ReplyPartition = (q.partition+1)%c.partitions, (q.ReplyPartition+1)%c.partitions
		return c.repeated(ctx, q)
	}},
	{"answers a question whose payment is long over", "being-asked", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.ask(func(q *question) {
			q.EndToEndId = pix.NewEndToEndID(c.payer, time.Now().Add(-48*time.Hour), c.random).String()
		}))
	}},
	{"answers a question about a return", "being-asked", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.ask(func(q *question) {
			q.OriginalEndToEndId = pix.NewEndToEndID(c.bank, time.Now(), c.random).String()
			q.EndToEndId = pix.NewReturnID(c.payer, time.Now(), c.random).String()
		}))
	}},
	{"reads the smallest and the largest values", "limits", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx,
			c.ask(func(q *question) { q.AmountCentavos, q.Payee.Number = 1, "9" }),
			c.ask(func(q *question) { q.AmountCentavos, q.Payee.Number = math.MaxInt64, strings.Repeat("9", 20) }))
	}},
	{"leaves the questions to other banks alone", "being-asked", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		other := c.ask(func(q *question) { q.Payee.Ispb = nobody })
		delete(c.questions, other.EndToEndId)
		if err := c.send(ctx, other.record()); err != nil {
			return nil, err
		}
		before := len(c.strange)
		wrong, err := c.answered(ctx, c.ask(func(q *question) { q.partition, q.ReplyPartition = other.partition, other.ReplyPartition }))
		answered := append([]string(nil), c.strange[before:]...)
		c.strange = c.strange[:before]
		return append(wrong, answered...), err
	}},
	{"goes on after what is no question", "being-asked", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		q := c.ask()
		strange := [][]byte{nil, {0xff}, {0x18, 0x01}, []byte("{}"), {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, []byte(strings.Repeat("\x0a\x01E", 1000))}
		for _, value := range strange {
			if err := c.send(ctx, &kgo.Record{Topic: stream.AuthorizationRequests, Partition: q.partition, Value: value}); err != nil {
				return nil, err
			}
		}
		return c.answered(ctx, q)
	}},
	{"does not answer what was never asked: an aborted transaction", "topics", false, aborted},
	{"answers a crowd within the deadline", "limits", false, func(ctx context.Context, c *counterpart) ([]string, error) {
		return c.answered(ctx, c.crowd()...)
	}},
	{"killed, it starts again and answers what it was asked, the same", "being-asked", true, killed},
}

func (c *counterpart) crowd() (all []*question) {
	for range c.Crowd {
		all = append(all, c.ask())
	}
	return all
}

// repeated asks questions with one id, one after the other, and compares the responses.
func (c *counterpart) repeated(ctx context.Context, questions ...*question) ([]string, error) {
	for _, q := range questions {
		if wrong, err := c.answered(ctx, q); len(wrong) > 0 || err != nil {
			return wrong, err
		}
	}
	return differing(questions[0], c.responses[questions[0].EndToEndId]), nil
}

func differing(q *question, responses []response) (wrong []string) {
	for i := range responses {
		if !responses[i].same(&responses[0]) {
			wrong = append(wrong, fmt.Sprintf("%s: first %s, then %s", q.EndToEndId, &responses[0], &responses[i]))
		}
	}
	return wrong
}

// aborted asks within a transaction that is aborted, and then a question behind it.
func aborted(ctx context.Context, c *counterpart) ([]string, error) {
	never := c.ask()
	client, err := kgo.NewClient(append(c.Kafka, kgo.TransactionalID("conform-"+never.EndToEndId), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
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
	wrong, err := c.await(ctx, all, before)
	for _, q := range all {
		wrong = append(wrong, differing(q, c.responses[q.EndToEndId])...)
	}
	return wrong, err
}
