// Package conform tries the software of a receiving bank: it plays the clearing house, asks every
// kind of question, misbehaves as engines and their restarts may, and holds each response
// against docs/participant.md.
package conform

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// Config says which bank is tried, and how.
type Config struct {
	Kafka   []kgo.Opt
	Bank    pix.ISPB
	Seals   keys.Seals    // nil: seals are not checked
	Within  time.Duration // in which a question must be answered
	Crowd   int           // questions at once
	Command []string      // starts the bank; empty: it runs already, and is not killed
	Log     func(format string, arguments ...any)
}

// Line is the result of one check.
type Line struct {
	Check   string
	Section string // of docs/participant.md
	Skipped string // why it was not tried
	Wrong   []string
}

// nobody is a bank without software. Only a simulator of all banks answers for it, in its name.
const nobody = "99999998"

// counterpart is the clearing house, as the bank sees it.
type counterpart struct {
	Config
	payer      pix.ISPB
	client     *kgo.Client
	partitions int32
	random     *rand.Rand
	asked      int
	early      *question // asked before the bank started; nil if it runs already
	questions  map[string]*question
	responses  map[string][]response // of questions, in the order in which they came
	strays     []string              // ids of what the bank responded to, and was not asked here
	next       map[int32]int64       // the offset of each partition of responses that is read next
	process    *exec.Cmd
}

// Run tries a bank.
func Run(ctx context.Context, config Config) (lines []Line, err error) {
	c := &counterpart{
		Config: config, payer: "10000001", questions: map[string]*question{}, responses: map[string][]response{},
		next:   map[int32]int64{},
		random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)),
	}
	if c.payer == c.Bank {
		c.payer = "10000002"
	}

	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	defer c.client.Close()

	if len(config.Command) > 0 {
		c.early = c.ask()
		if err := c.send(ctx, c.early.record()); err != nil {
			return nil, err
		}

		if err := c.startBank(); err != nil {
			return nil, err
		}
		defer c.stopBank(syscall.SIGKILL)
	}
	answers := true

	for i, check := range checks {
		line := Line{Check: check.name, Section: check.section, Skipped: "the bank answers nothing"}
		if answers {
			config.Log("%s …", check.name)

			if line, err = c.try(ctx, line, check.ask, check.try); err != nil {
				return nil, err
			}
		}
		lines = append(lines, line)
		answers = answers && (i == 0 || len(c.responses) > 0) // who misses the first may read from the end
	}
	c.stopBank(syscall.SIGTERM)

	if err := c.drain(ctx); err != nil {
		return nil, err
	}

	return append(lines, c.judge()...), nil
}

// try carries out a check. An error says that it told nothing about the bank.
func (c *counterpart) try(ctx context.Context, line Line, ask func(*counterpart) []*question,
	try func(context.Context, *counterpart) error) (Line, error) {
	var err error
	if ask != nil {
		err = c.answered(ctx, ask(c)...)
	} else {
		err = try(ctx, c)
	}
	var wrong fault

	switch line.Skipped = ""; {
	case errors.Is(err, errNeedsCommand):
		line.Skipped = err.Error()
	case err != nil && !errors.As(err, &wrong):
		return line, err
	}
	line.Wrong = wrong

	return line, nil
}

// judge holds all responses against the rules.
func (c *counterpart) judge() (lines []Line) {
	for _, rule := range rules {
		line := Line{Check: rule.name, Section: rule.section}
		switch {
		case len(c.responses) == 0:
			line.Skipped = "there is no response"
		case rule.section == "the-seal" && c.Seals == nil:
			line.Skipped = "no file of secrets: set ANSWER_KEYS_FILE"
		default:
			for id, responses := range c.responses {
				for i := range responses {
					if wrong := rule.broken(c, c.questions[id], &responses[i]); wrong != "" {
						line.Wrong = append(line.Wrong, fmt.Sprintf("the response to %s: %s", id, wrong))
					}
				}
			}
		}
		lines = append(lines, line)
	}

	return lines
}

// drain reads what was written until now.
func (c *counterpart) drain(ctx context.Context) error {
	ends, err := kadm.NewClient(c.client).ListCommittedOffsets(ctx, stream.AuthorizationResponses)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", stream.AuthorizationResponses, err)
	}

	return c.read(ctx, c.Within, func() bool {
		reached := true
		ends.Each(func(end kadm.ListedOffset) { reached = reached && c.next[end.Partition] >= end.Offset })
		return reached
	})
}

// connect reads responses from now on. It writes as an engine does: without compression, which not every client can
// unpack.
func (c *counterpart) connect(ctx context.Context) error {
	admin, err := kgo.NewClient(c.Kafka...)
	if err != nil {
		return err
	}
	defer admin.Close()

	ends, err := stream.Ends(ctx, kadm.NewClient(admin), stream.AuthorizationResponses)
	if err != nil {
		return err
	}
	ends.Each(func(end kadm.ListedOffset) { c.next[end.Partition] = end.Offset })
	c.partitions = int32(len(c.next))
	c.client, err = kgo.NewClient(append(slices.Clone(c.Kafka), kgo.ClientID("conform"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // they count too, so that the end can be reached
		kgo.ConsumePartitions(ends.KOffsets()))...)

	return err
}

// send asks questions. It returns when Kafka has stored them.
func (c *counterpart) send(ctx context.Context, records ...*kgo.Record) error {
	return c.client.ProduceSync(ctx, records...).FirstErr()
}

// read takes what the bank has written, for a time or until it is enough.
func (c *counterpart) read(ctx context.Context, within time.Duration, enough func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()

	for !enough() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		fetches := c.client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				return fmt.Errorf("cannot read %s: %w", failed.Topic, failed.Err)
			}
		}
		fetches.EachRecord(c.take)
	}

	return nil
}

func (c *counterpart) take(record *kgo.Record) {
	c.next[record.Partition] = record.Offset + 1
	if record.Attrs.IsControl() {
		return
	}

	r := response{&pixv1.AuthorizationResponse{}, record}
	switch err := r.UnmarshalVT(record.Value); {
	case err != nil: // an engine counts it
	case c.questions[r.EndToEndId] != nil:
		c.responses[r.EndToEndId] = append(c.responses[r.EndToEndId], r)
	case r.Ispb == string(c.Bank):
		c.strays = append(c.strays, r.EndToEndId)
	}
}

// answered asks questions. It returns as a fault those without a new response in time.
func (c *counterpart) answered(ctx context.Context, questions ...*question) error {
	before := make([]int, len(questions))
	for i, q := range questions {
		before[i] = len(c.responses[q.EndToEndId])
	}

	if err := c.send(ctx, recordsOf(questions)...); err != nil {
		return err
	}

	return c.await(ctx, questions, before)
}

// await waits for more responses than before.
func (c *counterpart) await(ctx context.Context, questions []*question, before []int) error {
	open := func() (open int, first *question) {
		for i, q := range questions {
			if len(c.responses[q.EndToEndId]) <= before[i] {
				if open++; first == nil {
					first = q
				}
			}
		}

		return open, first
	}

	err := c.read(ctx, c.Within, func() bool { n, _ := open(); return n == 0 })
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // Kafka's fault, or the end, and not the bank's
		return err
	}

	if n, q := open(); n > 0 {
		return fault{fmt.Sprintf("no response within %v to %d of %d questions, such as %s in partition %d", c.Within, n,
			len(questions), q.EndToEndId, q.partition)}
	}

	return nil
}

// signal sends a signal to the bank and what it started.
func (c *counterpart) signal(signal syscall.Signal) {
	_ = syscall.Kill(-c.process.Process.Pid, signal) // it may have ended
}

func (c *counterpart) startBank() error {
	process := exec.Command(c.Command[0], c.Command[1:]...)
	process.Stdout, process.Stderr = os.Stderr, os.Stderr

	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		return fmt.Errorf("cannot start the bank: %w", err)
	}
	c.process = process

	return nil
}

// stopBank ends the bank and what it started. After a while it does so without asking.
func (c *counterpart) stopBank(signal syscall.Signal) {
	if c.process == nil {
		return
	}
	c.signal(signal)
	const patience = 10 * time.Second
	timer := time.AfterFunc(patience, func() { c.signal(syscall.SIGKILL) })
	defer timer.Stop()
	_ = c.process.Wait() // how it ended is not judged
	c.process = nil
}
