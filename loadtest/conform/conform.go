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
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/stream"
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

// nobody is a bank that nothing answers for: who responds in its name answers for all banks.
const nobody = "99999998"

// counterpart is the clearing house, as the bank sees it.
type counterpart struct {
	Config
	bank, payer pix.ISPB
	seals       keys.Seals
	client      *kgo.Client
	partitions  int32
	random      *rand.Rand
	asked       int
	questions   map[string]*question
	responses   map[string][]response // of questions, in the order in which they came
	strange     []string              // records that are no response
	process     *exec.Cmd
}

// Run tries a bank.
func Run(ctx context.Context, config Config) (*Report, error) {
	c := &counterpart{
		Config: config, bank: config.Bank, payer: "10000001", seals: config.Seals, questions: map[string]*question{}, responses: map[string][]response{},
		random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)),
	}
	if c.payer == c.bank {
		c.payer = "10000002"
	}
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	defer c.client.Close()
	if len(config.Command) > 0 {
		if err := c.startBank(); err != nil {
			return nil, err
		}
		defer c.stopBank(syscall.SIGTERM)
	}
	report := &Report{}
	answers := true
	for _, check := range checks {
		line := Line{Check: check.name, Section: check.section}
		switch {
		case !answers:
			line.Skipped = "the bank answers nothing"
		case check.kills && len(config.Command) == 0:
			line.Skipped = "give the bank's command behind --, so that it can be killed"
		default:
			config.Log("%s …", check.name)
			wrong, err := check.try(ctx, c)
			if err != nil {
				return nil, err
			}
			line.Wrong = wrong
		}
		report.Lines = append(report.Lines, line)
		answers = answers && len(c.responses) > 0
	}
	for _, rule := range rules {
		line := Line{Check: rule.name, Section: rule.section}
		if rule.section == "the-seal" && c.seals == nil {
			line.Skipped = "no file of secrets: set ANSWER_KEYS_FILE"
		}
		for id, responses := range c.responses {
			for i := range responses {
				if wrong := rule.broken(c, c.questions[id], &responses[i]); wrong != "" {
					line.Wrong = append(line.Wrong, fmt.Sprintf("the response to %s: %s", id, wrong))
				}
			}
		}
		report.Lines = append(report.Lines, line)
	}
	report.Lines = append(report.Lines, Line{Check: "writes nothing else", Section: "topics", Wrong: c.strange})
	report.Questions = len(c.questions)
	for _, responses := range c.responses {
		report.Responses += len(responses)
	}
	return report, nil
}

// connect reads responses from now on.
func (c *counterpart) connect(ctx context.Context) error {
	client, err := kgo.NewClient(append(c.Kafka, kgo.ClientID("conform"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequiredAcks(kgo.AllISRAcks()))...)
	if err != nil {
		return err
	}
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, stream.AuthorizationResponses, stream.AuthorizationRequests)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		client.Close()
		return fmt.Errorf("cannot read the topics of authorizations: %w", err)
	}
	c.partitions = int32(len(ends[stream.AuthorizationRequests]))
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{stream.AuthorizationResponses: ends.KOffsets()[stream.AuthorizationResponses]})
	c.client = client
	return nil
}

// send asks questions. It returns when Kafka has stored them.
func (c *counterpart) send(ctx context.Context, records ...*kgo.Record) error {
	return c.client.ProduceSync(ctx, records...).FirstErr()
}

// read takes what the bank has written, for a time or until it is enough.
func (c *counterpart) read(ctx context.Context, within time.Duration, enough func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for !enough() && ctx.Err() == nil {
		fetches := c.client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				return fmt.Errorf("cannot read %s: %w", failed.Topic, failed.Err)
			}
		}
		fetches.EachRecord(c.take)
	}
	return context.Cause(ctx)
}

func (c *counterpart) take(record *kgo.Record) {
	r, err := responseOf(record)
	switch {
	case err != nil:
		c.strange = append(c.strange, fmt.Sprintf("partition %d, offset %d is no AuthorizationResponse: %v", record.Partition, record.Offset, err))
	case c.questions[r.EndToEndId] != nil:
		c.responses[r.EndToEndId] = append(c.responses[r.EndToEndId], r)
	case r.Ispb == string(c.bank), r.Ispb == nobody:
		c.strange = append(c.strange, fmt.Sprintf("partition %d, offset %d responds to %.40q, which nobody asked", record.Partition, record.Offset, r.EndToEndId))
	}
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
	_ = syscall.Kill(-c.process.Process.Pid, signal) // it may have ended
	const patience = 10 * time.Second
	timer := time.AfterFunc(patience, func() { _ = syscall.Kill(-c.process.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	_ = c.process.Wait() // how it ended is not judged
}
