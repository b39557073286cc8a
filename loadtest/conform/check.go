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

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/liquida/liquida/platform/pix"
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
				return errNeedsCommand
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
	{"answers a crowd within the deadline", "limits", (*counterpart).crowd, nil},
	{"killed, it starts again and answers what it was asked", "being-asked-over-kafka", nil, killed},
}

// one asks one question that is changed.
func one(change func(*counterpart, *question)) func(*counterpart) []*question {
	return func(c *counterpart) []*question { return []*question{c.ask(func(q *question) { change(c, q) })} }
}

// fault is what the bank did wrong.
type fault []string

func (f fault) Error() string { return strings.Join(f, "; ") }

// errNeedsCommand says why a check cannot be tried here. It is no fault of the bank.
var errNeedsCommand = errors.New("give the bank's command behind --, so that it can be started and killed")

func (c *counterpart) crowd() (all []*question) {
	for range c.Crowd {
		all = append(all, c.ask())
	}

	return all
}

// others asks another bank, and then the bank: what it wrote until it answered shows whose questions it took.
func others(ctx context.Context, c *counterpart) error {
	own := c.ask()

	foreign := c.aside(func(q *question) {
		q.Payee.Ispb, q.partition, q.ReplyPartition = nobody, own.partition, own.ReplyPartition
	})
	if err := errors.Join(c.send(ctx, foreign.record()), c.answered(ctx, own)); err != nil {
		return err
	}

	if slices.Contains(c.strays, foreign.EndToEndId) {
		return fault{fmt.Sprintf("%s was a question to bank %s, and is answered", foreign.EndToEndId, nobody)}
	}

	return nil
}

// kills is how often the bank is killed. A bug that shows half of the time is missed once in 32 runs.
const kills = 6

// killed kills the bank once when it has answered, because a decision must outlive the program, and then at any moment
// of its work, because what it committed before its response would be lost. It asks on while the bank is dead.
func killed(ctx context.Context, c *counterpart) error {
	if c.process == nil {
		return errNeedsCommand
	}
	began := time.Now()

	if err := c.answered(ctx, c.crowd()...); err != nil {
		return err
	}
	took := time.Since(began)

	for kill := range kills {
		crowd := c.crowd()
		records, half := recordsOf(crowd), len(crowd)/2

		err := c.send(ctx, records[:half]...)
		if err == nil && kill == 0 {
			err = c.await(ctx, crowd[:half], make([]int, half))
		}

		if err != nil {
			return err
		}

		if kill > 0 {
			time.Sleep(time.Duration(c.random.Int64N(int64(took))))
		}
		c.stopBank(syscall.SIGKILL)

		if err := c.send(ctx, records[half:]...); err != nil {
			return err
		}

		if err := c.startBank(); err != nil {
			return err
		}

		if err := c.await(ctx, crowd, make([]int, len(crowd))); err != nil {
			return err
		}

		if err := c.answered(ctx, crowd...); err != nil { // as before it died
			return err
		}
	}

	return nil
}
