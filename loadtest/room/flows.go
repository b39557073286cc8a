package room

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
	pixv1 "github.com/liquida/liquida/proto/pix/v1"
)

// flows counts reports and dead letters as they come. Nothing is sampled: a report is decoded into
// the same message each time, and counted by its pair of banks.
type flows struct {
	client *kgo.Client

	mu       sync.Mutex
	since    time.Time
	pairs    map[pair]*Flow
	settled  int
	rejected int
	letters  []Letter
	watches  []*watch
}

// watch waits for the first settlement after an act, in some partitions.
type watch struct {
	began      time.Time // the act
	after      time.Time // the act was done
	partitions []int32   // nil: any
	first      time.Time
}

// watch begins to wait for the first settlement after now. What settled since the act began may have
// come before its effect: a process settles until it is dead, and to die may take it a second.
func (f *flows) watch(began time.Time, partitions []int32) *watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &watch{began: began, after: time.Now(), partitions: partitions}
	f.watches = append(f.watches, w)
	f.watches = f.watches[max(0, len(f.watches)-storyMax):] // each is of a line of the story
	return w
}

// gap returns the seconds from the begin of the act to the first settlement, or nil if there was none.
func (f *flows) gap(w *watch) *float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.first.IsZero() {
		return nil
	}
	gap := w.first.Sub(w.began).Seconds()
	return &gap
}

type pair struct{ payer, payee string }

// passed is what went by since the last look.
type passed struct {
	flows                               []Flow
	settled                             int
	settledPerSecond, rejectedPerSecond float64
}

// pairsMax bounds the pairs of one second, because anybody who may write orders chooses banks.
const pairsMax = 5000

// otherBanks and otherReasons stand for what is beyond the bounds.
const (
	otherBanks   = "others"
	otherReasons = "others"
)

// idMax is the length of an EndToEndId.
const idMax = 32

// readFlows reads from now on.
func readFlows(ctx context.Context, client *kgo.Client, admin *kadm.Client) (*flows, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	ends, err := stream.Ends(ctx, admin, stream.Settlements, stream.DeadLetters)
	if err != nil {
		return nil, fmt.Errorf("cannot list the offsets of reports and dead letters: %w", err)
	}
	client.AddConsumePartitions(ends.KOffsets())
	return &flows{client: client, since: time.Now(), pairs: map[pair]*Flow{}}, nil
}

func (f *flows) run(ctx context.Context) {
	report := &pixv1.SettlementReport{}
	for {
		fetches := f.client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return
		}
		f.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Topic == stream.DeadLetters {
				f.deadLetter(r)
				return
			}
			report.Reset()
			if report.UnmarshalVT(r.Value) == nil { // the light names it otherwise
				f.report(report, r)
			}
		})
		f.mu.Unlock()
	}
}

func (f *flows) report(report *pixv1.SettlementReport, r *kgo.Record) {
	key := pair{report.GetPayer().GetIspb(), report.GetPayee().GetIspb()}
	flow := f.pairs[key]
	if flow == nil && len(f.pairs) >= pairsMax {
		key = pair{otherBanks, otherBanks}
		flow = f.pairs[key]
	}
	if flow == nil {
		flow = &Flow{Payer: key.payer, Payee: key.payee}
		f.pairs[key] = flow
	}
	flow.Last = report.EndToEndId[:min(len(report.EndToEndId), idMax)]
	if report.Status == pixv1.SettlementStatus_SETTLEMENT_STATUS_ACSC {
		flow.Settled++
		flow.Centavos += int64(min(report.AmountCentavos, 1<<62)) //nolint:gosec // bounded
		f.settled++
		for _, w := range f.watches {
			if r.Timestamp.After(w.after) && (w.partitions == nil || slices.Contains(w.partitions, r.Partition)) {
				w.first = r.Timestamp
			}
		}
		f.watches = slices.DeleteFunc(f.watches, func(w *watch) bool { return !w.first.IsZero() || time.Since(w.after) > watchMax })
		return
	}
	f.rejected++
	if flow.Rejected == nil {
		flow.Rejected = map[string]int{}
	}
	reason := report.ReasonCode
	if _, known := flow.Rejected[reason]; !known && len(flow.Rejected) >= reasonsMax {
		reason = otherReasons
	}
	flow.Rejected[reason]++
}

// bytesShown is how much of a message is shown.
const bytesShown = 4 << 10

func (f *flows) deadLetter(r *kgo.Record) {
	var letter pixv1.DeadLetter
	if letter.UnmarshalVT(r.Value) != nil {
		return
	}
	shown := letter.Payload[:min(len(letter.Payload), bytesShown)]
	f.letters = append(f.letters, Letter{
		At: r.Timestamp.UTC(), Code: letter.ReasonCode, Reason: letter.Reason, Topic: letter.Topic, Partition: letter.Partition,
		Offset: letter.Offset, Bytes: slices.Clone(shown), Size: int(min(letter.PayloadSizeBytes, 1<<31)), //nolint:gosec // bounded
	})
	f.letters = f.letters[max(0, len(f.letters)-lettersMax):]
}

// take returns what went by since the last call, and begins anew.
func (f *flows) take(now time.Time) passed {
	f.mu.Lock()
	defer f.mu.Unlock()
	seconds := max(now.Sub(f.since).Seconds(), 0.001)
	p := passed{flows: []Flow{}, settled: f.settled, settledPerSecond: float64(f.settled) / seconds, rejectedPerSecond: float64(f.rejected) / seconds}
	for _, flow := range f.pairs {
		p.flows = append(p.flows, *flow)
	}
	f.since, f.pairs, f.settled, f.rejected = now, map[pair]*Flow{}, 0, 0
	return p
}

// deadLetters returns the last ones, oldest first.
func (f *flows) deadLetters() []Letter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.letters)
}
