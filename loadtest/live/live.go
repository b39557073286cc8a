// Package live watches the money while the clearing house works. It judges each payment as it ends, from
// the topics and the ledger, and reads the laws of balances every second. It says so by a light: green, amber
// while it cannot say, red once something was wrong.
//
// What it judges and by which ids and laws is in package audit. This package reads, and keeps to its share
// of the ledger's time.
package live

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	tigerbeetle "github.com/tigerbeetle/tigerbeetle-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/loadtest/audit"
)

// Config says what to watch.
type Config struct {
	// Kafka says how to connect. The caller gives it, because the audit shares no code.
	Kafka []kgo.Opt
	// Ledger is a client that nobody closes while Run runs.
	Ledger tigerbeetle.Client
	// Share is the most of the ledger's time that it takes.
	Share float64
	// Behind returns where to go on in a partition of which nothing can be read at an offset, or 0 if it can be read,
	// and whether what is there was aborted.
	Behind func(ctx context.Context, client *kgo.Client, topic string, partition int32, offset int64) (next int64,
		aborted bool, err error)
	// Log is called with what it does, seldom.
	Log func(format string, arguments ...any)
}

// Light says whether the money is right.
type Light struct {
	Colour    string    `json:"colour"`  // green, amber, red
	Text      string    `json:"text"`    // one sentence
	Since     time.Time `json:"since"`   // what was before is not checked
	Checked   int64     `json:"checked"` // payments with one outcome that agrees with the ledger
	CheckedTo time.Time `json:"checkedTo"`
	Findings  []Finding `json:"findings"` // what made it red, oldest first, at most 100
}

// Finding is one thing that is wrong.
type Finding struct {
	At      time.Time `json:"at"`
	Payment string    `json:"payment"` // EndToEndId or RtrId; empty if it is not about one
	Text    string    `json:"text"`
}

// The colours of the light.
const (
	Green = "green"
	Amber = "amber"
	Red   = "red"
)

const (
	findingsMax = 100
	// behindMax is how far the light may be behind and green.
	behindMax = 2 * time.Second
	// silentMax is how long ledger and broker may say nothing while the light is green.
	silentMax = 3 * time.Second
	// keptMax is how many payments and records it keeps. A payment takes about 500 bytes, and until it is judged
	// 128 more for each of its transfers.
	keptMax = 300_000
)

// Audit watches. Its methods may be called at any time from any goroutine.
type Audit struct {
	config Config
	pace   *pace

	mu         sync.Mutex
	waiting    string // why nothing is checked; empty: it is
	since      time.Time
	checkedTo  time.Time
	checked    int64     // of this beginning
	before     int64     // of the beginnings before
	brokerAt   time.Time // when it last answered
	ledgerAt   time.Time
	balancesAt time.Time
	findings   []Finding
	broken     map[string]bool // laws that are in findings
}

// New returns an audit that has not begun.
func New(config Config) *Audit {
	now := time.Now()

	return &Audit{
		config: config, pace: &pace{share: config.Share}, waiting: "it begins", broken: map[string]bool{},
		since: now, checkedTo: now, brokerAt: now, ledgerAt: now, balancesAt: now,
	}
}

// Run watches from now until ctx ends, and returns its cause. While ledger or broker are away it waits for them. Then,
// and when something can no longer be read, it begins again from now: what it lost it cannot judge.
func (a *Audit) Run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { a.watchBalances(ctx) })
	both.Go(func() { a.watchPair(ctx) })
	a.repeat(ctx, time.Second, "the live audit begins again", func() error {
		err := a.follow(ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting = err.Error()

		return err
	})
	both.Wait()

	return context.Cause(ctx)
}

// repeat does something again and again until ctx ends.
func (a *Audit) repeat(ctx context.Context, every time.Duration, failed string, round func() error) {
	for ctx.Err() == nil {
		if err := round(); err != nil && ctx.Err() == nil {
			a.config.Log("%s: %v", failed, err)
		}

		select {
		case <-ctx.Done():
		case <-time.After(time.Until(time.Now().Truncate(every).Add(every))): // all loops of a machine wake then
		}
	}
}

// Light returns what it says now.
func (a *Audit) Light() Light {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	behind := max(0, now.Sub(a.checkedTo))
	l := Light{
		Since: a.since.UTC(), Checked: a.before + a.checked, CheckedTo: a.checkedTo.UTC(),
		Findings: append([]Finding{}, a.findings...),
	}

	silent, who := now.Sub(a.ledgerAt), "the ledger has said nothing"
	if silent <= silentMax {
		silent, who = now.Sub(a.brokerAt), "the broker has said nothing"
	}

	if silent <= silentMax {
		silent, who = now.Sub(a.balancesAt), "the balances were not read"
	}

	checkedTo := fmt.Sprintf("checked to %s UTC, %.0f s behind", l.CheckedTo.Format("15:04:05"), behind.Seconds())
	switch {
	case len(l.Findings) > 0:
		first := l.Findings[0]

		l.Colour, l.Text = Red, first.Text
		if first.Payment != "" {
			l.Text = first.Payment + ": " + first.Text
		}

		if more := len(l.Findings) - 1; more > 0 {
			l.Text += fmt.Sprintf(" (and %d more)", more)
		}
	case silent > silentMax:
		l.Colour, l.Text = Amber, fmt.Sprintf("blind: %s for %.0f s; %s", who, silent.Seconds(), checkedTo)
	case a.waiting != "":
		l.Colour, l.Text = Amber, "nothing is checked: "+a.waiting
	case behind > behindMax:
		l.Colour, l.Text = Amber, checkedTo
	default:
		l.Colour, l.Text = Green,
			fmt.Sprintf("%d checked since %s UTC, none lost, none twice", l.Checked, l.Since.Format("15:04:05"))
	}

	return l
}

// found takes a finding. The light is red from now on.
func (a *Audit) found(f audit.Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if len(a.findings) == findingsMax {
		return
	}

	finding := Finding{At: time.Now().UTC(), Payment: f.Subject, Text: f.Kind + ": " + f.Detail}
	if len(f.Subject) != 32 || strings.Contains(f.Subject, " ") { // not an EndToEndId or RtrId
		finding.Payment, finding.Text = "", f.Kind+": "+f.Subject+": "+f.Detail
	}
	a.findings = append(a.findings, finding)
	a.config.Log("RED: %s %s", finding.Payment, finding.Text)
}
