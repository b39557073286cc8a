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

// Report is the result of all checks.
type Report struct {
	Lines     []Line
	Questions int
	Responses int
}

// Passed reports whether the bank did nothing wrong.
func (r *Report) Passed() bool {
	for _, line := range r.Lines {
		if len(line.Wrong) > 0 {
			return false
		}
	}
	return true
}

// nobody is a bank without software. Only a simulator of all banks answers for it.
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
	writers    map[int64]bool        // producer ids of the responses: the bank's
	strays     []stray
	next       map[int32]int64 // the offset of each partition of responses that is read next
	members    map[string]bool // of consumer groups, seen so far
	process    *exec.Cmd
}

// stray is a record that responds to nothing that was asked here. Its writer need not be the bank.
type stray struct {
	response
	err error // why it is no response at all
}

// Run tries a bank.
func Run(ctx context.Context, config Config) (*Report, error) {
	c := &counterpart{
		Config: config, payer: "10000001", questions: map[string]*question{}, responses: map[string][]response{},
		writers: map[int64]bool{}, next: map[int32]int64{}, members: map[string]bool{},
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
		if _, err := c.groups(ctx); err != nil {
			return nil, err
		}
		if err := c.startBank(); err != nil {
			return nil, err
		}
		defer c.stopBank(syscall.SIGKILL)
	}
	report := &Report{}
	answers := true
	for i, check := range checks {
		line := Line{Check: check.name, Section: check.section}
		switch {
		case !answers:
			line.Skipped = "the bank answers nothing"
		case check.starts && len(config.Command) == 0:
			line.Skipped = "give the bank's command behind --, so that it can be started and killed"
		default:
			config.Log("%s …", check.name)
			wrong, err := check.try(ctx, c)
			var why untried
			if err != nil && !errors.As(err, &why) {
				return nil, err
			}
			line.Wrong, line.Skipped = wrong, string(why)
		}
		report.Lines = append(report.Lines, line)
		answers = answers && (i == 0 || len(c.responses) > 0) // who misses the first may read from the end
	}
	c.stopBank(syscall.SIGTERM)
	if err := c.drain(ctx); err != nil {
		return nil, err
	}
	report.Lines = append(report.Lines, c.judge()...)
	line, err := c.judgeStrays(ctx)
	if err != nil {
		return nil, err
	}
	report.Lines = append(report.Lines, line)
	report.Questions = len(c.questions)
	for _, responses := range c.responses {
		report.Responses += len(responses)
	}
	return report, nil
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

// judgeStrays tells what else the bank wrote. It may answer what an engine, or an earlier run, asked.
func (c *counterpart) judgeStrays(ctx context.Context) (Line, error) {
	line := Line{Check: "writes nothing else", Section: "topics"}
	if len(c.responses) == 0 {
		line.Skipped = "there is no response"
		return line, nil
	}
	c.strays = slices.DeleteFunc(c.strays, func(s stray) bool { return !c.writers[s.record.ProducerID] })
	if len(c.strays) == 0 {
		return line, nil
	}
	asked, err := c.askedByOthers(ctx)
	if err != nil {
		return line, err
	}
	for _, s := range c.strays {
		if s.err != nil || !asked[s.EndToEndId] {
			line.Wrong = append(line.Wrong, s.String())
		}
	}
	return line, nil
}

func (s *stray) String() string {
	if s.err != nil {
		return fmt.Sprintf("partition %d, offset %d is no AuthorizationResponse: %v", s.record.Partition, s.record.Offset, s.err)
	}
	return fmt.Sprintf("partition %d, offset %d responds to %.40q, which nobody asked it", s.record.Partition, s.record.Offset, s.EndToEndId)
}

// askedByOthers reads every question to the bank that Kafka still has.
func (c *counterpart) askedByOthers(ctx context.Context) (map[string]bool, error) {
	admin := kadm.NewClient(c.client)
	starts, err := admin.ListStartOffsets(ctx, stream.AuthorizationRequests)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", stream.AuthorizationRequests, err)
	}
	reader, err := c.reader(starts)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	asked, next := map[string]bool{}, map[int32]int64{}
	starts.Each(func(o kadm.ListedOffset) { next[o.Partition] = o.Offset })
	ends, err := admin.ListCommittedOffsets(ctx, stream.AuthorizationRequests)
	if err != nil {
		return nil, err
	}
	return asked, read(ctx, reader, c.Within, func() bool { return reached(ends, next) }, func(record *kgo.Record) {
		next[record.Partition] = record.Offset + 1
		var q pixv1.AuthorizationRequest
		if !record.Attrs.IsControl() && q.UnmarshalVT(record.Value) == nil && q.GetPayee().GetIspb() == string(c.Bank) {
			asked[q.EndToEndId] = true
		}
	})
}

// reached reports whether everything below the ends was read.
func reached(ends kadm.ListedOffsets, next map[int32]int64) bool {
	all := true
	ends.Each(func(end kadm.ListedOffset) { all = all && next[end.Partition] >= end.Offset })
	return all
}

// drain reads what was written until now.
func (c *counterpart) drain(ctx context.Context) error {
	ends, err := kadm.NewClient(c.client).ListCommittedOffsets(ctx, stream.AuthorizationResponses)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", stream.AuthorizationResponses, err)
	}
	return c.read(ctx, c.Within, func() bool { return reached(ends, c.next) })
}

// reader reads from these offsets. Control records count too, so that the end can be reached.
func (c *counterpart) reader(from kadm.ListedOffsets) (*kgo.Client, error) {
	return c.connection(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(from.KOffsets()))
}

// connection writes as an engine does: without compression, which not every client can unpack.
func (c *counterpart) connection(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append(slices.Clone(c.Kafka), kgo.ClientID("conform"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(kgo.NoCompression())), options...)...)
}

// connect reads responses from now on.
func (c *counterpart) connect(ctx context.Context) error {
	client, err := c.connection()
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := stream.Ends(ctx, kadm.NewClient(client), stream.AuthorizationResponses)
	if err != nil {
		return err
	}
	ends.Each(func(end kadm.ListedOffset) { c.next[end.Partition] = end.Offset })
	c.partitions = int32(len(c.next))
	c.client, err = c.reader(ends)
	return err
}

// send asks questions. It returns when Kafka has stored them.
func (c *counterpart) send(ctx context.Context, records ...*kgo.Record) error {
	return c.client.ProduceSync(ctx, records...).FirstErr()
}

// read takes what the bank has written, for a time or until it is enough.
func (c *counterpart) read(ctx context.Context, within time.Duration, enough func() bool) error {
	return read(ctx, c.client, within, enough, c.take)
}

func read(ctx context.Context, client *kgo.Client, within time.Duration, enough func() bool, take func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for !enough() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				return fmt.Errorf("cannot read %s: %w", failed.Topic, failed.Err)
			}
		}
		fetches.EachRecord(take)
	}
	return nil
}

func (c *counterpart) take(record *kgo.Record) {
	c.next[record.Partition] = record.Offset + 1
	if record.Attrs.IsControl() {
		return
	}
	r, err := responseOf(record)
	if err == nil && c.questions[r.EndToEndId] != nil {
		c.responses[r.EndToEndId] = append(c.responses[r.EndToEndId], r)
		c.writers[record.ProducerID] = true
		return
	}
	c.strays = append(c.strays, stray{r, err})
}

// answered asks questions. It returns those without a new response in time.
func (c *counterpart) answered(ctx context.Context, questions ...*question) (wrong []string, err error) {
	before := make([]int, len(questions))
	records := make([]*kgo.Record, len(questions))
	for i, q := range questions {
		before[i], records[i] = len(c.responses[q.EndToEndId]), q.record()
	}
	if err := c.send(ctx, records...); err != nil {
		return nil, err
	}
	return c.await(ctx, questions, before)
}

func (c *counterpart) await(ctx context.Context, questions []*question, before []int) (wrong []string, err error) {
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
	err = c.read(ctx, c.Within, func() bool { n, _ := open(); return n == 0 })
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // Kafka's fault, or the end, and not the bank's
		return nil, err
	}
	if n, q := open(); n > 0 {
		return []string{fmt.Sprintf("no response within %v to %d of %d questions, such as %s in partition %d", c.Within, n, len(questions), q.EndToEndId, q.partition)}, nil
	}
	return nil, nil
}

// groups returns the consumer groups of questions with members that were not there at the last call.
func (c *counterpart) groups(ctx context.Context) (names []string, err error) {
	described, err := kadm.NewClient(c.client).DescribeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the consumer groups: %w", err)
	}
	for _, group := range described {
		if !group.AssignedPartitions().Lookup(stream.AuthorizationRequests, 0) {
			continue
		}
		for _, member := range group.Members {
			if !c.members[member.MemberID] && !slices.Contains(names, group.Group) {
				names = append(names, group.Group)
			}
			c.members[member.MemberID] = true
		}
	}
	return names, nil
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
